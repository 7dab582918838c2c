"""Runs the official conformance suite against the gateway, in every combination of eras and carriers.

`python -m tests.conformance.harness` (`make conformance`) prints one table and ends with 0 where exactly the
expected scenarios failed. Owns the processes of a run: suite, gateway, the everything server behind it. What
a result is worth is decided in `scoring`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from gateway.replay.driven import driven
from recordings.reader import open_recording
from tests import tooling
from tests.conformance import scoring
from tests.conformance.scoring import REVISIONS, Row, Score

ERAS: Final = ("legacy", "modern")
SOUTHBOUND: Final = ("stdio", "ws", "http")
MORE_SOUTHBOUND: Final = ("unix", "sse")
TIELINE: Final = Path(sys.executable).with_name("tieline")
START_S: Final = 30.0
ROW_S: Final = 240.0
OWN_ERA: Final = {"2025-11-25": "legacy", "2026-07-28": "modern"}

console = Console(width=160)


class RowError(Exception):
    """A row could not be run; the message says why."""


def rows(*, everything: bool = False) -> list[Row]:
    """All rows, in the order of the table; `everything` adds what tests our own scripts and more carriers."""
    table = [Row("server", revision, OWN_ERA[revision], "direct") for revision in REVISIONS]
    if everything:
        table += [Row("client", revision, "-", "direct") for revision in REVISIONS]
    carriers = SOUTHBOUND + (MORE_SOUTHBOUND if everything else ())
    for revision in REVISIONS:
        for era in ERAS:
            table += [Row("server", revision, era, carrier) for carrier in carriers if _exists(era, carrier)]
    table += [Row("server", revision, OWN_ERA[revision], "replay") for revision in REVISIONS]
    return table + [Row("client", revision, "-", "http") for revision in REVISIONS]


def _exists(era: str, carrier: str) -> bool:
    return not (era == "modern" and carrier == "sse")


# ------------------------------------------------------------------------------------------ processes


@asynccontextmanager
async def process(
    command: Iterable[str],
    log: Path,
    *,
    stdin: int = asyncio.subprocess.DEVNULL,
    stdout: int | None = None,
    env: dict[str, str] | None = None,
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A child with its own process group, its stderr in `log`; the group is ended on the way out."""
    with log.open("ab") as stderr:
        child = await asyncio.create_subprocess_exec(
            *command, stdin=stdin, stdout=stdout, stderr=stderr, env=env, start_new_session=True
        )
    try:
        yield child
    finally:
        await _end(child)


async def _end(child: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.returncode is not None:
            break
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        try:
            await asyncio.wait_for(child.wait(), 5)
        except TimeoutError:
            continue
    await child.wait()


@asynccontextmanager
async def stdio_server(era: str, folder: Path) -> AsyncGenerator[list[str]]:
    """The command of an everything server on stdio that needs no time to start."""
    path = folder / "prefork.sock"
    command = [sys.executable, "-m", "tests.conformance.prefork", str(path)]
    async with process(command, folder / "server.log", stdout=asyncio.subprocess.PIPE) as child:
        await _address(child, folder)
        yield [sys.executable, "-S", str(Path(__file__).with_name("launch.py")), str(path), era]


@asynccontextmanager
async def listening_server(era: str, carrier: str, folder: Path) -> AsyncGenerator[str]:
    """The address of an everything server that listens."""
    command = [sys.executable, "-m", "tests.conformance.everything_server", "--until-eof"]
    command += ["--era", era, "--transport", carrier, "--path", str(folder / "peer.sock")]
    pipe = asyncio.subprocess.PIPE
    async with process(command, folder / "server.log", stdin=pipe, stdout=pipe) as child:
        yield await _address(child, folder)


async def _address(child: asyncio.subprocess.Process, folder: Path) -> str:
    assert child.stdout is not None
    line = await asyncio.wait_for(child.stdout.readline(), START_S)
    if not line:
        raise RowError(f"the everything server ended: {_tail(folder / 'server.log')}")
    return json.loads(line)["address"]


@asynccontextmanager
async def gateway(peer: str, folder: Path) -> AsyncGenerator[str]:
    """The URL of a gateway with one peer; `peer` is the body of its section."""
    config = folder / "tieline.toml"
    config.write_text(
        "[listen.http]\nport = 0\ninsecure_loopback = true\n\n"
        f'[record]\ndir = "{folder / "recordings"}"\n\n[peers.everything]\n{peer}'
    )
    async with tieline(["run", str(config)], folder) as url:
        yield url


@asynccontextmanager
async def tieline(arguments: list[str], folder: Path) -> AsyncGenerator[str]:
    """The URL of a gateway that is started with these arguments. At its end it has sealed what it recorded."""
    ready = folder / "ready"
    ready.unlink(missing_ok=True)
    command = [str(TIELINE), *arguments, "--ready-file", str(ready)]
    environment = {**os.environ, "TIELINE_STATE_DIR": str(folder / "state")}
    async with process(command, folder / "gateway.log", env=environment) as child:
        deadline = time.monotonic() + START_S
        while not (ready.exists() and (address := re.search(r"https?://[^\s\"',]+", ready.read_text()))):
            if child.returncode is not None or time.monotonic() > deadline:
                raise RowError(f"the gateway is not ready: {_tail(folder / 'gateway.log')}")
            await asyncio.sleep(0.05)
        yield address[0]


async def suite(arguments: list[str], folder: Path, log: Path, limit_s: float, **more: str) -> int:
    """Run the suite with its results in `folder` and `more` in its environment; returns its exit code."""
    command = [str(tooling.node()), str(tooling.script("conformance")), *arguments, "-o", str(folder)]
    with log.open("ab") as stdout:
        async with process(command, log, stdout=stdout.fileno(), env=tooling.environment() | more) as child:
            try:
                return await asyncio.wait_for(child.wait(), limit_s)
            except TimeoutError:
                raise RowError(f"the suite took more than {limit_s:.0f} s") from None


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return " | ".join(lines[-3:])[-400:] or "it said nothing"


# ----------------------------------------------------------------------------------------------- rows


async def run_server_row(row: Row, folder: Path, timeout_ms: int) -> None:
    """The suite as client, the gateway (or nothing, `direct`) between it and the everything server."""
    async with AsyncExitStack() as stack:
        if row.southbound == "direct":
            url = await stack.enter_async_context(listening_server(row.server_era, "http", folder))
        else:
            peer = f'era = "{row.server_era}"\n'
            if row.southbound in ("stdio", "replay"):
                command = await stack.enter_async_context(stdio_server(row.server_era, folder))
                peer += f"command = {json.dumps(command)}\n"
            else:
                address = await stack.enter_async_context(
                    listening_server(row.server_era, row.southbound, folder)
                )
                if row.southbound == "unix":
                    peer += f"unix = {json.dumps(address.removeprefix('unix:'))}\n"
                else:
                    peer += f"url = {json.dumps(address)}\n"
                    peer += 'type = "sse"\n' if row.southbound == "sse" else ""
            url = await stack.enter_async_context(gateway(peer, folder))
        await _score_server(
            row, url, folder, "recorded" if row.southbound == "replay" else "results", timeout_ms
        )
    if row.southbound == "replay":
        await asyncio.to_thread(_drive, folder / "recordings")
        # The server has ended with the stack: what answers now is its recordings.
        arguments = ["replay", str(folder / "recordings"), "--http", "0", "--insecure-loopback"]
        async with tieline(arguments, folder) as url:
            await _score_server(row, url, folder, "results", timeout_ms)


def _drive(recordings: Path) -> None:
    """Play every recorded session whole: what the gateway said and decided comes again, frame by frame."""
    for header in sorted(recordings.glob("*/recording.json")):
        report = driven(open_recording(header.parent))
        if report.exit_code:
            raise RowError(f"{header.parent} is {report.verdict} when it is driven")


async def _score_server(row: Row, url: str, folder: Path, results: str, timeout_ms: int) -> None:
    arguments = ["server", "--url", url, "--requirements", row.revision, "--timeout", str(timeout_ms)]
    await suite(arguments, folder / results, folder / "suite.log", ROW_S)


async def run_client_row(row: Row, score: Score, folder: Path, jobs: int) -> None:
    """The suite as server, our client side as the command it starts; one run of the suite a scenario."""
    gate = asyncio.Semaphore(jobs)
    direct = {"CONFORMANCE_DIRECT": "1"} if row.southbound == "direct" else {}
    command = f"{sys.executable} -m tests.conformance.client"

    async def one(scenario: str) -> None:
        arguments = ["client", "--command", command, "--scenario", scenario, "--spec-version", row.revision]
        log = folder / f"{scenario.replace('/', '_')}.log"
        async with gate:
            arguments += ["--force", "--timeout", "40000"]
            if await suite(arguments, folder / "results", log, 60, **direct):
                score.problems[scenario] = ["the suite is not content: the client failed, or a check"]

    async with asyncio.TaskGroup() as group:
        for scenario in score.scored:
            group.create_task(one(scenario))


async def run_row(row: Row, out: Path, options: argparse.Namespace) -> Score:
    """Run one row in a folder of its own and read what it came to. Does not raise for a row that breaks."""
    folder = out / row.name.replace("/", "_")
    folder.mkdir(parents=True)
    package = tooling.script("conformance").parent.parent
    score = Score(row, scoring.requirements(package, row.side, row.revision))
    start = time.monotonic()
    try:
        if row.side == "server":
            await run_server_row(row, folder, options.timeout)
        else:
            await run_client_row(row, score, folder, options.jobs)
    except (RowError, TimeoutError, OSError) as error:
        score.broken = str(error) or type(error).__name__
    except BaseExceptionGroup as group:
        score.broken = str(group.exceptions[0])
    score.seconds = time.monotonic() - start
    if (folder / "results").exists() or score.broken:
        scoring.read_results(score, folder / "results")
    return score


def show(scores: list[Score]) -> None:
    """Print the table."""
    table = Table(title="Conformance through the gateway (scored scenarios)", title_justify="left")
    for heading in ("side", "suite speaks", "server speaks", "southbound", "scored", "s", "failing"):
        table.add_column(heading, justify="right" if heading in {"scored", "s"} else "left")
    for score in scores:
        row = score.row
        count = f"{len(score.passed)}/{len(score.scored)}"
        colour = "green" if not score.failing else "red"
        failing = (
            f"(not run) {score.broken}" if score.broken and not score.passed else ", ".join(score.failing)
        )
        cells = (f"[{colour}]{count}[/]", f"{score.seconds:.0f}", failing)
        table.add_row(row.side, row.revision, row.server_era, row.southbound, *cells)
    console.print(table)


async def run(chosen: list[Row], options: argparse.Namespace) -> int:
    """Run rows, `--jobs` at a time; client rows at the end and alone, since they take all jobs themselves."""
    out: Path = options.out
    gate = asyncio.Semaphore(options.jobs)

    async def one(row: Row) -> Score:
        async with gate:
            score = await run_row(row, out, options)
        console.print(
            f"{row.name:32} {len(score.passed):2}/{len(score.scored)}  {score.broken}", highlight=False
        )
        if options.verbose:
            for name, problems in score.problems.items():
                console.print(
                    *(f"    {name}: {problem[:600]}" for problem in problems), sep="\n", markup=False
                )
        return score

    scores = await asyncio.gather(*(one(row) for row in chosen if row.side == "server"))
    scores += [await one(row) for row in chosen if row.side == "client"]
    show(scores)
    report = {
        s.row.name: {"passed": sorted(s.passed), "problems": s.problems, "broken": s.broken} for s in scores
    }
    (out / "report.json").write_text(json.dumps(report, indent=1))
    console.print(f"results: {out}", highlight=False)
    expected = scoring.expected_failures()
    found = [line for score in scores for line in scoring.surprises(score, expected)]
    for line in found:
        console.print(line, style="red", highlight=False)
    return 1 if found else 0


def main() -> int:
    """Read the command line, run, return the exit code: 0 as expected, 1 not, 2 nothing to run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="regular expression that a row's name must contain")
    parser.add_argument("--direct", action="store_true", help="only the rows without a gateway")
    parser.add_argument(
        "--all", action="store_true", help="unix sockets and HTTP+SSE southbound too, and all --direct"
    )
    parser.add_argument("--jobs", type=int, default=2, help="rows at a time")
    parser.add_argument("--timeout", type=int, default=8000, help="ms that one scenario may take")
    parser.add_argument(
        "--out", type=Path, help="folder for logs, recordings and results (default: a new one)"
    )
    parser.add_argument("--verbose", action="store_true", help="say what failed in each scenario")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    options = parser.parse_args()
    chosen = [
        row for row in rows(everything=options.all or options.direct) if re.search(options.only, row.name)
    ]
    if options.direct:
        chosen = [row for row in chosen if row.southbound == "direct"]
    if options.list:
        print("\n".join(row.name for row in chosen))
        return 0
    if not chosen:
        print(f"no row matches {options.only!r}", file=sys.stderr)
        return 2
    options.out = (options.out or Path(tempfile.mkdtemp(prefix="conformance-"))).resolve()
    try:
        tooling.install()
    except tooling.ToolingError as error:
        print(error, file=sys.stderr)
        return 2
    return asyncio.run(run(chosen, options))


if __name__ == "__main__":
    sys.exit(main())
