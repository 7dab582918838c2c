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


def test_there_are_eighteen_and_each_is_met_by_what_is_wanted_or_says_why_not() -> None:
    found = judged(MET)

    assert list(found) == [f"G{number}" for number in range(1, 19)]
    assert {name for name, each in found.items() if each.verdict != "met"} == {"G4"}
    assert found["G4"].why == "needs a gateway in C with the same duties"
    assert found["G18"].why == "held by tests/processes/test_killed_gateways.py"


@pytest.mark.parametrize(
    ("figure", "value", "name", "why"),
    [
        ("no-extensions-us", 36.0, "G1", "36 µs is 20% above the goal"),
        ("record-calls-per-s", 60_000.0, "G7", "60,000 recording is 25% below the goal"),
        ("record-syscalls", 7.0, "G6", "7 recording is 12% below the goal"),
        ("idle-wake-ups", 3.0, "G17", "3 wake-ups instead of none"),
        ("peers.fastmcp", 20.0, "G1", "20 x below FastMCP's is 50% below the goal"),
    ],
)
def test_a_goal_that_is_missed_says_by_how_much(figure: str, value: float, name: str, why: str) -> None:
    found = judged({**MET, figure: value})[name]

    assert (found.verdict, found.why) == ("missed", why)


def test_a_goal_without_its_figures_is_not_measured_and_says_what_to_run() -> None:
    without = {name: value for name, value in MET.items() if not name.startswith("peers.")}
    found = judged(without)["G1"]

    assert (found.verdict, found.why) == ("not measured", "no other gateways: run `python -m loadtest.peers`")
    assert "27 µs" in found.measured

    del without["record-instructions"]
    assert judged(without, {"record-instructions": "needs valgrind"})["G5"].why == (
        "record-instructions: needs valgrind"
    )


def test_a_missing_figure_does_not_hide_one_that_is_missed() -> None:
    found = judged({"no-extensions-us": 60.0})["G1"]

    assert found.verdict == "missed"
    assert "60 µs is 100% above the goal" in found.why
    assert "no other gateways" in found.why


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
