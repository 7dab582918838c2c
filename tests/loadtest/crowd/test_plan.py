"""A recorded agent as a plan: its calls, their times, and what each builds on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from loadtest.crowd.plan import Plan, PlanError, is_error, plan_of
from loadtest.crowd.sources import plan_from, recording_in
from recordings.frame import Frame
from recordings.views import inline_body

SAMPLES = Path(__file__).parents[3] / "recordings" / "samples" / "format-1"


class Story:
    """Frames of a session, one after another, a millisecond apart."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def add(self, kind: Any, way: Any, body: Any, **facts: Any) -> int:
        seq = len(self.frames)
        raw = Raw(msgspec.json.encode(body))
        self.frames.append(Frame(seq=seq, at=seq * 1_000_000, kind=kind, way=way, body=raw, **facts))
        return seq

    def call(self, lane: str = "", **facts: Any) -> int:
        return self.add(
            "request", "core>", {"id": 1, "method": "tools/call"}, method="tools/call", name="get",
            lane=lane or None, **facts,
        )  # fmt: skip

    def answer(self, re: int, body: Any = None, kind: Any = "response") -> int:
        return self.add(kind, "peer>", body or {"id": 1, "result": {}}, re=re)

    def plan(self) -> Plan:
        return plan_of(self.frames, inline_body)


def test_a_call_builds_on_what_its_lane_was_answered_since_the_call_before() -> None:
    story = Story()
    one, other = story.call("a"), story.call("b")
    story.answer(other)
    story.answer(one)
    after_one, at_once, after_other = story.call("a"), story.call("a"), story.call("b")

    needs = {call.key: call.needs for call in story.plan().calls}

    assert needs == {one: (), other: (), after_one: (one,), at_once: (), after_other: (other,)}


def test_without_lanes_a_call_builds_on_all_that_had_come() -> None:
    story = Story()
    one, other = story.call(), story.call()
    story.answer(other)
    story.answer(one)
    last = story.call()

    assert story.plan().calls[-1].key == last
    assert story.plan().calls[-1].needs == (other, one)


def test_the_greeting_is_no_call_and_times_count_from_it() -> None:
    story = Story()
    hello = story.add("request", "core>", {"id": 0, "method": "initialize"}, method="initialize")
    story.add("response", ">core", {"id": 0, "result": {}}, re=hello)
    story.add("notification", "core>", {}, method="notifications/initialized")
    call = story.call()
    story.answer(call)

    plan = story.plan()

    assert [due.key for due in plan.calls] == [call]
    assert plan.calls[0].at_s == pytest.approx(0.003)
    assert plan.length_s == pytest.approx(0.01)
    assert plan.greeting is not None
    assert b"initialize" in plan.greeting


def test_what_was_taken_back_or_never_answered_is_not_waited_for() -> None:
    story = Story()
    cancelled, lost, waited = story.call(), story.call(), story.call()
    story.answer(waited)
    cancel = story.add("notification", "core>", {}, method="notifications/cancelled", re=cancelled)
    story.answer(cancelled)

    plan = story.plan()

    assert {call.key: call.is_awaited for call in plan.calls} == {
        cancelled: False,
        lost: False,
        waited: True,
        cancel: False,
    }
    assert plan.said[cancel].takes_back == cancelled
    assert plan.requests == 1


def test_recorded_errors_are_expected_and_questions_answered_as_they_were() -> None:
    story = Story()
    wrong, tool = story.call(), story.call()
    asked = story.add("request", "peer>", {"id": 9, "method": "roots/list"}, method="roots/list")
    told: dict[str, Any] = {"id": 9, "result": {"roots": []}}
    story.add("response", "core>", told, re=asked)
    story.answer(wrong, {"id": 1, "error": {"code": 1, "message": "no"}}, "error")
    story.answer(tool, {"id": 1, "result": {"isError": True}})

    plan = story.plan()

    assert plan.said[wrong].is_error
    assert plan.said[tool].is_error
    assert [msgspec.json.decode(body) for body in plan.answers["roots/list"]] == [told]


@pytest.mark.parametrize("state", ["sealed", "unsealed"])
def test_a_real_recording_can_be_made_a_plan(state: str) -> None:
    plan = plan_from(SAMPLES / state)

    assert plan.requests > 0
    assert plan.length_s > 0
    times = [call.at_s for call in plan.calls]
    assert times == sorted(times)
    assert all(needed in plan.said for call in plan.calls for needed in call.needs)


def test_a_folder_of_recordings_means_its_newest(tmp_path: Path) -> None:
    for name in ("20260203-030059-ffffff", "20260204-000000-000000", "20260203-235959-aaaaaa"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recording.json").touch()
    (tmp_path / "something-else").mkdir()

    newest = tmp_path / "20260204-000000-000000"
    assert recording_in(tmp_path) == newest
    assert recording_in(newest) == newest
    assert recording_in(tmp_path / "something-else") == tmp_path / "something-else"


def test_what_is_no_recording_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be played"):
        plan_from(tmp_path / "nothing")
    with pytest.raises(PlanError, match="no call of an agent"):
        Story().plan()


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (b'{"id":1,"result":{"content":[]}}', False),
        (b'{"id":1,"result":{"isError":true}}', True),
        (b'{"id":1,"error":{"code":1,"message":"x"}}', True),
        (b"{", True),
    ],
)
def test_errors_of_the_protocol_and_of_tools_are_errors(answer: bytes, wrong: bool) -> None:
    assert is_error(answer) is wrong
