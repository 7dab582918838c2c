"""The measurement of a large workspace: what it makes is asked about wholly, and what it cancels is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest

from adapters.lsp.channel import Ended
from loadtest import workspace

FILES = 40
CANCEL = b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%d}}'
ANSWER = b'{"jsonrpc":"2.0","id":%d,"result":null}'


def test_all_figures_come_from_whole_answers_and_calls_that_were_cancelled(tmp_path: Path) -> None:
    async def work() -> None:
        async with asyncio.timeout(50):
            found = await workspace.measured(workspace.make(tmp_path, FILES), "ty", 2)
        uses = 1 + 3 * (FILES - 1)
        assert found["in the end"] | {"s": 0} == {"s": 0, "uses": uses, "complete": True}
        assert found["references"] | {"s": 0} == {"s": 0, "uses": uses, "complete": True}
        assert found["diagnostics"] | {"s": 0} == {"s": 0, "files": FILES, "progress": FILES + 1}
        assert found["rename"]["files"] == FILES
        assert found["cancel"].keys() == workspace.CANCELLED.keys()
        assert found["cancel"]["references"]["told"] <= 2
        assert found["memory"]["server MiB"] > 0
        told = workspace.shown("ty", FILES, 2, found)
        assert f"ty {found['version']}, {FILES} files" in told
        assert "complete: yes" in told

    asyncio.run(work())


class Nobody:
    """The channel to a server and the client before it, of which nothing is wanted."""

    pid = 0

    def send(self, body: bytes) -> None:
        """Take a message for the server."""

    def message(self, body: bytes) -> None:
        """Take a message of the server."""

    def ended(self, why: Ended) -> None:
        """Take the end of the server."""


class Adapter:
    """Makes one request for a call, and has something happen when the call is cancelled."""

    def __init__(self, line: workspace.Line, then: Then) -> None:
        self._line = line
        self._then = then
        self._ids = count(1)

    async def call(self, tool: str, **_: object) -> None:
        """One call, which waits for ever."""
        id_ = next(self._ids)
        self._line.send(b'{"jsonrpc":"2.0","id":%d,"method":"textDocument/%b"}' % (id_, tool.encode()))
        if self._then is answers_at_once:
            return
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._then(self._line, id_)
            raise


Then: TypeAlias = Callable[[workspace.Line, int], None]


def is_told_and_answers(line: workspace.Line, id_: int) -> None:
    line.send(CANCEL % id_)
    line.message(ANSWER % id_)


def has_answered_before_it_is_told(line: workspace.Line, id_: int) -> None:
    line.message(ANSWER % id_)
    line.send(CANCEL % id_)


def is_told_and_ends(line: workspace.Line, id_: int) -> None:
    line.send(CANCEL % id_)
    line.ended(Ended("it was killed"))


def answers_at_once(line: workspace.Line, id_: int) -> None:
    raise AssertionError("its call is over before it could be cancelled")


@pytest.mark.parametrize(
    ("then", "told"),
    [
        (is_told_and_answers, 2),
        (has_answered_before_it_is_told, 0),
        (is_told_and_ends, 0),
        (answers_at_once, 0),
    ],
)
def test_only_answers_after_the_cancel_count_and_no_other_is_waited_for(
    then: Then, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reach(*_: object) -> Nobody:
        return Nobody()

    async def work() -> dict[str, Any]:
        line = workspace.Line()
        await line.reach(cast("Any", None), "", cast("Any", Nobody()))
        async with asyncio.timeout(10):
            return await workspace.cancelled(cast("Any", Adapter(line, then)), line, "references", 2)

    monkeypatch.setattr(workspace, "start_process", reach)
    assert asyncio.run(work())["told"] == told
