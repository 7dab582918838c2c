"""An extension of the kit, as anybody would write one: started with `--dialect mcp` or `--dialect pi`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Literal

import msgspec

from adapters import kit


class ToolEvent(msgspec.Struct, rename="camel"):
    """What is read of a `tool_call`."""

    tool_name: str
    input: dict[str, Any]


app = kit.App("kitten", "1.0")
told = Path(sys.argv.pop(1))


def tell(what: str) -> None:
    with told.open("a") as file:
        file.write(f"{what}\n")


@app.tool(read_only=True, title="Add")
def add(a: int, b: int = 1, unit: Literal["m", "km"] = "m") -> dict[str, str]:
    """Add two lengths.

    Args:
        a: The one.
    """
    return {"sum": f"{a + b} {unit}"}


@app.tool
def crash() -> str:
    """Crash."""
    raise RuntimeError("secret detail")


@app.tool
async def wait(ctx: kit.Context) -> str:
    """Wait to be cancelled."""
    ctx.progress(1, 3, "one")
    ctx.progress(2, 3, "two")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        tell("cancelled")
        raise
    return "never"


@app.tool
async def ask(host: kit.Host) -> Any:
    """Have the host do something that no host here does."""
    await host.call("session", {"op": "none"})


@app.tool
async def chat(host: kit.Host) -> list[Any]:
    """Ask a person."""
    ui = host.ui
    await ui.notify("hello")
    return [await ui.confirm("ok?", "so"), await ui.select("which", ["a", "b"]), await ui.input("name")]


@app.tool
async def shell(host: kit.Host) -> list[Any]:
    """Run a command, and put together the parts of what it says."""
    said, code = "", None
    params = {"cmd": "sh", "args": ["-c", "echo one; echo two; exit 3"], "stream": True}
    async for part in host.stream("exec", params):
        said += part.get("stdout", "")
        code = part.get("code", code)
    return [said, code]


@app.tool
async def move(ctx: kit.Context) -> list[str]:
    """Go to another session, and on from there."""
    first = await ctx.host.call("session", {"op": "append_entry", "custom_type": "a"})
    await ctx.host.call("session", {"op": "new"})
    second = await ctx.host.call("session", {"op": "append_entry", "custom_type": "b"})
    return [first["session"]["id"], second["session"]["id"], ctx.facts["session"]["id"]]


@app.command
def greet(words: str) -> str:
    """Greet."""
    return f"hello {words}"


@app.on("session_start")
def start() -> None:
    tell("session_start")


@app.on("tool_call")
def guard(event: ToolEvent) -> dict[str, Any] | None:
    text = event.input.get("text")
    if text == "no":
        return {"block": True, "reason": f"{event.tool_name} is not for today"}
    return {"input": {**event.input, "text": "changed"}} if text == "change" else None


@app.on("session_shutdown")
def end() -> None:
    tell("session_shutdown")


app.run()
