"""A small MCP server (2025-11-25, stdio) without dependencies that behaves, as the base of all that do not.

Owns the handshake, the tools `echo` and `fault`, and raw reading and writing of lines. What `fault` does is
the table in `bad_peer`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

VERSION = "2025-11-25"
Message = dict[str, Any]


class Peer:
    """Serves one connection on stdin and stdout until stdin ends."""

    def __init__(self, on_fault: Callable[[Peer, Any], None]) -> None:
        self.on_fault = on_fault
        self.version = VERSION
        self.tools = [_tool("echo"), _tool("fault")]
        self.calls: dict[Any, str] = {}
        """Tool calls that are not answered yet, by id."""
        self.on_cancel: Callable[[Any], None] = self.forget
        self.on_answer: Callable[[Message], None] = lambda message: None
        self.before_answer = b""
        """Bytes that go out before the next answer."""
        self.deaf = False
        """Stop reading for good."""
        self._input = b""
        self._ended = False

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def send(self, message: Message) -> None:
        data = self.before_answer + encode(message) + b"\n"
        self.before_answer = b""
        self.write(data)

    def answer(self, call: Any, text: str) -> None:
        self.calls.pop(call, None)
        self.send(result(call, text))

    def notify(self, method: str, params: Message) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def forget(self, call: Any) -> None:
        self.calls.pop(call, None)

    def read_line(self) -> bytes | None:
        """One line without its end; None at the end of stdin."""
        while b"\n" not in self._input:
            data = os.read(0, 65536) if not self._ended else b""
            if not data:
                self._ended = True
                return None
            self._input += data
        line, _, self._input = self._input.partition(b"\n")
        return line

    def serve(self) -> None:
        while not self.deaf and (line := self.read_line()) is not None:
            if line.strip():
                self.handle(json.loads(line))

    def handle(self, message: Message) -> None:
        method, call = message.get("method"), message.get("id")
        params: Message = message.get("params") or {}
        if method is None:
            self.on_answer(message)
        elif method == "initialize":
            info = {"name": "bad-peer", "version": "1"}
            capabilities: Message = {"tools": {"listChanged": True}, "logging": {}}
            body = {"protocolVersion": self.version, "capabilities": capabilities, "serverInfo": info}
            self.send({"jsonrpc": "2.0", "id": call, "result": body})
        elif method == "tools/list":
            self.send({"jsonrpc": "2.0", "id": call, "result": {"tools": self.tools}})
        elif method == "tools/call":
            self.calls[call] = params["name"]
            if params["name"] == "fault":
                self.on_fault(self, call)
            else:
                self.answer(call, str(params.get("arguments", {}).get("text", "")))
        elif method == "notifications/cancelled":
            self.on_cancel(params.get("requestId"))
        elif call is not None and method in {"ping", "logging/setLevel"}:
            self.send({"jsonrpc": "2.0", "id": call, "result": {}})
        elif call is not None:
            error = {"code": -32601, "message": f"no method {method}"}
            self.send({"jsonrpc": "2.0", "id": call, "error": error})


def encode(message: Message) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def result(call: Any, text: str) -> Message:
    return {"jsonrpc": "2.0", "id": call, "result": {"content": [{"type": "text", "text": text}]}}


def _tool(name: str) -> Message:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema}
