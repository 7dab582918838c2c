"""`tieline faults`: which of a recording's frames may fail without the agent failing.

Owns the sweep: one fault at a time, one run of a command for each. What a fault does is `gateway.replay.faulty`'s
business.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.fault_rules import FILE
from gateway.cli.options import DirArgument, JsonOption
from gateway.cli.output import DONE, NO, CliError, console, counted, examples, print_json
from gateway.cli.reading import bar, opened, telling
from gateway.cli.trying import candidate_words, failure_with

if TYPE_CHECKING:
    from recordings.faultrules import FaultRule
    from recordings.reader import Recording


@dataclass(frozen=True, slots=True)
class Tried:
    """One fault, and what became of the command."""

    rule: str
    seq: int
    what: str
    """Method and name of the frame that was struck."""
    failure: str | None
    """None: the command survived."""


def register(app: typer.Typer) -> None:
    """Add `faults`."""

    @app.command(
        epilog=examples(
            "tieline faults session/",
            "tieline faults session/ --sweep 'python my_agent.py --server {}'",
            "tieline faults session/ --sweep 'pytest -k agent --recording {}' --deed exit --deed 'error code=timeout'",
        )
    )
    def faults(
        directory: DirArgument = None,
        *,
        sweep: Annotated[
            str | None,
            typer.Option(
                metavar="COMMAND",
                help="Run this without a shell once for each fault; `{}` stands for a recording that `tieline replay` "
                "serves with the fault in it. It survives if it ends with 0.",
            ),
        ] = None,
        deed: Annotated[
            list[str] | None,
            typer.Option(
                metavar="DEED",
                help="What is done to a frame: exit, kill, disconnect, drop, duplicate, corrupt, error, half-line, "
                "delay, reorder, cut, stderr, slow. May be repeated. Default: exit and error.",
            ),
        ] = None,
        timeout: Annotated[
            float, typer.Option(min=0.1, help="Seconds after which the command counts as hanging.")
        ] = 30.0,
        most: Annotated[int, typer.Option(min=1, help="How many faults are tried at most.")] = 1000,
        json: JsonOption = False,
    ) -> int:
        """Put a fault at each frame: which does an agent survive?

        Without --sweep, the rules are listed that a sweep would try: each can be given to `tieline replay --fault`, or
        stand in a `faults.toml` beside a recording.

        Ends with 0 if the agent survives all of them, and with 1 if not.
        """
        recording = opened(directory)
        with telling():
            rules = _rules(recording, deed or ["exit", "error"])[:most]
        if sweep is None:
            return _list(rules, json=json)
        words = candidate_words("--sweep", sweep)
        tried: list[Tried] = []
        with _candidate(recording) as candidate, bar("trying") as shown:
            failure = failure_with(words, candidate, timeout, any_failure=False)
            if failure is not None:
                raise CliError(
                    f"the command fails without any fault too: {failure}",
                    hint="A sweep says something only about a command that ends with 0 by itself",
                )
            for number, (rule, what) in enumerate(rules):
                from recordings.faulttext import text_of

                (candidate / FILE).write_text(_toml(rule))
                failure = failure_with(words, candidate, timeout, any_failure=False)
                tried.append(Tried(text_of(rule), rule.at or 0, what, failure))
                shown(number + 1, len(rules))
        _tell(tried, json=json)
        return NO if any(one.failure for one in tried) else DONE

    del faults


def _rules(recording: Recording, deeds: list[str]) -> list[tuple[FaultRule, str]]:
    from msgspec.structs import replace

    from recordings.errors import RecordingError
    from recordings.faultrules import sweep, targets_of
    from recordings.faulttext import rule_of

    try:
        wanted = [rule_of(deed) for deed in deeds]
    except RecordingError as error:
        raise CliError(error.message, hint="See `tieline faults --help` for the deeds") from error
    targets = list(targets_of(recording))
    named = {target.seq: f"{target.on} {target.method} {target.name}".strip() for target in targets}
    found: list[tuple[FaultRule, str]] = []
    for target in targets:
        for given in wanted:
            for rule in sweep([target], (given.deed,)):
                if given.on is None and target.on != given.target and given.deed != "cut":
                    continue
                whole = replace(given, on=rule.on, at=rule.at, keep=rule.keep)
                found.append((whole, named[target.seq]))
    if not found:
        raise CliError("no frame of the recording can be struck so", hint="Try another `--deed`")
    return found


def _list(rules: list[tuple[FaultRule, str]], *, json: bool) -> int:
    from recordings.faulttext import text_of

    if json:
        print_json([text_of(rule) for rule, _ in rules])
    else:
        sys.stdout.writelines(f"{text_of(rule):40} # {what}\n" for rule, what in rules)
    return DONE


def _toml(rule: FaultRule) -> str:
    """A rule as a file has it."""
    import msgspec

    plain = msgspec.to_builtins(rule)
    lines = [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in plain.items()]
    return "\n".join(["[[fault]]", *lines, ""])


@contextlib.contextmanager
def _candidate(recording: Recording) -> Generator[Path]:
    """A copy of the recording that shares its files, for a `faults.toml` of its own."""
    with tempfile.TemporaryDirectory(dir=recording.path.resolve().parent, prefix=".tieline-") as name:
        candidate = Path(name) / recording.path.resolve().name
        try:
            shutil.copytree(recording.path, candidate, copy_function=os.link)
        except (shutil.Error, OSError):
            shutil.rmtree(candidate, ignore_errors=True)
            shutil.copytree(recording.path, candidate)
        (candidate / FILE).unlink(missing_ok=True)
        yield candidate


def _tell(tried: list[Tried], *, json: bool) -> None:
    failed = [one for one in tried if one.failure]
    if json:
        print_json([asdict(one) for one in tried])
        return
    if failed:
        from rich.table import Table

        table = Table("seq", "frame", "fault", "the agent")
        for one in failed:
            table.add_row(str(one.seq), one.what, one.rule, one.failure or "")
        console().print(table)
    survived = len(tried) - len(failed)
    console().print(f"{survived} of {counted(len(tried), 'fault')} survived")
