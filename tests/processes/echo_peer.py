"""A quick MCP server on stdio without dependencies, of both eras: handshake to 2025-11-25, and 2026-07-28.

Tools: `echo(text, delay_ms, size)`, `progress(n)`, `elicit(message)`. `--era legacy` and `--era modern` leave
the other era out. Calls do not wait for each other: a delayed echo is answered when it is due.
"""

from __future__ import annotations

import heapq
import json
import os
import select
import sys
import time
from typing import Any

Message = dict[str, Any]

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = ("2026-07-28",)
META = "io.modelcontextprotocol/"
INFO = {"name": "echo-peer", "version": "1"}
CAPABILITIES: Message = {"tools": {}}
QUESTION = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def tool(name: str, description: str, **properties: str) -> Message:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS = [
    tool(
        "echo",
        "Gives the text back, late or long if asked.",
        text="string",
        delay_ms="number",
        size="integer",
    ),
    tool("elicit", "Asks the user for a name.", message="string"),
    tool("progress", "Reports progress n times, then is done.", n="integer"),
]


class RefusalError(Exception):
    def __init__(self, code: int, message: str, data: object = None) -> None:
        self.error: Message = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


class Server:
    def __init__(self, eras: tuple[str, ...]) -> None:
        self.eras = eras
        self.output = bytearray()
        self.due: list[tuple[float, int, Any, str, bool]] = []
        """Delayed answers: when, a counter, the call, the text, the era."""
        self.cancelled: set[Any] = set()
        self.asked: dict[str, Any] = {}
        """Calls that wait for the answer to a question of ours, by the question's id."""
        self.counter = 0

    def run(self) -> None:
        """Serve until stdin ends."""
        buffer = b""
        while True:
            timeout = max(0.0, self.due[0][0] - time.monotonic()) if self.due else None
            if not self.due or select.select([0], [], [], timeout)[0]:
                data = os.read(0, 65536)
                if not data:
                    return
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    if line.strip():
                        self.handle(json.loads(line))
            self.answer_due()
            self.flush()

    def flush(self) -> None:
        view = memoryview(bytes(self.output))
        self.output.clear()
        while view:
            view = view[os.write(1, view) :]

    def send(self, message: Message) -> None:
        self.output += json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"

    def answer(self, call: Any, result: Message, *, modern: bool) -> None:
        self.send({"id": call, "result": {"resultType": "complete", **result} if modern else result})

    def answer_text(self, call: Any, text: str, *, modern: bool) -> None:
        self.answer(call, {"content": [{"type": "text", "text": text}]}, modern=modern)

    def answer_due(self) -> None:
        now = time.monotonic()
        while self.due and self.due[0][0] <= now:
            _, _, call, text, modern = heapq.heappop(self.due)
            if call in self.cancelled:
                self.cancelled.discard(call)
            else:
                self.answer_text(call, text, modern=modern)

    def handle(self, message: Message) -> None:
        method, call = message.get("method"), message.get("id")
        params: Message = message.get("params") or {}
        if method is None:
            self.take_answer(message)
        elif call is None:
            if method == "notifications/cancelled" and any(due[2] == params["requestId"] for due in self.due):
                self.cancelled.add(params["requestId"])
        else:
            try:
                self.serve(method, call, params)
            except RefusalError as refusal:
                self.send({"id": call, "error": refusal.error})
            except (KeyError, TypeError, ValueError) as fault:
                self.send({"id": call, "error": {"code": -32602, "message": f"bad params: {fault!r}"}})

    def serve(self, method: str, call: Any, params: Message) -> None:
        meta: Message = params.get("_meta") or {}
        version = meta.get(META + "protocolVersion")
        modern = version is not None
        if modern and version not in MODERN and "modern" in self.eras:
            raise RefusalError(
                -32022, f"unsupported version {version}", {"supported": MODERN, "requested": version}
            )
        if ("modern" if modern else "legacy") not in self.eras:
            raise RefusalError(-32601, f"no method {method} in this era")
        cache: Message = {"ttlMs": 0, "cacheScope": "private"} if modern else {}
        if method == "tools/call":
            self.call_tool(call, params, modern=modern)
        elif method == "tools/list":
            self.answer(call, {"tools": TOOLS, **cache}, modern=modern)
        elif method == "server/discover" and modern:
            facts = {
                "supportedVersions": MODERN,
                "capabilities": CAPABILITIES,
                "_meta": {META + "serverInfo": INFO},
            }
            self.answer(call, {**facts, **cache}, modern=True)
        elif method == "initialize" and not modern:
            asked = params.get("protocolVersion")
            agreed = asked if asked in LEGACY else LEGACY[-1]
            body = {"protocolVersion": agreed, "capabilities": CAPABILITIES, "serverInfo": INFO}
            self.answer(call, body, modern=False)
        elif method == "ping" and not modern:
            self.answer(call, {}, modern=False)
        else:
            raise RefusalError(-32601, f"no method {method}")

    def call_tool(self, call: Any, params: Message, *, modern: bool) -> None:
        arguments: Message = params.get("arguments") or {}
        match params["name"]:
            case "echo":
                self.echo(call, arguments, modern=modern)
            case "progress":
                self.progress(call, int(arguments.get("n", 3)), params, modern=modern)
            case "elicit":
                self.elicit(call, str(arguments.get("message", "Who are you?")), params, modern=modern)
            case name:
                raise RefusalError(-32602, f"no tool {name}")

    def echo(self, call: Any, arguments: Message, *, modern: bool) -> None:
        text, size = str(arguments.get("text", "")), int(arguments.get("size", 0))
        if len(text) < size:
            text += "x" * (size - len(text))
        delay = float(arguments.get("delay_ms", 0)) / 1000
        if delay > 0:
            self.counter += 1
            heapq.heappush(self.due, (time.monotonic() + delay, self.counter, call, text, modern))
        else:
            self.answer_text(call, text, modern=modern)

    def progress(self, call: Any, n: int, params: Message, *, modern: bool) -> None:
        meta: Message = params.get("_meta") or {}
        token = meta.get("progressToken")
        for step in range(1, n + 1):
            if token is not None:
                note = {"progressToken": token, "progress": step, "total": n, "message": f"step {step}"}
                self.send({"method": "notifications/progress", "params": note})
        self.answer_text(call, f"{n} steps", modern=modern)

    def elicit(self, call: Any, message: str, params: Message, *, modern: bool) -> None:
        question = {"mode": "form", "message": message, "requestedSchema": QUESTION}
        if not modern:
            self.counter += 1
            key = f"question-{self.counter}"
            self.asked[key] = call
            self.send({"id": key, "method": "elicitation/create", "params": question})
        elif "inputResponses" in params:
            if params.get("requestState") != f"asked: {message}":
                raise RefusalError(-32602, "requestState is not ours")
            self.answer_text(call, told(params["inputResponses"]["who"]), modern=True)
        else:
            ask = {"who": {"method": "elicitation/create", "params": question}}
            body = {"resultType": "input_required", "inputRequests": ask, "requestState": f"asked: {message}"}
            self.answer(call, body, modern=True)

    def take_answer(self, message: Message) -> None:
        call = self.asked.pop(str(message.get("id")), None)
        if call is not None:
            text = (
                told(message["result"]) if "result" in message else f"refused: {message['error']['message']}"
            )
            self.answer_text(call, text, modern=False)


def told(answer: Message) -> str:
    """What the user did, as `accept {"name":"Ada"}`."""
    return f"{answer['action']} {json.dumps(answer.get('content') or {}, separators=(',', ':'))}"


def main() -> None:
    eras = ("legacy", "modern")
    if "--era" in sys.argv:
        eras = (sys.argv[sys.argv.index("--era") + 1],)
    Server(eras).run()


if __name__ == "__main__":
    main()
