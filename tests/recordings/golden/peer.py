"""The MCP server behind the golden recording: `python3 peer.py [--modern]`. One tool for each thing that may happen.

Kept as it was when the recording was made, so that it can be read what was said to what; nothing runs it any more.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

Message = dict[str, Any]

MODERN = "--modern" in sys.argv
VERSION = "2026-07-28" if MODERN else "2025-11-25"
META = "io.modelcontextprotocol/"
QUESTION: Message = {
    "mode": "form",
    "message": "Who are you?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
NAMES = [
    "echo",
    "large",
    "stray",
    "fail",
    "refuse",
    "ask",
    "sample",
    "where",
    "steps",
    "never",
    "leave",
    "grow",
]

tools: list[Message] = [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]
asked: dict[str, Any] = {}
lock = threading.Lock()


def write(data: bytes) -> None:
    with lock:
        os.write(1, data)


def send(message: Message) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def answer(call: Any, result: Message) -> None:
    send({"id": call, "result": {"resultType": "complete", **result} if MODERN else result})


def text(call: Any, words: str, **more: Any) -> None:
    answer(call, {"content": [{"type": "text", "text": words}], **more})


def request(call: Any, method: str, params: Message) -> None:
    key = f"question-{len(asked) + 1}"
    asked[key] = call
    send({"id": key, "method": method, "params": params})


def call_tool(call: Any, params: Message) -> None:  # noqa: C901
    meta: Message = params.get("_meta") or {}
    arguments: Message = params.get("arguments") or {}
    match params["name"]:
        case "echo":
            threading.Timer(
                arguments.get("delay_ms", 0) / 1000, text, (call, str(arguments.get("text", "")))
            ).start()
        case "large":
            text(call, "".join(f"line {number} of a long text\n" for number in range(2000)))
        case "stray":
            os.write(2, b"about to write what is no message\n")
            write(b"this is \xff no JSON\n")
            text(call, "after a stray line")
        case "fail":
            text(call, "the disk is on fire", isError=True)
        case "refuse":
            send({"id": call, "error": {"code": -32602, "message": "no such thing", "data": {"thing": 7}}})
        case "ask" if MODERN and "inputResponses" not in params:
            ask = {"who": {"method": "elicitation/create", "params": QUESTION}}
            send({"id": call, "result": {
                "resultType": "input_required", "inputRequests": ask, "requestState": "asked",
            }})  # fmt: skip
        case "ask" if MODERN:
            text(call, f"hello {params['inputResponses']['who']['content']['name']}")
        case "ask":
            request(call, "elicitation/create", QUESTION)
        case "sample":
            message = {"role": "user", "content": {"type": "text", "text": "What is six times seven?"}}
            request(call, "sampling/createMessage", {"messages": [message], "maxTokens": 10})
        case "where":
            request(call, "roots/list", {})
        case "steps":
            for step in range(1, 4):
                note: Message = {"progressToken": meta.get("progressToken"), "progress": step, "total": 3}
                send({"method": "notifications/progress", "params": note})
            text(call, "three steps")
        case "never":
            pass
        case "leave":
            os.write(2, b"fatal: out of patience\n")
            os._exit(3)
        case "grow":
            tools.append({"name": "late", "inputSchema": {"type": "object"}})
            send({"method": "notifications/tools/list_changed"})
            text(call, "one more")
        case name:
            send({"id": call, "error": {"code": -32602, "message": f"no tool {name}"}})


def serve(method: str, call: Any, params: Message) -> None:
    cache: Message = {"ttlMs": 0, "cacheScope": "private"} if MODERN else {}
    capabilities: Message = {"tools": {"listChanged": True}}
    info: Message = {"name": "golden", "version": "1"}
    if method == "tools/call":
        call_tool(call, params)
    elif method == "tools/list":
        answer(call, {"tools": tools, **cache})
    elif method == "server/discover" and MODERN:
        facts = {
            "supportedVersions": [VERSION],
            "capabilities": capabilities,
            "_meta": {META + "serverInfo": info},
        }
        answer(call, {**facts, **cache})
    elif method == "initialize" and not MODERN:
        answer(call, {"protocolVersion": VERSION, "capabilities": capabilities, "serverInfo": info})
    elif method == "ping":
        answer(call, {})
    else:
        send({"id": call, "error": {"code": -32601, "message": f"no method {method}"}})


def main() -> None:
    for line in sys.stdin.buffer:
        message: Message = json.loads(line)
        method, call = message.get("method"), message.get("id")
        if method is None:
            text(asked.pop(str(call)), json.dumps(message.get("result") or message.get("error")))
        elif call is not None:
            serve(method, call, message.get("params") or {})


if __name__ == "__main__":
    main()
