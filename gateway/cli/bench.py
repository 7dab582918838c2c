"""`tieline bench`: what the gateway adds to a call, measured against a direct connection in the same run.

A shell: `gateway.bench` measures, and knows how its figures look.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.options import JsonOption
from gateway.cli.output import (
    BAD_INPUT,
    DONE,
    INTERRUPTED,
    NO,
    CliError,
    console,
    counted,
    ensure_writable,
    examples,
    tell_error,
    terminal_width,
    write_file,
)

if TYPE_CHECKING:
    from gateway.bench.matrix import Kind
    from gateway.bench.results import Report
    from gateway.bench.run import Run, Told

HURRY_AFTER_S = 45.0
"""After so many seconds the rest is measured as a quick run does, so that it does not take minutes."""


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(
        epilog=examples(
            "tieline bench",
            "tieline bench --plot bench.png --csv bench.csv",
            "tieline bench --only websocket --json",
            "tieline bench --check",
        )
    )
    def bench(
        *,
        quick: Annotated[
            bool, typer.Option("--quick", help="Fewer figures, in a quarter of the time.")
        ] = False,
        full: Annotated[
            bool, typer.Option("--full", help="More figures, measured longer: some minutes.")
        ] = False,
        only: Annotated[
            str | None,
            typer.Option(
                metavar="PATTERN",
                help="Only figures, or budgets, with this in their name or part of the table; or a glob.",
            ),
        ] = None,
        plot: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="Draw a picture, PNG or SVG. Needs the extra `bench`."),
        ] = None,
        csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a line a comparison.")] = None,
        port: Annotated[
            int, typer.Option(min=0, max=65535, help="Where gateways listen meanwhile; 0 for any port.")
        ] = 0,
        pinned: Annotated[
            bool, typer.Option(help="Put everything on one processor: the least noise.")
        ] = True,
        check: Annotated[
            bool, typer.Option("--check", help="Hold the budgets: end with 1 where one is broken.")
        ] = False,
        ratchet: Annotated[
            bool,
            typer.Option("--ratchet", help="With --check: lower budgets whose figures have stayed better."),
        ] = False,
        accept: Annotated[
            list[str] | None,
            typer.Option(metavar="BUDGET", help="Set a budget to what is measured now. May be repeated."),
        ] = None,
        budgets: Annotated[
            Path | None, typer.Option(metavar="FILE", help="Budgets; without, those of Tieline itself.")
        ] = None,
        goals: Annotated[
            bool, typer.Option("--goals", help="Say of each goal whether it is met, and by how much not.")
        ] = False,
        peers: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="With --goals: what a comparison with other gateways left."),
        ] = None,
        json: JsonOption = False,
    ) -> int:
        """Measure what the gateway adds to a call.

        Drives a direct connection and a gateway in turn, over every transport and with what costs something switched
        on and off, and tells the difference. Takes about two minutes. Interrupted, it tells what it has.

        Ends with 0 if everything was measured and held, 1 if not, 130 if it was interrupted.
        """
        held = "--accept" if accept else "--ratchet" if ratchet else "--check" if check else None
        mode = held or ("--goals" if goals else None)
        _refuse(
            mode,
            {
                "--goals": held is not None and goals,
                "--ratchet": bool(accept) and ratchet,
                "--only": mode in ("--goals", "--accept") and only is not None,
                "--quick": mode is not None and quick,
                "--full": mode is not None and full,
                "--plot": mode is not None and plot is not None,
                "--csv": mode is not None and csv is not None,
                "--port": mode is not None and port != 0,
                "--budgets": held is None and budgets is not None,
                "--peers": mode != "--goals" and peers is not None,
            },
        )
        if held is not None:
            from gateway.cli.bench_budgets import check as hold_budgets

            return hold_budgets(budgets, only=only, ratchet=ratchet, accept=accept or (), json=json)
        if goals:
            from gateway.cli.bench_budgets import goals as judge_goals

            return judge_goals(peers, json=json)
        if quick and full:
            raise CliError("`--quick` and `--full` exclude each other")
        kind: Kind = "quick" if quick else "full" if full else "usual"
        _look_ahead(plot, csv)
        run = _chosen(kind, only, pinned=pinned, port=port)
        with progress() as told:
            report = run.run(told)
        # Before anything is printed: whoever reads it may end before the end of it.
        faults = write_files(report, plot, csv)
        _tell(report, json=json)
        return end(report, plot, csv, faults)


def _refuse(mode: str | None, without_effect: Mapping[str, bool]) -> None:
    """Say which option would do nothing in this mode, rather than leave it out silently."""
    for option, is_given in without_effect.items():
        if is_given:
            where = f"together with `{mode}`" if mode else "without `--check`"
            where = "without `--goals`" if option == "--peers" else where
            raise CliError(f"`{option}` does nothing {where}")


def _chosen(kind: Kind, only: str | None, *, pinned: bool, port: int) -> Run:
    """What is to be measured."""
    from gateway.bench.matrix import GROUPS, PLANS, chosen, matches, scenes
    from gateway.bench.run import PROBES, Run

    given, probes = scenes(kind), PROBES[kind]
    if only is not None:
        given = chosen(given, only)
        probes = {name: probe for name, probe in probes.items() if matches(only, name)}
    if not given and not probes:
        names = ", ".join((*GROUPS, *PROBES["usual"]))
        raise CliError(f"`--only {only}` matches no figure", hint=f"Parts of the table are {names}")
    return Run(
        given,
        probes,
        PLANS[kind],
        pinned=pinned,
        port=port,
        hurry_after_s=inf if kind == "full" else HURRY_AFTER_S,
    )


def _look_ahead(plot: Path | None, csv: Path | None) -> None:
    """Say before anything is measured what would keep the results from being written."""
    from gateway.bench.chart import ENDINGS, need_matplotlib
    from gateway.bench.client import BenchError

    if plot is not None:
        if plot.suffix.lower() not in ENDINGS:
            raise CliError(f"`{plot}` is no picture: its name must end with {' or '.join(ENDINGS)}")
        try:
            need_matplotlib()
        except BenchError as error:
            from recordings.extras import extra_hint

            hint = f"Install the extra `bench`: {extra_hint('bench')}. Without `--plot` there are bars in the terminal"
            raise CliError(str(error), hint=hint) from error
    for path in (plot, csv):
        if path is not None:
            ensure_writable(path)


@contextmanager
def progress() -> Generator[Told]:
    """A bar on stderr where that is a terminal, and a line for each step elsewhere."""
    if not sys.stderr.isatty():
        yield _by_line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(
        *columns,
        console=console(stderr=True),
        transient=True,
        # Drawn between two cells and never beside one: a thread that draws would be in what is measured.
        auto_refresh=False,
    ) as bar:
        task = bar.add_task("")

        def told(name: str, done: int, of: int) -> None:
            bar.update(task, description=name, completed=done, total=of, refresh=True)

        yield told


def _by_line(name: str, done: int, of: int) -> None:
    from gateway.cli.bench_budgets import tell_progress

    if name:
        tell_progress(f"{done + 1}/{of} {name} …")


def _tell(report: Report, *, json: bool) -> None:
    """Print a report."""
    from gateway.bench.results import encode
    from gateway.bench.table import bars, sentences, tables

    if json:
        sys.stdout.write(encode(report).decode())
        return
    out = console()
    if report.comparisons:
        for line in (*tables(report, terminal_width()), "", *bars(report, terminal_width()), ""):
            out.print(line)
    for line in sentences(report):
        out.print(line, markup=False)


def write_files(report: Report, plot: Path | None, csv: Path | None) -> list[CliError]:
    """Write the files that were asked for; return what became of those that could not be."""
    from gateway.bench.chart import draw
    from gateway.bench.table import csv_of

    faults: list[CliError] = []
    if csv is not None:
        try:
            write_file(csv, csv_of(report))
        except CliError as fault:
            faults.append(fault)
    if plot is not None:
        try:
            draw(report, plot)
        except OSError as error:
            faults.append(CliError(f"`{plot}` cannot be written: {error.strerror}", code=BAD_INPUT))
    return faults


def end(report: Report, plot: Path | None, csv: Path | None, faults: Sequence[CliError]) -> int:
    """Say how the run ended; return the exit code."""
    for fault in faults:
        tell_error(str(fault))
    if not report.is_complete:
        count = len(report.comparisons) + len(report.probes)
        are, them = ("is", "it") if count == 1 else ("are", "them")
        written = [path for path in (csv, plot) if path is not None] if not faults else []
        files = "".join(f", `{path}` has {them}" for path in written)
        tell_error(f"interrupted: {counted(count, 'figure')} had been measured and {are} told{files}")
        return INTERRUPTED
    if report.skipped:
        first = report.skipped[0]
        tell_error(
            f"{counted(len(report.skipped), 'figure')} could not be measured: {first.name}: {first.why}"
        )
    return BAD_INPUT if faults else NO if report.skipped else DONE
