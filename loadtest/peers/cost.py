"""Who is compared in what a call costs, and how each is started before the same echo server.

Owns the list: proxies and recorders that an agent starts on stdio, and gateways that it reaches over streamable HTTP.
Times nothing: see `race`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gateway.bench.setup import EVERYTHING, Setup
from loadtest.peers import installing, pain, replay

Front = Literal["stdio", "http"]
OURS = "tieline"
HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way from the client to the echo server."""

    name: str
    label: str
    does: str
    """What it does beside passing messages on."""
    front: Front
    setup: Setup | None = None
    """For a gateway of ours."""
    package: str = ""
    kind: str = "python"
    python: str = ""
    place: Path = installing.CACHE
    command: Callable[[Path, int, list[str]], list[str]] = lambda _, __, ___: []
    """(a directory of the run, port, command of the echo server) -> what to run."""
    environment: Callable[[Path], dict[str, str]] = lambda _: {}

    def install(self) -> str:
        """Bring it; return why that cannot be, or nothing."""
        return installing.install(self.place, self.package, kind=self.kind, python=self.python)


def _script(name: str, place: Path) -> list[str]:
    return [str(place / "bin" / "python"), str(HERE / name)]


def _sdk() -> Contender:
    place = installing.CACHE / "mcp-sdk"
    return Contender(
        name="mcp-sdk",
        label="`mcp` SDK 2.3.0, glued as a proxy",
        does="passes on",
        front="stdio",
        package="mcp==2.3.0",
        place=place,
        command=lambda _, __, server: [*_script("naive_proxy.py", place), *server],
    )


def _fastmcp() -> Contender:
    (known,) = [each for each in pain.GATEWAYS if each.name == "fastmcp"]
    return Contender(
        name="fastmcp",
        label=known.label,
        does="passes on",
        front="stdio",
        package=known.package,
        place=known.place,
        command=lambda _, __, server: [*_script("fastmcp_proxy.py", known.place), "0", *server],
    )


def _recorder(tool: replay.Tool) -> Contender:
    return Contender(
        name=tool.name,
        label=tool.label,
        does="records",
        front="http" if tool.is_http else "stdio",
        package=tool.package,
        python=tool.python,
        place=tool.place,
        command=lambda run, port, server: tool.record(tool.place / "bin", run / "recording", port, server),
    )


def _vcr() -> Contender:
    place = installing.CACHE / "replay-mcp-vcr"
    return Contender(
        name="mcp-vcr",
        label="mcp-vcr 0.2.2",
        does="records, redacts",
        front="stdio",
        package="mcp-vcr==0.2.2",
        python="3.13",
        place=place,
        command=lambda run, _, server: [
            *(f"{place}/bin/mcp-vcr", "record", "--format", "ndjson", "-o", str(run / "recording.ndjson")),
            *("--", *server),
        ],
    )


def _gateway(known: pain.Gateway) -> Contender:
    return Contender(
        name=f"{known.name}-http" if known.name == "fastmcp" else known.name,
        label=known.label,
        does="passes on",
        front="http",
        package=known.package,
        kind=known.kind,
        place=known.place,
        command=lambda _, port, server: known.command(known.place, port, server),
        environment=lambda run: {"FASTMCP_LOG_LEVEL": "CRITICAL", **known.environment(run)},
    )


def contenders() -> Sequence[Contender]:
    """All, ours first; the first one of a front is what the others are compared with."""
    recording = Setup()
    everything = "records, checks policy, validates, redacts, logs"
    recorders = [tool for tool in replay.TOOLS if tool.name in ("mcp-rec", "mcp-cassette", "mcp-recorder")]
    return [
        Contender(name=OURS, label="**Tieline**", does="records", front="stdio", setup=recording),
        Contender(
            name="tieline-everything",
            label="**Tieline**, everything on",
            does=everything,
            front="stdio",
            setup=EVERYTHING,
        ),
        Contender(
            name="tieline-http",
            label="**Tieline**",
            does="records",
            front="http",
            setup=Setup(north="http"),
        ),
        *map(_recorder, recorders),
        _vcr(),
        _sdk(),
        _fastmcp(),
        *(_gateway(known) for known in pain.GATEWAYS if known.kind != "own"),
    ]


def echo() -> list[str]:
    """The command of the echo server."""
    from gateway.bench import sides

    return [sys.executable, "-S", "-E", str(sides.ECHO)]
