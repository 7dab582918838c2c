"""`tieline bench`: what the gateway adds to a call, measured against a direct connection in the same run.

A shell: `gateway.bench` measures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.output import NO, CliError, console, examples, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(
        epilog=examples("tieline bench", "tieline bench --size 65536 --json", "tieline bench --check")
    )
    def bench(
        *,
        size: Annotated[int, typer.Option(help="Bytes of a request.")] = 300,
        rounds: Annotated[int, typer.Option(help="Rounds; contenders take turns.")] = 25,
        calls: Annotated[int, typer.Option(help="Calls a round.")] = 60,
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
        only: Annotated[
            str | None,
            typer.Option(metavar="PATTERN", help="With --check: only budgets with this in their name."),
        ] = None,
        json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    ) -> int:
        """Measure what the gateway adds to a call.

        Compares with a direct connection in the same run: stdio to stdio, recording on.
        """
        if check or accept or ratchet:
            from gateway.cli.bench_budgets import check as hold_budgets

            return hold_budgets(budgets, only=only, ratchet=ratchet, accept=accept or (), json=json)
        from gateway.bench.client import BenchError
        from gateway.bench.measure import Plan, cell_of, measure, pin
        from gateway.bench.sides import Setup

        if pinned:
            pin()
        setup = Setup()
        cell, plan = cell_of("recording", setup, size=size), Plan(rounds=rounds, calls=calls, tries=1)
        try:
            found = measure(cell, setup, plan)
        except BenchError as error:
            raise CliError(str(error), code=NO) from error
        if json:
            print_json(found)
        else:
            direct, gateway = found.direct, found.gateway
            console().print(
                f"direct    p50 {direct.p50_us} µs  p99 {direct.p99_us} µs  {direct.calls_per_s:,} calls/s"
            )
            console().print(
                f"recording p50 {gateway.p50_us} µs  p99 {gateway.p99_us} µs  {gateway.calls_per_s:,} calls/s"
            )
            console().print(f"added: {found.added_p50_us} µs, {found.ratio} times the direct call")
        return 0
