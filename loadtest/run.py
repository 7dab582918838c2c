"""A load test with one command: `python -m loadtest.run --users scripted --transport ws --seconds 10 --workers 2`.

Starts a gateway with an echo server behind it (or takes yours), drives it with locust in one or several processes,
shows progress, and leaves a report as HTML and CSV. Ends with 0 where all budgets are kept, 1 where one is broken or
the gateway went, 3 where there is nothing to drive, 130 when it was interrupted. Measures nothing itself.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any

from gateway.bench.ending import interruptible
from gateway.bench.sides import free_port
from gateway.cli.output import counted
from loadtest import arguments
from loadtest.crowd.budgets import BudgetError, changed
from loadtest.crowd.place import (
    FAULTS,
    ROOT,
    TIELINE,
    Place,
    PlaceError,
    Running,
    address_of,
    chaos_peers,
    echo_peers,
    faults_of,
    in_words,
    port_of,
    running,
    token_of,
    toml_of,
    transport_of,
    unreached,
)
from loadtest.crowd.plan import PlanError
from loadtest.crowd.results import BEGUN, FILES
from loadtest.crowd.script import ScriptError
from loadtest.crowd.script import parse as parse_script
from loadtest.crowd.sources import plan_from, recording_in

DONE, NO, WRONG_USE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 3, 130
USERS = {"scripted": ["ScriptedUser"], "recorded": ["RecordedUser"], "chaos": ["ChaosUser", "Bystander"]}
KINDS = {"scripted": ["scripted"], "recorded": ["recorded"], "chaos": ["bystander", "chaos"]}
"""What figures and budgets of these agents are called by."""
OF_ONE_KIND = {
    "scripted": ("script", "lanes"),
    "recorded": ("recording", "factor", "spread"),
    "chaos": ("faults", "calm", "flood"),
}
"""Options that say something to one kind of agents alone."""
OF_OUR_GATEWAY = ("config", "port", "record", "flood")
"""Options about a gateway that is started, which do nothing to one that runs already."""
LISTENERS = {"ws": "websocket", "http": "http"}
LOCUSTFILE = Path(__file__).with_name("locustfile.py")
REACH_S = 5.0
END_S = 40.0
"""How long a load generator may take to end once it is told to."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m loadtest.run", description=(__doc__ or "").partition("\n")[0]
    )
    add = made.add_argument
    add("--users", choices=USERS, default="scripted", help="what kind of agents (scripted)")
    add("--transport", choices=("ws", "http", "stdio"), default="ws", help="how they are connected (ws)")
    add("--count", type=arguments.at_least_one, default=4, help="how many agents (4)")
    add("--seconds", type=arguments.at_least_one, default=10, help="how long (10)")
    add(
        "--workers",
        type=arguments.count,
        default=0,
        help="processes that make the load, besides the master (0: one does all)",
    )
    add("--out", type=Path, default=Path("loadtest-results"), help="directory of the results")
    add("--url", default="", help="a gateway that runs already: ws://… or http://…")
    add("--token-file", type=Path, help="file with its bearer token")
    add("--config", type=Path, help="start a gateway with this tieline.toml instead of an echo server")
    add("--port", type=arguments.port, default=0, help="port of the gateway that is started (0: a free one)")
    add("--script", type=Path, help="scripted: the calls, as TOML (loadtest/crowd/echo.toml)")
    add(
        "--lanes",
        type=arguments.at_least_one,
        default=1,
        help="scripted: calls of one agent at the same time (1)",
    )
    add("--recording", type=Path, help="recorded: whose agent they all are; of a folder, the newest")
    add(
        "--factor",
        type=arguments.more_than_nothing,
        default=1.0,
        help="recorded: how much faster than recorded (1)",
    )
    add(
        "--spread",
        type=arguments.number,
        default=0,
        help="recorded: seconds over which they come (a third of --seconds)",
    )
    add("--faults", default=",".join(FAULTS), help=f"chaos: what peers do ({','.join(FAULTS)})")
    add("--calm", type=arguments.number, default=2.0, help="chaos: seconds before they begin with it (2)")
    add("--flood", type=arguments.at_least_one, default=2000, help="chaos: notifications of one flood (2000)")
    add(
        "--budget",
        action="append",
        default=[],
        metavar="KIND.FIGURE<=N",
        help="one more bound, or another one",
    )
    add("--record", action="store_true", help="record the sessions, below the results")
    return made


def locust_command(options: argparse.Namespace, place: Place) -> list[str]:
    """What runs locust."""
    out: Path = options.out
    command = [
        *(sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), *USERS[options.users], "--headless"),
        *("--users", str(options.count), "--spawn-rate", str(options.count)),
        *("--run-time", f"{options.seconds}s", "--loglevel", "WARNING", "--only-summary", "--reset-stats"),
        *("--html", str(out / "locust.html"), "--json-file", str(out / "locust")),
        *("--place", place.encode(), "--out", str(out), "--lanes", str(options.lanes)),
        *("--factor", str(options.factor), "--spread", str(options.spread or options.seconds / 3)),
        *("--faults", options.faults, "--calm", str(options.calm)),
        *("--told-command", shlex.join(["python", "-m", "loadtest.run", *sys.argv[1:]])),
    ]
    for budget in options.budget:
        command += ["--budget", budget]
    if options.script is not None:
        command += ["--script", str(options.script)]
    if options.recording is not None:
        command += ["--recording", str(options.recording)]
    if options.workers:
        port = str(free_port())
        command += ["--processes", str(options.workers), "--master-bind-host", "127.0.0.1"]
        command += ["--master-bind-port", port, "--master-port", port]
    return command


@contextlib.contextmanager
def placed(options: argparse.Namespace) -> Generator[tuple[Place, Running | None]]:
    """A gateway to drive, for the length of a block.

    Raises:
        PlaceError: There is none.
    """
    out: Path = options.out
    if options.url:
        headers = token_of(options.token_file) if options.token_file is not None else {}
        reach(options.url)
        yield Place(transport_of(options.url), options.url, headers), None
        return
    config = options.config
    if config is None:
        config = out / "tieline.toml"
        config.write_text(_own_config(options))
    if options.transport == "stdio":
        command = [*TIELINE, "run", str(config), "--stdio"]
        command += ["--record", str(out / "recordings")] if options.record else []
        yield Place("stdio", command=command, state=str(out / "state")), None
        return
    with running(config, LISTENERS[options.transport], out, records=options.record) as gateway:
        yield Place(options.transport, gateway.url), gateway


def _own_config(options: argparse.Namespace) -> str:
    peers = (
        chaos_peers(faults_of(options.faults), flood=options.flood)
        if options.users == "chaos"
        else echo_peers()
    )
    listen = {"port": options.port, "insecure_loopback": True}
    text = toml_of(peers, {} if options.transport == "stdio" else {LISTENERS[options.transport]: listen})
    if not options.record:
        text += "\n[record]\nenabled = false\n"
    return text


def reach(url: str) -> None:
    """Try whether somebody listens at an address.

    Raises:
        PlaceError: Nobody does.
    """
    place = address_of(url)
    try:
        socket.create_connection((place.hostname, port_of(place)), timeout=REACH_S).close()
    except OSError as fault:
        raise PlaceError(
            unreached(url, fault),
            "start one (`tieline run tieline.toml`), or leave --url out and one is started for the test",
        ) from None


def drive(options: argparse.Namespace, place: Place, gateway: Running | None) -> int:
    """Run locust to its end, or to that of the gateway; return the exit code."""
    told_of = f"{options.workers} processes" if options.workers else "one process"
    sys.stderr.write(
        f"{counted(options.count, f'{options.users} agent')}, {options.seconds} s, {told_of}. {place.about}\n"
    )
    process = subprocess.Popen(
        locust_command(options, place),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        start_new_session=True,
    )
    told: list[int] = []
    until = inf

    def end() -> None:
        nonlocal until
        until = time.monotonic() + END_S
        _signal(process, signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        del frame
        told.append(number)
        if len(told) == 1 and (options.out / BEGUN).exists():
            end()
        else:
            _signal(process, signal.SIGKILL)

    _on_signals(interrupt)
    trouble = None
    while process.poll() is None:
        if gateway is not None and trouble is None and not told and (trouble := gateway.trouble) is not None:
            sys.stderr.write(f"error: {trouble}\n")
            end()
        if time.monotonic() > until:
            _signal(process, signal.SIGKILL)
        time.sleep(0.05)
    if told:
        has_begun = (options.out / BEGUN).exists()
        found = (
            f"what was measured until then is in {options.out}" if has_begun else "nothing was measured yet"
        )
        sys.stderr.write(f"interrupted; {found}\n")
        return INTERRUPTED
    if process.returncode < 0:
        # Nothing of ours did that: a machine without memory does, or somebody.
        trouble = f"the load generator was ended by {signal.Signals(-process.returncode).name}"
        sys.stderr.write(f"error: {trouble}; what was measured until then is in {options.out}\n")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return NO if trouble is not None else process.returncode


def _on_signals(handler: Callable[[int, FrameType | None], Any]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # What nohup lets run on runs on.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def check(options: argparse.Namespace) -> None:
    """Read what locust's processes will read, so that a mistake is found before anything is started.

    Of a folder of recordings, the newest becomes the one that is meant.

    Raises:
        BudgetError, PlanError, ScriptError, OSError: One of them is no good.
    """
    changed({}, options.budget, KINDS[options.users])
    if options.script is not None:
        parse_script(options.script.read_text(), str(options.script))
    if options.users == "recorded":
        named, options.recording = options.recording, recording_in(options.recording)
        plan_from(options.recording)
        if options.recording != named:
            sys.stderr.write(f"the newest recording in {named} is {options.recording.name}\n")


def in_vain(options: argparse.Namespace) -> str:
    """Say which option would do nothing, rather than leave it out silently; empty where none is."""
    usual = parser()

    def first(names: Sequence[str]) -> str:
        given = (name for name in names if getattr(options, name) != usual.get_default(name))
        return next((f"`--{name.replace('_', '-')}`" for name in given), "")

    for kind, names in OF_ONE_KIND.items():
        if kind != options.users and (found := first(names)):
            return f"{found} does nothing to {options.users} agents, only to {kind} ones"
    if options.url and (found := first(OF_OUR_GATEWAY)):
        return f"{found} does nothing to a gateway that runs already, which `--url` names"
    if options.config is not None and (found := first(("port",))):
        return f"{found} does nothing beside `--config`, which says where the gateway listens"
    if options.config is not None and (found := first(("flood",))):
        return f"{found} does nothing beside `--config`, whose servers decide that"
    if options.users == "chaos" and not 0 < options.calm < options.seconds:
        return (
            "`--calm` must be more than 0 and less than `--seconds`: calls before and after it are compared"
        )
    return "" if options.url or options.token_file is None else "`--token-file` does nothing without `--url`"


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        if number == signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def main() -> int:
    """Run one load test."""
    options = parser().parse_args()
    if wrong := in_vain(options):
        sys.stderr.write(f"error: {wrong}\n")
        return WRONG_USE
    for name in ("out", "script", "recording", "config", "token_file"):
        # Locust runs in another directory.
        if (path := getattr(options, name)) is not None:
            setattr(options, name, path.absolute())
    if options.users == "recorded" and options.recording is None:
        sys.stderr.write(
            "error: recorded agents need a recording\n\nhint: --recording DIR names one; "
            "`--users scripted --record` leaves some in loadtest-results/recordings\n"
        )
        return WRONG_USE
    try:
        faults_of(options.faults)
    except PlaceError as fault:
        sys.stderr.write(in_words(fault))
        return WRONG_USE
    try:
        check(options)
    except (BudgetError, PlanError, ScriptError, OSError) as fault:
        why = str(fault)
        if isinstance(fault, OSError) and fault.filename is not None:
            why = f"`{fault.filename}` cannot be read: {fault.strerror}"
        sys.stderr.write(f"error: {why}\n")
        return BAD_INPUT
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        for name in ("report.html", *(name for name, _ in FILES)):
            # What an earlier run has left is not of this one.
            (options.out / name).unlink(missing_ok=True)
        # Found out before the run, not after it.
        with tempfile.TemporaryFile(dir=options.out):
            pass
    except OSError as fault:
        sys.stderr.write(f"error: results cannot be written into `{options.out}`: {fault.strerror}\n")
        return BAD_INPUT
    try:
        with interruptible(), placed(options) as (place, gateway):
            return drive(options, place, gateway)
    except PlaceError as fault:
        sys.stderr.write(in_words(fault))
        return BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing was measured yet\n")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
