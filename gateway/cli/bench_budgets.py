"""`tieline bench --check`, `--ratchet`, `--accept` and `--goals`: what a call costs, held against what it may cost.

Owns where the budgets and the history of earlier runs lie, and how findings are told. `gateway.bench` measures and
judges.
"""

from __future__ import annotations

import contextlib
import sysconfig
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gateway.cli.output import (
    BAD_INPUT,
    DONE,
    INTERRUPTED,
    NO,
    CliError,
    console,
    counted,
    print_json,
    table,
    tell_error,
    tell_warning,
    terminal_width,
    write_file,
)
from gateway.config.mistakes import did_you_mean
from gateway.config.places import state_dir

if TYPE_CHECKING:
    from rich.table import Table

    from gateway.bench.budgets import BudgetFile, Finding
    from gateway.bench.checking import Measured
    from gateway.bench.ratchet import Change, Run

REMEMBERED = 1000
"""Runs of the history that are looked at."""
PLACES = (
    Path(__file__).parents[2] / "loadtest" / "budgets.toml",
    Path(sysconfig.get_path("data")) / "share" / "tieline" / "budgets.toml",
)
"""Where the budgets lie: in a clone, and where a wheel was installed."""

PEERS = Path(__file__).parents[2] / "loadtest" / "peers" / "results.json"
"""What a comparison with other gateways leaves, in a clone."""


def check(
    path: Path | None,
    *,
    only: str | None = None,
    ratchet: bool = False,
    accept: Sequence[str] = (),
    json: bool = False,
) -> int:
    """Hold the budgets, or set some of them anew; return the exit code.

    `only` is a part of the budgets' names, or a glob of them. Interrupted, what was measured is told, and nothing is
    remembered or set.

    Raises:
        CliError: If the budgets cannot be read or written, or nothing can be measured.
        ConfigError: If they are wrong.
    """
    from gateway.bench import budgets
    from gateway.bench import ratchet as setting
    from gateway.bench.checking import Measured
    from gateway.bench.checking import check as measured_and_held
    from gateway.bench.client import BenchError
    from gateway.bench.ending import interruptible
    from gateway.bench.instructions import key as interpreter

    path = path or _found()
    text = _text(path)
    file = _chosen(budgets.read_budgets(text, file=str(path)), (*accept,) or only)
    _refuse_unmeasured(file, path)
    if ratchet or accept:
        _need_tomlkit()
    key = interpreter()
    measured = Measured({}, {})
    try:
        with interruptible():
            findings = measured_and_held(file, measured, key=key, say=lambda told: tell_progress(f"{told} …"))
    except KeyboardInterrupt:
        missing = {name: "interrupted before" for name in file.budgets if name not in measured.figures}
        had = counted(len(file.budgets) - len(missing), "figure")
        _tell(
            budgets.hold(file, measured.figures, missing | measured.skipped, key=key),
            [],
            key,
            path,
            json=json,
            is_complete=False,
        )
        tell_error(
            f"interrupted: {had} of {len(file.budgets)} had been measured and are told, nothing is changed"
        )
        return INTERRUPTED
    except BenchError as error:
        raise CliError(
            str(error), hint="`tieline doctor` says what is wrong with an installation", code=NO
        ) from error
    changes: list[Change] = []
    if accept:
        try:
            changes = setting.accepted(file, measured.figures, accept, key=key)
        except LookupError as error:
            raise CliError(str(error.args[0])) from error
    else:
        history = _remember(key, measured)
        if ratchet:
            changes = setting.lowered(file, history, key=key)
    if changes:
        write_file(path, setting.applied(text, changes))
        # What is told is what holds from now on.
        findings = budgets.hold(budgets.read_budgets(_text(path), file=str(path)), *measured, key=key)
        findings = [finding for finding in findings if finding.name in file.budgets]
    _tell(findings, changes, key, path, json=json)
    if all(finding.state == "skipped" for finding in findings):
        # Nothing is kept where nothing was held.
        tell_error(f"none of {counted(len(findings), 'budget')} could be held here")
        return NO
    return NO if budgets.broken(findings) else DONE


def tell_progress(text: str) -> None:
    """Say on stderr what is being done."""
    console(stderr=True).print(text, style="dim", markup=False)


def _found() -> Path:
    for place in PLACES:
        if place.is_file():
            return place
    raise CliError(
        "no budgets were found",
        hint="Name the file with `--budgets`; the repository has it as loadtest/budgets.toml",
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CliError(f"`{path}` cannot be read: {why}", code=BAD_INPUT) from error


def _chosen(file: BudgetFile, only: str | Sequence[str] | None) -> BudgetFile:
    """The budgets that are asked for: by their names, or by a pattern."""
    if only is None:
        return file
    if isinstance(only, str):
        chosen = {
            name: each for name, each in file.budgets.items() if only in name or fnmatchcase(name, only)
        }
        missing = [] if chosen else [only]
    else:
        chosen = {name: each for name, each in file.budgets.items() if name in only}
        missing = [name for name in only if name not in file.budgets]
    if missing:
        raise CliError(f"`{missing[0]}` is no budget", hint=f"There are {', '.join(file.budgets)}")
    return msgspec.structs.replace(file, budgets=chosen)


def _refuse_unmeasured(file: BudgetFile, path: Path) -> None:
    """A budget that is called like no figure would never be broken, whatever becomes of the code."""
    from gateway.bench.checking import PROBES

    known = [name for probe in PROBES for name in probe.names]
    for name in file.budgets:
        if name not in known:
            raise CliError(
                f"`{path}` has a budget `{name}`, and nothing measures a figure of that name"
                f"{did_you_mean(name, known)}",
                code=BAD_INPUT,
            )


def _need_tomlkit() -> None:
    try:
        import tomlkit  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        from recordings.extras import extra_hint

        hint = f"Install the extra `bench`: {extra_hint('bench')}"
        raise CliError("changing a file of budgets needs tomlkit", hint=hint) from error


def _remember(key: str, measured: Measured) -> list[Run]:
    """Add this run to the history, and return all that is known. A history that cannot be written is none."""
    from gateway.bench.ratchet import Run, history_of

    path = state_dir() / "bench-history.jsonl"
    run = Run(date=datetime.now(UTC).isoformat(timespec="seconds"), key=key, figures=measured.figures)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("ab") as out:
            out.write(msgspec.json.encode(run) + b"\n")
        return history_of(path.read_bytes().splitlines()[-REMEMBERED:])
    except OSError as error:
        tell_warning(f"this run is not remembered: `{path}` cannot be written: {error.strerror}")
        return [run]


def _tell(
    findings: Sequence[Finding],
    changes: Sequence[Change],
    key: str,
    path: Path,
    *,
    json: bool,
    is_complete: bool = True,
) -> None:
    """Print what became of the budgets; what is not kept goes to stderr as well, each with its sentence."""
    from gateway.bench.budgets import broken, told

    if json:
        found = {"interpreter": key, "budgets": str(path), "findings": findings, "changes": changes}
        print_json({**found, "is_complete": is_complete})
    elif findings:
        console().print(table_of(findings, terminal_width()))
        for change in changes:
            console().print(f"set anew: {change}", markup=False)
    for finding in findings:
        if finding.state == "skipped":
            tell_warning(told(finding))
    for finding in broken(findings):
        tell_error(told(finding))
    if lost := broken(findings):
        console(stderr=True).print(f"{counted(len(lost), 'budget')} of {len(findings)} broken", markup=False)


NUMBERS = ("measured", "limit", "baseline", "goal")
EXPENDABLE = ("unit", "goal", "baseline", "limit")
"""What goes first where a terminal is narrow: half a number is none."""
GAP = 3
"""Cells between two columns of a table."""


def table_of(findings: Sequence[Finding], width: int | None) -> Table:
    """A line a budget, in so many cells."""
    from gateway.bench.budgets import number

    rows = [
        {
            "budget": finding.name,
            **{
                name: "" if value is None else number(value)
                for name in NUMBERS
                for value in (getattr(finding, name),)
            },
            "unit": finding.unit,
            "": finding.state,
        }
        for finding in findings
    ]
    sizes = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    for name in EXPENDABLE:
        if width is not None and sum(sizes.values()) + GAP * len(sizes) > width:
            del sizes[name]
    return table(tuple(sizes), [tuple(row[name] for name in sizes) for row in rows], right=NUMBERS)


def goals(peers: Path | None, *, json: bool = False) -> int:
    """Measure what the goals speak of and print a verdict about each; return 0 whatever these are.

    What misses its goal is measured again, three times in all, and the best one counts. Interrupted, it judges what was
    measured until then, and returns 130.

    `peers` is what a comparison with other gateways left.

    Raises:
        CliError: If `peers` cannot be used, or nothing can be measured.
    """
    from gateway.bench.checking import Measured
    from gateway.bench.goals import judge

    theirs = _figures_of(peers or (PEERS if PEERS.is_file() else None))
    measured = Measured({}, {})
    is_whole = _measure_goals(measured)
    judged = judge({**measured.figures, **theirs}, measured.skipped)
    if json:
        found = {"goals": judged, "figures": measured.figures, "peers": theirs, "skipped": measured.skipped}
        print_json({**found, "is_complete": is_whole})
    else:
        marks = {"met": "✓", "missed": "✗", "not measured": "?"}
        out = console()
        for each in judged:
            out.print(f"{each.name:4}{each.verdict:14}{each.what}", markup=False)
            for part in each.parts:
                out.print(f"    {marks[part.verdict]} {part.told}", markup=False)
        counts = Counter(each.verdict for each in judged)
        out.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), markup=False)
    return DONE if is_whole else INTERRUPTED


def _figures_of(peers: Path | None) -> dict[str, float]:
    """What a comparison with other gateways left; nothing where there is none. Raises `CliError` as `goals`."""
    from gateway.bench.goals import peer_figures

    if peers is None:
        return {}
    try:
        return peer_figures(peers.read_bytes())
    except OSError as error:
        raise CliError(f"`{peers}` cannot be read: {error.strerror}", code=BAD_INPUT) from error
    except ValueError as error:
        raise CliError(f"`{peers}` {error}", code=BAD_INPUT) from error


def _measure_goals(measured: Measured) -> bool:
    """Measure what goals speak of, and again what misses one; say whether that was not interrupted."""
    from gateway.bench.checking import FURTHER_PROBES, GOAL_TRIES, PROBES, gather, gather_better
    from gateway.bench.client import BenchError
    from gateway.bench.ending import interruptible
    from gateway.bench.goals import missed, of_more, wanted

    probes = (*PROBES, *FURTHER_PROBES)

    def say(told: str) -> None:
        tell_progress(f"{told} …")

    try:
        with interruptible():
            for probe in probes:
                # One that fails costs its own goals their verdict, and no other.
                try:
                    gather(wanted(), measured, say=say, probes=[probe])
                except BenchError as error:
                    measured.skipped.update(dict.fromkeys(probe.names, str(error)))
            for attempt in range(1, GOAL_TRIES):
                again = missed(measured.figures)
                for probe in [each for each in probes if attempt < each.tries and again & set(each.names)]:
                    with contextlib.suppress(BenchError):
                        gather_better(again, measured, higher=of_more(), say=say, probes=[probe])
    except KeyboardInterrupt:
        for name in wanted():
            if name not in measured.figures and not name.startswith("peers."):
                measured.skipped.setdefault(name, "interrupted before")
        tell_error("interrupted: goals whose figures were measured by then are told")
        return False
    return True
