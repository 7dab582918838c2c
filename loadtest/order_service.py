"""A small MCP server on stdio whose answers depend on everything that it was asked before: `python order_service.py`.

Keeps one number a key: `read` gives it, `bump` raises it first. Answers take a little time each, so that they leave in
another order than the calls came in. Standard library alone, so that it starts at once.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import Any

LONGEST_ANSWER_S = 0.002
SCHEMA = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
TOOLS = [
    {"name": "read", "description": "The number of a key.", "inputSchema": SCHEMA},
    {"name": "bump", "description": "One more for a key.", "inputSchema": SCHEMA},
]


class Service:
    """The state, and what is said about it."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._numbers: dict[str, int] = {}

    def call(self, name: str, key: str) -> dict[str, Any]:
        """One call of a tool."""
        number = self._numbers.get(key, 0) + (name == "bump")
        self._numbers[key] = number
        return {"content": [{"type": "text", "text": f"{key} is {number}"}]}

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The result of a request; None where there is no such method."""
        if method == "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "order-service", "version": "1"},
            }
        if method == "tools/list":
            return {"tools": TOOLS}
        if method == "tools/call":
            return self.call(params["name"], params["arguments"]["key"])
        return {} if method == "ping" else None

    def delay(self) -> float:
        """Seconds until the next answer leaves."""
        return self._dice.uniform(0, LONGEST_ANSWER_S)


async def serve(seed: int) -> None:
    """Serve on stdin and stdout until that ends."""
    service = Service(seed)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    def say(message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    while line := await reader.readline():
        asked = json.loads(line)
        if "id" not in asked or "method" not in asked:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        result = service.result(asked["method"], asked.get("params") or {})
        if result is None:
            answer["error"] = {"code": -32601, "message": "there is no such method"}
        else:
            answer["result"] = result
        loop.call_later(service.delay(), say, answer)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
