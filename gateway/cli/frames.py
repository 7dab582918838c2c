"""`tieline frames`: what was said, by whom, when; filtered, followed, or counted."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.output import DONE, NO, WRONG_USE, CliError, console, examples, print_json, table
from gateway.cli.reading import COLUMNS, DIR_HELP, RIGHT, cells, opened, telling

if TYPE_CHECKING:
    from recordings.frame import Frame
    from recordings.reader import Recording
    from recordings.views import Body, Calls, Query, Row, Summary

BATCH = 500
"""Rows a table: a recording may be larger than memory."""
POLL_S = 0.1
WIDTHS = (7, 11, 6, 12, 12, 12, 36, 8, 7, 0)
"""Columns of a followed row, which cannot wait for those that are to come."""


def register(app: typer.Typer) -> None:
    """Add `frames`."""

    @app.command(
        epilog=examples(
            "tieline frames session/",
            "tieline frames session/ --method 'tools/*' --slow 200",
            "tieline frames session/ --errors --json | jq .seq",
            "tieline frames session/ --follow --peer database",
            "tieline frames session/ --summary",
        )
    )
    def frames(
        directory: Annotated[Path, typer.Argument(metavar="DIR", help=DIR_HELP)],
        method: Annotated[str | None, typer.Option(help="Only this method; a glob.")] = None,
        name: Annotated[str | None, typer.Option(help="Only this tool, prompt or resource; a glob.")] = None,
        peer: Annotated[str | None, typer.Option(help="Only this peer; a glob.")] = None,
        lane: Annotated[str | None, typer.Option(help="Only this lane; a glob.")] = None,
        kind: Annotated[list[str] | None, typer.Option(help="Only this kind; may be repeated.")] = None,
        errors: Annotated[bool, typer.Option("--errors", help="Only what went wrong.")] = False,
        slow: Annotated[float | None, typer.Option(help="Only answers that took so many ms.")] = None,
        since: Annotated[float | None, typer.Option(help="From so many seconds after the start.")] = None,
        until: Annotated[float | None, typer.Option(help="Up to so many seconds after the start.")] = None,
        last: Annotated[int | None, typer.Option(min=1, help="Only the last so many.")] = None,
        follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on while it is recorded.")] = False,
        summary: Annotated[bool, typer.Option("--summary", help="Count instead of listing.")] = False,
        json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    ) -> int:
        """List the frames of a recording.

        Filters go together. Times are seconds since the session began. Ends with 1 if no frame is wanted.
        """
        from recordings.views import Query

        if follow and (summary or last is not None):
            raise CliError("`--follow` goes with neither `--summary` nor `--last`")
        query = Query(
            method=method,
            name=name,
            peer=peer,
            lane=lane,
            kinds=_kinds(kind or []),
            errors=errors,
            slow_ns=None if slow is None else int(slow * 1e6),
            since_ns=None if since is None else int(since * 1e9),
            until_ns=None if until is None else int(until * 1e9),
        )
        recording = opened(directory)
        with telling():
            if summary:
                return _count(recording, query, json=json)
            if follow:
                return _follow(recording, query, json=json)
            return _list(recording, query, last=last, json=json)

    del frames


def _kinds(given: Iterable[str]) -> frozenset[str]:
    from typing import get_args

    from recordings.frame import Kind

    known = get_args(Kind)
    for kind in given:
        if kind not in known:
            raise CliError(
                f"`{kind}` is no kind of frame", hint=f"Kinds are {', '.join(known)}", code=WRONG_USE
            )
    return frozenset(given)


def _list(recording: Recording, query: Query, *, last: int | None, json: bool) -> int:
    from recordings.views import rows

    found: Iterator[Row] = rows(recording, query, _body(recording))
    if last is not None:
        found = iter(deque(found, maxlen=last))
    count = 0
    if json:
        for row in found:
            _write(row, recording)
            count += 1
        return DONE if count else NO
    out = console()
    while batch := list(islice(found, BATCH)):
        out.print(table(COLUMNS, [cells(row) for row in batch], right=RIGHT))
        count += len(batch)
    return DONE if count else NO


def _follow(recording: Recording, query: Query, *, json: bool) -> int:
    from recordings.views import rows

    for row in rows(recording.follow(lambda: time.sleep(POLL_S)), query, _body(recording)):
        if json:
            _write(row, recording)
        else:
            fields = zip(cells(row), COLUMNS, WIDTHS, strict=True)
            line = "  ".join(
                cell.rjust(width) if column in RIGHT else cell.ljust(width) for cell, column, width in fields
            )
            sys.stdout.write(line.rstrip() + "\n")
        sys.stdout.flush()
    return DONE


def _write(row: Row, recording: Recording) -> None:
    """One line of JSON: the frame as it is stored, and how long it took where that is known."""
    from recordings.segment import json_of

    line = json_of(row.frame)
    if row.took_ns is not None:
        line = b'%b,"took_ns":%d}' % (line[:-1], row.took_ns)
    sys.stdout.write(line.decode("utf-8", "replace") + "\n")


def _body(recording: Recording) -> Body:
    from recordings.errors import MissingBlobError

    def body(frame: Frame) -> bytes:
        try:
            return recording.body(frame)
        except MissingBlobError:
            return b""

    return body


def _count(recording: Recording, query: Query, *, json: bool) -> int:
    from recordings.views import rows, summary

    counted = summary((row.frame for row in rows(recording, query, _body(recording))), _body(recording))
    if json:
        print_json(as_json(recording, counted))
    else:
        show_summary(recording, counted)
    return DONE if counted.frames else NO


def as_json(recording: Recording, counted: Summary) -> dict[str, object]:
    """A summary as `--json` prints it; durations in nanoseconds."""
    return {
        "path": str(recording.path),
        "state": recording.state,
        "frames": counted.frames,
        "duration_ns": counted.duration_ns,
        "calls": counted.calls,
        "errors": counted.errors,
        "cancelled": counted.cancelled,
        "unanswered": counted.unanswered,
        "kinds": dict(counted.kinds),
        "peers": dict(counted.peers),
        "flags": dict(counted.flags),
        "methods": [
            {
                "peer": calls.peer,
                "method": calls.method,
                "name": calls.name,
                "calls": calls.calls,
                "errors": calls.errors,
                "cancelled": calls.cancelled,
                "unanswered": calls.unanswered,
                "p50_ns": calls.p50_ns,
                "p95_ns": calls.p95_ns,
                "max_ns": calls.max_ns,
            }
            for calls in counted.busiest()
        ],
        "warnings": recording.warnings,
    }


def show_summary(recording: Recording, counted: Summary) -> None:
    """Print what a recording holds: its size, its calls by method and tool, its frames by kind."""
    from recordings.views import took

    out = console()
    out.print(
        f"{counted.frames} frames in {took(counted.duration_ns) or '0 s'}, {counted.calls} calls, "
        f"{counted.errors} errors, {counted.cancelled} cancelled, {counted.unanswered} without an answer "
        f"({recording.state})",
        markup=False,
    )
    numbers = ("calls", "errors", "cancelled", "lost", "p50", "p95", "max")
    out.print(
        table(
            ("peer", "method", "name", *numbers),
            [_calls(calls) for calls in counted.busiest()],
            right=numbers,
        )
    )
    kinds = [(kind, str(count)) for kind, count in counted.kinds.most_common()]
    out.print(table(("kind", "frames"), kinds, right=("frames",)))


def _calls(calls: Calls) -> tuple[str, ...]:
    from recordings.views import printable, took

    return (
        printable(calls.peer),
        printable(calls.method),
        printable(calls.name),
        str(calls.calls),
        str(calls.errors or ""),
        str(calls.cancelled or ""),
        str(calls.unanswered or ""),
        took(calls.p50_ns),
        took(calls.p95_ns),
        took(calls.max_ns),
    )
