"""A Pi extension in Python, with nothing but the standard library.

Tool `todo_add` and command `/todo` put a line into TODO.md; the hook `before_agent_start` reminds the model of what is
open. The file is read and written by the host, which asks its policy first.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MANIFEST = json.loads((Path(__file__).parent / "extension.json").read_text())
TOOL = {
    "name": "todo_add",
    "description": "Put something on the list of things to do",
    "parameters": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
}
REGISTER = {
    "name": MANIFEST["name"],
    "version": MANIFEST["version"],
    "api_version": "1.0",
    "capability_manifest": MANIFEST["capability_manifest"],
    "tools": [TOOL],
    "slash_commands": [{"name": "todo", "description": "Put something on the list"}],
    "event_hooks": ["before_agent_start"],
    "shortcuts": [{"key": "ctrl+shift+y", "description": "Show what is open"}],
    "flags": [{"name": "todo-quiet", "type": "boolean", "description": "Do not remind the model"}],
    "tool_renderers": [{"tool": "todo_add", "result": {"form": "markdown", "title": "To do"}}],
    "message_renderers": [{"custom_type": "todo", "hint": {"form": "markdown", "collapsed": True}}],
}
waiting: dict[str, Callable[[dict[str, Any]], None]] = {}
"""What goes on when the host has answered, by the id of the call."""


def say(type_: str, id_: str, payload: dict[str, Any]) -> None:
    print(json.dumps({"id": id_, "version": "1.0", "type": type_, "payload": payload}), flush=True)


def ask_host(
    capability: str, params: dict[str, Any], then: Callable[[dict[str, Any]], None], about: str
) -> None:
    call_id = f"h-{about}"
    waiting[call_id] = then
    call = {
        "call_id": call_id,
        "capability": capability,
        "method": "fs",
        "params": params,
        "context": {"tool_call_id": about},
    }
    say("host_call", call_id, call)


def add(what: str, about: str, then: Callable[[str, bool], None]) -> None:
    def written(result: dict[str, Any]) -> None:
        if result["is_error"]:
            then(result["error"]["message"], True)
        else:
            then(f"- [ ] {what}", False)

    ask_host("write", {"op": "append", "path": "TODO.md", "content": f"- [ ] {what}\n"}, written, about)


def remind(id_: str) -> None:
    def read(result: dict[str, Any]) -> None:
        lines = str(result["output"].get("content", "")).splitlines()
        still_open = [line for line in lines if line.startswith("- [ ]")]
        data: dict[str, Any] = {}
        if still_open:
            text = "Still to do:\n" + "\n".join(still_open)
            data = {"result": {"message": {"customType": "todo", "content": text, "display": True}}}
        say("event_hook", id_, {"event": "before_agent_start", "data": data})

    ask_host("read", {"op": "read", "path": "TODO.md"}, read, id_)


def content(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def handle(id_: str, type_: str, payload: dict[str, Any]) -> None:
    if type_ == "tool_call":

        def called(text: str, is_error: bool) -> None:
            say("tool_result", id_, {"call_id": id_, "output": content(text), "is_error": is_error})

        add(str(payload["input"].get("what", "")), id_, called)
    elif type_ == "slash_command":

        def done(text: str, is_error: bool) -> None:
            say("slash_result", id_, {"output": content(text), "is_error": is_error})

        add(" ".join(payload.get("args", [])), id_, done)
    elif type_ == "host_result":
        waiting.pop(payload["call_id"])(payload)
    elif type_ == "event_hook" and payload["event"] == "before_agent_start":
        remind(id_)


say("register", "r", REGISTER)
for line in sys.stdin:
    message = json.loads(line)
    handle(message["id"], message["type"], message["payload"])
