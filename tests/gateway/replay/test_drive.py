"""A whole session driven again, and what is told where that cannot come out the same."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocol import mcp
from gateway.replay.driven import driven
from recordings.divergence import Report
from recordings.frame import Frame
from recordings.held import Held
from recordings.lookup import open_lookup
from recordings.profile import BUILT_IN
from recordings.reader import open_recording
from recordings.script import Script
from recordings.store import Recorder
from tests.gateway.replay.scene import Scene
from tests.gateway.replay.sessions import CALM, LONG_JUNK, STORMS, Acting, Plan, plans

STEPS = (("call", 0, 0), ("answer", 0, 0), ("call", 1, 5), ("answer", 0, 0), ("list", 0, 0))


def session(*steps: tuple[str, int, int], era: mcp.Era = "legacy", http: bool = False) -> Scene:
    return Acting(Plan(era, http, (("legacy", False, False),), 1, 2, True, steps or STEPS)).play()


def written(path: Path, scene: Scene, *, seal: bool = False) -> Path:
    """A session as a directory."""
    with Recorder(path, header=scene.header, durability="os", reserve_bytes=0) as recorder:
        for each in scene.frames:
            recorder.append(each)
        if seal:
            recorder.seal()
    return path


def report_of(scene: Scene) -> Report:
    with tempfile.TemporaryDirectory() as where:
        return driven(open_recording(written(Path(where) / "session", scene)))


@settings(max_examples=20, deadline=None)
@given(plans((*CALM, *STORMS), most=15), st.booleans())
def test_a_session_that_was_written_and_read_is_the_same_to_drive_and_to_play(plan: Plan, seal: bool) -> None:
    scene = Acting(plan).play()
    with tempfile.TemporaryDirectory() as where:
        recording = open_recording(written(Path(where) / "session", scene, seal=seal))
        report = driven(recording)
        assert (report.verdict, report.served, report.of) == ("same", len(scene.frames), len(scene.frames))
        read, held = Script(open_lookup(recording), BUILT_IN), Script(Held(scene.frames), BUILT_IN)
        assert read.arrivals == held.arrivals
        assert read.deliveries == held.deliveries
        assert read.meetings == held.meetings


def changed(frame: Frame, before: bytes, after: bytes) -> Frame:
    body = bytes(frame.body)
    assert before in body
    return msgspec.structs.replace(frame, body=msgspec.Raw(body.replace(before, after)))


def test_a_result_that_the_gateway_would_not_give_is_told_with_the_place() -> None:
    scene = session()
    place = next(at for at, one in enumerate(scene.frames) if one.way == ">core" and one.kind == "error") if any(
        one.way == ">core" and one.kind == "error" for one in scene.frames
    ) else next(at for at, one in enumerate(scene.frames) if one.way == ">core")  # fmt: skip
    scene.frames[place] = changed(scene.frames[place], b'"protocolVersion":"2025', b'"protocolVersion":"2024')
    report = report_of(scene)
    assert (report.verdict, report.exit_code) == ("diverged", 1)
    [told] = report.divergences
    assert (told.cls, told.recorded) == ("answer-differs", place)
    assert [change.pointer for change in told.changes] == ["/result/protocolVersion"]


def test_a_frame_that_the_gateway_would_not_have_made_is_missing() -> None:
    scene = session()
    last = scene.frames[-1]
    more = Frame(seq=last.seq + 1, at=last.at, kind="policy", way="inside", x={"decision": "held"})
    scene.frames.append(more)
    report = report_of(scene)
    assert [(each.cls, each.recorded) for each in report.divergences] == [("missing", more.seq)]


def test_what_the_gateway_says_beyond_the_recording_is_extra() -> None:
    scene = session()
    place = next(at for at, one in enumerate(scene.frames) if one.kind == "ready")
    del scene.frames[place]
    report = report_of(scene)
    assert [each.cls for each in report.divergences] == ["extra"]


@pytest.mark.parametrize(
    ("steps", "era", "http"),
    [
        ((("call", 0, 0), ("ask", 0, 0), ("reply", 0, 1), ("answer", 0, 0)), "legacy", False),
        ((("call", 0, 0), ("ask", 0, 0), ("long", 0, 0), ("retry", 0, 1), ("answer", 0, 0)), "modern", False),
        ((("call", 0, 0), ("call", 0, 1), ("dies", 0, 0), ("renews", 0, 0), ("call", 0, 0)), "modern", True),
        ((("call", 0, 0), ("cancel", 0, 0), ("answer", 0, 0)), "legacy", False),
        ((("call", 0, 0), ("long", 0, 5), ("answer", 0, 0)), "legacy", False),
        ((("down", 0, 0), ("dies", 0, 0), ("call", 0, 0), ("renews", 0, 0)), "legacy", False),
        ((("call", 0, 0), ("stray", 0, 0), ("damaged", 0, 0)), "legacy", False),
    ],
    ids=["question", "suspended", "restart over http", "late", "timeout", "unreachable", "damaged"],
)
def test_what_is_hard_to_repeat_is_repeated(steps: Any, era: mcp.Era, http: bool) -> None:
    scene = session(*steps, era=era, http=http)
    report = report_of(scene)
    assert (report.verdict, report.divergences, report.aborted) == ("same", (), "")


@pytest.mark.parametrize("kind", ["long core junk", "long damage"])
@pytest.mark.parametrize("which", range(len(LONG_JUNK)))
def test_long_lines_that_are_no_message_are_damaged_in_the_same_way_again(kind: str, which: int) -> None:
    scene = session(("call", 0, 0), ("call", 0, 1), (kind, which, 0), ("answer", 0, 0))
    [junk] = [frame for frame in scene.frames if frame.kind == "raw"]
    assert len(bytes(junk.body)) == (junk.x or {})["bytes"] > 39_000
    report = report_of(scene)
    assert (report.verdict, report.divergences, report.aborted) == ("same", (), "")
