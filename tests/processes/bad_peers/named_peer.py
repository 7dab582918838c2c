"""A well-behaved MCP server whose tools are named in a file: `python named_peer.py NAME FILE`.

FILE holds a JSON list of tool definitions and is read at the start. Each tool gives back NAME and its own name.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from plain_peer import Message, Peer


class NamedPeer(Peer):
    """Answers every tool."""

    def __init__(self, name: str, tools: list[Message]) -> None:
        super().__init__(lambda peer, call: None)
        self.name = name
        self.tools = tools

    def handle(self, message: Message) -> None:
        if message.get("method") == "tools/call":
            params: dict[str, Any] = message["params"]
            self.answer(message["id"], f"{self.name}: {params['name']}")
        else:
            super().handle(message)


if __name__ == "__main__":
    with open(sys.argv[2]) as file:
        NamedPeer(sys.argv[1], json.load(file)).serve()
