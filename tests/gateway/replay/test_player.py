"""One replay, frame by frame: what a live request is given, and what is told of where the runs differ."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.replay.account import account
from gateway.replay.misses import MissPolicy
from gateway.replay.player import Act, Asked, Player
from gateway.replay.recollection import Recollection
from recordings.divergence import Report
from recordings.errors import RecordingError
from recordings.frame import Frame
from recordings.gate import Strength, strength_for
from recordings.held import Held
from recordings.profile import BUILT_IN
from recordings.script import Script
from recordings.views import inline_body
from tests.recordings.tape_kit import Tape

RECORDED, LIVE = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "2b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"


class Stage:
    """A player, and a live side that numbers its frames from 1000."""

    def __init__(
        self,
        tape: Tape,
        *,
        strength: Strength | None = None,
        misses: MissPolicy | None = None,
        missing: int = -1,
    ) -> None:
        def body(frame: Frame) -> bytes:
            if frame.seq == missing:
                raise RecordingError(f"the body of frame {missing} is missing")
            return inline_body(frame)

        script = Script(Held(tape.frames, body), BUILT_IN)
        self.player = Player(
            Recollection(script),
            strength=strength or strength_for(script),
            path="session",
            misses=misses or MissPolicy(),
        )
        self._next = 1000

    def asks(
        self, name: str = "read", lane: str = "", *, peer: str = "fs", own: bool = False, **arguments: Any
    ) -> Asked:
        """The live core asks, and its request comes to the peer."""
        params = msgspec.json.encode({"name": name, "arguments": arguments})
        live = self.number()
        one = self.player.asked(
            live, peer=peer, lane=lane, method="tools/call", name=name, params=params, is_own=own
        )
        self.player.dispatched(live)
        return one

    def number(self) -> int:
        self._next += 1
        return self._next

    @property
    def acts(self) -> list[Act]:
        """Everything that is due now, done."""
        found: list[Act] = []
        while (act := self.player.take()) is not None:
            found.append(act)
            if act.delivery is not None:
                self.player.delivering = act.delivery.seq
                self.player.came(self.number(), is_question=act.delivery.is_question)
                self.player.delivering = None
                self.player.delivered(act.delivery)
        return found

    @property
    def given(self) -> list[int]:
        """The recorded frames that are delivered now."""
        return [act.delivery.seq for act in self.acts if act.delivery is not None]

    def refusal(self) -> dict[str, Any]:
        """The one error that a request is given in the place of an answer."""
        [act] = self.acts
        assert act.answer is not None
        return msgspec.json.decode(act.message)["error"]

    @property
    def report(self) -> Report:
        return account(self.player)

    @property
    def told(self) -> list[str]:
        return [each.cls for each in self.report.divergences]


def one_call(lane: str = "a", **arguments: Any) -> tuple[Tape, int, int]:
    tape = Tape()
    asked = tape.asks(lane=lane, **arguments)
    return tape, asked, tape.answers(asked)


def test_what_was_recorded_is_given_again_and_nothing_is_told() -> None:
    tape, asked, answer = one_call(n=1)
    stage = Stage(tape)
    assert stage.asks(lane="a", n=1).recorded == asked
    assert stage.given == [answer]
    assert (stage.report.verdict, stage.report.exit_code, stage.report.served) == ("same", 0, 2)


def test_lanes_get_their_own_answers_in_whatever_order_they_ask() -> None:
    tape = Tape()
    a, b = tape.asks(lane="a", n=1), tape.asks(lane="b", n=1)
    to_b, to_a = tape.answers(b, "for b"), tape.answers(a, "for a")
    stage = Stage(tape)
    stage.asks(lane="b", n=1)
    assert stage.given == [to_b]
    stage.asks(lane="a", n=1)
    assert stage.given == [to_a]
    assert stage.report.verdict == "same"


def test_values_of_this_run_stand_in_the_answers_of_their_lane_for_the_recorded_ones() -> None:
    tape = Tape()
    a, b = tape.asks(lane="a", id=RECORDED), tape.asks(lane="b", id=RECORDED)
    tape.answers(a, f"made {RECORDED}")
    tape.answers(b, f"made {RECORDED}")
    stage = Stage(tape)
    stage.asks(lane="a", id=LIVE)
    [act] = stage.acts
    assert act.delivery is not None
    assert LIVE.encode() in stage.player.body_for(act.delivery)
    stage.asks(lane="b", id=RECORDED)
    [act] = stage.acts
    assert act.delivery is not None
    assert RECORDED.encode() in stage.player.body_for(act.delivery)


def test_other_values_are_told_with_the_nearest_request_and_what_differs() -> None:
    tape, asked, _ = one_call(path="a.py", limit=20)
    stage = Stage(tape)
    stage.asks(lane="a", path="a.py", limit=50)
    error = stage.refusal()
    assert (error["data"]["reason"], error["data"]["peer"]) == ("not_recorded", "fs")
    [told] = stage.report.divergences
    assert (told.cls, told.recorded, told.nearest[0].seq) == ("changed-params", asked, asked)
    assert [(change.pointer, bytes(change.before or b""), bytes(change.after or b"")) for change in told.changes] == [
        ("/params/arguments/limit", b"20", b"50")
    ]  # fmt: skip
    assert told.nearest[0].distance == "2 of 4 values"
    assert stage.report.exit_code == 1


def test_the_commands_that_a_divergence_names_fork_the_recording_there() -> None:
    tape, asked, _ = one_call(limit=20)
    stage = Stage(tape)
    stage.asks(lane="a", limit=50)
    [told] = stage.report.divergences
    assert f"tieline fork session --out session.fork --set {asked}:/params/arguments/limit=50" in told.next


def test_one_call_too_many_is_exhausted_and_never_served_twice() -> None:
    tape, asked, answer = one_call(n=1)
    stage = Stage(tape)
    stage.asks(lane="a", n=1)
    assert stage.given == [answer]
    stage.asks(lane="a", n=1)
    assert stage.refusal()["data"]["divergence"] == "exhausted"
    [told] = stage.report.divergences
    assert (told.cls, told.recorded) == ("exhausted", asked)


def test_a_tool_that_was_never_called_is_extra() -> None:
    tape, _, _ = one_call(n=1)
    stage = Stage(tape)
    stage.asks("delete", lane="a")
    assert stage.refusal()["data"]["divergence"] == "extra"
    stage.asks(lane="a", n=1)
    assert stage.given
    assert stage.told == ["extra"]


def test_what_the_gateway_asks_by_itself_in_another_era_is_no_fault_of_the_core() -> None:
    tape, _, _ = one_call(n=1)
    stage = Stage(tape)
    stage.asks("initialize", own=True)
    assert "error" in msgspec.json.decode(stage.acts[0].message)
    stage.asks(lane="a", n=1)
    assert stage.given
    assert stage.report.verdict == "same"


def ambiguous() -> Tape:
    tape = Tape()
    first, second = tape.asks(n=1), tape.asks(n=1)
    tape.answers(first, "one")
    tape.answers(second, "two")
    return tape


def test_equal_requests_without_lanes_are_told_apart_by_what_has_been_caused() -> None:
    tape = Tape()
    first = tape.asks(n=1)
    answer = tape.answers(first, "one")
    second = tape.asks(n=1, after=answer)
    tape.answers(second, "two")
    stage = Stage(tape)
    assert stage.asks(n=1).recorded == first
    assert stage.given == [answer]
    assert stage.asks(n=1).recorded == second


def test_a_core_that_is_about_to_ask_is_let_speak_before_an_answer_that_may_decide_a_match() -> None:
    tape = ambiguous()
    stage = Stage(tape)
    stage.asks(n=1)
    assert not stage.player.needs_settling
    stage.asks(n=1)
    assert len(stage.given) == 2


def test_a_core_that_asks_out_of_turn_is_served_and_one_that_leaves_early_is_incomplete() -> None:
    tape = Tape()
    first = tape.asks(lane="a", n=1)
    tape.answers(first)
    second = tape.asks(lane="a", n=2)
    tape.answers(second)
    stage = Stage(tape)
    stage.asks(lane="a", n=1)
    assert stage.given
    report = stage.report
    assert (report.verdict, report.exit_code) == ("incomplete", 2)
    assert report.unplayed == {"a": 2}


def test_a_request_that_a_lane_went_on_without_is_missing() -> None:
    tape = Tape()
    for n in (1, 2):
        tape.answers(tape.asks(lane="a", n=n))
    stage = Stage(tape)
    stage.asks(lane="a", n=2)
    assert stage.given
    report = stage.report
    assert (report.verdict, report.exit_code) == ("diverged", 1)
    assert [(each.cls, each.recorded) for each in report.divergences] == [("missing", 0)]


def test_other_answers_to_a_question_are_told_by_their_differences() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    question = tape.questions(asked, "elicitation/create")
    tape.replies(question, {"action": "accept", "content": {"n": 1}})
    answer = tape.answers(asked)
    stage = Stage(tape)
    stage.asks(lane="a")
    assert stage.given == [question]
    live = stage.player.live_of(question)
    stage.player.asking.replied(
        live, msgspec.json.encode({"id": 1, "result": {"action": "accept", "content": {"n": 2}}})
    )
    assert stage.given == [answer]
    [told] = stage.report.divergences
    assert (told.cls, told.lane, told.method) == ("answer-differs", "a", "elicitation/create")
    assert [change.pointer for change in told.changes] == ["/result/content/n"]


def test_the_same_answer_goes_unmentioned() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    question = tape.questions(asked)
    tape.replies(question, {"roots": []})
    tape.answers(asked)
    stage = Stage(tape)
    stage.asks(lane="a")
    assert stage.given
    stage.player.asking.replied(
        stage.player.live_of(question), msgspec.json.encode({"id": 9, "result": {"roots": []}})
    )
    assert stage.given
    assert stage.report.verdict == "same"


def test_a_reply_to_a_question_that_an_answer_holds_is_awaited_like_any_other() -> None:
    tape = Tape()
    asked = tape.asks()
    holds = tape.answers(asked)
    put = tape.add("request", ">core", {"id": 1, "method": "roots/list"}, parent=holds, method="roots/list")
    tape.replies(put, {"roots": []})
    then = tape.answers(tape.asks("next"))
    stage = Stage(tape, strength="lockstep")
    one = stage.asks()
    assert one.recorded == asked
    act = stage.player.take()
    assert act is not None
    assert act.delivery is not None
    stage.player.delivering = holds
    came = stage.number()
    stage.player.came(came, is_question=False)
    stage.player.delivered(act.delivery)
    question = stage.number()
    stage.player.asking.passed_on(question, came, "roots/list")
    stage.asks("next")
    assert stage.given == []
    stage.player.asking.replied(question, msgspec.json.encode({"id": 1, "result": {"roots": []}}))
    assert stage.given == [then]
    assert stage.report.verdict == "same"


def test_a_request_that_was_answered_and_is_taken_back_now_is_a_race_and_no_failure() -> None:
    tape, _, _ = one_call(n=1)
    stage = Stage(tape)
    one = stage.asks(lane="a", n=1)
    stage.player.cancelled(one.live)
    assert stage.given
    report = stage.report
    assert (stage.told, report.verdict, report.races) == (["race"], "same", 1)


def test_a_request_that_was_taken_back_is_not_answered_before_it_is_again() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    tape.cancels(asked)
    stage = Stage(tape)
    one = stage.asks(lane="a")
    assert stage.acts == []
    stage.player.cancelled(one.live)
    assert stage.report.verdict == "same"


def test_a_recording_that_ends_in_flight_says_so_to_whoever_waits() -> None:
    tape = Tape()
    tape.asks(lane="a")
    stage = Stage(tape)
    stage.asks(lane="a")
    error = stage.refusal()
    assert (error["data"]["reason"], error["data"]["outcome"]) == ("recording_ends", "unknown")
    assert stage.report.verdict == "same"


def test_what_the_gateway_had_refused_is_refused_in_its_words() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    tape.add("error", ">core", {"id": 0, "error": {"code": -5, "message": "held back"}}, re=asked)
    stage = Stage(tape)
    stage.asks(lane="a")
    assert stage.refusal() == {"code": -5, "message": "held back"}


def test_a_call_that_was_suspended_is_not_one_that_nobody_answered() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    question = tape.questions(asked)
    tape.add("response", ">core", {"id": 0, "result": {"resultType": "input_required"}}, re=asked)
    stage = Stage(tape)
    stage.asks(lane="a")
    assert stage.given == [question]


def test_a_request_that_does_not_come_is_told_once_patience_is_lost_and_the_others_go_on() -> None:
    tape = Tape()
    slow, write = tape.asks("slow", lane="a"), tape.asks("write", lane="a")
    answer = tape.answers(slow, after=write)
    tape.answers(write)
    stage = Stage(tape)
    stage.asks("slow", lane="a")
    assert stage.given == []
    assert stage.player.lose_patience()
    assert stage.given == [answer]
    [told] = stage.report.divergences
    assert (told.cls, told.recorded) == ("timeout", write)
    assert not stage.player.lose_patience()


def test_a_body_that_is_gone_is_told_of_and_other_lanes_go_on() -> None:
    tape = Tape()
    a, b = tape.asks(lane="a"), tape.asks(lane="b")
    to_a, to_b = tape.answers(a), tape.answers(b)
    stage = Stage(tape, missing=to_a)
    stage.asks(lane="a")
    act = stage.player.take()
    assert act is not None
    assert act.delivery is not None
    missing = RecordingError("the body of frame 2 is missing")
    error = msgspec.json.decode(stage.player.unreadable(act.delivery, missing))
    stage.player.delivered(act.delivery)
    assert error["data"]["reason"] == "unreadable"
    stage.asks(lane="b")
    assert stage.given == [to_b]
    [told] = stage.report.divergences
    assert (told.cls, told.lane) == ("unreadable", "a")


def test_what_the_gateway_refuses_itself_is_waited_for_by_nobody() -> None:
    tape = Tape()
    slow, write = tape.asks("slow", lane="a"), tape.asks("write", lane="a")
    answer = tape.answers(slow, after=write)
    tape.answers(write)
    stage = Stage(tape)
    stage.asks("slow", lane="a")
    stage.player.refused(stage.asks("write", lane="a").live)
    assert answer in stage.given


def test_lenient_takes_the_oldest_of_several_that_fit_where_lanes_are_the_same() -> None:
    tape = ambiguous()
    stage = Stage(tape, misses=MissPolicy(mode="lenient"))
    assert [stage.asks(n=1).recorded, stage.asks(n=1).recorded] == [0, 1]
    assert len(stage.given) == 2
    assert stage.report.verdict == "same"


def test_lenient_may_give_the_answer_of_the_nearest_request() -> None:
    tape, _, answer = one_call(n=1)
    stage = Stage(tape, misses=MissPolicy(mode="lenient", lenient="nearest"))
    stage.asks(lane="a", n=2)
    [act] = stage.acts
    assert (
        msgspec.json.decode(act.message)["result"]
        == msgspec.json.decode(bytes(tape.frames[answer].body))["result"]
    )
    assert stage.told == ["changed-params"]


def test_answers_to_greetings_and_lists_are_counted_beside_what_is_awaited() -> None:
    tape = Tape()
    asked = tape.add(
        "request",
        "core>",
        {"id": 0, "method": "tools/list", "params": {}},
        id=0,
        peer="fs",
        method="tools/list",
    )
    answer = tape.answers(asked)
    stage = Stage(tape)
    assert (stage.report.served, stage.report.of, stage.report.loose) == (0, 0, 0)

    live = stage.number()
    stage.player.asked(live, peer="fs", lane="", method="tools/list", name="", params=b"{}", is_own=False)
    stage.player.dispatched(live)

    assert stage.given == [answer]
    assert (stage.report.served, stage.report.of, stage.report.loose) == (0, 0, 1)
