"""Recordings of a core of one era, replayed to one of the other, where a modern peer asks in the middle of a call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.gateway_kit import Message, toml_of
from tests.processes.replay_kit import Call, played, recorded, report, tieline, varied

SESSION: tuple[Call, ...] = (("elicit", {}), ("get", {"key": "a"}), ("elicit", {"again": True}))
ADA: Message = {"action": "accept", "content": {"name": "Ada"}}
EVE: Message = {"action": "accept", "content": {"name": "Eve"}}
SAID = ['hello {"name":"Ada"}', "value of a", 'hello {"name":"Ada"}']


@pytest.fixture(scope="module")
def modern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A modern core has come back with its answers by itself."""
    folder = tmp_path_factory.mktemp("modern")
    return recorded(folder, folder / "peer", *SESSION, modern=True)


@pytest.fixture(scope="module")
def legacy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The gateway has asked a legacy core, and gone on for it."""
    folder = tmp_path_factory.mktemp("legacy")
    command, *arguments = varied(folder / "peer")
    peer = {"command": command, "args": arguments, "era": "modern"}
    (folder / "tieline.toml").write_text(toml_of({"varied": peer}))
    served = played(folder, ["run", "--stdio", "--record", folder / "kept"], *SESSION, words=ADA)
    assert (served.code, served.texts) == (0, SAID), served.said
    (session,) = (one.parent for one in (folder / "kept").rglob("recording.json"))
    return session


@pytest.mark.parametrize(("name", "is_modern"), [("modern", False), ("legacy", True), ("legacy", False)])
def test_a_core_of_the_other_era_goes_on_after_the_same_answer(
    name: str, is_modern: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    session: Path = request.getfixturevalue(name)
    served = played(tmp_path, ["replay", session], *SESSION, modern=is_modern, words=ADA)
    assert served.texts == SAID
    assert served.code == 0, served.said
    assert "SAME" in served.said


def test_another_answer_of_a_legacy_core_is_told_and_the_recorded_end_of_the_call_given(
    modern: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report.json"
    served = played(tmp_path, ["replay", modern, "--report", out], *SESSION, words=EVE)
    assert served.texts == SAID
    assert served.code == 1, served.said
    told = report(out)["divergences"]
    assert [(one["class"], one["method"]) for one in told] == [("answer-differs", "elicitation/create")] * 2
    assert told[0]["changes"][0]["pointer"] == "/params/inputResponses/who/content/name"


def test_a_replay_of_the_other_era_is_a_recording_that_drives_as_it_was(modern: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    played(tmp_path, ["replay", modern, "--record", again], *SESSION, words=ADA)
    (session,) = (one.parent for one in again.rglob("recording.json"))
    assert tieline("replay", session, "--drive", cwd=tmp_path).returncode == 0
