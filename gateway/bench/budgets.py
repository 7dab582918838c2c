"""What a call may cost: budgets read from a file, held against measured figures, and told where one is broken. Pure.

A budget names a figure, what it was when the budget was last set (baseline), what it should be (goal) and what it may
be (limit). Figures come as a mapping from name to value; how they are measured is for `checking`. `ratchet` changes
the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from gateway.config.documents import toml_document
from gateway.config.mistakes import ConfigError, KeyPath, Report
from gateway.config.reading import Field, read

Kind: TypeAlias = Literal["counter", "instructions", "ratio", "tail"]
State: TypeAlias = Literal["kept", "broken", "skipped"]

WIDEST = 1.25
"""The least room that a ratio leaves between what was measured and its limit: what a busy machine adds to it."""


PAGE = "docs/howto/budgets.md"
"""Says what the file may have."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """One figure, and what it may be."""

    what: Annotated[str, Meta(min_length=1, description="What is measured, for people.")]
    kind: Annotated[
        Kind,
        Meta(
            description="`counter`: exact. `instructions`: exact for one interpreter. `ratio`: to the direct "
            "connection in the same run. `tail`: high percentiles, which a busy machine moves by multiples."
        ),
    ]
    unit: Annotated[str, Meta(min_length=1, description="What it is counted in.")]
    measure: Annotated[str, Meta(min_length=1, description="The command that measures it.")]
    goal: Annotated[float, Meta(description="What it should be.")]
    baseline: Annotated[float | None, Meta(description="What it was when the limit was last set.")] = None
    limit: Annotated[float | None, Meta(description="What it may be: beyond that, the budget is broken.")] = (
        None
    )
    baselines: Annotated[
        dict[str, float],
        Meta(
            description="The same for each interpreter, where the figure depends on it. Limit: times `slack`."
        ),
    ] = {}
    slack: Annotated[float, Meta(ge=1, description="A new limit is the measured figure times this.")] = 1.0
    floor: Annotated[
        float | None, Meta(description="No limit is ever set below this: what no change can be better than.")
    ] = None
    better: Annotated[Literal["lower", "higher"], Meta(description="Which way is better.")] = "lower"

    def limit_at(self, key: str) -> float | None:
        """The limit on an interpreter; None where none is known for it."""
        if self.kind != "instructions":
            return self.limit
        baseline = self.baselines.get(key)
        return None if baseline is None else baseline * self.slack

    def baseline_at(self, key: str) -> float | None:
        """The baseline on an interpreter."""
        return self.baselines.get(key) if self.kind == "instructions" else self.baseline

    def breaks(self, value: float, limit: float) -> bool:
        """Whether a figure is beyond the limit."""
        return value > limit if self.better == "lower" else value < limit


class BudgetFile(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    budgets: Annotated[dict[str, Budget], Meta(description="By the name of the figure.")]
    runs: Annotated[
        int, Meta(ge=2, description="So many runs in a row must be better before the ratchet moves.")
    ] = 5
    load: Annotated[
        dict[str, Any], Meta(description="What load tests may measure: `python -m loadtest.run` reads these.")
    ] = {}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one budget."""

    name: str
    state: State
    why: str
    """One sentence without a final period: by how much it is broken, or why it was skipped."""
    what: str = ""
    unit: str = ""
    measure: str = ""
    measured: float | None = None
    limit: float | None = None
    baseline: float | None = None
    goal: float | None = None


def read_budgets(text: str, *, file: str) -> BudgetFile:
    """Read budgets.

    Raises:
        ConfigError: With everything that is wrong, each with its line.
    """
    report = Report(file=file)
    try:
        document = toml_document(text, report)
    except ConfigError as error:
        raise ConfigError(error.mistakes, page=PAGE) from error
    found = read(BudgetFile, document, (), report, _as_it_is)
    for name, budget in found.budgets.items() if found else ():
        _check(name, budget, report)
    if found is not None and not found.budgets:
        # What holds nothing must not look like what is kept.
        report.mistake(("budgets",), "names no budget, so that nothing would be held")
    if found is None or report.mistakes:
        raise ConfigError(report.mistakes, page=PAGE)
    return found


def _as_it_is(field: Field, value: object, path: KeyPath) -> Any:
    return value


def _check(name: str, budget: Budget, report: Report) -> None:
    """What the types of the file do not say."""
    at = ("budgets", name)
    numbers = {key: getattr(budget, key) for key in ("goal", "baseline", "limit", "slack", "floor")}
    endless = [
        *((*at, key) for key, value in numbers.items() if value is not None and not isfinite(value)),
        *((*at, "baselines", key) for key, value in budget.baselines.items() if not isfinite(value)),
    ]
    for path in endless:
        # No figure is ever beyond such a limit.
        report.mistake(path, "must be a finite number")
    if endless:
        return
    if budget.kind == "instructions":
        if budget.limit is not None or budget.baseline is not None:
            report.mistake(at, "counts instructions, which depend on the interpreter: use `baselines`")
        return
    for key in ("baseline", "limit"):
        if getattr(budget, key) is None:
            report.mistake((*at, key), "is missing")
    if budget.baselines:
        report.mistake((*at, "baselines"), "is for instructions alone")
    if budget.limit is None or budget.baseline is None:
        return
    if budget.breaks(budget.baseline, budget.limit):
        report.mistake((*at, "limit"), "is broken by its own baseline")
    elif budget.kind == "ratio" and budget.slack < WIDEST:
        report.mistake((*at, "slack"), f"of a ratio must be {WIDEST} or more: a busy machine moves it so far")


def hold(
    file: BudgetFile, figures: Mapping[str, float], skipped: Mapping[str, str], *, key: str
) -> list[Finding]:
    """Hold figures against their budgets: one finding a budget, in the order of the file.

    `key` names the interpreter that instructions were counted on, `skipped` says why there is no figure. A figure that
    is neither measured nor skipped is a budget that nobody holds: it counts as skipped, and says so.
    """
    return [_hold(name, budget, figures.get(name), skipped, key) for name, budget in file.budgets.items()]


def _hold(name: str, budget: Budget, value: float | None, skipped: Mapping[str, str], key: str) -> Finding:
    limit, baseline = budget.limit_at(key), budget.baseline_at(key)

    def finding(state: State, why: str) -> Finding:
        return Finding(
            name=name,
            state=state,
            why=why,
            what=budget.what,
            unit=budget.unit,
            measure=budget.measure,
            measured=value,
            limit=limit,
            baseline=baseline,
            goal=budget.goal,
        )

    if value is None:
        return finding("skipped", skipped.get(name, "nothing measures it"))
    if limit is None:
        known = ", ".join(f"`{other}`" for other in budget.baselines) or "none"
        return finding(
            "skipped",
            f"{number(value)} {budget.unit} on `{key}`, for which no baseline is known (known: {known}); "
            f"`tieline bench --accept {name}` notes this one",
        )
    if not budget.breaks(value, limit):
        return finding("kept", "")
    return finding("broken", _by_how_much(budget, value, limit, baseline))


def _by_how_much(budget: Budget, value: float, limit: float, baseline: float | None) -> str:
    over = f"{abs(value / limit - 1):.1%} " if limit else f"{number(abs(value - limit))} "
    way = "over" if budget.better == "lower" else "under"
    told = f"{number(value)} {budget.unit}, {over}{way} its limit of {number(limit)}"
    if baseline is None:
        return told
    moved = f", {value / baseline - 1:+.1%}" if baseline else ""
    return f"{told}; its baseline is {number(baseline)}{moved}, its goal {number(budget.goal)}"


def broken(findings: Iterable[Finding]) -> list[Finding]:
    """Those that are broken."""
    return [finding for finding in findings if finding.state == "broken"]


def told(finding: Finding) -> str:
    """What to say of a finding that is not kept, for people: one sentence, and what to do."""
    if finding.state == "skipped":
        return f"`{finding.name}` was not measured: {finding.why}"
    return f"`{finding.name}` is broken ({finding.what}): {finding.why}. Measured by `{finding.measure}`"


def number(value: float) -> str:
    """A figure as people read it: no more digits than mean something."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}".rstrip("0").rstrip(".")
