"""Recorded frames beside those of a driven replay."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.replay.pairing import Pairing
from recordings.frame import Frame
from recordings.views import inline_body


def frame(seq: int, kind: str = "request", way: str = "core>", body: Any = None, **more: Any) -> Frame:
    raw = (
        msgspec.Raw(body if isinstance(body, bytes) else msgspec.json.encode(body))
        if body is not None
        else None
    )
    fields = {**more, **({"body": raw} if raw is not None else {})}
    return Frame(seq=seq, kind=kind, way=way, **fields)  # pyright: ignore[reportArgumentType]


def paired(recorded: list[Frame], live: list[Frame], *, fed: int | None = None) -> Pairing:
    one = Pairing(inline_body)
    for each in recorded:
        one.expect(each)
    for each in live:
        if each.seq == fed:
            one.feeding = each.seq
        one.take(each)
    one.finish()
    return one


def told(one: Pairing) -> list[str]:
    return [each.cls for each in one.divergences]


def test_equal_streams_are_the_same_also_under_other_numbers() -> None:
    recorded = [
        frame(5, id=1, method="tools/call", body={"id": 1}),
        frame(7, "response", "peer>", re=5, peer="fs", body={"id": 1}),
    ]
    live = [
        frame(0, id=1, method="tools/call", body={"id": 1}),
        frame(1, "response", "peer>", re=0, peer="fs", body={"id": 1}),
    ]
    one = paired(recorded, live)
    assert (told(one), one.paired, one.count) == ([], 2, 2)


def test_another_body_is_told_by_the_places_that_differ() -> None:
    one = paired([frame(0, body={"a": 1, "b": 2})], [frame(0, body={"a": 1, "b": 3})])
    assert told(one) == ["answer-differs"]
    assert [change.pointer for change in one.divergences[0].changes] == ["/b"]


def test_a_body_that_is_spelt_otherwise_is_not_the_same() -> None:
    one = paired([frame(0, body=b'{"a":1}')], [frame(0, body=b'{"a": 1}')])
    assert told(one) == ["answer-differs"]
    assert "spelt" in one.divergences[0].detail


def test_a_frame_that_did_not_come_is_missing_and_one_more_is_extra() -> None:
    assert told(paired([frame(0), frame(1, method="ping")], [frame(0)])) == ["missing"]
    assert told(paired([frame(0)], [frame(0), frame(1, method="ping")])) == ["extra"]


def test_what_follows_the_last_frame_of_a_recording_that_breaks_off_is_not_extra() -> None:
    one = Pairing(inline_body)
    one.is_cut = True
    recorded = [frame(0), frame(1, method="ping")]
    for each in recorded:
        one.expect(each)
    one.take(recorded[0])
    one.take(frame(1, "policy", "inside"))
    assert told(one) == ["extra"]
    one.take(frame(2, method="ping"))
    one.take(frame(3, "policy", "inside"))
    one.finish()
    assert told(one) == ["extra"]


def test_a_reference_to_another_frame_is_a_difference() -> None:
    recorded = [frame(0, id=1), frame(1, id=2), frame(2, "response", "peer>", re=0, after=1)]
    live = [frame(0, id=1), frame(1, id=2), frame(2, "response", "peer>", re=0, after=0)]
    [one] = paired(recorded, live).divergences
    assert "`after`" in one.detail


def test_a_lane_that_was_not_named_is_that_of_the_cause() -> None:
    recorded = [frame(0, lane="a"), frame(1, "response", "peer>", re=0, body={"n": 1})]
    live = [frame(0, lane="a"), frame(1, "response", "peer>", re=0, body={"n": 2})]
    [one] = paired(recorded, live).divergences
    assert one.lane == "a"


def test_times_process_ids_and_marks_of_the_recorder_differ_from_run_to_run() -> None:
    recorded = [frame(0, "spawn", "inside", x={"pid": 1, "program": "x"}, at=5, flags=("redacted",))]
    live = [frame(0, "spawn", "inside", x={"pid": 2, "program": "x"}, at=9)]
    assert told(paired(recorded, live)) == []


def test_a_decision_that_was_made_otherwise_is_told_as_one() -> None:
    recorded = [frame(0, "policy", "inside", x={"decision": "held"})]
    live = [frame(0, "policy", "inside", x={"decision": "told"})]
    assert told(paired(recorded, live)) == ["decision-differs"]


def test_a_handle_that_is_minted_anew_stands_for_the_recorded_one_from_there_on() -> None:
    def state(value: str) -> dict[str, Any]:
        return {"result": {"requestState": value}}

    recorded = [
        frame(0, "response", ">core", body=state("old")),
        frame(1, body={"params": {"requestState": "old"}}),
    ]
    live = [
        frame(0, "response", ">core", body=state("new")),
        frame(1, body={"params": {"requestState": "new"}}),
    ]
    one = paired(recorded, live)
    assert told(one) == []
    assert one.live_bytes(b'"old"') == b'"new"'


def test_what_is_fed_is_that_frame_even_where_an_equal_one_came_before() -> None:
    recorded = [frame(0, method="ping", id=1, body={"n": 1}), frame(1, method="ping", id=1, body={"n": 2})]
    one = Pairing(inline_body)
    for each in recorded:
        one.expect(each)
    one.feeding = 1
    one.take(frame(0, method="ping", id=1, body={"n": 2}))
    assert (one.live_of(1), one.live_of(0)) == (0, None)
    assert one.divergences == []
