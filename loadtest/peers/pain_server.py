"""A small MCP server with a tool for each thing that users of gateways complain about: `python pain_server.py [LOG]`.

Speaks the handshake era on stdio, lists its tools in three pages, answers out of order, and writes the method and
id of every message that it gets to LOG, so that a test can see what reached it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

Message = dict[str, Any]
NAMES = (
    "echo",
    "fields",
    "flood",
    "big",
    "progress",
    "ask",
    "change",
    "hold",
    "release",
    "wait",
    "die",
    "pid",
)
PAGE = 4


class Server:
    """One connection."""

    def __init__(self, log: str | None) -> None:
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log else -1
        self.lock = threading.Lock()
        self.held: list[tuple[Any, str]] = []
        self.asked: dict[str, Any] = {}

    def send(self, message: Message) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        with self.lock:
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]

    def text(self, call: Any, text: str, **more: Any) -> None:
        self.send({"id": call, "result": {"content": [{"type": "text", "text": text}], **more}})

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            if line.strip():
                self.handle(json.loads(line))

    def note(self, message: Message) -> None:
        if self.log >= 0:
            facts = {key: message.get(key) for key in ("method", "id", "params")}
            os.write(self.log, json.dumps(facts)[:2000].encode() + b"\n")

    def handle(self, message: Message) -> None:
        self.note(message)
        method, call = message.get("method"), message.get("id")
        params: Message = message.get("params") or {}
        if method is None:
            waiting = self.asked.pop(str(call), None)
            if waiting is not None:
                self.text(waiting, json.dumps(message.get("result", message.get("error"))))
        elif call is None:
            return
        elif method == "initialize":
            capabilities: Message = {"tools": {"listChanged": True}, "logging": {}}
            info = {"name": "pain", "version": "1"}
            version = params.get("protocolVersion", "2025-11-25")
            version = version if version < "2026" else "2025-11-25"
            self.send(
                {
                    "id": call,
                    "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info},
                }
            )
        elif method == "tools/list":
            self.list(call, int(params.get("cursor") or 0))
        elif method == "tools/call":
            tool = getattr(self, f"do_{params['name']}", None)
            if tool is None:
                self.send({"id": call, "error": {"code": -32602, "message": f"no tool {params['name']}"}})
            else:
                tool(call, params.get("arguments") or {}, params.get("_meta") or {})
        elif method in ("ping", "logging/setLevel"):
            self.send({"id": call, "result": {}})
        else:
            self.send({"id": call, "error": {"code": -32601, "message": f"no method {method}"}})

    def list(self, call: Any, start: int) -> None:
        tools = [
            {
                "name": name,
                "description": f"The tool {name}.",
                "inputSchema": {"type": "object"},
                "x-unknown": {"kept": name},
                "_meta": {"example/tool": name},
            }
            for name in NAMES[start : start + PAGE]
        ]
        more: Message = {"nextCursor": str(start + PAGE)} if start + PAGE < len(NAMES) else {}
        self.send({"id": call, "result": {"tools": tools, **more}})

    def do_echo(self, call: Any, arguments: Message, meta: Message) -> None:
        self.text(call, str(len(arguments["text"])) if arguments.get("count") else arguments["text"])

    def do_pid(self, call: Any, arguments: Message, meta: Message) -> None:
        self.text(call, str(os.getpid()))

    def do_fields(self, call: Any, arguments: Message, meta: Message) -> None:
        self.text(
            call,
            "fields",
            **{
                "x-unknown": {"deep": [1, {"y": None}]},
                "_meta": {"example/result": meta.get("example/call")},
            },
        )

    def do_flood(self, call: Any, arguments: Message, meta: Message) -> None:
        for _ in range(1024):
            os.write(2, b"e" * 1023 + b"\n")
        self.text(call, "flooded")

    def do_big(self, call: Any, arguments: Message, meta: Message) -> None:
        self.text(call, "b" * int(arguments["size"]))

    def do_progress(self, call: Any, arguments: Message, meta: Message) -> None:
        for step in (1, 2, 3):
            params = {"progressToken": meta.get("progressToken"), "progress": step, "total": 3}
            self.send({"method": "notifications/progress", "params": params})
        self.text(call, "progressed")

    def do_ask(self, call: Any, arguments: Message, meta: Message) -> None:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        self.asked["question"] = call
        params = {"mode": "form", "message": "Who?", "requestedSchema": schema}
        self.send({"id": "question", "method": "elicitation/create", "params": params})

    def do_change(self, call: Any, arguments: Message, meta: Message) -> None:
        self.send({"method": "notifications/tools/list_changed"})
        self.text(call, "changed")

    def do_hold(self, call: Any, arguments: Message, meta: Message) -> None:
        self.held.append((call, arguments["text"]))

    def do_release(self, call: Any, arguments: Message, meta: Message) -> None:
        """Answer what was held, the last one first."""
        for held, text in reversed(self.held):
            self.text(held, text)
        self.held.clear()
        self.text(call, "released")

    def do_wait(self, call: Any, arguments: Message, meta: Message) -> None:
        """Never answered."""

    def do_die(self, call: Any, arguments: Message, meta: Message) -> None:
        os._exit(1)


if __name__ == "__main__":
    Server(sys.argv[1] if len(sys.argv) > 1 else None).serve()
