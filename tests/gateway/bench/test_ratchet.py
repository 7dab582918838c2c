"""The ratchet: budgets get stricter where figures have stayed better, looser never but by an order."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.bench.budgets import hold, read_budgets
from gateway.bench.ratchet import Run, accepted, applied, history_of, lowered
from tests.gateway.bench.test_budgets import FILE, GOOD, KEY, budgets


def runs(*values: float, name: str = "no-extensions-p50", key: str = KEY) -> list[Run]:
    return [Run(date="2026-11-28T00:00:00Z", key=key, figures={name: value}) for value in values]


def test_a_figure_that_stayed_better_lowers_its_budget_to_the_worst_of_the_runs_with_its_room() -> None:
    (change,) = lowered(budgets(), runs(3.0, 3.1, 2.9), key=KEY)

    assert (change.baseline, change.limit, change.was) == (3.1, 3.88, 5.0)
    assert str(change) == "`no-extensions-p50`: limit 5 -> 3.88 (3.1 or better in 3 runs)"


@pytest.mark.parametrize(
    "values",
    [
        (3.0, 3.0),  # too few
        (3.0, 4.1, 3.0),  # one of them no better
        (4.0, 4.0, 4.0),  # as it was
        (6.0, 6.0, 6.0),  # worse
    ],
)
def test_the_ratchet_does_not_move_for_less(values: tuple[float, ...]) -> None:
    assert lowered(budgets(), runs(*values), key=KEY) == []


@pytest.mark.parametrize(
    ("limit", "values"),
    [
        ("limit = 4.1", (3.9, 3.9, 3.9)),  # somebody has set it tighter than with its room
        ("limit = 4.1\nfloor = 6", (3.0, 3.0, 3.0)),  # tighter than its floor
    ],
)
def test_a_limit_that_is_tighter_than_the_ratchet_would_set_it_stays(
    limit: str, values: tuple[float, ...]
) -> None:
    file = read_budgets(FILE.replace("limit = 5.0", limit), file="b")
    assert file.budgets["no-extensions-p50"].limit == 4.1
    assert lowered(file, runs(*values), key=KEY) == []


def test_only_the_last_runs_count() -> None:
    assert len(lowered(budgets(), runs(9.0, 3.0, 3.1, 2.9), key=KEY)) == 1
    assert lowered(budgets(), runs(3.0, 3.1, 2.9, 9.0), key=KEY) == []


def test_what_should_be_high_is_raised() -> None:
    (change,) = lowered(budgets(), runs(0.3, 0.31, 0.35, name="throughput"), key=KEY)

    assert (change.baseline, change.limit) == (0.3, 0.24)


def test_instructions_of_another_interpreter_do_not_count() -> None:
    theirs = runs(90_000.0, 90_000.0, name="core", key="CPython 3.12.1 x86_64")
    ours = runs(95_000.0, 95_100.0, 95_050.0, name="core")

    assert lowered(budgets(), theirs + ours[:2], key=KEY) == []
    (change,) = lowered(budgets(), theirs + ours, key=KEY)
    assert (change.baseline, change.limit, change.key) == (95_100, None, KEY)


def test_a_limit_never_falls_below_its_floor() -> None:
    text = FILE.replace("limit = 8.1", "limit = 9\nfloor = 8.1\nslack = 1.0").replace(
        "baseline = 8\n", "baseline = 8.5\n"
    )
    (change,) = lowered(read_budgets(text, file="b"), runs(7.0, 7.0, 7.0, name="record-syscalls"), key=KEY)

    assert (change.baseline, change.limit) == (7, 8.1)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0.01, 20), min_size=0, max_size=8),
    st.sampled_from(["no-extensions-p50", "record-syscalls", "throughput", "core"]),
)
def test_no_history_makes_a_limit_looser_or_breaks_a_budget_of_its_own_runs(
    values: list[float], name: str
) -> None:
    file = budgets()
    scale = 10_000 if name == "core" else 1
    history = runs(*(value * scale for value in values), name=name)
    changes = lowered(file, history, key=KEY)
    after = read_budgets(applied(FILE, changes), file="budgets.toml")

    for budget, was in ((after.budgets[each], file.budgets[each]) for each in file.budgets):
        limit, before = budget.limit_at(KEY), was.limit_at(KEY)
        assert limit is not None
        assert before is not None
        assert not was.breaks(limit, before)
    for run in history[-file.runs :] if changes else ():
        assert {finding.state for finding in hold(after, run.figures, {}, key=KEY)} <= {"kept", "skipped"}


def test_what_is_changed_leaves_comments_and_all_else_as_they_are() -> None:
    text = "# first\n" + FILE.replace("limit = 5.0", "limit = 5.0  # and why")
    after = applied(text, lowered(budgets(), runs(3.0, 3.1, 2.9), key=KEY))

    changed = [(a, b) for a, b in zip(text.splitlines(), after.splitlines(), strict=True) if a != b]
    assert changed == [
        ("baseline = 4.0", "baseline = 3.1"),
        ("limit = 5.0  # and why", "limit = 3.88  # and why"),
    ]


def test_a_figure_may_be_accepted_that_is_worse() -> None:
    (change,) = accepted(budgets(), {**GOOD, "no-extensions-p50": 6.0}, ["no-extensions-p50"], key=KEY)

    assert (change.baseline, change.limit, change.was) == (6, 7.5, 5.0)
    assert str(change) == "`no-extensions-p50`: limit 5 -> 7.5 (6 measured)"


def test_the_baseline_of_another_interpreter_is_put_beside_the_others() -> None:
    new = "CPython 3.13.0 x86_64, GCC 14.2.0"
    changes = accepted(budgets(), GOOD, ["core"], key=new)
    assert str(changes[0]) == f"`core`: baseline on `{new}` nothing -> 101,000 (101,000 measured)"

    after = tomllib.loads(applied(FILE, changes))["budgets"]["core"]

    assert after["baselines"] == {KEY: 100_000, new: 101_000}
    without = FILE.partition("\n[budgets.core.baselines]")[0] + "\n"
    assert tomllib.loads(applied(without, changes))["budgets"]["core"]["baselines"] == {new: 101_000}


def test_what_is_no_budget_or_was_not_measured_cannot_be_accepted() -> None:
    with pytest.raises(LookupError, match="`nothing` is no budget; there are record-syscalls, "):
        accepted(budgets(), GOOD, ["nothing"], key=KEY)
    with pytest.raises(LookupError, match="`core` was not measured"):
        accepted(budgets(), {}, ["core"], key=KEY)


def test_a_history_is_read_past_a_line_that_a_crash_cut_off() -> None:
    (run,) = runs(3.0)
    line = msgspec.json.encode(run)

    assert history_of([line, line[:20], b"", line]) == [run, run]


def test_budgets_are_held_where_the_library_that_changes_their_file_is_not_installed(
    tmp_path: Path,
) -> None:
    without = "import sys; sys.modules['tomlkit'] = None; from gateway.cli.main import main; raise SystemExit(main())"
    done = subprocess.run(
        [sys.executable, "-c", without, "bench", "--check", "--only", "frame-bytes"],
        env={**os.environ, "TIELINE_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "frame-bytes" in done.stdout
