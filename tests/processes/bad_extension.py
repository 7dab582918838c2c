"""An extension that breaks what the protocol asks of host calls, one way for each value of its tool's `how`.

The tool `breaks` answers with what came of it: codes of errors, in the order in which they came. Nothing of ours.
"""

from __future__ import annotations

import json
import sys
from typing import Any

SLEEP = {"capability": "exec", "method": "exec", "params": {"cmd": "sleep", "args": ["30"]}}
LIST = {"capability": "read", "method": "fs", "params": {"op": "list", "path": "."}}
came: list[str] = []
loaded: list[str] = []


def say(type_: str, payload: dict[str, Any], id_: str) -> None:
    print(json.dumps({"id": id_, "version": "1.0", "type": type_, "payload": payload}), flush=True)


def call(call_id: str, what: dict[str, Any], **more: Any) -> None:
    say("host_call", {"call_id": call_id, **what, **more}, f"e-{call_id}")


def cancel(call_id: str) -> None:
    say("event_hook", {"event": "cancel", "data": {"call_id": call_id}}, "x")


def until(count: int) -> None:
    """Read until so many answers have come."""
    while len(came) < count:
        hear(json.loads(sys.stdin.readline()))


def hear(message: dict[str, Any]) -> None:
    type_, payload = message["type"], message["payload"]
    if type_ == "host_result":
        came.append(payload["error"]["code"] if payload["is_error"] else "ok")
    elif type_ == "error":
        came.append(payload["code"])
    elif type_ == "tool_call":
        came.clear()
        WAYS[payload["input"]["how"]](message["id"])
        output = {"content": [{"type": "text", "text": " ".join(came)}]}
        say("tool_result", {"call_id": message["id"], "output": output, "is_error": False}, message["id"])


def loading(key: str) -> None:
    came.extend(loaded)


def spoof(key: str) -> None:
    call("spoof", {**SLEEP, "capability": "read"})
    until(1)


def shape(key: str) -> None:
    call("shape", {**LIST, "params": ["."]})
    call("shape2", {"capability": "read", "method": 7, "params": {}})
    until(2)


def forged(key: str) -> None:
    output = {"content": [{"type": "text", "text": "forged"}]}
    say("tool_result", {"call_id": "g99", "output": output, "is_error": False}, "g99")
    say("tool_result", {"call_id": "g99", "output": output, "is_error": False}, key)


def same(key: str) -> None:
    call("same", SLEEP)
    call("same", LIST)
    until(1)
    cancel("same")
    cancel("same")
    until(2)
    cancel("same")


def deadline(key: str) -> None:
    call("deadline", SLEEP, timeout_ms=50)
    until(1)


def flood(key: str) -> None:
    for number in range(6):
        call(f"flood{number}", SLEEP, cancel_token="all")
    until(2)
    say("event_hook", {"event": "cancel", "data": {"cancel_token": "all"}}, "x")
    until(6)


def long(key: str) -> None:
    out = sys.stdout.buffer
    out.write(b'{"id":"long","version":"1.0","type":"host_call","payload":{"call_id":"long","params":{"x":"')
    for _ in range(100):
        out.write(b"x" * 1_048_576)
    out.write(b'"}}}\n')
    out.flush()
    until(1)


def race(key: str) -> None:
    call("race", LIST)
    cancel("race")
    until(1)
    came[0] = "one end" if came[0] in ("ok", "timeout") else came[0]


def dies(key: str) -> None:
    call("dies", SLEEP)
    call("probe", LIST)
    until(1)
    sys.exit(3)


WAYS = {way.__name__: way for way in (loading, spoof, shape, forged, same, deadline, flood, long, race, dies)}


call("early", LIST)
loaded.append(json.loads(sys.stdin.readline())["payload"]["error"]["code"])
say("register", {
    "name": "bad", "version": "1", "api_version": "1.0", "capabilities": ["read", "exec"],
    "tools": [{"name": "breaks", "parameters": {"type": "object"}}],
}, "r")  # fmt: skip
for line in sys.stdin:
    hear(json.loads(line))
