"""The smallest recording that still fails: nothing needed is missing, nothing else is left, and it is a recording."""

from __future__ import annotations

import math
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordings.ddmin import ddmin
from recordings.errors import RecordingError
from recordings.frame import Frame
from recordings.header import Header, PeerFacts
from recordings.minimise import Minimised, Oracle, Step, minimise
from recordings.reader import open_recording
from recordings.renumber import renumbered
from recordings.salvage import examine
from recordings.store import Recorder
from tests.recordings.call_kit import Call, frames_of, session_of
from tests.recordings.recording_kit import frame, recorded

# The search


@given(st.sets(st.integers(0, 30)), st.integers(1, 31))
def test_exactly_what_is_needed_is_found_in_few_questions(needed: set[int], count: int) -> None:
    needed = {item for item in needed if item < count}
    asked = 0

    def holds(left: list[int]) -> bool:
        nonlocal asked
        asked += 1
        return needed <= set(left)

    assert ddmin(range(count), holds) == sorted(needed)
    assert asked <= 2 * count + 2 * len(needed) * (math.log2(count) + 1) + 2


@given(st.lists(st.frozensets(st.integers(0, 11), max_size=5), min_size=1, max_size=5), st.randoms())
def test_no_single_item_can_go_whatever_the_test_is(ways: list[frozenset[int]], dice: object) -> None:
    # Several ways to fail, and some subsets that by chance do not: far from what the search would like.
    asked = 0

    def holds(left: list[int]) -> bool:
        nonlocal asked
        asked += 1
        whole = len(left) == 12
        return whole or (hash(tuple(left)) % 5 != 0 and any(way <= set(left) for way in ways))

    found = ddmin(range(12), holds)
    calls = asked
    assert found == sorted(found)
    assert holds(found) or len(found) == 12
    assert not any(holds([item for item in found if item != gone]) for gone in found)
    assert calls <= 12 * 12 + 3 * 12 + 2


def test_nothing_is_asked_of_nothing() -> None:
    assert ddmin([], lambda _: pytest.fail("asked")) == []


# Recordings

CALLS = [
    Call(f"t{number}", {"n": number}, {"n": number}, lane=lane, peer=peer, progress=number % 3)
    for number, (lane, peer) in enumerate(
        [("a", "db"), ("b", "lsp"), ("a", "lsp"), ("c", "files"), ("b", "db"), ("c", "db"), ("a", "files")]
        * 4
    )
]
CALLS[9] = CALLS[9]._replace(cancelled=True)


def has(*names: str) -> Oracle:
    """Fails as long as the calls of these names, with what became of them, are there."""

    def oracle(path: Path) -> str | None:
        recording = open_recording(path)
        found = {each.name for each in recording if each.kind == "request"}
        return "boom" if found.issuperset(names) else None

    return oracle


def minimised(tmp_path: Path, path: Path, oracle: Oracle, **options: object) -> Minimised:
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    made = minimise(
        open_recording(path),
        tmp_path / "min",
        oracle,
        scratch=scratch,
        session="m",
        **options,  # pyright: ignore[reportArgumentType]
    )
    assert list(scratch.iterdir()) == []
    return made


@pytest.mark.parametrize("needed", [("t5",), ("t9", "t20"), (), ("t0", "t1", "t27")])
def test_the_calls_that_a_failure_needs_are_left_and_nothing_else(
    tmp_path: Path, needed: tuple[str, ...]
) -> None:
    path = session_of(tmp_path / "r", *CALLS, between=1)
    before = (path / "frames.jsonl").read_bytes()
    made = minimised(tmp_path, path, has(*needed))
    again = open_recording(tmp_path / "min")
    assert {each.name for each in again if each.kind == "request"} == set(needed)
    # A request and its answer each, and the mark; of the cancelled one, the drop.
    assert [each.kind for each in again if each.kind not in ("request", "response", "drop")] == ["mark"]
    assert (made.calls, made.of_calls, made.failure, made.is_minimal) == (len(needed), 28, "boom", True)
    assert made.frames == 2 * len(needed)
    assert examine(tmp_path / "min").damage == []
    assert (path / "frames.jsonl").read_bytes() == before


def test_a_part_that_no_call_of_a_lane_needs_goes_in_few_runs(tmp_path: Path) -> None:
    path = session_of(tmp_path / "r", *CALLS)
    made = minimised(tmp_path, path, has("t5"))
    assert made.runs < 40


def test_every_candidate_is_a_recording_and_its_references_lead_where_they_led(tmp_path: Path) -> None:
    path = session_of(tmp_path / "r", *CALLS, between=1)
    original = {_said(each): each for each in open_recording(path)}
    by_seq = {each.seq: each for each in original.values()}
    seen = 0

    def oracle(candidate: Path) -> str | None:
        nonlocal seen
        seen += 1
        assert examine(candidate).damage == []
        frames = [each for each in open_recording(candidate) if each.kind not in ("mark", "lost")]
        for each in frames:
            was = original[_said(each)]
            for mine, theirs in ((each.re, was.re), (each.parent, was.parent)):
                assert (mine is None) == (theirs is None)
                if mine is not None and theirs is not None:
                    assert _said(frames[mine - frames[0].seq]) == _said(by_seq[theirs])
            if each.after is not None:
                assert each.after < each.seq
        return has("t5", "t20")(candidate)

    minimised(tmp_path, path, oracle)
    assert seen > 10


def _said(each: Frame) -> tuple[object, ...]:
    """What tells a frame from the others here, whatever it and the ids in it are called."""
    body: dict[str, Any] = msgspec.json.decode(each.body) if bytes(each.body) else {}
    return each.kind, each.way, each.at, str(body.get("result")), body.get("params", {}).get("progress")


def test_a_failure_of_another_kind_is_no_success(tmp_path: Path) -> None:
    def oracle(path: Path) -> str | None:
        names = {each.name for each in open_recording(path) if each.kind == "request"}
        return "boom" if {"t3", "t8"} <= names else "other" if "t3" in names else None

    minimised(tmp_path, session_of(tmp_path / "r", *CALLS), oracle)
    names = {each.name for each in open_recording(tmp_path / "min") if each.kind == "request"}
    assert names == {"t3", "t8"}


def test_what_belongs_together_stays_together(tmp_path: Path) -> None:
    ask = {"kind": "request", "way": "core>", "method": "tools/call"}
    frames = [
        frame(0, b'{"n":0}', peer="db", name="other", **ask),
        frame(1, b'{"n":1}', "response", way="peer>", peer="db", re=0),
        frame(2, b'{"n":2}', peer="db", name="first", **ask),
        frame(3, b'{"n":3}', "request", way="peer>", peer="db", parent=2, method="elicitation/create"),
        frame(4, b'{"n":4}', "request", way=">core", peer="db", parent=3, method="elicitation/create"),
        frame(5, b'{"n":5}', "response", way="core>", peer="db", re=3),
        frame(6, b'{"n":6}', "response", way="peer>", peer="db", re=2),
        frame(7, b'{"n":7}', peer="db", name="leg", parent=6, op=2, **ask),
        frame(8, b'{"n":8}', "response", way="peer>", peer="db", re=7),
        frame(9, b'{"n":9}', "request", way="core>", peer="db", name="by op alone", op=2),
    ]
    path = recorded(tmp_path / "r", frames)
    minimised(tmp_path, path, has("leg"))
    left = list(open_recording(tmp_path / "min"))
    assert [msgspec.json.decode(each.body)["n"] for each in left if each.kind != "mark"] == [2, 6, 7, 8]
    assert [(each.seq, each.re, each.parent, each.op) for each in left[2:4]] == [
        (2, None, 1, 0),
        (3, 2, None, None),
    ]
    (tmp_path / "again").mkdir()
    minimised(tmp_path / "again", path, has("other"))
    left = [each for each in open_recording(tmp_path / "again" / "min") if each.kind == "request"]
    assert [each.name for each in left] == ["other"]


def test_a_hole_among_what_is_left_stands_for_one_frame(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", [frame(1), frame(20), *frames_of(Call("keep", {}, {}), first=21)])
    numbering = renumbered(open_recording(path), {2, 20, 21}, first=1)
    assert [(each.seq, (each.x or {}).get("through")) for each in numbering] == [(1, 1), (2, None), (3, None)]
    minimised(tmp_path, path, has("keep"))
    assert examine(tmp_path / "min").damage == []


def test_ids_that_the_gateway_counted_count_on(tmp_path: Path) -> None:
    path = session_of(tmp_path / "r", *CALLS)
    minimised(tmp_path, path, has("t1", "t4", "t8"))
    answers = [each for each in open_recording(tmp_path / "min") if each.kind == "response"]
    assert [(each.peer, each.id, msgspec.json.decode(each.body)["id"]) for each in answers] == [
        ("lsp", 2, 2),
        # One call less to each of the two peers comes before.
        ("db", 4, 4),
        ("lsp", 8, 8),
    ]


def test_a_peer_that_is_not_needed_leaves_the_header_too(tmp_path: Path) -> None:
    header = Header(
        session="s",
        peers={"db": PeerFacts(dialect="mcp"), "lsp": PeerFacts(dialect="mcp")},
        settings={"peers": {"db": {}, "lsp": {"prefix": "x"}}, "catalog": {"a": 1}},
    )
    calls = frames_of(Call("keep", {}, {}, peer="lsp"), Call("go", {}, {}, peer="db"), first=2)
    with Recorder(tmp_path / "r", header=header, reserve_bytes=0) as recorder:
        recorder.append(frame(0, kind="open", way="inside", peer="db"))
        recorder.append(frame(1, kind="open", way="inside", peer="lsp"))
        for each in calls:
            recorder.append(each)
    minimised(tmp_path, tmp_path / "r", has("keep"))
    again = open_recording(tmp_path / "min")
    assert list(again.header.peers) == ["lsp"]
    assert again.header.settings == {"peers": {"lsp": {"prefix": "x"}}, "catalog": {"a": 1}}
    assert [(each.kind, each.peer) for each in again] == [
        ("open", "lsp"),
        ("request", "lsp"),
        ("response", "lsp"),
        ("mark", None),
    ]


def test_bodies_come_along_and_those_of_others_do_not(tmp_path: Path) -> None:
    calls = [Call(f"t{number}", {}, {"text": str(number) * 40_000}) for number in range(4)]
    path = session_of(tmp_path / "r", *calls, seal=True)
    minimised(tmp_path, path, has("t2"))
    again = open_recording(tmp_path / "min")
    assert len(list((tmp_path / "min").glob("blobs/*/*"))) == 1
    assert msgspec.json.decode(again.body(again.frame(1)))["result"]["text"] == "2" * 40_000


def test_what_does_not_fail_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    path = session_of(tmp_path / "r", *CALLS)
    with pytest.raises(RecordingError, match="does not fail"):
        minimised(tmp_path, path, lambda _: None)
    assert not (tmp_path / "min").exists()


@pytest.mark.parametrize("stop", ["budget", "interrupt"])
def test_an_early_end_keeps_the_smallest_so_far(tmp_path: Path, stop: str) -> None:
    asked = 0

    def oracle(path: Path) -> str | None:
        nonlocal asked
        asked += 1
        if stop == "interrupt" and asked == 13:
            raise KeyboardInterrupt
        return has("t5", "t20")(path)

    path = session_of(tmp_path / "r", *CALLS)
    made = minimised(tmp_path, path, oracle, most_runs=12 if stop == "budget" else 1000)
    assert not made.is_minimal
    assert asked == made.runs == (12 if stop == "budget" else 13)
    assert 2 < made.calls < 28
    assert has("t5", "t20")(tmp_path / "min") == "boom"


def test_those_who_watch_see_it_shrink(tmp_path: Path) -> None:
    steps: list[Step] = []
    minimised(tmp_path, session_of(tmp_path / "r", *CALLS), has("t5"), progress=steps.append)
    stages = [stage for stage, _ in groupby(step.stage for step in steps)]
    assert stages[:3] == ["lanes", "peers", "calls"]
    assert steps[-1].frames == 2
    assert all(one.frames >= other.frames for one, other in pairwise(steps))


# Numbering


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.data())
def test_numbers_are_gapless_and_references_fall_back_to_what_is_left(
    kept: list[bool], data: st.DataObject
) -> None:
    frames: list[Frame] = []
    for seq in range(len(kept)):
        way = data.draw(st.sampled_from(["core>", "peer>", "inside"]))
        earlier = st.none() | st.integers(0, max(seq - 1, 0)) if seq else st.none()
        frames.append(frame(seq, way=way, peer="p", re=data.draw(earlier), after=data.draw(earlier)))
    left = {seq for seq, is_kept in enumerate(kept) if is_kept}
    made = list(renumbered(frames, left, first=1))
    numbers = dict(zip(sorted(left), range(1, len(left) + 1), strict=True))
    assert [each.seq for each in made] == list(numbers.values())
    for each, seq in zip(made, sorted(left), strict=True):
        was = frames[seq]
        assert each.re == (None if was.re is None else numbers.get(was.re))
        assert each.after == _expected_after(was, frames, numbers)


def _expected_after(was: Frame, frames: list[Frame], numbers: dict[int, int]) -> int | None:
    """What was last given to the sender, of what is left, at or before what it says."""
    if was.after is None:
        return None
    if was.after in numbers:
        return numbers[was.after]
    given = {"core>": "peer>", "peer>": "core>"}.get(was.way or "")
    earlier = [seq for seq in numbers if seq < was.after and frames[seq].way == given]
    return numbers[max(earlier)] if earlier else None
