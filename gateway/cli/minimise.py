"""`tieline minimise`: the smallest recording with which a command still fails."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.options import DirArgument, JsonOption
from gateway.cli.output import DONE, NO, CliError, counted, examples, print_json
from gateway.cli.reading import opened, telling

if TYPE_CHECKING:
    from recordings.minimise import Minimised, Step

CANDIDATE = "{}"


def register(app: typer.Typer) -> None:
    """Add `minimise`."""

    @app.command(
        epilog=examples(
            "tieline minimise session/ --command 'tieline replay {} --drive'",
            "tieline minimise session/ --command 'pytest tests/test_agent.py --recording {}' --any",
        )
    )
    def minimise(
        directory: DirArgument = None,
        *,
        command: Annotated[
            str,
            typer.Option(
                metavar="COMMAND", help="What fails, run without a shell; `{}` stands for a recording."
            ),
        ],
        any_failure: Annotated[
            bool, typer.Option("--any", help="Every exit code but 0 will do, not only the first one.")
        ] = False,
        timeout: Annotated[
            float, typer.Option(min=0.1, help="Seconds after which the command counts as hanging.")
        ] = 60.0,
        runs: Annotated[int, typer.Option(min=1, help="How often to run the command at most.")] = 1000,
        out: Annotated[
            Path | None, typer.Option(metavar="DIR", help="The new recording. Default: beside, with `.min`.")
        ] = None,
        json: JsonOption = False,
    ) -> int:
        """Find the smallest recording with which a command still fails.

        Leaves out lanes, then peers, then calls with all that belongs to them, and keeps what the failure needs. The
        command is run on one candidate after another. Ctrl-C ends the search and keeps the smallest so far.

        Ends with 1 if the command does not fail with the whole recording.
        """
        words = _words(command)
        recording = opened(directory)
        path = recording.path.resolve()
        out = out or path.with_name(f"{path.name}.min")
        from gateway import __version__
        from recordings.minimise import DoesNotFailError, minimise

        def oracle(candidate: Path) -> str | None:
            return _failure(words, candidate, timeout, any_failure=any_failure)

        with (
            telling(),
            _scratch(out) as scratch,
            _watched() as progress,
        ):
            if out.exists() and any(out.iterdir()):
                raise CliError(f"`{out}` is there already", hint="Name another one with `--out`")
            try:
                made = minimise(
                    recording,
                    out,
                    oracle,
                    scratch=scratch,
                    session=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(3)}",
                    by=f"tieline {__version__}",
                    most_runs=runs,
                    progress=progress,
                )
            except DoesNotFailError:
                raise CliError("the command does not fail with this recording", code=NO) from None
        _tell(made, json=json)
        return DONE

    del minimise


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CliError(f"`--command` cannot be read: {error}") from error
    if not any(CANDIDATE in word for word in words[1:]):
        raise CliError(
            "`--command` names no recording", hint="Put `{}` where the path of a recording belongs"
        )
    return words


def _failure(words: list[str], candidate: Path, timeout: float, *, any_failure: bool) -> str | None:
    """In which way the command fails with a recording; None where it does not."""
    arguments = [words[0], *(word.replace(CANDIDATE, str(candidate)) for word in words[1:])]
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise CliError(f"`{words[0]}` cannot be run: {error.strerror}") from error
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        _kill(process)
        failure = "no end in time"
    except BaseException:
        _kill(process)
        raise
    else:
        failure = None if code == 0 else f"exit code {code}" if code > 0 else signal.Signals(-code).name
    return "failure" if failure and any_failure else failure


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a command with all that it has started: it began a group of its own, and is not waited for yet."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def _scratch(out: Path) -> Generator[Path]:
    """A private directory beside the result, for candidates."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=out.parent, prefix=".tieline-")
    except OSError as error:
        raise CliError(f"`{out.parent}` cannot be written: {error.strerror}") from error
    with scratch as path:
        yield Path(path)


@contextlib.contextmanager
def _watched() -> Generator[Callable[[Step], None]]:
    """What shows how far it is: a line on stderr that stays one, where stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from gateway.cli.output import console

    with console(stderr=True).status("the whole recording…") as status:
        yield lambda step: status.update(_said(step))


def _said(step: Step) -> str:
    return f"{step.stage}: {step.frames} of {counted(step.of, 'frame')}, {counted(step.runs, 'run')}"


def _tell(made: Minimised, *, json: bool) -> None:
    if json:
        print_json(
            {
                "path": str(made.path),
                "failure": made.failure,
                "frames": made.frames,
                "of": made.of,
                "calls": made.calls,
                "of_calls": made.of_calls,
                "lanes": made.lanes,
                "peers": made.peers,
                "runs": made.runs,
                "minimal": made.is_minimal,
            }
        )
        return
    if not made.is_minimal:
        sys.stderr.write("note: the search ended early; a smaller recording may fail too\n")
    sys.stdout.write(
        f"{made.frames} of {counted(made.of, 'frame')} and {made.calls} of {counted(made.of_calls, 'call')} "
        f"are left after {counted(made.runs, 'run')}; {made.path} still fails: {made.failure}\n"
    )
