"""The shapes that servers answer in: the protocol allows several for nearly everything."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from adapters import kit
from adapters.lsp import wire
from adapters.lsp.locks import Turns
from adapters.lsp.meter import Meter

SPAN = {"start": {"line": 1, "character": 2}, "end": {"line": 1, "character": 5}}
OTHER = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (None, 0),
        ([], 0),
        ({"uri": "file:///a", "range": SPAN}, 1),
        ([{"uri": "file:///a", "range": SPAN}], 1),
        # A link without the range that it comes from, as one server sends it.
        ([{"targetUri": "file:///a", "targetRange": OTHER, "targetSelectionRange": SPAN}], 1),
    ],
)
def test_places_come_in_five_shapes(answer: Any, count: int) -> None:
    found = wire.listed(raw(answer), wire.Location)
    assert [(each.file, each.span.start.line) for each in found] == [("file:///a", 1)] * count


@pytest.mark.parametrize(
    "contents",
    [
        "**x**",
        {"kind": "markdown", "value": "**x**"},
        {"language": "python", "value": "**x**"},
        ["**x**"],
        [{"language": "python", "value": "**x**"}],
    ],
)
def test_what_is_shown_for_a_symbol_comes_in_five_shapes(contents: Any) -> None:
    assert wire.read(raw({"contents": contents}), wire.Hover).markdown == "**x**"


@pytest.mark.parametrize(
    "symbol",
    [
        {"name": "x", "kind": 5, "range": OTHER, "selectionRange": SPAN},
        {"name": "x", "kind": 5, "location": {"uri": "file:///a", "range": SPAN}},
    ],
)
def test_symbols_come_in_two_shapes(symbol: Any) -> None:
    found = wire.read(raw(symbol), wire.Symbol)
    assert (found.kind_name, found.spot.start) == ("class", wire.Position(1, 2))


def test_an_action_and_a_command_are_told_apart() -> None:
    for answer in (
        {"title": "t", "command": "c", "arguments": [1]},
        {"title": "t", "command": {"title": "t", "command": "c", "arguments": [1]}},
    ):
        order = wire.read(raw(answer), wire.Action).order
        assert order
        assert (order.command, [bytes(each) for each in order.arguments]) == ("c", [b"1"])
    assert wire.read(raw({"title": "t", "kind": "quickfix"}), wire.Action).order is None


def test_an_answer_of_another_shape_is_a_fault_of_the_server() -> None:
    with pytest.raises(kit.ToolError, match="an answer of another shape") as met:
        wire.read(raw({"contents": 1, "range": 2}), wire.Hover)
    assert met.value.code == "io"


@pytest.mark.parametrize(
    ("answer", "nothing"),
    [(None, True), ([], True), ({"kind": "full", "items": []}, True), ([1], False), ("", False)],
)
def test_nothing_is_told_from_something(answer: Any, nothing: bool) -> None:
    assert wire.is_nothing(raw(answer)) is nothing


class Marks:
    """Stands for a context."""

    def __init__(self) -> None:
        self.told: list[tuple[float, float | None, str]] = []

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        self.told.append((done, total, message))


def test_progress_always_grows_and_never_beyond_its_total() -> None:
    marks = Marks()
    meter = Meter(cast("kit.Context", marks))
    for text in ("starting", "indexing"):
        meter.line(text)
    for number in range(1, 4):
        meter.line(f"before {number}")
        meter.step(number, 3, str(number))
    done = [each[0] for each in marks.told]
    assert done == sorted(set(done))
    assert marks.told[-1] == (6.0, 6, "3")
    assert all(total is None or at <= total for at, total, _ in marks.told)


def test_who_wants_a_server_alone_waits_for_those_inside_and_goes_before_later_ones() -> None:
    async def work() -> None:
        turns, order = Turns(), list[str]()
        leave = asyncio.Event()

        async def share(name: str, until: asyncio.Event | None = None) -> None:
            async with turns.shared():
                order.append(name)
                if until is not None:
                    await until.wait()

        async def be_alone() -> None:
            async with turns.alone():
                order.append("alone")

        first = asyncio.create_task(share("first", leave))
        second = asyncio.create_task(share("second", leave))
        await asyncio.sleep(0)
        alone = asyncio.create_task(be_alone())
        given_up = asyncio.create_task(be_alone())
        await asyncio.sleep(0)
        later = asyncio.create_task(share("later"))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.sleep(0)
        assert order == ["first", "second"]
        leave.set()
        await asyncio.gather(first, second, alone, later, given_up, return_exceptions=True)
        assert order == ["first", "second", "alone", "later"]

    asyncio.run(asyncio.wait_for(work(), 10))
