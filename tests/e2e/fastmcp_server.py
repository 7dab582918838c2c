"""A small server on FastMCP: on stdio, or with `http` on a free port, whose address it prints.

Owns nothing but one of each thing that a server offers. No `from __future__ import annotations`: FastMCP reads them.
"""

import asyncio
import json
import os
import socket
import sys
import threading
from dataclasses import dataclass
from typing import Any

import uvicorn
from fastmcp import Context, FastMCP

server: FastMCP[Any] = FastMCP("fastmcp-server", instructions="For tests.")


@dataclass
class Sum:
    """What `add` answers."""

    sum: float


@dataclass
class Person:
    """Who was asked for."""

    name: str


@server.tool
def add(a: float, b: float) -> Sum:
    """Adds."""
    return Sum(a + b)


@server.tool
async def ask(ctx: Context) -> str:
    """Asks the user."""
    answer = await ctx.elicit("Who are you?", Person)
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else "Nobody."


@server.resource("note://one")
def note() -> str:
    """A note."""
    return "A note"


@server.prompt
def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}"


def _end_with_stdin() -> None:
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)


def main() -> None:
    """Serve."""
    if sys.argv[1:] != ["http"]:
        server.run("stdio", show_banner=False)
        return
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    listener = socket.create_server(("127.0.0.1", 0))
    print(json.dumps({"address": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}), flush=True)
    config = uvicorn.Config(server.http_app(), log_level="error")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
