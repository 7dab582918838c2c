"""The gateway's own terminal on a pair of real ones: what does not fit at once is shown all the same."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.calls.host_terminal import Shown
from gateway.calls.host_ui import Request
from gateway.runtime.terminal import TerminalScreen


class Question:
    """A request on its way to a person."""

    def __init__(self, asked: Request) -> None:
        self.asked = asked
        self.who = "notes"
        self.output: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answered(self, output: dict[str, Any] | None) -> None:
        self.output.set_result(output)


def _nothing(*_: object) -> None:
    """Leave the signals of the tests' own process as they are."""


def test_a_question_that_is_longer_than_the_terminal_takes_at_once_is_shown_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signal, "signal", _nothing)
    master, slave = pty.openpty()
    options = [f"{number} {'x' * 150}" for number in range(2000)]

    async def main() -> None:
        screen = TerminalScreen(Path(os.ttyname(slave)))
        question = Question(Request(kind="select", title="Which?", options=options))
        screen.show(cast(Shown, question))
        seen = b""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(30):
            while not seen.endswith(b"1 to 2000, Ctrl-D for none: "):
                ready = asyncio.Event()
                loop.add_reader(master, ready.set)
                await ready.wait()
                loop.remove_reader(master)
                seen += os.read(master, 65536)
            assert seen.count(b"x" * 150) == len(options)
            os.write(master, b"1999\n")
            assert await question.output == {"value": options[1998]}
        screen.close()

    try:
        asyncio.run(main())
    finally:
        os.close(slave)
        os.close(master)
