"""Which comparisons a run makes: scenes, each with the sizes and numbers in flight that are measured in it. Pure.

The full product would take an hour and tell little more: what costs something is varied by itself, on the way that
costs least, stdio to stdio with recording; then each transport, with the rest left alone. `PLANS` says how thoroughly
each kind of run measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, get_args

import msgspec

from gateway.bench.results import Cell
from gateway.bench.setup import EVERYTHING, North, Setup, South

Kind: TypeAlias = Literal["quick", "usual", "full"]

SMALL, LARGE = 300, 65536
IN_FLIGHT = (1, 16, 64)
COUNTS = (1, 10, 100)
"""No-op hooks."""
PEERS = (10, 50)
WAYS: tuple[tuple[North, South], ...] = (
    ("stdio", "stdio"),
    ("unix", "stdio"),
    ("websocket", "stdio"),
    ("http", "stdio"),
    ("stdio", "websocket"),
    ("websocket", "websocket"),
)
GROUPS = {
    "transports": "Transports: client to gateway, gateway to server; 300 B, recording",
    "large": "64 KiB calls, recording",
    "flight": "Calls open at a time; stdio to stdio where nothing else is said",
    "options": "What is switched on; everything is recording, policy, ledger, validation",
    "hooks": "Extensions that hook another event: no-op hooks to a call",
    "asked": "Extensions that are asked about every call, each a process",
    "peers": "Servers behind one gateway, of which one is asked",
    "replay": "A replay in the server's place, against the server itself",
}
"""Parts of the table, in its order, with their titles."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One gateway, started once, and the cells that are measured while it runs."""

    setup: Setup
    cells: tuple[Cell, ...]
    is_replay: bool = False
    """A replay of a recording of the same calls stands where the gateway would."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured of a cell."""

    warm_up: int = 50
    """Calls of each side before anything is timed."""
    rounds: int = 25
    calls: int = 60
    """Of each side in a round, as far as they have no more than `round_bytes`."""
    round_bytes: int = 1024 * 1024
    bursts: int = 2
    burst_bytes: int = 6 * 1024 * 1024
    """A burst is as many calls as that many bytes, at most `burst_calls`."""
    burst_calls: int = 3000
    tries: int = 2
    """How often a suspicious figure is measured."""

    def calls_of(self, cell: Cell) -> int:
        """How many calls of each side a round has."""
        return max(1, min(self.calls, self.round_bytes // cell.size))

    def burst_of(self, cell: Cell) -> int:
        """How many calls a burst has."""
        return max(cell.in_flight, min(self.burst_calls, self.burst_bytes // cell.size))


PLANS: dict[Kind, Plan] = {
    "quick": Plan(rounds=10, calls=40, bursts=1, tries=1),
    "usual": Plan(),
    "full": Plan(rounds=50, bursts=3, tries=3),
}


def tool_of(setup: Setup) -> str:
    """What the first server's tool is called where several have one."""
    return "echo" if setup.peers == 1 else "echo__echo"


def cell_of(
    group: str, setup: Setup, *, size: int = 300, in_flight: int = 64, x: float | None = None
) -> Cell:
    """The cell of a setup, with the name that it has everywhere."""
    way = f"{setup.north}-{setup.south}"
    what = "+".join(option.replace(" ", "-") for option in setup.options) or "passing"
    return Cell(
        name=f"{way}/{size}B/{what}/{in_flight}",
        group=group,
        north=setup.north,
        south=setup.south,
        size=size,
        in_flight=in_flight,
        options=setup.options,
        x=x,
    )


def scene(
    group: str, setup: Setup, shots: Iterable[tuple[int, int]] = ((SMALL, 64),), x: float | None = None
) -> Scene:
    """One scene whose cells are pairs of bytes and calls in flight."""
    cells = [cell_of(group, setup, size=size, in_flight=in_flight, x=x) for size, in_flight in shots]
    return Scene(setup=setup, cells=tuple(cells))


def scenes(kind: Kind) -> list[Scene]:
    """What a run of that kind measures, in order. No two cells have one name."""
    assert kind in get_args(Kind)
    found = [_base(kind)]
    found += [scene("transports", Setup(north=north, south=south), _shots(kind)) for north, south in WAYS[1:]]
    options = [
        Setup(recording=False),
        Setup(policy=True),
        Setup(ledger=True),
        Setup(policy=True, ledger=True),
        Setup(validation=True),
        EVERYTHING,
    ]
    if kind == "quick":
        options = [options[0], options[-1]]
    large = kind != "quick"
    for setup in options:
        is_end = large and setup in (options[0], EVERYTHING)
        found.append(scene("options", setup, ((SMALL, 64), (LARGE, 16)) if is_end else ((SMALL, 64),)))
    found += [
        scene("hooks", Setup(hooks=count), x=count) for count in COUNTS if kind != "quick" or count == 10
    ]
    found += [scene("asked", Setup(asked=1), x=1), scene("asked", Setup(modifies=True), x=1)]
    if kind != "quick":
        found.append(scene("asked", Setup(asked=10), x=10))
    found += [
        scene("peers", Setup(peers=count), x=count) for count in PEERS if kind != "quick" or count == 10
    ]
    found += [_replay("stdio"), *([_replay("websocket")] if kind != "quick" else [])]
    if kind == "full":
        found += [
            scene("transports", setup, _shots(kind))
            for north, south in WAYS[1:]
            for setup in (
                Setup(north=north, south=south, recording=False),
                msgspec.structs.replace(EVERYTHING, north=north, south=south),
            )
        ]
    return [_grouped(each) for each in found]


def _base(kind: Kind) -> Scene:
    """Stdio to stdio with recording: every line of the picture begins here."""
    if kind == "quick":
        return scene("transports", Setup(), ((SMALL, 64), (LARGE, 16)))
    sizes = (SMALL, LARGE)
    return scene("transports", Setup(), [(size, count) for size in sizes for count in reversed(IN_FLIGHT)])


def _shots(kind: Kind) -> list[tuple[int, int]]:
    if kind == "quick":
        return [(SMALL, 64)]
    if kind == "usual":
        return [(SMALL, 64), (LARGE, 16)]
    return [(size, count) for size in (SMALL, LARGE) for count in reversed(IN_FLIGHT)]


def _replay(north: North) -> Scene:
    setup = Setup(north=north)
    cell = msgspec.structs.replace(
        cell_of("replay", setup), name=f"replay-{north}/{SMALL}B/64", options=("replay",)
    )
    return Scene(setup=setup, cells=(cell,), is_replay=True)


def _grouped(given: Scene) -> Scene:
    """With each cell in the part of the table where it is looked for."""

    def group(cell: Cell) -> str:
        if cell.group != "transports":
            return "large" if cell.size != SMALL else cell.group
        if cell.size != SMALL:
            return "large" if cell.in_flight == 16 else "flight"
        return "transports" if cell.in_flight == 64 else "flight"

    cells = [msgspec.structs.replace(cell, group=group(cell)) for cell in given.cells]
    return msgspec.structs.replace(given, cells=tuple(cells))


def matches(pattern: str, name: str) -> bool:
    """Whether a name has this in it, or is what the glob says."""
    return fnmatchcase(name, pattern if any(mark in pattern for mark in "*?[") else f"*{pattern}*")


def chosen(given: Sequence[Scene], pattern: str) -> list[Scene]:
    """The scenes with those cells whose name or group matches."""
    found: list[Scene] = []
    for each in given:
        cells = [cell for cell in each.cells if matches(pattern, cell.name) or matches(pattern, cell.group)]
        if cells:
            found.append(msgspec.structs.replace(each, cells=tuple(cells)))
    return found
