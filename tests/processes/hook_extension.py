"""An extension that hooks events, in lines of JSON and with nothing of ours. Writes down every event that it hears.

`guard` blocks what says `rm`, hangs at `hang`, dies at `die`, says garbage at `garbage`. `editor` writes `dear ` before
the text of a call and `, said the editor` after that of a result, and injects a message at `before_agent_start`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

role, told = sys.argv[1], open(sys.argv[2], "a", encoding="utf-8")  # noqa: SIM115 - as long as the process
HOOKS = {
    "guard": ["session_start", "session_shutdown", "tool_call"],
    "editor": ["tool_call", "tool_result", "before_agent_start", "turn_end"],
}


def say(type_: str, payload: dict[str, Any], id_: str) -> None:
    print(json.dumps({"id": id_, "version": "1.0", "type": type_, "payload": payload}), flush=True)


def guarded(text: str) -> Any:
    if text.endswith("die"):
        sys.exit(3)
    if text.endswith("garbage"):
        return {"block": "perhaps"}
    return {"block": True, "reason": "it says rm"} if "rm" in text else None


def edited(event: str, data: dict[str, Any]) -> Any:
    if event == "before_agent_start":
        return {"message": {"customType": "note", "content": "be kind", "display": False}}
    if event == "tool_result":
        said = data["content"][0]["text"]
        return {"content": [{"type": "text", "text": f"{said}, said the editor"}]}
    return {"input": {**data["input"], "text": f"dear {data['input']['text']}"}}


offer = {"name": role, "version": "1", "api_version": "1.0", "event_hooks": HOOKS[role]}
say("register", offer, "r")
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] != "event_hook":
        continue
    event, data = message["payload"]["event"], message["payload"].get("data", {})
    told.write(f"{role}:{event}\n")
    told.flush()
    if data.get("reply") is False:
        continue
    text = data.get("input", {}).get("text", "")
    if role == "guard" and text.endswith("hang"):
        continue
    answer = guarded(text) if role == "guard" else edited(event, data)
    say("event_hook", {"event": event, "data": {} if answer is None else {"result": answer}}, message["id"])
