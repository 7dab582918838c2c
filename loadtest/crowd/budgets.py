"""Budgets of a load test: what may be measured at most or at least, and the verdict on what was.

Owns the tables `[load.*]` of `loadtest/budgets.toml` and the comparison. Measures nothing. Pure.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, cast

import msgspec

from gateway.config.mistakes import did_you_mean
from loadtest.crowd.tally import FIGURES

GENERATOR = "generator"
"""How late the load generator itself was, as if it were a kind of user."""


class BudgetError(ValueError):
    """Budgets that cannot be read; the text says which and why."""


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bounds of one figure. Units are in its name: `_ms`, `_share` (of 1), `_ratio`."""

    most: float | None = None
    least: float | None = None

    def __post_init__(self) -> None:
        if self.most is None and self.least is None:
            raise ValueError("a budget says `most` or `least`")
        if not all(bound is None or isfinite(bound) for bound in (self.most, self.least)):
            # Nothing that is measured is ever beyond such a bound.
            raise ValueError("a bound is a finite number")


class Verdict(msgspec.Struct, frozen=True):
    """What became of one budget."""

    name: str
    """`KIND.FIGURE`, as in the file."""
    budget: Budget
    measured: float | None
    """None where there was nothing to measure."""
    by: float = 0.0
    """By how much the bound was missed; 0 where it was kept."""

    @property
    def is_kept(self) -> bool:
        """Whether it was measured and lies within its bounds."""
        return self.measured is not None and not self.by

    @property
    def bound(self) -> float:
        """The bound that was missed, or else the first there is."""
        budget = self.budget
        if budget.most is None or (budget.least is not None and (self.measured or 0) < budget.least):
            assert budget.least is not None
            return budget.least
        return budget.most

    def __str__(self) -> str:
        most = " and ".join(
            f"{word} {number(bound)}"
            for word, bound in (("at most", self.budget.most), ("at least", self.budget.least))
            if bound is not None
        )
        if self.measured is None:
            return f"{self.name}: nothing was measured, wanted {most}"
        said = f"{self.name}: {number(self.measured)}, wanted {most}"
        if self.is_kept:
            return said
        way = "over" if self.budget.most is not None and self.measured > self.budget.most else "short"
        share = f", {self.by / abs(self.bound):.0%} of it" if self.bound else ""
        return f"{said}: {way} by {number(self.by)}{share}"


def number(value: float) -> str:
    """A figure for people: whole where it is large, and with four digits that mean something where it is not."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def judge(budgets: Mapping[str, Budget], figures: Mapping[str, float]) -> list[Verdict]:
    """Hold figures against budgets, in the order of the budgets."""
    return [_judged(name, budget, figures.get(name)) for name, budget in budgets.items()]


def _judged(name: str, budget: Budget, measured: float | None) -> Verdict:
    if measured is None:
        return Verdict(name, budget, None)
    over = measured - budget.most if budget.most is not None else 0.0
    short = budget.least - measured if budget.least is not None else 0.0
    return Verdict(name, budget, measured, by=max(over, short, 0.0))


def parse(text: str, kinds: Sequence[str], name: str = "budgets.toml") -> dict[str, Budget]:
    """The budgets of these kinds of users, by `KIND.FIGURE`.

    Raises:
        BudgetError: It is no TOML, or a budget is no budget: of a bound that nothing is ever held against, nobody would
            hear.
    """
    try:
        load = tomllib.loads(text).get("load", {})
    except tomllib.TOMLDecodeError as fault:
        raise BudgetError(f"{name} is no TOML: {fault}") from None
    if not isinstance(load, dict):
        raise BudgetError(f"{name}, load: it has tables of budgets")
    found: dict[str, Budget] = {}
    for kind, figures in cast("dict[str, Any]", load).items():
        if not isinstance(figures, dict):
            raise BudgetError(f"{name}, [load] {kind}: a kind of agent has a table of budgets")
        for figure, bounds in cast("dict[str, Any]", figures).items():
            try:
                _check(kind, figure)
                found[f"{kind}.{figure}"] = msgspec.convert(bounds, Budget)
            except (msgspec.ValidationError, ValueError) as fault:
                raise BudgetError(f"{name}, [load.{kind}] {figure}: {fault}") from None
    return {name: budget for name, budget in found.items() if _is_of(name.partition(".")[0], kinds)}


def _is_of(kind: str, kinds: Sequence[str]) -> bool:
    """Whether something is measured of a kind where these users are at work."""
    # Only what has its own times can be late.
    return kind in kinds or (kind == GENERATOR and "recorded" in kinds)


def _check(kind: str, figure: str) -> None:
    if kind not in FIGURES:
        raise BudgetError(f"no kind of agent is called {kind}{did_you_mean(kind, FIGURES)}")
    if figure not in FIGURES[kind]:
        raise BudgetError(f"nothing measures this{did_you_mean(figure, FIGURES[kind])}")


def changed(budgets: dict[str, Budget], words: Sequence[str], kinds: Sequence[str]) -> dict[str, Budget]:
    """Budgets with some of them replaced: words are `KIND.FIGURE<=NUMBER` or `>=`, of these kinds of users.

    Raises:
        BudgetError: A word is not of that form, or names what this run does not measure.
    """
    result = dict(budgets)
    for word in words:
        sign = "<=" if "<=" in word else ">="
        name, found, bound = word.partition(sign)
        number = _number(bound) if found and "." in name else None
        if number is None:
            raise BudgetError(f"`{word}` is no budget: write KIND.FIGURE<=NUMBER or KIND.FIGURE>=NUMBER")
        name = name.strip()
        kind, _, figure = name.partition(".")
        try:
            _check(kind, figure)
            result[name] = Budget(most=number) if sign == "<=" else Budget(least=number)
        except ValueError as fault:
            raise BudgetError(f"`{word}` is no budget: {fault}") from None
        if not _is_of(kind, kinds):
            raise BudgetError(f"`{word}`: this run has {' and '.join(kinds)} agents, and measures no {kind}")
    return result


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
