"""`tieline frames`: what was said, by whom, when; filtered, followed, or counted."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.evidence import evidence, keyed
from gateway.cli.options import DirArgument
from gateway.cli.output import (
    DONE,
    LONG,
    NO,
    WRONG_USE,
    CliError,
    console,
    cut,
    examples,
    grid,
    print_json,
    terminal_width,
    with_tail,
)
from gateway.cli.output import counted as number_of
from gateway.cli.reading import RIGHT, cells, frame_lines, opened, telling

if TYPE_CHECKING:
    from recordings.frame import Frame
    from recordings.reader import Recording
    from recordings.views import Body, Calls, Query, Row, Summary

BATCH = 500
"""Rows a table: a recording may be larger than memory."""
POLL_S = 0.1
WIDTHS = {"seq": 5, "at": 8, "way": 6, "peer": 10, "lane": 12, "kind": 12, "took": 7}
"""Columns of a followed row, which cannot wait for those that are to come."""
NONE = "no such frame\n"
NO_ERROR = "nothing went wrong\n"
NUMBERS = ("calls", "errors", "cancelled", "lost", "p50", "p95", "max")


def register(app: typer.Typer) -> None:
    """Add `frames`."""

    @app.command(
        epilog=examples(
            "tieline frames",
            "tieline frames session/",
            "tieline frames session/ --method 'tools/*' --slow 200",
            "tieline frames session/ --errors --json | jq .seq",
            "tieline frames session/ --follow --peer database",
            "tieline frames session/ --summary",
        )
    )
    def frames(
        directory: DirArgument = None,
        method: Annotated[str | None, typer.Option(help="Only this method; a glob.")] = None,
        name: Annotated[str | None, typer.Option(help="Only this tool, prompt or resource; a glob.")] = None,
        peer: Annotated[str | None, typer.Option(help="Only this peer; a glob.")] = None,
        lane: Annotated[str | None, typer.Option(help="Only this lane; a glob.")] = None,
        kind: Annotated[
            list[str] | None,
            typer.Option(help="Only this kind; may be repeated.", autocompletion=_kinds_from),
        ] = None,
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

        Filters go together. Times are seconds since the session began. Ends with 1 if no frame fits; where only
        --errors leaves none, nothing went wrong, which is 0.
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


def _kinds_from(begun: str) -> list[str]:
    """The kinds that begin so, for completion."""
    from typing import get_args

    from recordings.frame import Kind

    return [kind for kind in get_args(Kind) if kind.startswith(begun)]


def _kinds(given: Iterable[str]) -> frozenset[str]:
    known = _kinds_from("")
    for kind in given:
        if kind not in known:
            raise CliError(
                f"`{kind}` is no kind of frame", hint=f"Kinds are {', '.join(known)}", code=WRONG_USE
            )
    return frozenset(given)


def _list(recording: Recording, query: Query, *, last: int | None, json: bool) -> int:
    from recordings.views import rows

    body = _body(recording)
    found: Iterator[Row] = rows(keyed(recording, recording, body) if json else recording, query, body)
    if last is not None:
        found = iter(deque(found, maxlen=last))
    count = 0
    if json:
        for row in found:
            _write(row, body)
            count += 1
        return DONE if count else _none(recording, query, quiet=True)
    while batch := list(islice(found, BATCH)):
        for line in frame_lines(batch, terminal_width()):
            sys.stdout.write(line + "\n")
        count += len(batch)
    return DONE if count else _none(recording, query)


def _none(recording: Recording, query: Query, *, quiet: bool = False) -> int:
    """Say that no frame fits. Without errors among those that would fit otherwise, nothing is amiss."""
    from recordings.views import rows

    wider = replace(query, errors=False)
    is_clean = query.errors and next(iter(rows(recording, wider, _body(recording))), None) is not None
    if not quiet:
        sys.stdout.write(NO_ERROR if is_clean else NONE)
    return DONE if is_clean else NO


def _follow(recording: Recording, query: Query, *, json: bool) -> int:
    from recordings.views import rows

    width = terminal_width()
    with_lane, count = False, 0
    body = _body(recording)
    frames = recording.follow(lambda: time.sleep(POLL_S))
    for row in rows(keyed(recording, frames, body) if json else frames, query, body):
        if json:
            _write(row, body)
        else:
            if not count or (row.lane and not with_lane):
                with_lane = bool(row.lane)
                sys.stdout.write(
                    _followed(dict(zip(WIDTHS, WIDTHS, strict=True)), width, with_lane=with_lane)
                )
            sys.stdout.write(_followed(cells(row), width, with_lane=with_lane))
        count += 1
        sys.stdout.flush()
    return DONE if count else _none(recording, query, quiet=json)


def _followed(row: dict[str, str], width: int | None, *, with_lane: bool) -> str:
    """A line of the table of which nobody knows yet what is to come."""
    line = "  ".join(
        row[name].rjust(size) if name in RIGHT else row[name].ljust(size)
        for name, size in WIDTHS.items()
        if name != "lane" or with_lane
    )
    room = None if width is None else max(width - len(line) - 2, 1)
    return f"{line}  {with_tail(row.get('what', 'what'), row.get('flags', ''), room)}".rstrip() + "\n"


def _write(row: Row, body: Body) -> None:
    """One line of JSON: the frame as it is stored and what is known of it beside, how long it took among that."""
    from recordings.segment import json_of

    line = json_of(row.frame)
    if row.frame.params_hash is None and (found := evidence(row.frame, body(row.frame))) is not None:
        line = b'%b,"params_hash":"%b"}' % (line[:-1], found.encode())
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
    from recordings.views import summary

    counted = summary(recording, _body(recording), query)
    if json:
        print_json(as_json(recording, counted))
    elif counted.frames:
        show_summary(recording, counted)
    return DONE if counted.frames else _none(recording, query, quiet=json)


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

    sentence = (
        f"{number_of(counted.frames, 'frame')} in {took(counted.duration_ns) or '0 s'}, "
        f"{number_of(counted.calls, 'call')}, {number_of(counted.errors, 'error')}, "
        f"{counted.cancelled} cancelled, {counted.unanswered} without an answer ({recording.state})"
    )
    console().print(sentence, markup=False)
    if counted.methods:
        made = [_calls(calls) for calls in counted.busiest()]
        _print(grid(made, right=NUMBERS, width=terminal_width(), expendable=("p95", "max")))
    if counted.kinds:
        kinds = [{"frames": str(count), "kind": kind} for kind, count in counted.kinds.most_common()]
        _print(grid(kinds, right=("frames",), width=terminal_width()))


def _print(lines: Iterable[str]) -> None:
    sys.stdout.write("\n".join(("", *lines, "")))


def _calls(calls: Calls) -> dict[str, str]:
    from recordings.views import printable, took

    return {
        "peer": cut(printable(calls.peer), LONG),
        "calls": str(calls.calls),
        "errors": str(calls.errors or ""),
        "cancelled": str(calls.cancelled or ""),
        "lost": str(calls.unanswered or ""),
        "p50": took(calls.p50_ns),
        "p95": took(calls.p95_ns),
        "max": took(calls.max_ns),
        "what": printable(f"{calls.method} {calls.name}".strip()),
    }
