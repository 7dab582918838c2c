"""Two recordings: calls are found again in the other one, and only what matters counts as a difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordings.compare import Comparison, body_changes, compare
from recordings.compared import comparison_json, comparison_text
from recordings.frame import Frame
from recordings.operations import operations
from recordings.profile import BUILT_IN
from recordings.reader import open_recording
from tests.recordings.call_kit import Call, frames_of, session_of
from tests.recordings.recording_kit import frame

READ = Call("read", {"path": "a.py"}, {"text": "one"})
QUERY = Call("query", {"sql": "select 1", "limit": 20}, {"rows": [[1]]})


class Memory:
    """Frames without a file."""

    def __init__(self, frames: list[Frame]) -> None:
        self.frames = frames

    def __iter__(self) -> Any:
        return iter(self.frames)

    def body(self, frame: Frame) -> bytes:
        return bytes(frame.body)


def compared(one: list[Call], other: list[Call], **options: Any) -> Comparison:
    return compare(Memory(frames_of(*one)), Memory(frames_of(*other, between=1)), BUILT_IN, **options)


def places(found: Comparison) -> list[tuple[tuple[str, ...], list[str]]]:
    return [(each.aspects, [change.pointer for change in each.changes]) for each in found.changed]


def test_a_session_is_the_same_as_itself_whatever_lies_between_its_calls() -> None:
    found = compared([READ, QUERY, READ], [READ, QUERY, READ])
    assert found.is_same
    assert (found.same, found.volatile) == (3, 0)


def test_an_answer_that_differs_is_shown_by_its_places() -> None:
    found = compared([READ, QUERY], [READ, QUERY._replace(result={"rows": [[2]]})])
    assert places(found) == [(("answer",), ["/result/rows/0/0"])]
    assert not found.is_same


def test_a_call_with_other_params_is_the_same_call_changed() -> None:
    other = QUERY._replace(arguments={"sql": "select 1", "limit": 50})
    found = compared([READ, QUERY], [READ, other])
    assert places(found) == [(("params",), ["/params/arguments/limit"])]
    assert (found.removed, found.added) == ((), ())


def test_of_several_calls_the_one_most_alike_is_the_one_that_changed() -> None:
    one = [QUERY._replace(arguments={"sql": sql, "limit": 20}) for sql in ("a", "b", "c")]
    other = [QUERY._replace(arguments={"sql": "c", "limit": 21, "x": 1})]
    found = compared(one, other)
    assert [each.before.seq for each in found.changed] == [4]
    assert [each.seq for each in found.removed] == [0, 2]


def test_calls_that_only_one_has_are_added_and_removed() -> None:
    write = Call("write", {"path": "b"}, {})
    found = compared([READ, QUERY], [write, QUERY])
    assert [each.name for each in found.removed] == ["read"]
    assert [each.name for each in found.added] == ["write"]


def test_order_among_lanes_does_not_matter_and_within_equal_calls_it_does() -> None:
    one = [READ._replace(lane="a"), READ._replace(lane="b", result={"text": "two"})]
    assert compared(one, one[::-1]).is_same
    same_lane = [READ, READ._replace(result={"text": "two"})]
    assert len(compared(same_lane, same_lane[::-1]).changed) == 2


def test_a_repeated_call_that_is_missing_is_the_one_whose_answer_is_missing() -> None:
    answers = [READ._replace(result={"text": str(number)}) for number in range(4)]
    found = compared(answers, answers[1:])
    assert [each.seq for each in found.removed] == [0]
    assert (found.same, found.changed) == (3, ())


def test_a_call_that_another_lane_makes_is_told_as_such() -> None:
    found = compared([READ._replace(lane="a")], [READ._replace(lane="b")])
    assert places(found) == [(("lane",), [])]


def test_lanes_that_only_one_recording_knows_are_no_difference() -> None:
    with_lanes = [READ._replace(lane="a"), QUERY._replace(lane="b"), READ._replace(lane="b")]
    assert compared(with_lanes, [each._replace(lane="") for each in with_lanes]).is_same


@pytest.mark.parametrize(
    "ending", [{"cancelled": True}, {"result": None}, {"result": None, "error": {"code": 1, "message": "no"}}]
)
def test_another_end_of_a_call_is_a_difference(ending: dict[str, Any]) -> None:
    found = compared([READ], [READ._replace(**ending)])
    assert [each.aspects[0] for each in found.changed] == ["outcome"]


def test_volatile_values_do_not_count_unless_they_are_asked_for() -> None:
    ids = ("6f1f3f6e-52a1-4a3e-9f5c-0f6b7a8c9d01", "0b0e7c44-6f0d-4b53-8a5e-2d1f0c9b8a77")
    one, other = ([Call("start", {"run": run}, {"run": run, "n": 1})] for run in ids)
    found = compared(one, other)
    assert found.is_same
    assert (found.same, found.volatile) == (1, 1)
    found = compared(one, other, exact=True)
    assert places(found) == [(("params", "answer"), ["/params/arguments/run", "/result/run"])]
    assert {change.note for change in found.changed[0].changes} == {"volatile"}


def test_a_place_that_matters_comes_before_those_that_are_expected_to_differ() -> None:
    one = b'{"result":{"at":"2026-01-01T00:00:00Z","n":1,"_meta":{"x":1}}}'
    other = b'{"result":{"at":"2026-01-02T00:00:00Z","n":2,"_meta":{"x":2}}}'
    assert [(each.pointer, each.note) for each in body_changes(one, other, BUILT_IN)] == [
        ("/result/n", ""),
        ("/result/_meta/x", "volatile"),
        ("/result/at", "volatile"),
    ]


def test_an_answer_of_another_kind_has_nothing_in_common() -> None:
    found = body_changes(b'{"result":{"n":1}}', b'{"error":{"code":1}}', BUILT_IN)
    assert [(each.pointer, each.kind) for each in found] == [("/result", "removed"), ("/error", "added")]


def test_what_follows_from_an_answer_that_differs_is_not_counted_again() -> None:
    one = [
        READ._replace(result={"next": "token-one-abcdef"}),
        READ._replace(arguments={"from": "token-one-abcdef"}),
    ]
    other = [
        READ._replace(result={"next": "token-two-ghijkl"}),
        READ._replace(arguments={"from": "token-two-ghijkl"}),
    ]
    found = compared(one, other)
    assert places(found) == [(("answer",), ["/result/next"])]
    assert (found.same, found.volatile) == (1, 1)


def test_a_value_so_short_that_many_are_like_it_follows_from_nothing() -> None:
    one = [READ._replace(result={"n": 1}), READ._replace(arguments={"n": 1})]
    other = [READ._replace(result={"n": 2}), READ._replace(arguments={"n": 2})]
    assert [aspects for aspects, _ in places(compared(one, other))] == [("answer",), ("params",)]


def test_the_first_end_of_a_call_is_its_end() -> None:
    call = b'{"id":1,"method":"tools/call","params":{"name":"read"}}'
    frames = [
        frame(0, call, "request", way="core>", peer="db", method="tools/call", name="read", at=0),
        frame(1, kind="timeout", way="inside", peer="db", re=0, at=5),
        frame(2, b'{"id":1,"error":{"code":1}}', "error", way=">core", re=0, at=6),
    ]
    (found,), _ = operations(Memory(frames), BUILT_IN)
    assert (found.outcome, found.answer, found.took_ns) == ("timeout", 1, 5)


def test_calls_left_over_in_a_lane_are_paired_there_and_one_with_an_equal_elsewhere() -> None:
    one = [READ._replace(lane="a", result={"n": n}) for n in (1, 2, 3)]
    other = [READ._replace(lane="a", result={"n": n}) for n in (1, 9)] + [one[2]._replace(lane="b")]
    found = compared(one, other)
    assert (found.same, places(found)) == (1, [(("answer",), ["/result/n"]), (("lane",), [])])


def test_roots_that_lie_elsewhere_are_the_same_and_so_are_resources_beneath_them() -> None:
    def read(root: str) -> list[Call]:
        uri = f"file://{root}/a.py"
        return [Call(uri, {"uri": uri}, {"contents": [{"uri": uri}]}, method="resources/read")]

    one, other = read("/home/me/shop"), read("/builds/7/shop")
    profile, theirs = (BUILT_IN.with_roots({"cwd": path}) for path in ("/home/me/shop", "/builds/7/shop"))
    assert compared(one, other).changed
    assert compare(Memory(frames_of(*one)), Memory(frames_of(*other)), profile, other_profile=theirs).is_same


def test_decisions_count_and_how_long_they_took_does_not() -> None:
    held = READ._replace(decision={"decision": "held", "why": "new", "took_ns": 5})
    assert compared(
        [held], [held._replace(decision={"decision": "held", "why": "new", "took_ns": 9})]
    ).is_same
    found = compared([held], [held._replace(decision={"decision": "told", "why": "new"})])
    assert places(found) == [(("decisions",), [])]
    alone = [frame(0, kind="policy", way="inside", peer="db", name="t", x={"decision": "held"})]
    found = compare(Memory(alone), Memory([]), BUILT_IN)
    assert found.decisions_removed == ('policy t @ db {"decision":"held"}',)
    assert not found.is_same


def test_a_question_of_a_peer_is_compared_as_a_call_is() -> None:
    def asked(answer: bytes) -> list[Frame]:
        ask = b'{"id":1,"method":"roots/list"}'
        return [
            frame(0, ask, "request", way="peer>", peer="db", method="roots/list"),
            frame(1, ask, "request", way=">core", peer="db", parent=0, method="roots/list"),
            frame(2, answer, "response", way="core>", peer="db", re=0),
        ]

    one, other = Memory(asked(b'{"result":{"roots":[]}}')), Memory(asked(b'{"result":{"roots":[1]}}'))
    found = compare(one, other, BUILT_IN)
    assert places(found) == [(("answer",), ["/result/roots/0"])]
    assert found.changed[0].before.by == "peer"


def test_how_long_calls_took_is_told_and_is_no_difference() -> None:
    found = compared([READ, QUERY], [READ._replace(took_ms=200), QUERY])
    assert found.is_same
    (shift, steady) = found.shifts
    assert (shift.what, shift.before_ns, shift.after_ns) == ("tools/call read @ db", 1_000_000, 200_000_000)
    assert steady.before_ns == steady.after_ns
    told = comparison_text(found, "one", "other")
    assert "  latency   tools/call read @ db  p50 1 ms  ->  200 ms (1 call)\n" in told
    assert "query" not in told


CALLS = st.tuples(
    st.sampled_from(["read", "query"]),
    st.fixed_dictionaries({"n": st.integers(0, 2)}),
    st.none() | st.fixed_dictionaries({"v": st.integers(0, 2)}),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["db", "lsp"]),
).map(lambda facts: Call(*facts))


@settings(max_examples=150, deadline=None)
@given(st.lists(CALLS, max_size=8), st.lists(CALLS, max_size=8))
def test_every_call_is_accounted_for_once_and_both_ways(one: list[Call], other: list[Call]) -> None:
    found, back = compared(one, other), compared(other, one)
    for each, mine, theirs in ((found, one, other), (back, other, one)):
        assert each.same + len(each.changed) + len(each.removed) == len(mine)
        assert each.same + len(each.changed) + len(each.added) == len(theirs)
    assert (found.same, len(found.added)) == (back.same, len(back.removed))
    assert compared(one, one).is_same


def test_stored_recordings_are_compared_with_the_bodies_in_their_blobs(tmp_path: Path) -> None:
    large = READ._replace(result={"text": "x" * 50_000, "n": 1})
    one = session_of(tmp_path / "one", large, QUERY, seal=True)
    other = session_of(tmp_path / "other", large._replace(result={"text": "x" * 50_000, "n": 2}), QUERY)
    found = compare(open_recording(one), open_recording(other), BUILT_IN)
    assert places(found) == [(("answer",), ["/result/n"])]


def test_a_missing_blob_is_a_difference_and_no_end(tmp_path: Path) -> None:
    large = READ._replace(result={"text": "x" * 50_000})
    one, other = (session_of(tmp_path / name, large) for name in ("one", "other"))
    for blob in other.glob("blobs/*/*"):
        blob.unlink()
    found = compare(open_recording(one), open_recording(other), BUILT_IN)
    assert [each.aspects for each in found.changed] == [("answer",)]
    for blob in one.glob("blobs/*/*"):
        blob.unlink()
    assert compare(open_recording(one), open_recording(other), BUILT_IN).is_same


def test_the_text_and_the_json_tell_every_difference() -> None:
    one = [READ, QUERY, Call("old", {}, {}, lane="t1")]
    other = [
        READ._replace(result={"text": "two"}),
        QUERY._replace(error={"code": 1}),
        Call("new\x1b", {}, {}, lane="t2"),
    ]
    found = compared(one, other)
    assert comparison_text(found, "a", "b") == (
        "DIFFERENT  a and b\n"
        "  changed   tools/call read @ db  seq 0 and 1: answer\n"
        '    /result/text  "one"  ->  "two"\n'
        "  changed   tools/call query @ db  seq 2 and 4: outcome, answer\n"
        "    outcome  response  ->  error\n"
        '    /result  removed {"rows":[[1]]}\n'
        '    /error   added {"code":1}\n'
        "  removed   tools/call old @ db  lane t1  seq 4\n"
        "  added     tools/call new\\x1b @ db  lane t2  seq 7\n"
        "  calls     0 same; 2 changed, 1 removed, 1 added\n"
    )
    told = msgspec.json.decode(msgspec.json.encode(comparison_json(found)))
    assert told["same"] is False
    assert told["calls"] == {"same": 0, "volatile": 0, "changed": 2, "removed": 1, "added": 1}
    assert told["changed"][0]["changes"] == [
        {"pointer": "/result/text", "kind": "value", "before": "one", "after": "two"}
    ]
