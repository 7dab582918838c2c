"""What a run of the conformance suite was worth: the scored scenarios, what failed, and what was expected to.

Owns the rows of the table and the reading of the suite's result folders. Starts nothing.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

Side: TypeAlias = Literal["server", "client"]

REVISIONS: Final = ("2025-11-25", "2026-07-28")
EXPECTED_FILE: Final = Path(__file__).parent / "expected_failures.toml"
_RUN_FOLDER: Final = re.compile(r"^(?:server-)?(?P<name>.+)-\d{4}-\d\d-\d\dT[\d-]+Z$")


@dataclass(frozen=True)
class Row:
    """One line of the table: which revision the suite speaks, and what it speaks to."""

    side: Side
    revision: str
    server_era: str
    southbound: str

    @property
    def name(self) -> str:
        """What `--only` matches and the expected-failures file names."""
        if self.side == "client":
            return f"client/{self.revision}/{self.southbound}"
        return f"{self.revision}/{self.server_era}/{self.southbound}"


@dataclass
class Score:
    """What a row came to. A scenario passes with no failed check and no warning."""

    row: Row
    scored: tuple[str, ...]
    passed: set[str] = field(default_factory=set[str])
    problems: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Scored scenario to the ids and messages of the checks that were not right."""
    seconds: float = 0.0
    broken: str = ""
    """Why the row could not be run, where it could not."""

    @property
    def failing(self) -> list[str]:
        """The scored scenarios that did not pass, in the suite's order."""
        return [name for name in self.scored if name not in self.passed]


def requirements(suite: Path, side: Side, revision: str) -> tuple[str, ...]:
    """The scenarios that `revision` scores for `side`, as the package `suite` lists them."""
    found: list[str] = []
    section = ""
    for line in (suite / "requirements" / f"{revision}.yaml").read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            section = line.partition(":")[0]
        elif section == side and (match := re.fullmatch(r"  - (\S+)", line)):
            found.append(match[1])
    return tuple(found)


def read_results(score: Score, folder: Path) -> None:
    """Fill `score` from the folder that the suite wrote (`-o`)."""
    for file in sorted(folder.rglob("checks.json")):
        match = _RUN_FOLDER.match(file.parent.relative_to(folder).as_posix())
        if match is None or match["name"] not in score.scored:
            continue
        checks = cast("list[dict[str, Any]]", json.loads(file.read_text()))
        wrong = [
            f"{check['id']}: {check.get('errorMessage', check['status'])}"
            for check in checks
            if check["status"] in {"FAILURE", "WARNING"}
        ]
        if match["name"] in score.problems and not wrong:
            continue
        if wrong:
            score.problems[match["name"]] = wrong
        elif any(check["status"] == "SUCCESS" for check in checks):
            score.passed.add(match["name"])
        else:
            score.problems[match["name"]] = ["no check succeeded"]
    for name in score.failing:
        score.problems.setdefault(name, [score.broken or "the scenario left no result"])


def expected_failures(file: Path = EXPECTED_FILE) -> dict[str, set[str]]:
    """Row name to the scenarios that are known to fail there."""
    table = tomllib.loads(file.read_text()).get("expected", {})
    return {row: set(names) for row, names in table.items()}


def surprises(score: Score, expected: dict[str, set[str]]) -> list[str]:
    """What differs from what was expected: new failures, and expected ones that pass now."""
    known = expected.get(score.row.name, set())
    failing = set(score.failing)
    return [f"{score.row.name}: {name} fails" for name in score.failing if name not in known] + [
        f"{score.row.name}: {name} passes, take it out of {EXPECTED_FILE.name}"
        for name in sorted(known - failing)
    ]
