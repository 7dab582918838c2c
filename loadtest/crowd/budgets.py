"""Budgets of a load test: what may be measured at most or at least, and the verdict on what was.

Owns the tables `[load.*]` of `loadtest/budgets.toml` and the comparison. Measures nothing. Pure.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec


class BudgetError(ValueError):
    """Budgets that cannot be read; the text says which and why."""


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bounds of one figure. Units are in its name: `_ms`, `_share` (of 1), `_ratio`."""

    most: float | None = None
    least: float | None = None

    def __post_init__(self) -> None:
        if self.most is None and self.least is None:
            raise ValueError("a budget says `most` or `least`")


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
    """The budgets of these kinds of users, by `KIND.FIGURE`; other tables are not looked at.

    Raises:
        BudgetError: It is no TOML, or a budget is no budget.
    """
    try:
        load = cast("dict[str, Any]", tomllib.loads(text).get("load", {}))
    except tomllib.TOMLDecodeError as fault:
        raise BudgetError(f"{name} is no TOML: {fault}") from None
    found: dict[str, Budget] = {}
    for kind in kinds:
        for figure, bounds in cast("dict[str, Any]", load.get(kind, {})).items():
            try:
                found[f"{kind}.{figure}"] = msgspec.convert(bounds, Budget)
            except (msgspec.ValidationError, ValueError) as fault:
                raise BudgetError(f"{name}, [load.{kind}] {figure}: {fault}") from None
    return found


def changed(budgets: dict[str, Budget], words: Sequence[str]) -> dict[str, Budget]:
    """Budgets with some of them replaced: words are `KIND.FIGURE<=NUMBER` or `>=`.

    Raises:
        BudgetError: A word is not of that form.
    """
    result = dict(budgets)
    for word in words:
        sign = "<=" if "<=" in word else ">="
        name, found, bound = word.partition(sign)
        number = _number(bound) if found and "." in name else None
        if number is None:
            raise BudgetError(f"`{word}` is no budget: write KIND.FIGURE<=NUMBER or KIND.FIGURE>=NUMBER")
        result[name.strip()] = Budget(most=number) if sign == "<=" else Budget(least=number)
    return result


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
