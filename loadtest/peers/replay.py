"""The replay comparison: the same sessions recorded and replayed by other tools and by Tieline, printed as a table.

`python -m loadtest.peers.replay [--only NAME] [--session WORDS] [--write FILE]`. Installs each tool into an environment
of its own under the cache; one that cannot be installed is left out, and told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gateway.bench.sides import free_port
from loadtest.peers.installing import CACHE, install
from loadtest.peers.page import cell, write
from loadtest.peers.replay_client import Client, HttpWire, StdioWire, Wire
from loadtest.peers.replay_sessions import SESSIONS, Verdict, verdict

SERVER = [sys.executable, str(Path(__file__).with_name("replay_server.py"))]
SESSION_S = 40.0
START = "import sys; from gateway.cli.main import main; sys.exit(main())"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One recorder: how it is installed, records and replays."""

    name: str
    label: str
    package: str = ""
    python: str = ""
    """The Python that it needs, where that is a newer one."""
    record: Callable[[Path, Path, int, list[str]], list[str]]
    """(its programs, where the recording goes, port, command of the server) -> command."""
    replay: Callable[[Path, Path, int], list[str]]
    is_http: bool = False

    @property
    def place(self) -> Path:
        return CACHE / f"replay-{self.name}"


TOOLS = [
    Tool(
        name="tieline",
        label="Tieline",
        record=lambda _, out, __, server: [
            *(sys.executable, "-c", START, "record", "--out", str(out), "--", *server),
        ],
        replay=lambda _, out, __: [sys.executable, "-c", START, "replay", str(out), "--patience", "2"],
    ),
    Tool(
        name="mcp-cassette",
        label="mcp-cassette 0.4.0",
        package="mcp-cassette==0.4.0",
        python="3.12",
        record=lambda place, out, _, server: [
            f"{place}/mcp-cassette",
            "record",
            "--cassette",
            str(out),
            "--",
            *server,
        ],
        replay=lambda place, out, _: [f"{place}/mcp-cassette", "serve", str(out)],
    ),
    Tool(
        name="mcp-rec",
        label="mcp-rec 0.1.1",
        package="mcp-rec==0.1.1",
        record=lambda place, out, _, server: [f"{place}/mcp-rec", "record", "-o", str(out), "--", *server],
        replay=lambda place, out, _: [f"{place}/mcp-rec", "replay", str(out)],
    ),
    Tool(
        name="agent-vcr",
        label="agent-vcr 0.1",
        package="agent-vcr<0.2",
        record=lambda place, out, _, server: [
            *(f"{place}/agent-vcr", "record", "--transport", "stdio", "--server-command", server[0]),
            *("--server-args", " ".join(server[1:]), "--output", str(out)),
        ],
        replay=lambda place, out, _: [
            f"{place}/agent-vcr",
            "replay",
            "--file",
            str(out),
            "--transport",
            "stdio",
        ],
    ),
    Tool(
        name="mcp-recorder",
        label="mcp-recorder 0.5",
        package="mcp-recorder<0.6 mcp<2 starlette<1",
        record=lambda place, out, port, server: [
            *(f"{place}/mcp-recorder", "record", "--target-stdio", " ".join(server)),
            *("--port", str(port), "--output", str(out)),
        ],
        replay=lambda place, out, port: [
            f"{place}/mcp-recorder",
            "replay",
            "--cassette",
            str(out),
            "--port",
            str(port),
        ],
        is_http=True,
    ),
]


async def connect(tool: Tool, command: Callable[[Path, Path, int], list[str]], out: Path) -> Wire:
    """Start a recorder or a replay."""
    port = free_port() if tool.is_http else 0
    words = command(tool.place / "bin", out, port)
    return await HttpWire.open(words, port) if tool.is_http else await StdioWire.open(words, {})


async def play(
    tool: Tool, command: Callable[[Path, Path, int], list[str]], out: Path, name: str, run: int
) -> Any:
    """Play one session, and return what it came to."""
    client = Client(await connect(tool, command, out))
    try:
        async with asyncio.timeout(SESSION_S):
            await client.greet()
            return await SESSIONS[name](client, run)
    finally:
        await client.close()


async def live(name: str) -> Any:
    """Play one session with nobody between client and server."""
    client = Client(await StdioWire.open(SERVER, {}))
    try:
        await client.greet()
        return await SESSIONS[name](client, 0)
    finally:
        await client.close()


def _recorded(tool: Tool, place: Path, out: Path, port: int) -> list[str]:
    return tool.record(place, out, port, SERVER)


async def ask(tool: Tool, name: str, truth: Any) -> Verdict:
    """Record one session with one tool, replay it, and compare."""
    place = Path(tempfile.mkdtemp(prefix="tieline-replays-"))
    try:
        recorded = await play(tool, partial(_recorded, tool), place / "recording", name, 0)
        replayed = await play(tool, tool.replay, place / "recording", name, 1)
        return verdict(name, truth, recorded, replayed)
    except Exception as fault:  # noqa: BLE001 - whatever a tool does to its client is its verdict
        return Verdict(right=False, said=f"{type(fault).__name__}: {str(fault)[:50]}")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def table(found: dict[str, dict[str, Verdict]], tools: list[Tool]) -> str:
    """The verdicts as a Markdown table; a right one carries a check mark."""
    head = "| session | " + " | ".join(one.label for one in tools) + " |"
    lines = [head, "| --- |" + " --- |" * len(tools)]
    for name, row in found.items():
        cells = [f"{'✓' if row[one.name].right else '✗'} {cell(row[one.name].said)}" for one in tools]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    right = [f"{sum(row[one.name].right for row in found.values())} of {len(found)}" for one in tools]
    lines.append("| **right** | " + " | ".join(f"**{one}**" for one in right) + " |")
    return "\n".join(lines) + "\n"


async def main() -> None:
    """Install, record, replay, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", action="append", choices=[one.name for one in TOOLS])
    parser.add_argument("--session", action="append", help="words of the sessions to play")
    parser.add_argument(
        "--write", type=Path, help="put the table, command and date between the marks of this file"
    )
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON too")
    options = parser.parse_args()
    tools: list[Tool] = []
    for tool in TOOLS:
        if options.only and tool.name not in options.only:
            continue
        why = install(tool.place, tool.package, python=tool.python)
        if why:
            print(f"{tool.label} is left out: {why}", file=sys.stderr)
        else:
            tools.append(tool)
    wanted = options.session or [""]
    names = [name for name in SESSIONS if any(words in name for words in wanted)]
    found: dict[str, dict[str, Verdict]] = {name: {} for name in names}
    for name in names:
        truth = await live(name)
        for tool in tools:
            said = found[name][tool.name] = await ask(tool, name, truth)
            print(f"{name} | {tool.label} | {'right' if said.right else 'WRONG'} | {said.said}", flush=True)
    text = table(found, tools)
    print(f"\n{text}")
    if options.json:
        print(
            json.dumps(
                {name: {tool: one._asdict() for tool, one in row.items()} for name, row in found.items()}
            )
        )
    if options.write is not None:
        write(options.write, "replay table", "python -m loadtest.peers.replay", text)


if __name__ == "__main__":
    asyncio.run(main())
