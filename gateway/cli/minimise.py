"""`tieline minimise`: the smallest recording with which a command still fails."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.options import DirArgument, JsonOption
from gateway.cli.output import BAD_INPUT, DONE, NO, CliError, counted, examples, print_json
from gateway.cli.reading import opened, telling
from gateway.cli.trying import candidate_words, failure_with

if TYPE_CHECKING:
    from recordings.minimise import Minimised, Step


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
        words = candidate_words("--command", command)
        recording = opened(directory)
        path = recording.path.resolve()
        out = out or path.with_name(f"{path.name}.min")
        from gateway import __version__
        from recordings.minimise import DoesNotFailError, minimise

        def oracle(candidate: Path) -> str | None:
            return failure_with(words, candidate, timeout, any_failure=any_failure)

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


@contextlib.contextmanager
def _scratch(out: Path) -> Generator[Path]:
    """A private directory beside the result, for candidates."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=out.parent, prefix=".tieline-")
    except OSError as error:
        raise CliError(f"`{out.parent}` cannot be written: {error.strerror}", code=BAD_INPUT) from error
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
