"""Changing a file of budgets: lowered where figures have stayed better, or set anew where somebody says so. Pure.

The text keeps its comments and its order. A history is what earlier runs measured, the latest last; the ratchet looks
at the worst of the last few, and never moves a limit the wrong way. `accept` is the one way in which a limit becomes
looser.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from gateway.bench.budgets import Budget, BudgetFile, number


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What one run measured, as a line of the history keeps it."""

    date: str
    """UTC, RFC 3339."""
    key: str
    """The interpreter."""
    figures: dict[str, float]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A budget that is set anew."""

    name: str
    baseline: float
    limit: float | None
    """None where the file only holds a baseline, and the limit follows from it."""
    was: float | None
    """The limit before; the baseline, where the limit follows from it. None where there was none."""
    key: str = ""
    """The interpreter, where it is counted for one."""
    why: str = ""

    def __str__(self) -> str:
        """One line for people."""
        now = self.baseline if self.limit is None else self.limit
        was = "nothing" if self.was is None else number(self.was)
        on = f" on `{self.key}`" if self.key else ""
        what = "baseline" if self.limit is None else "limit"
        return f"`{self.name}`: {what}{on} {was} -> {number(now)} ({self.why})"


def history_of(lines: Iterable[bytes]) -> list[Run]:
    """Read a history. A line that is none, as after a crash, is left out: it holds nothing that could be used."""
    runs: list[Run] = []
    for line in lines:
        try:
            runs.append(msgspec.json.decode(line, type=Run))
        except msgspec.DecodeError:
            continue
    return runs


def lowered(file: BudgetFile, history: Sequence[Run], *, key: str) -> list[Change]:
    """The budgets whose figure was better than the baseline in each of the last `file.runs` runs that measured it.

    The worst of these becomes the baseline, and with the budget's slack the limit, where that is stricter than the one
    there is. Of instructions, only runs of the same interpreter count.
    """
    changes: list[Change] = []
    for name, budget in file.budgets.items():
        is_keyed = budget.kind == "instructions"
        measured = [
            run.figures[name] for run in history if name in run.figures and (not is_keyed or run.key == key)
        ][-file.runs :]
        if len(measured) < file.runs:
            continue
        worst = max(measured) if budget.better == "lower" else min(measured)
        why = f"{number(worst)} or better in {len(measured)} runs"
        change = _change(name, budget, worst, key, why)
        before, baseline = budget.limit_at(key), budget.baseline_at(key)
        if before is None or baseline is None or not _is_stricter(budget, worst, baseline):
            continue
        if _is_stricter(budget, _limit_of(budget, worst), before):
            changes.append(change)
    return changes


def accepted(
    file: BudgetFile, figures: Mapping[str, float], names: Iterable[str], *, key: str
) -> list[Change]:
    """The named budgets, set to what was just measured, better or worse.

    Raises:
        LookupError: If a name is no budget, or was not measured; the message says which.
    """
    changes: list[Change] = []
    for name in names:
        if name not in file.budgets:
            raise LookupError(f"`{name}` is no budget; there are {', '.join(file.budgets)}")
        if name not in figures:
            raise LookupError(f"`{name}` was not measured, so there is nothing to accept")
        changes.append(
            _change(name, file.budgets[name], figures[name], key, f"{number(figures[name])} measured")
        )
    return changes


def applied(text: str, changes: Iterable[Change]) -> str:
    """The text of a budget file with these changes, and nothing else, made in it. It needs the extra `bench`."""
    # Budgets are held without the extra too, and whoever holds them loads this module.
    import tomlkit

    document = tomlkit.parse(text)
    budgets = cast(dict[str, Any], document["budgets"])
    for change in changes:
        table = budgets[change.name]
        if change.limit is not None:
            table["baseline"], table["limit"] = _plain(change.baseline), _plain(change.limit)
        else:
            if "baselines" not in table:
                table["baselines"] = tomlkit.table()
            table["baselines"][change.key] = _plain(change.baseline)
    return tomlkit.dumps(document)


def _change(name: str, budget: Budget, value: float, key: str, why: str) -> Change:
    if budget.kind == "instructions":
        return Change(
            name=name, baseline=round(value), limit=None, was=budget.baselines.get(key), key=key, why=why
        )
    return Change(
        name=name, baseline=_rounded(value, budget), limit=_limit_of(budget, value), was=budget.limit, why=why
    )


def _limit_of(budget: Budget, value: float) -> float:
    """The limit that a figure makes: rounded so that the figure stays within it."""
    if budget.better == "higher":
        return _down(value / budget.slack)
    limit = _up(value * budget.slack)
    return limit if budget.floor is None else max(limit, budget.floor)


def _rounded(value: float, budget: Budget) -> float:
    return _up(value) if budget.better == "lower" else _down(value)


def _is_stricter(budget: Budget, value: float, than: float) -> bool:
    return value < than if budget.better == "lower" else value > than


def _up(value: float) -> float:
    return _to_digits(value, math.ceil)


def _down(value: float) -> float:
    return _to_digits(value, math.floor)


def _to_digits(value: float, way: Any) -> float:
    """Two digits behind the point, or whole from a hundred on."""
    step = 1 if abs(value) >= 100 else 100
    # What is a whole number of steps but for the last bits of a float must not move by a step.
    return way(round(value * step, 6)) / step


def _plain(value: float) -> float | int:
    return int(value) if value == int(value) else value
