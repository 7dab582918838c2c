"""`tieline audit`: the extension log, filtered, followed, made the same in every run, held against a recording."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.options import JsonOption
from gateway.cli.output import (
    BAD_INPUT,
    DONE,
    NO,
    CliError,
    counted,
    examples,
    grid,
    print_json,
    tell_warning,
    terminal_width,
    with_tail,
)
from gateway.cli.reading import opened, telling

if TYPE_CHECKING:
    from gateway.protocol.log import Entry
    from gateway.telemetry.audit import Query

POLL_S = 0.1
LEVELS = ("debug", "info", "warn", "error")
WIDTHS = {"time": 12, "extension": 12, "event": 18, "call": 12, "took": 10}
"""Columns of a followed row, which cannot wait for those that are to come."""


def register(app: typer.Typer) -> None:
    """Add `audit`."""

    @app.command(
        epilog=examples(
            "tieline audit",
            "tieline audit --denied --since 1h",
            "tieline audit --extension notes --event 'host_call.*' --json",
            "tieline audit --call host-13",
            "tieline audit --follow --errors",
            "tieline audit --verify session/",
            "tieline audit extension.log.jsonl --normalise",
        )
    )
    def audit(
        log: Annotated[
            Path | None,
            typer.Argument(
                metavar="LOG", help="A file, a directory of them, or a session. Default: the newest."
            ),
        ] = None,
        extension: Annotated[str | None, typer.Option(help="Only this extension; a glob.")] = None,
        event: Annotated[str | None, typer.Option(help="Only this event; a glob.")] = None,
        call: Annotated[str | None, typer.Option(metavar="ID", help="Only what carries this id.")] = None,
        level: Annotated[list[str] | None, typer.Option(help="Only this level; may be repeated.")] = None,
        denied: Annotated[bool, typer.Option("--denied", help="Only what was not allowed.")] = False,
        errors: Annotated[bool, typer.Option("--errors", help="Only what went wrong.")] = False,
        since: Annotated[
            str | None,
            typer.Option(metavar="TIME", help="From this time on, or so long ago: `10m`, `2h`, `1d`."),
        ] = None,
        until: Annotated[str | None, typer.Option(metavar="TIME", help="Up to then.")] = None,
        last: Annotated[int | None, typer.Option(min=1, help="Only the last so many.")] = None,
        follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on while it is written.")] = False,
        normalise: Annotated[
            bool,
            typer.Option("--normalise", help="Print lines as fixtures have them, the same in every run."),
        ] = False,
        cwd: Annotated[
            str, typer.Option(metavar="DIR", help="Of `--normalise`: the folder that becomes `<cwd>`.")
        ] = "",
        verify: Annotated[
            Path | None,
            typer.Option(metavar="RECORDING", help="Hold the log against this recording.", readable=False),
        ] = None,
        json: JsonOption = False,
    ) -> int:
        """Read the log of what extensions did and may do.

        Filters go together. With --json, each line as it is. Ends with 1 if no line fits.

        With --verify: whether every host call was decided about, every decision is about a call, and the log says what
        the recording says. Ends with 1 if not.
        """
        if verify is not None:
            return verified(log, verify, json=json)
        if follow and (last is not None or normalise):
            raise CliError("`--follow` goes with neither `--last` nor `--normalise`")
        query = _query(extension, event, call, level or (), since, until, denied=denied, errors=errors)
        path = log_file(log)
        if follow:
            return _follow(path, query, json=json)
        lines = _chosen(read_lines(path), query, path)
        kept = lines if last is None else deque(lines, maxlen=last)
        return _show(kept, json=json, normalise=normalise, cwd=cwd)

    del audit


def _query(
    extension: str | None, event: str | None, call: str | None, levels: Iterable[str], since: str | None,
    until: str | None, *, denied: bool, errors: bool,
) -> Query:  # fmt: skip
    from gateway.telemetry.audit import Query, moment_or_ago

    now = datetime.now(UTC)
    times: dict[str, datetime | None] = {}
    for name, text in (("since", since), ("until", until)):
        times[name] = None if text is None else moment_or_ago(text, now)
        if text is not None and times[name] is None:
            raise CliError(
                f"`--{name} {text}` is no time",
                hint="Write `2026-02-03T03:00:00Z`, or how long ago: `10m`, `2h`",
            )
    chosen = frozenset(levels)
    for each in chosen - set(LEVELS):
        raise CliError(f"`{each}` is no level", hint=f"Levels are {', '.join(LEVELS)}")
    return Query(
        extension=extension, event=event, call=call, levels=chosen, denied=denied, errors=errors,
        since=times["since"], until=times["until"],
    )  # fmt: skip


def log_file(given: Path | None) -> Path:
    """The file that was meant: named itself, by its session, or by where it lies; the newest where nothing was."""
    from gateway.telemetry.logs import log_dir

    directory = log_dir()
    if given is not None and given.is_file():
        return given
    if given is not None and not given.is_dir():
        named = directory / f"{given.name}.jsonl"
        if len(given.parts) != 1 or not named.is_file():
            hint = f"Name a file, or a session whose log lies in `{directory}`"
            raise CliError(f"`{given}` does not exist", hint=hint)
        return named
    place = given if given is not None else directory
    found = sorted(place.glob("*.jsonl"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    if not found:
        hint = "`log = true` under `[telemetry]` writes one" if given is None else None
        raise CliError(f"no log is in `{place}`", hint=hint)
    if given is None:
        sys.stderr.write(f"note: the newest log is `{found[-1]}`\n")
    return found[-1]


def read_lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a log; one that is still being written is left out.

    Raises:
        CliError: If the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line
    except OSError as error:
        raise CliError(f"`{path}` cannot be read: {error.strerror}", code=BAD_INPUT) from error


def _chosen(lines: Iterable[bytes], query: Query, path: Path) -> Iterator[tuple[bytes, Entry]]:
    """The lines that are asked for; what is no line is told."""
    from gateway.telemetry.audit import NotALineError, fits, read_line

    for number, line in enumerate(lines, 1):
        try:
            entry = read_line(line)
        except NotALineError as error:
            tell_warning(f"{path}:{number} {error}")
            continue
        if fits(entry, query):
            yield line, entry


def _show(chosen: Iterable[tuple[bytes, Entry]], *, json: bool, normalise: bool, cwd: str) -> int:
    from gateway.telemetry.audit import row

    count = 0
    rows: list[dict[str, str]] = []
    for line, entry in chosen:
        count += 1
        if normalise:
            sys.stdout.write(_fixture(line, cwd))
        elif json:
            sys.stdout.write(line.decode("utf-8", "replace"))
        else:
            rows.append(row(entry))
    if rows:
        sys.stdout.writelines(f"{line}\n" for line in grid(rows, right=("took",), width=terminal_width()))
    elif not count and not (json or normalise):
        sys.stdout.write("no such line\n")
    return DONE if count else NO


def _fixture(line: bytes, cwd: str) -> str:
    import msgspec

    from gateway.protocol.log import normalised

    made = normalised(msgspec.json.decode(line, type=dict[str, Any]), cwd=cwd)
    return msgspec.json.encode(made).decode() + "\n"


def _follow(path: Path, query: Query, *, json: bool) -> int:
    from gateway.telemetry.audit import row

    width = terminal_width()
    if not json:
        sys.stdout.write(_followed(dict(zip(WIDTHS, WIDTHS, strict=True)) | {"what": "what"}, width))
        sys.stdout.flush()
    for line, entry in _chosen(followed(path, lambda: time.sleep(POLL_S)), query, path):
        sys.stdout.write(line.decode("utf-8", "replace") if json else _followed(row(entry), width))
        sys.stdout.flush()
    return DONE


def followed(path: Path, wait: Callable[[], None]) -> Iterator[bytes]:
    """The whole lines of a log that is being written, for ever; `wait` is called where there are no more.

    Raises:
        CliError: If the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            begun = b""
            while True:
                part = file.readline()
                begun += part
                if begun.endswith(b"\n"):
                    yield begun
                    begun = b""
                elif not part:
                    wait()
    except OSError as error:
        raise CliError(f"`{path}` cannot be read: {error.strerror}", code=BAD_INPUT) from error


def _followed(row: dict[str, str], width: int | None) -> str:
    line = "  ".join(
        row[name].rjust(size) if name == "took" else row[name].ljust(size) for name, size in WIDTHS.items()
    )
    room = None if width is None else max(width - len(line) - 2, 1)
    return f"{line}  {with_tail(row['what'], '', room)}".rstrip() + "\n"


def verified(log: Path | None, directory: Path, *, json: bool) -> int:
    """Hold a log against the recording of its session, and say what is wrong with either."""
    from gateway.telemetry.verify import Told, decided_wrongly

    recording = opened(directory)
    path = log_file(log if log is not None else Path(recording.header.session))
    with telling():
        wrong = list(decided_wrongly(recording))
        told = Told(recording)
        wrong += [f"{path}: {each}" for each in told.wrong(read_lines(path))]
    if told.left_out:
        tell_warning(
            f"`{path}` says that it leaves out {counted(told.left_out, 'frame')}, which came too fast"
        )
    if json:
        print_json({"log": str(path), "recording": str(recording.path), "lines": told.lines, "wrong": wrong})
    else:
        sys.stdout.writelines(f"{each}\n" for each in wrong)
        said = "log and recording say the same" if not wrong else counted(len(wrong), "thing") + " wrong"
        sys.stdout.write(f"{counted(told.lines, 'line')}, {said}\n")
    return NO if wrong else DONE
