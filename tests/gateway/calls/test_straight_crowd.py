"""Calls that come in one piece and that hooks are asked about, and answers that do: the same frames and the same bytes
to each side as by the long way, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls.straight_asked import Asked
from tests.gateway.calls.kit import Frame, Message
from tests.gateway.calls.test_golden_hooked import SILENT
from tests.gateway.calls.test_straight_asked import CALL, DECISIONS, DONE, Results, Table, decided, step

ANSWERS = [how for how, data in DECISIONS.items() if data is not SILENT]


class Crowd(Table):
    """As `Table`, where calls and answers may come together."""

    def play(self, what: str, which: Any, how: Any) -> None:
        if what == "crowd":
            self.desk.host.ns += 1_000_000
            self.core.says_together(*(called(id_, name) for id_, name in which))
        elif what == "answer together":
            self.desk.host.ns += 1_000_000
            guards = list(self.guards.values())
            number: int = which % len(guards)
            guards[number].answers_together([DECISIONS[one] for one in how])
        else:
            super().play(what, which, how)
            return
        self.desk.settle()

    def told(self) -> tuple[list[Any], dict[str, list[Any]]]:
        """All frames, and all messages by whom they were sent to."""
        sent: dict[str, list[Any]] = {}
        for one in self.log():
            if not isinstance(one, Frame):
                sent.setdefault(one.to, []).append(one)
        return [one for one in self.log() if isinstance(one, Frame)], sent


def called(id_: Any, name: str) -> Message:
    """A call as a core makes it, with an odd one by the names of some."""
    params: Message = {"name": name.removesuffix("*"), "arguments": {"a": 1}}
    if name.endswith("*"):
        params["_meta"] = {"progressToken": id_}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


def played(steps: Sequence[tuple[str, Any, Any]], *, is_straight: bool, results: Results, hooks: int) -> Any:
    table = Crowd(is_straight=is_straight, results=results, hooks=hooks)
    for one in steps:
        table.play(*one)
    return table.told()


def same(steps: Sequence[tuple[str, Any, Any]], results: Results = "off", hooks: int = 1) -> None:
    """Hold both ways equal."""
    straight, long = (played(steps, is_straight=way, results=results, hooks=hooks) for way in (True, False))
    assert straight == long


many_calls = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3, 4, 5, "1"]), st.sampled_from(["add", "add", "sub", "add*", "no such"])
    ),
    max_size=5,
)
many_answers = st.lists(
    st.one_of(st.sampled_from(["none", "changed"]), st.sampled_from(ANSWERS)), min_size=1, max_size=5
)
crowds = st.one_of(
    st.tuples(st.just("crowd"), many_calls.map(tuple), st.just("")),
    st.tuples(st.just("answer together"), st.integers(0, 2), many_answers),
    # Of questions that were put at the same moment, which they are here alone, nobody has to be late first.
    step.filter(lambda one: one[0] != "passes"),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(crowds, max_size=10), st.sampled_from(["off", "flag"]), st.integers(1, 3))
def test_together_and_one_by_one_leave_the_same_frames_and_the_same_bytes_to_each_side(
    steps: list[tuple[str, Any, Any]], results: Results, hooks: int
) -> None:
    same(steps, results, hooks)


THREE = ("crowd", ((1, "add"), (2, "sub"), (3, "add")), "")


@pytest.mark.parametrize("how", ANSWERS)
@pytest.mark.parametrize("hooks", [1, 2])
def test_every_decision_among_several_leads_to_the_same(how: str, hooks: int) -> None:
    for answers in (["none", how, "changed"], [how, how, "none"], ["none", "changed", how]):
        rest = [("answer together", 1, answers)] if hooks == 2 else []
        same([THREE, ("answer together", 0, answers), *rest, DONE, THREE, DONE], hooks=hooks)


@pytest.mark.parametrize("way", ["core>", ">peer", "peer>", "inside"])
@pytest.mark.parametrize("hooks", [1, 2])
def test_frames_that_cannot_be_written_together_lead_to_the_same(way: str, hooks: int) -> None:
    for keeps in ("keep", "serve"):
        answers = "answer together", 0, ["none", "changed", "none"]
        for steps in ([("loses", way, keeps), THREE, answers], [THREE, ("loses", way, keeps), answers]):
            same(steps, hooks=hooks)


@pytest.mark.parametrize(
    "between",
    [
        ("dies", 0, "calc"), ("dies", 0, "guard"), ("full", True, "calc"), ("cancels", 2, ""), ("leaves", 0, ""),
        ("registers", 0, "turn_end"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("hooks", [1, 2])
def test_whatever_comes_between_questions_and_answers_that_come_together_leads_to_the_same(
    between: tuple[str, Any, str], hooks: int
) -> None:
    answers = "answer together", 0, ["none", "changed", "none"]
    same([THREE, between, answers, ("answer together", 1, answers[2]), DONE, THREE, answers], hooks=hooks)


def test_an_answer_among_several_that_nests_deeper_than_is_allowed_leads_to_the_same() -> None:
    nested: Any = {"result": {"input": {"a": 1, "more": [[[[[[1]]]]]]}}}
    told: list[Any] = []
    for is_straight in (True, False):
        table = Crowd(is_straight=is_straight)
        table.play(*THREE)
        guard = table.guards["guard"]
        guard.wire.peer.most_depth = 8
        guard.answers_together([{}, nested, {}])
        table.desk.settle()
        told.append(table.told())
    assert told[0] == told[1]


def test_calls_that_come_in_one_piece_are_asked_about_together_and_so_are_their_answers_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone: list[int] = []
    true_way = Asked.comes

    def watched(self: Asked, *arguments: Any) -> bool:
        alone.append(1)
        return true_way(self, *arguments)

    monkeypatch.setattr(Asked, "comes", watched)
    table = Crowd(is_straight=True)
    for one in (CALL, decided("none"), DONE):
        table.play(*one)
    taken = table.core.receiver.together([msgspec.json.encode(called(id_, "add")) for id_ in (5, 6, 7)])
    assert taken == 3
    alone.clear()
    table.play("answer together", 0, ["none", "changed", "none"])
    assert alone == []
    assert [call.peer_id is not None for call in table.core.receiver.open.values()] == [True] * 3


def test_no_more_calls_are_asked_about_together_than_the_session_and_the_extension_have_room_for() -> None:
    for bound in ("max_in_flight", "limit", "limit of the peer"):
        told: list[Any] = []
        for is_straight in (True, False):
            table = Crowd(is_straight=is_straight)
            session = table.desk.exchange.sessions[0]
            if bound == "limit":
                session.seats["guard"].peers[0].limit = 2
            elif bound == "limit of the peer":
                session.seats["calc"].peers[0].limit = 1
            else:
                session.max_in_flight, session.room = 2, 3 - len(session.cores)
            table.play(*THREE)
            table.play("answer together", 0, ["none"] * 3)
            told.append(table.told())
        assert told[0] == told[1]
