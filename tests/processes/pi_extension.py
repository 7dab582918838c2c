"""An extension of the Pi protocol as anybody would write one: lines of JSON, and nothing of ours.

Its tools: `add`, `slow` (tells two updates, then waits to be cancelled), `ask` (makes the host call that its arguments
say, or one of `bash`, and returns the output or the code of the error), `die`, `twice` (answers two times), `late`
(registers another tool), `huge` (gives 5000 characters). Its command: `greet`. An argument is a fault: `silent` never
registers, `version` speaks another one.
"""

from __future__ import annotations

import json
import sys
from typing import Any

fault = sys.argv[2] if len(sys.argv) > 2 else ""
told = open(sys.argv[1], "a", encoding="utf-8")  # noqa: SIM115 - as long as the process
TOOLS = ["add", "slow", "ask", "die", "twice", "late", "huge"]


def say(type_: str, payload: dict[str, Any], id_: str) -> None:
    print(json.dumps({"id": id_, "version": "1.0", "type": type_, "payload": payload}), flush=True)


def register(names: list[str]) -> None:
    tools = [
        {"name": name, "description": f"Does {name}", "parameters": {"type": "object"}} for name in names
    ]
    offer = {
        "name": "calc",
        "version": "3",
        "api_version": "2.0" if fault == "version" else "1.0",
        "tools": tools,
    }
    say("register", {**offer, "slash_commands": [{"name": "greet", "description": "Say hello"}]}, "r")


def result(call: str, text: str, times: int = 1) -> None:
    output = {"content": [{"type": "text", "text": text}], "details": {"length": len(text)}}
    for _ in range(times):
        say("tool_result", {"call_id": call, "output": output, "is_error": False}, call)


def tool(id_: str, name: str, given: dict[str, Any]) -> None:
    if name == "add":
        result(id_, str(given["a"] + given["b"]))
    elif name == "slow":
        correlation = {"extension_id": "calc", "scenario_id": "s", "tool_call_id": id_}
        for text in ("one", "two"):
            log = {
                "schema": "pi.ext.log.v1",
                "ts": "t",
                "level": "info",
                "event": "tool_call.update",
                "message": text,
            }
            say("log", {**log, "correlation": correlation}, "l")
    elif name == "ask":
        key = f"h{len(told_calls)}"
        told_calls.append(key)
        asking[key] = id_
        bash = {"name": "bash", "input": {"command": "id"}}
        call = {"capability": "exec", "method": "tool", "params": bash, **given}
        say("host_call", {"call_id": key, "context": {"tool_call_id": id_}, **call}, key)
    elif name == "die":
        sys.exit(3)
    elif name == "twice":
        result(id_, "once", times=2)
    elif name == "huge":
        result(id_, "x" * 5000)
    elif name == "late":
        register([*TOOLS, "more"])
        result(id_, "registered")
    else:
        result(id_, "more")


asking: dict[str, str] = {}
told_calls: list[str] = []
if fault != "silent":
    register(TOOLS)
for line in sys.stdin:
    message = json.loads(line)
    type_, payload = message["type"], message["payload"]
    if type_ == "tool_call":
        tool(message["id"], payload["name"], payload["input"])
    elif type_ == "slash_command":
        said = f"hello {' '.join(payload.get('args', []))}"
        say("slash_result", {"output": {"text": said}, "is_error": False}, message["id"])
    elif type_ == "host_result":
        if payload.get("chunk", {}).get("is_last") is not False:
            said = payload["error"]["code"] if payload["is_error"] else json.dumps(payload["output"])
            result(asking.pop(message["id"]), said)
    elif type_ == "event_hook":
        print(payload["event"], file=told, flush=True)
        if payload["event"] == "cancel":
            result(payload["data"]["call_id"], "stopped")
