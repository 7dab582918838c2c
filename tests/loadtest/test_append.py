"""The benchmark of the store says whether its goal is met, to people and to scripts."""

from __future__ import annotations

import json
import sys

import pytest

from loadtest import append


@pytest.mark.parametrize(("goal", "met"), [(1, True), (10**9, False)])
@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("as_json", [True, False])
def test_a_goal_that_is_missed_is_an_exit_code_where_that_is_asked_for(
    goal: int,
    met: bool,
    check: bool,
    as_json: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = [*(["--check"] if check else []), *(["--json"] if as_json else [])]
    monkeypatch.setattr(sys, "argv", ["append", "--frames", "20", "--goal", str(goal), *flags])

    assert append.main() == (1 if check and not met else 0)
    said = capsys.readouterr().out
    if as_json:
        assert (json.loads(said)["goal"], json.loads(said)["met"]) == (goal, met)
    else:
        assert said.endswith(f"goal {goal:,} frames/s of 1 KiB: {'met' if met else 'missed'}\n")
