"""`tieline bench`: what the gateway adds to a call, measured against a direct connection in the same run.

A shell: `gateway.bench` measures.
"""

from __future__ import annotations

from typing import Annotated

import typer

from gateway.cli.output import NO, CliError, console, examples, print_json

BUDGET_RATIO = 5.0
"""The most that recording may add to a call, as a multiple of the direct call in the same run."""
TRIES = 8
"""How often is measured before a figure over the budget is believed."""


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
            bool,
            typer.Option(
                "--check", help=f"End with 1 where more than {BUDGET_RATIO} times a direct call is added."
            ),
        ] = False,
        json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    ) -> None:
        """Measure what the gateway adds to a call.

        Compares with a direct connection in the same run: stdio to stdio, recording on.
        """
        from gateway.bench.client import BenchError
        from gateway.bench.measure import Plan, cell_of, measure, pin
        from gateway.bench.rounds import better
        from gateway.bench.sides import Setup

        if pinned:
            pin()
        setup = Setup()
        cell, plan = cell_of("recording", setup, size=size), Plan(rounds=rounds, calls=calls, tries=1)
        try:
            found = measure(cell, setup, plan)
            while check and found.ratio > BUDGET_RATIO and found.tries < TRIES:
                # A figure over the budget is suspicious first: the machine may have been busy.
                found = better(found, measure(cell, setup, plan))
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
        if check and found.ratio > BUDGET_RATIO:
            why = f"{found.ratio} times a direct call is added, the budget is {BUDGET_RATIO} (best of {found.tries})"
            raise CliError(why, hint="Measure again when the machine is quiet", code=NO)
