"""What is said of peers that fail: each state once, and not without end."""

from __future__ import annotations

from gateway.protocol.errors import Fault
from gateway.runtime.peer_news import MOST_A_MINUTE, PeerNews


class Reader:
    """Somebody who reads, and a clock."""

    def __init__(self, *, last_words: bool = True) -> None:
        self.lines: list[str] = []
        self.now = 0.0
        self.news = PeerNews(self.lines.append, last_words=last_words, clock=lambda: self.now)

    def fails(
        self, why: str = "db: gone", *, given_up: bool = False, stderr: str = "", advice: str = ""
    ) -> None:
        details = {"stderr": stderr} if stderr else {}
        fault = Fault(code="io", message=why, reason="peer_exited", advice=advice, details=details)
        self.news.failed("db", fault, given_up=given_up)


def test_a_peer_that_fails_again_and_again_in_the_same_way_is_told_once_and_once_more_when_given_up() -> None:
    reader = Reader()
    for _ in range(4):
        reader.fails()
    for _ in range(3):
        reader.fails(given_up=True)
    assert reader.lines == ["warning: db: gone", "warning: db: gone; it is given up for now"]


def test_its_last_words_and_the_advice_are_told_with_it() -> None:
    reader = Reader()
    reader.fails("db: gone: set KEY", stderr="starting\nset KEY", advice="Set it")
    assert reader.lines == [
        "warning: db: gone: set KEY", "  db | starting", "  db | set KEY", "hint: Set it",
    ]  # fmt: skip


def test_last_words_that_were_said_already_are_not_repeated() -> None:
    reader = Reader()
    reader.fails("db: gone: set KEY", stderr="set KEY")
    assert reader.lines == ["warning: db: gone: set KEY"]
    reader = Reader(last_words=False)
    reader.fails("db: gone: set KEY", stderr="starting\nset KEY")
    assert reader.lines == ["warning: db: gone: set KEY"]


def test_a_peer_that_is_back_is_told_and_one_that_never_failed_is_not() -> None:
    reader = Reader()
    reader.news.ready("db")
    assert reader.lines == []
    reader.fails()
    reader.news.ready("db")
    reader.news.ready("db")
    reader.fails()
    assert reader.lines == ["warning: db: gone", "note: db serves again", "warning: db: gone"]


def test_a_peer_that_comes_and_goes_without_end_is_told_a_few_times_a_minute_and_then_counted() -> None:
    reader = Reader()
    for _ in range(50):
        reader.fails()
        reader.news.ready("db")
    assert len(reader.lines) == MOST_A_MINUTE
    reader.now = 61
    reader.fails()
    assert reader.lines[MOST_A_MINUTE:] == [
        f"note: db has gone and come back meanwhile: {100 - MOST_A_MINUTE} changes were not told",
        "warning: db: gone",
    ]


def test_whether_anything_was_ever_served_is_known() -> None:
    reader = Reader()
    assert not reader.news.never_served
    reader.fails()
    assert reader.news.never_served
    reader.news.ready("db")
    reader.fails()
    assert not reader.news.never_served
