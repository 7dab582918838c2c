"""Every transport, era and feature through a gateway that runs as a program, one test a cell.

A raw core on one side, the matrix's peer on the other. What each feature comes to is in `features`, which cells
there are in `cells`.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.e2e.cells import CELLS, EVERYTHING, PRODUCT, RULES, THIN, Cell, rules_of
from tests.e2e.features import FEATURES
from tests.e2e.house import TIELINE, House
from tests.e2e.raw_core import connected
from tests.e2e.wires import HttpWire, StdioWire, UnixWire, WebSocketWire, Wire


def wire_to(house: House, cell: Cell) -> Wire:
    """The way to a gateway in front of the cell's peer. The gateway finds out by itself which era the peer speaks."""
    name = f"{cell.south}-{cell.peer}"
    peers = {"everything": house.matrix_peer(cell.south, cell.peer)}
    if cell.north == "stdio":
        path = house.config(f"{name}-stdio", peers)
        return StdioWire(
            [TIELINE, "run", str(path), "--stdio"], house.folder / f"{name}-stdio.log", house.env
        )
    addresses = house.gateway(name, peers)
    match cell.north:
        case "websocket":
            return WebSocketWire(addresses["websocket"])
        case "http":
            return HttpWire(addresses["http"])
        case _:
            return UnixWire(addresses["unix"])


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, id=str(cell), marks=pytest.mark.xdist_group(f"{cell.south}-{cell.peer}"))
        for cell in CELLS
    ],
)
def test_cell(cell: Cell, house: House) -> None:
    async def go() -> None:
        async with connected(wire_to(house, cell), cell.core) as core:
            await FEATURES[cell.feature](core, cell.peer)

    asyncio.run(go())


def test_a_cell_is_there_or_is_left_out_by_a_rule_with_a_name() -> None:
    assert len(PRODUCT) == 4 * 5 * 4 * len(FEATURES)
    absent = [cell for cell in PRODUCT if cell not in set(CELLS)]
    assert all(rules_of(cell) for cell in absent)
    assert set(RULES) == {rule for cell in absent for rule in rules_of(cell)}


def test_every_pair_of_transports_is_tried_in_every_pair_of_eras() -> None:
    tried = Counter((cell.north, cell.south, cell.core, cell.peer) for cell in CELLS)
    assert len(tried) == 4 * (4 * 4 + 2)
    assert all(
        count == (len(THIN) if key[:2] not in EVERYTHING else len(FEATURES) - (key[2] == "modern"))
        for key, count in tried.items()
    )
