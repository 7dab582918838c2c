"""A whole gateway leaves the same recording whether its steps run in C or in Python, and each replays the other's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.runtime.speedups import speedups
from recordings.store import open_recording
from tests.processes.replay_kit import Call, recorded, tieline

CALLS: tuple[Call, ...] = (
    ("plain", {"text": "hi"}),
    ("get", {"text": 'é "quoted" \\ \u2028', "n": 2**53 + 1}),
    ("plain", {"deep": [[[{"a": [1.5, None, True]}]]], "long": "x" * 70_000}),
    ("drop", {}),
    ("none of these", {}),
    ("tools/list", {}),
    ("plain", {"text": "hi"}),
)
PURE = {"TIELINE_PURE_PYTHON": "1"}
_VARYING = re.compile(rb'"(?:at|wall|crc|pid)":\d+|"hash":"[^"]*"')
"""When, of which process, and what is computed from those."""


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A recording that was made with what is in C, and one that was made without."""
    if speedups().missing:
        pytest.skip("nothing was compiled, or TIELINE_PURE_PYTHON is set")
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    compiled = recorded(tmp_path / "with", tmp_path / "with" / "peer", *CALLS)
    with monkeypatch.context() as patched:
        patched.setenv("TIELINE_PURE_PYTHON", "1")
        pure = recorded(tmp_path / "without", tmp_path / "without" / "peer", *CALLS)
    return compiled, pure


def told(recording: Path) -> tuple[list[bytes], list[bytes]]:
    """The bodies of its frames; and its lines, without what two runs of one program never share."""
    opened = open_recording(recording)
    return [bytes(opened.body(frame)) for frame in opened], [
        _VARYING.sub(b"", line) for line in opened.lines()
    ]


def test_a_recording_is_the_same_with_what_is_in_c_and_without(both: tuple[Path, Path]) -> None:
    compiled, pure = both
    bodies, lines = told(compiled)
    assert (bodies, lines) == told(pure)
    assert len(bodies) > 2 * len(CALLS)


def test_each_way_replays_what_the_other_has_recorded(both: tuple[Path, Path], tmp_path: Path) -> None:
    compiled, pure = both
    for recording, env in ((compiled, PURE), (pure, {})):
        driven = tieline("replay", recording, "--drive", cwd=tmp_path, env=env)
        assert driven.returncode == 0, driven.stdout + driven.stderr
