"""When an answer is the whole one: facts and times in, a verdict out. No clock runs here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.lsp.readiness import (
    GRACE_S,
    QUIET_S,
    STEADY_EMPTY_S,
    STEADY_S,
    Again,
    Final,
    Load,
    Patience,
    Readiness,
    Settling,
    Wait,
    is_fresh,
)


def asked(load: Load, answers: Callable[[float], list[str]], limit_s: float = 15.0) -> tuple[Final, float]:
    """Ask a server whose answers depend on the time, as the shell does; gives the verdict and when."""
    now = 0.0
    settling = Settling(now, limit_s)
    while True:
        while load.readiness(now) == "loading" and settling.may_wait(now):
            now += 0.05
        when, answer = load.readiness(now), answers(now)
        verdict = settling.judge(now, answer, empty=not answer, asked_when=when, load=load)
        if isinstance(verdict, Final):
            return verdict, now
        now += verdict.after_s


def test_a_server_that_answers_nothing_while_it_loads_is_waited_for() -> None:
    # As typescript-language-server: no places for seconds, and all of them once its progress has ended.
    load = Load("progress", 0.0)
    load.begin(0.0)
    load.progress("t", "begin", "Initializing", 0.0)

    def answers(now: float) -> list[str]:
        if now >= 3.3:
            load.progress("t", "end", "", 3.3)
        return ["a", "b", "c"] if now >= 3.3 else []

    class Ends(Load):
        def readiness(self, now: float) -> Readiness:
            answers(now)
            return load.readiness(now)

    verdict, now = asked(Ends("progress", 0.0), answers)
    assert verdict == Final(whole=True, readiness="ready")
    assert now >= 3.3 + QUIET_S


def test_nothing_is_asked_for_twice_even_of_a_server_that_has_loaded() -> None:
    load, count = Load("none", 0.0), 0

    def answers(now: float) -> list[str]:
        nonlocal count
        count += 1
        return [] if count == 1 else ["late"]

    verdict, _ = asked(load, answers)
    assert (verdict.whole, count) == (True, 2)


def test_a_server_that_has_registered_may_not_have_seen_all_files_and_is_asked_twice() -> None:
    load, count = Load("registration", 0.0, "workspace/didChangeWatchedFiles"), 0
    load.signal("workspace/didChangeWatchedFiles")

    def answers(now: float) -> list[str]:
        nonlocal count
        count += 1
        return ["a", "b"][: min(count, 2)]

    verdict, _ = asked(load, answers)
    assert (verdict.whole, count) == (True, 3)


def test_a_server_that_loads_for_ever_gives_no_whole_answer() -> None:
    load = Load("progress", 0.0)
    load.progress("t", "begin", "Indexing", 0.0)
    verdict, now = asked(load, lambda now: ["a part"], limit_s=4.0)
    assert verdict == Final(whole=False, readiness="loading")
    assert now >= 4.0


@pytest.mark.parametrize(("answer", "steady_s"), [([], STEADY_EMPTY_S), (["a"], STEADY_S)])
def test_of_a_server_that_never_tells_no_answer_is_whole_however_steady(
    answer: list[str], steady_s: float
) -> None:
    verdict, now = asked(Load("settle", 0.0), lambda now: answer)
    assert verdict == Final(whole=False, readiness="unknown")
    assert now >= steady_s


@given(st.lists(st.floats(0, 3), max_size=6), st.sampled_from(["none", "progress", "registration", "settle"]))
def test_a_short_answer_of_a_server_that_still_reports_work_is_never_called_whole(
    pauses: list[float], wait: Wait
) -> None:
    load = Load(wait, 0.0)
    load.begin(0.0)
    load.progress("t", "begin", "Indexing", 0.0)
    now, settling = 0.0, Settling(0.0, 10.0)
    for number, pause in enumerate(pauses):
        now += pause
        verdict = settling.judge(
            now, ["part"] * number, empty=not number, asked_when=load.readiness(now), load=load
        )
        assert verdict != Final(whole=True, readiness="ready")


def test_each_way_of_telling_is_understood() -> None:
    registers = Load("registration", 0.0, "workspace/didChangeWatchedFiles")
    registers.signal("textDocument/diagnostic")
    assert registers.readiness(99.0) == "loading"
    registers.signal("workspace/didChangeWatchedFiles")
    assert registers.readiness(99.0) == "ready"

    tells = Load("status", 0.0, "experimental/serverStatus")
    tells.signal("experimental/serverStatus", ready=True)
    assert tells.readiness(1.0) == "ready"
    tells.signal("experimental/serverStatus", ready=False)
    assert tells.readiness(1.0) == "loading"

    works = Load("progress", 0.0)
    assert works.readiness(99.0) == "loading", "it was given no file yet"
    works.begin(100.0)
    assert works.readiness(100.0 + GRACE_S - 0.1) == "loading"
    assert works.readiness(100.0 + GRACE_S) == "unknown", "it has reported nothing"


@pytest.mark.parametrize(
    ("pushed_at", "version", "fresh"),
    [(1.0, 3, True), (1.0, 2, False), (1.0, None, True), (0.4, None, False), (0.4, 3, True), (1.9, 3, False)],
)
def test_pushed_diagnostics_are_fresh_by_version_else_by_time_and_once_a_moment_old(
    pushed_at: float, version: int | None, fresh: bool
) -> None:
    found = is_fresh(2.0, quiet_s=0.5, sent_at=0.5, version=3, pushed_at=pushed_at, pushed_version=version)
    assert found is fresh


def test_a_server_that_ends_again_and_again_is_left_alone_for_a_while() -> None:
    patience = Patience(starts=3, window_s=60.0)
    assert [patience.may_start(now) for now in (0.0, 1.0, 2.0)] == [0.0, 0.0, 0.0]
    assert patience.may_start(3.0) == 57.0
    assert patience.may_start(60.0) == 0.0


def test_a_server_is_given_up_at_the_second_question_in_silence() -> None:
    patience = Patience()
    assert not patience.timed_out(asked_at=1.0, heard_at=0.5)
    assert patience.timed_out(asked_at=2.0, heard_at=0.5)
    patience.answered()
    assert not patience.timed_out(asked_at=3.0, heard_at=0.5)
    assert not patience.timed_out(asked_at=4.0, heard_at=4.5), "it is slow, but alive"
    assert not patience.timed_out(asked_at=5.0, heard_at=4.5)


def test_asking_again_takes_longer_each_time_but_never_long() -> None:
    load, settling, now = Load("settle", 0.0), Settling(0.0, 60.0), 0.0
    pauses: list[float] = []
    for number in range(12):
        verdict = settling.judge(now, number, empty=False, asked_when="loading", load=load)
        assert isinstance(verdict, Again)
        pauses.append(verdict.after_s)
        now += verdict.after_s
    assert pauses == sorted(pauses)
    assert pauses[-1] <= 1.0
