"""Load tests of a gateway for locust: `locust -f loadtest/locustfile.py --headless ScriptedUser --gateway ws://…`.

Owns what locust is told: further options, the users of each process, counts on their way to the master, progress, the
end, and the exit code by budget. `python -m loadtest.run` does all of it with one command, and starts a gateway too.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import gevent
import msgspec
from locust import events, runners
from locust.runners import MasterRunner, WorkerRunner

sys.path.insert(0, str(Path(__file__).parents[1]))

from loadtest import arguments
from loadtest.crowd import tools
from loadtest.crowd.budgets import BudgetError, changed, judge
from loadtest.crowd.budgets import parse as parse_budgets
from loadtest.crowd.crew import Crew
from loadtest.crowd.green import on_interrupt, refresh_clock
from loadtest.crowd.place import (
    FAULTS,
    GOOD,
    Place,
    PlaceError,
    address_of,
    faults_of,
    in_words,
    token_of,
    tool_of,
    transport_of,
)
from loadtest.crowd.plan import PlanError
from loadtest.crowd.results import Results
from loadtest.crowd.script import ScriptError
from loadtest.crowd.script import parse as parse_script
from loadtest.crowd.sources import plan_from, recording_in
from loadtest.crowd.tally import Tally
from loadtest.crowd.users import Bystander, ChaosUser, RecordedUser, ScriptedUser

__all__ = ["Bystander", "ChaosUser", "RecordedUser", "ScriptedUser"]

HERE = Path(__file__).parent
TICK_S = 1.0
REPORT_S = 0.5
"""How often a worker tells the master what it has counted."""
DRAIN, DRAINED = "tieline-drain", "tieline-drained"
DRAIN_S = 25.0
BAD_INPUT, INTERRUPTED = 3, 130
runners.WORKER_REPORT_INTERVAL = REPORT_S
_KEPT: dict[str, Any] = {}
"""The one environment of this process, for events that are not told of it."""


@events.init_command_line_parser.add_listener
def _options(parser: Any) -> None:
    group = parser.add_argument_group("Tieline")
    add = group.add_argument
    add("--gateway", default="", help="ws:// or http:// URL of the gateway")
    add("--token-file", default="", help="file with the bearer token of the gateway")
    add("--place", default="", help="the gateway as `loadtest.run` has started it, instead of --gateway")
    add("--script", default=str(HERE / "crowd" / "echo.toml"), help="what a ScriptedUser calls")
    add(
        "--lanes",
        type=arguments.at_least_one,
        default=1,
        help="calls that one ScriptedUser makes at the same time",
    )
    add("--recording", default="", help="whose agent a RecordedUser is; of a folder, the newest")
    add(
        "--factor",
        type=arguments.more_than_nothing,
        default=1.0,
        help="how much faster than recorded its calls come",
    )
    add(
        "--spread",
        type=arguments.number,
        default=0.0,
        help="seconds over which a crowd comes (0: the recording's length)",
    )
    add("--faults", default=",".join(FAULTS), help=f"what peers of a ChaosUser do: {', '.join(FAULTS)}")
    add("--calm", type=arguments.number, default=2.0, help="seconds before they begin with it")
    add("--out", default="loadtest-results", help="directory of the results")
    add("--budgets", default=str(HERE / "budgets.toml"), help="file with the tables [load.*]")
    add("--budget", action="append", default=[], help="one more budget: KIND.FIGURE<=NUMBER, or >=")
    add(
        "--crowd",
        type=arguments.count,
        default=0,
        help="users in all processes together, where workers run elsewhere",
    )
    add("--told-command", default="", help="what the report calls the command")


def _crew(options: Any, users: list[Any]) -> Crew:
    place = Place.decode(options.place) if options.place else _place(options)
    crew = Crew(
        place,
        factor=options.factor,
        spread_s=options.spread,
        lanes=options.lanes,
        faults=faults_of(options.faults),
        calm_s=options.calm,
        agents=max(int(options.crowd or options.num_users or 1), 1),
    )
    if any(issubclass(user, ScriptedUser) for user in users):
        crew.script = parse_script(Path(options.script).read_text(), options.script)
    if options.recording:
        crew.plan = plan_from(recording_in(Path(options.recording)))
    elif users == [RecordedUser]:
        raise PlanError("a RecordedUser needs a recording: name one with --recording")
    return crew


def _place(options: Any) -> Place:
    if not options.gateway:
        raise PlaceError(
            "there is no gateway to drive",
            "name one with --gateway, or have one started: python -m loadtest.run",
        )
    address_of(options.gateway)
    headers = token_of(Path(options.token_file)) if options.token_file else {}
    return Place(transport_of(options.gateway), options.gateway, headers)


@events.init.add_listener
def _begin(environment: Any, runner: Any, **_: Any) -> None:
    _KEPT["environment"] = environment
    # Imports have kept the loop from looking at the clock: the run's time would be counted from before them.
    refresh_clock()
    if isinstance(runner, WorkerRunner):
        # What it is to do, it is told by the master.
        runner.register_message(DRAIN, _drain_worker, concurrent=True)
        return
    options = environment.parsed_options
    _prepare(environment)
    environment.drained = set[str]()
    environment.reported = set[str]()
    environment.is_drained = False
    if isinstance(runner, MasterRunner):
        runner.register_message(DRAINED, _worker_drained)
    command = options.told_command or shlex.join(["locust", *sys.argv[1:]])
    _ensure_chaos(environment)
    try:
        environment.results = Results(
            Path(options.out), command, environment.crew.place.about, calm_s=options.calm
        )
    except OSError as fault:
        why = f"results cannot be written into `{options.out}`: {fault.strerror}"
        _refuse(PlaceError(why))
    gevent.spawn(_tell, environment, runner)
    # Python would raise KeyboardInterrupt in whichever greenlet happens to run.
    on_interrupt(lambda: _interrupt(environment))
    # The last one that is added is the first that hears of it: a master stops the run when it does.
    environment.events.quitting.add_listener(_ending)


def _interrupt(environment: Any) -> None:
    environment.results.miss("interrupted")
    environment.runner.quit()


def _ending(environment: Any, **_: Any) -> None:
    """A run that comes to its end is stopped, and then locust ends; ended by a signal, it is the other way round."""
    if not environment.is_drained:
        environment.results.miss("interrupted")


def _prepare(environment: Any) -> None:
    """Read everything that is played and judged by; what is wrong with it ends the process with 3."""
    options = environment.parsed_options
    try:
        environment.crew = _crew(options, environment.user_classes)
        kinds = sorted({user.kind for user in environment.user_classes})
        budgets = parse_budgets(Path(options.budgets).read_text(), kinds, options.budgets)
        environment.bounds = changed(budgets, options.budget, kinds)
    except (BudgetError, PlaceError, PlanError, ScriptError, OSError) as fault:
        _refuse(fault)


def _ensure_chaos(environment: Any) -> None:
    """See that the servers are there that are to misbehave: an error is a right answer of theirs, whoever gives it."""
    crew: Crew = environment.crew
    users = environment.user_classes
    needed = [GOOD] if ChaosUser in users or Bystander in users else []
    needed += [tool_of(fault) for fault in crew.faults] if ChaosUser in users else []
    if not needed:
        return
    try:
        known = tools.names(crew.place)
        missing = [name for name in needed if name not in known]
        if missing:
            raise PlaceError(
                f"the gateway has no tool {' and no '.join(f'`{name}`' for name in missing)}",
                f"agents of this kind call `{GOOD}`, and of each fault `FAULT__fault`; --faults says of which",
            )
    except PlaceError as fault:
        _refuse(fault)


def _refuse(fault: Exception) -> None:
    """End the process: there is nothing to measure."""
    if isinstance(fault, OSError) and fault.filename is not None:
        fault = PlaceError(f"`{fault.filename}` cannot be read: {fault.strerror}")
    sys.stderr.write(in_words(fault) if isinstance(fault, PlaceError) else f"error: {fault}\n")
    sys.stderr.flush()
    os._exit(BAD_INPUT)


@events.test_start.add_listener
def _started(environment: Any, **_: Any) -> None:
    runner = environment.runner
    if isinstance(runner, WorkerRunner):
        _prepare(environment)
        environment.crew.number = max(runner.worker_index, 0)
        environment.crew.processes = max(int(environment.parsed_options.expect_workers or 1), 1)
    else:
        environment.results.begin()
    environment.crew.began = time.monotonic()


@events.report_to_master.add_listener
def _send(client_id: str, data: dict[str, Any]) -> None:
    del client_id
    if (crew := getattr(_KEPT["environment"], "crew", None)) is not None:
        data["crowd"] = msgspec.json.encode(crew.take()).decode()


@events.worker_report.add_listener
def _receive(client_id: str, data: dict[str, Any]) -> None:
    _KEPT["environment"].reported.add(client_id)
    if text := data.get("crowd"):
        _KEPT["environment"].results.add(msgspec.json.decode(text, type=Tally))


def _tell(environment: Any, runner: Any) -> None:
    """Say once a second how it goes, and keep what there is."""
    results: Results = environment.results
    while True:
        gevent.sleep(TICK_S)
        if results.is_running:
            results.add(environment.crew.take())
            results.tick(runner.user_count)


def _drain_worker(environment: Any, msg: Any, **_: Any) -> None:
    del msg
    environment.crew.drain()
    text = msgspec.json.encode(environment.crew.take()).decode()
    environment.runner.send_message(DRAINED, text)


def _worker_drained(environment: Any, msg: Any, **_: Any) -> None:
    environment.results.add(msgspec.json.decode(msg.data, type=Tally))
    environment.drained.add(msg.node_id)


def _present(runner: MasterRunner) -> set[str]:
    """The workers that have given a sign of life within some seconds."""
    return {client.id for client in runner.clients.all if client.state != "missing"}


@events.test_stopping.add_listener
def _drain(environment: Any, **_: Any) -> None:
    """Let all users come to an end of their own before locust ends them."""
    runner = environment.runner
    if isinstance(runner, WorkerRunner) or environment.is_drained:
        return
    environment.is_drained = True
    environment.results.stop(runner.user_count)
    if isinstance(runner, MasterRunner):
        workers = _present(runner)
        for lost in sorted(environment.reported - workers):
            # Its agents are missing since then, so that figures are those of fewer than were asked for.
            environment.results.miss(f"worker {lost} was lost in the middle")
        runner.send_message(DRAIN)
        until = time.monotonic() + DRAIN_S
        while (workers & _present(runner)) - environment.drained and time.monotonic() < until:
            gevent.sleep(0.02)
        for silent in sorted(workers - environment.drained):
            environment.results.miss(f"worker {silent} has not told what it counted last")
    else:
        environment.crew.drain()
        environment.results.add(environment.crew.take())


@events.quitting.add_listener
def _judge(environment: Any, **_: Any) -> None:
    runner = environment.runner
    if isinstance(runner, WorkerRunner):
        return
    results: Results = environment.results
    if not environment.is_drained:
        _drain(environment)
    figures = results.figures()
    outcome = results.finish(judge(environment.bounds, figures))
    environment.process_exit_code = (
        INTERRUPTED if outcome.trouble == "interrupted" else 0 if outcome.is_kept else 1
    )
