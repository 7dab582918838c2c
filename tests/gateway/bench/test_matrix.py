"""Which comparisons a run makes, and what a part of them is called."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from gateway.bench.matrix import GROUPS, PLANS, WAYS, Kind, chosen, scenes
from gateway.bench.results import Cell
from gateway.bench.table import label

KINDS: tuple[Kind, ...] = get_args(Kind)


def cells(kind: Kind) -> list[Cell]:
    return [cell for scene in scenes(kind) for cell in scene.cells]


@pytest.mark.parametrize("kind", KINDS)
def test_each_cell_has_a_name_of_its_own_and_a_place_in_the_table(kind: Kind) -> None:
    counted = Counter(cell.name for cell in cells(kind))
    assert [name for name, count in counted.items() if count > 1] == []
    assert {cell.group for cell in cells(kind)} <= set(GROUPS)


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_lines_of_one_part_of_the_table_are_called_the_same(kind: Kind) -> None:
    counted = Counter((cell.group, label(cell)) for cell in cells(kind))
    assert [name for name, count in counted.items() if count > 1] == []


def test_a_usual_run_has_everything_that_is_promised() -> None:
    found = cells("usual")
    assert {(cell.north, cell.south) for cell in found if cell.group == "transports"} == set(WAYS)
    assert {(cell.size, cell.in_flight) for cell in found if cell.options == ("recording",)} >= {
        (size, count) for size in (300, 65536) for count in (1, 16, 64)
    }
    options = {cell.options for cell in found}
    assert {(), ("recording",), ("recording", "policy"), ("recording", "ledger")} <= options
    assert {("recording", f"hooks {count}") for count in (1, 10, 100)} <= options
    assert {("recording", "peers 10"), ("recording", "peers 50"), ("recording", "modifies")} <= options


def test_a_pattern_chooses_by_name_or_part_of_the_table() -> None:
    given = scenes("usual")
    assert {cell.group for scene in chosen(given, "peers") for cell in scene.cells} == {"peers"}
    assert [cell.name for scene in chosen(given, "http*300B*") for cell in scene.cells] == [
        "http-stdio/300B/recording/64"
    ]
    assert chosen(given, "nothing of this name") == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_burst_has_at_least_as_many_calls_as_are_in_flight(kind: Kind) -> None:
    assert all(PLANS[kind].burst_of(cell) >= cell.in_flight for cell in cells(kind))
