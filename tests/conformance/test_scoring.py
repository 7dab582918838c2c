"""What a run of the suite is worth, judged from its result folders alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import tooling
from tests.conformance.scoring import (
    Row,
    Score,
    Side,
    expected_failures,
    read_results,
    requirements,
    surprises,
)

ROW = Row("client", "2026-07-28", "-", "http")


def write(folder: Path, name: str, *checks: tuple[str, str]) -> None:
    """Leave what the suite leaves for one scenario."""
    place = folder / f"{name}-2026-11-28T00-11-02-762Z"
    place.mkdir(parents=True)
    said = [{"id": id_, "status": status, "errorMessage": "why"} for id_, status in checks]
    (place / "checks.json").write_text(json.dumps(said))


@pytest.mark.parametrize(
    ("side", "revision", "count"),
    [
        ("server", "2025-11-25", 30),
        ("server", "2026-07-28", 37),
        ("client", "2025-11-25", 18),
        ("client", "2026-07-28", 32),
    ],
)
def test_the_suite_scores_as_many_scenarios_as_it_says(side: Side, revision: str, count: int) -> None:
    package = tooling.script("conformance").parent.parent
    assert len(requirements(package, side, revision)) == count


def test_a_scenario_passes_only_with_a_success_and_neither_failure_nor_warning(tmp_path: Path) -> None:
    write(tmp_path, "auth/good", ("a", "SUCCESS"), ("b", "INFO"))
    write(tmp_path, "server-failed", ("a", "SUCCESS"), ("b", "FAILURE"))
    write(tmp_path, "server-warned", ("a", "SUCCESS"), ("b", "WARNING"))
    write(tmp_path, "server-idle", ("a", "SKIPPED"))
    write(tmp_path, "server-unscored", ("a", "FAILURE"))
    score = Score(ROW, ("auth/good", "failed", "warned", "idle", "absent"))
    read_results(score, tmp_path)
    assert score.passed == {"auth/good"}
    assert score.problems == {
        "failed": ["b: why"],
        "warned": ["b: why"],
        "idle": ["no check succeeded"],
        "absent": ["the scenario left no result"],
    }


def test_a_new_failure_and_a_failure_that_is_gone_both_surprise() -> None:
    score = Score(ROW, ("a", "b", "c"), passed={"b", "c"})
    assert surprises(score, {ROW.name: {"c"}}) == [
        "client/2026-07-28/http: a fails",
        "client/2026-07-28/http: c passes, take it out of expected_failures.toml",
    ]


def test_nothing_is_expected_to_fail() -> None:
    assert expected_failures() == {}
