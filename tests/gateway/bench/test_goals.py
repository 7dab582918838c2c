"""The goals G1 to G18, and what is said of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.bench.checking import FURTHER_PROBES, PROBES
from gateway.bench.goals import GOALS, Judged, judge, peer_figures, wanted

MET = {
    condition.figure: condition.wanted * {"<=": 0.9, ">=": 1.1, "==": 1}[condition.sign]
    for goal in GOALS
    for condition in goal.conditions
}


def judged(figures: dict[str, float], skipped: dict[str, str] | None = None) -> dict[str, Judged]:
    return {each.name: each for each in judge(figures, skipped or {})}


def test_there_are_eighteen_and_each_is_met_by_what_is_wanted() -> None:
    found = judged(MET)

    assert list(found) == [f"G{number}" for number in range(1, 19)]
    assert {each.verdict for each in found.values()} == {"met"}
    assert [part.told for part in found["G18"].parts] == ["held by tests/processes/test_killed_gateways.py"]


@pytest.mark.parametrize(
    ("figure", "value", "name", "told"),
    [
        ("no-extensions-us", 36.0, "G1", "36 µs, the goal is ≤ 30: 20% above"),
        ("record-calls-per-s", 60_000.0, "G7", "60,000 calls/s, recording, the goal is ≥ 80,000: 25% below"),
        ("record-syscalls", 7.0, "G6", "7 system calls, the goal is = 8: 12% below"),
        ("idle-wake-ups", 3.0, "G17", "3 wake-ups, the goal is = 0"),
        ("peers.fastmcp", 20.0, "G1", "20 times less than FastMCP's, the goal is ≥ 40: 50% below"),
    ],
)
def test_a_goal_that_is_missed_says_by_how_much(figure: str, value: float, name: str, told: str) -> None:
    found = judged({**MET, figure: value})[name]

    assert found.verdict == "missed"
    assert [part.told for part in found.parts if part.verdict == "missed"] == [told]


def test_a_goal_without_its_figures_is_not_measured_and_says_what_to_run() -> None:
    without = {name: value for name, value in MET.items() if not name.startswith("peers.")}
    found = judged(without)["G1"]

    assert found.verdict == "not measured"
    assert [part.verdict for part in found.parts] == ["met", "met", *["not measured"] * 3]
    assert found.parts[2].told == "≥ 25 times less than the SDK's proxy: run `python -m loadtest.peers`"

    del without["record-instructions"]
    (part, _) = judged(without, {"record-instructions": "needs valgrind"})["G5"].parts
    assert part.told == "≤ 65,000 instructions, recording: needs valgrind"


def test_a_missing_figure_does_not_hide_one_that_is_missed() -> None:
    found = judged({"no-extensions-us": 60.0})["G1"]

    assert found.verdict == "missed"
    assert {part.verdict for part in found.parts} == {"missed", "not measured"}


def test_what_goals_speak_of_is_measured_by_something_and_what_they_point_at_is_there() -> None:
    measured = {name for probe in (*PROBES, *FURTHER_PROBES) for name in probe.names}

    assert {name for name in wanted() if not name.startswith("peers.")} <= measured
    assert (Path(__file__).parents[3] / "tests/processes/test_killed_gateways.py").is_file()


def test_the_ratios_of_a_comparison_become_figures() -> None:
    data = json.dumps({"date": "2026-11-28", "ratios": {"mcp-sdk": 27.1, "fastmcp": 47}}).encode()

    assert peer_figures(data) == {"peers.mcp-sdk": 27.1, "peers.fastmcp": 47.0}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{", "is no JSON"),
        (b"[]", "has no table `ratios`"),
        (b'{"ratios": 3}', "has no table `ratios`"),
        (b'{"ratios": {"fastmcp": "47"}}', "has a ratio that is no number: `fastmcp`"),
    ],
)
def test_a_comparison_that_is_none_is_told(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        peer_figures(data)
