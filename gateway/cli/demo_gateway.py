"""The gateway of the demo as a process of its own, and the pipes to it as the MCP SDK's client wants them.

Owns that process from start to end, and the look at what it has started: a demo that leaves something running
has failed. Knows nothing of what is said over the pipes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

START = "import sys; from gateway.cli.main import main; sys.exit(main())"
LONGEST_LINE = 16 * 1024 * 1024
END_S = 10.0
"""How long the gateway and its peers may take to end."""


@dataclass(slots=True)
class GatewayProcess:
    """A running gateway. `started` is every process that was seen below it."""

    process: Process
    started: dict[int, str] = field(default_factory=dict[int, str])

    @classmethod
    async def start(
        cls, arguments: list[str], environ: Mapping[str, str], *, stderr: int | None = None
    ) -> GatewayProcess:
        """Start `tieline` with these arguments, in a session of its own; `stderr` as `subprocess` takes it."""
        command = [sys.executable, "-c", START, *arguments]
        return cls(await anyio.open_process(command, stderr=stderr, env=environ, start_new_session=True))

    def look(self) -> None:
        """Remember what runs below the gateway now."""
        below: dict[int, list[int]] = {}
        stamps: dict[int, str] = {}
        for pid, parent, stamp in _processes():
            below.setdefault(parent, []).append(pid)
            stamps[pid] = stamp
        found = [self.process.pid]
        for pid in found:
            found += below.get(pid, [])
        self.started.update({pid: stamps[pid] for pid in found[1:]})

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[TransportStreams]:
        """The pipes as message streams: a transport for `mcp.Client`. Stdin is closed at the end."""
        into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, out_of = anyio.create_memory_object_stream[SessionMessage](0)
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        lines = BufferedByteReceiveStream(stdout)

        async def read() -> None:
            ends = (
                anyio.IncompleteRead,
                anyio.EndOfStream,
                anyio.BrokenResourceError,
                anyio.ClosedResourceError,
            )
            async with into:
                with suppress(*ends):
                    while True:
                        line = await lines.receive_until(b"\n", LONGEST_LINE)
                        await into.send(
                            SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                        )

        async def write() -> None:
            async with out_of:
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    async for item in out_of:
                        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                        await stdin.send(text.encode() + b"\n")

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            group.start_soon(write)
            yield incoming, outgoing
            await outgoing.aclose()
            await incoming.aclose()
            await stdin.aclose()
            group.cancel_scope.cancel()

    async def end(self) -> list[str]:
        """Wait until the gateway and all below it are gone; returns what was wrong with how they went.

        What has not ended in time is ended here, and named.
        """
        wrong: list[str] = []
        if self.process.stdin is not None:
            await self.process.stdin.aclose()
        deadline = time.monotonic() + END_S
        while time.monotonic() < deadline and (self.process.returncode is None or self.left()):
            await anyio.sleep(0.02)
        if self.process.returncode is None:
            wrong.append("the gateway to end by itself")
            self.process.kill()
            await self.process.wait()
        elif self.process.returncode:
            wrong.append(f"exit code 0 of the gateway, not {self.process.returncode}")
        for pid in self.left():
            wrong.append(f"no process to be left, but {pid} was")
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        await self.process.aclose()
        return wrong

    def left(self) -> list[int]:
        """Which of the processes seen below the gateway still run."""
        stamps = {pid: stamp for pid, _, stamp in _processes()}
        return [pid for pid, stamp in self.started.items() if stamps.get(pid) == stamp]


def _processes() -> list[tuple[int, int, str]]:
    """Every living process: its id, its parent's, and a mark that tells it from a later one of the same id."""
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(
            ["ps", "-Ao", "pid=,ppid=,lstart="], capture_output=True, text=True, check=True
        )
        split = (line.split(None, 2) for line in listed.stdout.splitlines())
        return [(int(pid), int(parent), stamp) for pid, parent, stamp in split]
    found: list[tuple[int, int, str]] = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with suppress(OSError):
                # After the name, which is in brackets and may hold anything: state, parent, … start time.
                fields = (each / "stat").read_text().rpartition(") ")[2].split()
                if fields[0] != "Z":
                    found.append((int(each.name), int(fields[1]), fields[19]))
    return found
