"""`tieline show`: one frame whole, with what caused it and what came of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from gateway.cli.evidence import evidence, keyed_one
from gateway.cli.options import DIR_HELP, JsonOption
from gateway.cli.output import DONE, CliError, examples, print_json, tell_warning, terminal_width
from gateway.cli.reading import frame_lines, looked_up, opened, telling

if TYPE_CHECKING:
    from recordings.frame import Frame
    from recordings.lookup import Lookup
    from recordings.reader import Recording

LONGEST = 1024 * 1024
"""Bytes of a body that are shown; `--json` gives all."""


def register(app: typer.Typer) -> None:
    """Add `show`."""

    @app.command(
        epilog=examples(
            "tieline show 42", "tieline show session/ 42", "tieline show session/ 42 --json | jq .frame.body"
        )
    )
    def show(
        directory: Annotated[str | None, typer.Argument(metavar="DIR", help=DIR_HELP)] = None,
        seq: Annotated[str | None, typer.Argument(metavar="SEQ", help="The frame's number.")] = None,
        json: JsonOption = False,
    ) -> int:
        """Show one frame with its body.

        Beside it: the frames that caused it (what it answers, what it serves, what its sender had seen), and
        those that belong to it (answers, progress, decisions).
        """
        where, number = _named([word for word in (directory, seq) if word is not None])
        recording = opened(where)
        with telling(), looked_up(recording) as lookup:
            frame = lookup.frame(number)
            causes, results = around(lookup, frame)
            body = _body(recording, frame)
            frame = keyed_one(lookup, frame, body)
        if json:
            _print_json(frame, body, causes, results)
        else:
            _print(frame, body, causes, results)
        return DONE

    del show


def _named(words: Sequence[str]) -> tuple[Path | None, int]:
    """Tell the directory, which may be left out, from the number."""
    *before, number = words or [""]
    if not (number.isascii() and number.isdigit()):
        raise CliError(
            "name a recording and the number of a frame", hint="For example `tieline show session/ 42`"
        )
    return Path(before[0]) if before else None, int(number)


def around(lookup: Lookup, frame: Frame) -> tuple[dict[str, Frame], list[Frame]]:
    """What a frame names as its causes, by how it names them, and the frames that name it, in order."""
    causes: dict[str, Frame] = {}
    for name in ("re", "parent", "after"):
        number = getattr(frame, name)
        if number is not None and number in lookup:
            causes[name] = lookup.frame(number)
    results = [lookup.frame_of(row) for row in lookup.naming(frame.seq)]
    if lookup.recording.state != "live":
        results += [lost for lost in lookup.recording.lost() if lost.re == frame.seq]
    return causes, results


def _body(recording: Recording, frame: Frame) -> bytes:
    from recordings.errors import MissingBlobError

    try:
        return recording.body(frame)
    except MissingBlobError as error:
        tell_warning(error.message)
        return b""


def _fields(frame: Frame, body: bytes = b"") -> dict[str, Any]:
    import msgspec

    from recordings.frame import NO_BODY
    from recordings.segment import json_of

    # A body stays as it is: it may hold what no value can, and need not be looked into.
    plain = frame if frame.kind == "raw" else msgspec.structs.replace(frame, body=NO_BODY)
    fields: dict[str, Any] = msgspec.json.decode(json_of(plain))
    if frame.kind != "raw" and frame.body:
        fields["body"] = frame.body
    found = evidence(frame, body)
    return fields if found is None else {**fields, "params_hash": found}


def _print_json(frame: Frame, body: bytes, causes: dict[str, Frame], results: list[Frame]) -> None:
    import msgspec

    fields: dict[str, Any] = _fields(frame, body)
    if frame.blob is not None and frame.kind != "raw" and body:
        fields["body"] = msgspec.Raw(body)
    print_json(
        {
            "frame": fields,
            "causes": {name: _fields(cause) for name, cause in causes.items()},
            "results": [_fields(result) for result in results],
        }
    )


def _print(frame: Frame, body: bytes, causes: dict[str, Frame], results: list[Frame]) -> None:
    from recordings.views import Row, printable, took

    fields: dict[str, Any] = _fields(frame, body)
    fields.pop("body", None)
    # What a decision or an event tells stands in one field, whose name tells a reader nothing.
    facts = fields.pop("x", {})
    for name, value in (*fields.items(), *facts.items()):
        for head, line in zip_longest([name], lines_of(name, value), fillvalue=""):
            sys.stdout.write(f"{printable(head):12} {printable(line)}".rstrip() + "\n")
    if body:
        sys.stdout.write("\n")
        _print_body(frame, body)
    request = causes.get("re")
    if request is not None and request.kind == "request":
        sys.stdout.write(f"\ntook         {took(frame.at - request.at)}\n")
    for title, names, others in (
        ("caused by", list(causes), list(causes.values())),
        ("led to", [], results),
    ):
        if others:
            rows = [Row(each, each.method, each.name, each.peer, each.lane) for each in others]
            sys.stdout.write("\n".join(("", title, *frame_lines(rows, terminal_width(), names=names), "")))


def lines_of(name: str, value: Any) -> list[str]:
    """A field's value in lines: one for each member that has something to say, and each item that is no plain value."""
    match value:
        case dict():
            members = cast("dict[str, Any]", value).items()
            return [f"{key} {told(key, inner)}" for key, inner in members if inner not in ("", [], {}, None)]
        case list() if any(isinstance(each, list | dict) for each in cast("list[Any]", value)):
            return [
                " ".join(told("", word) for word in cast("list[Any]", each))
                if isinstance(each, list)
                else told("", each)
                for each in cast("list[Any]", value)
            ]
        case _:
            return [told(name, value)]


def told(name: str, value: Any) -> str:
    """A field's value for people: times as such, no syntax around words."""
    match value:
        case int() if name == "at":
            return f"{value / 1e9:.6f} s"
        case int() if name == "wall":
            moment = datetime.fromtimestamp(value / 1e9).astimezone()
            return moment.isoformat(sep=" ", timespec="microseconds")
        case list() if any(isinstance(each, list | dict) for each in cast("list[Any]", value)):
            return "; ".join(lines_of("", value))
        case list():
            return ", ".join(told("", each) for each in cast("list[Any]", value))
        case dict():
            members = cast("dict[str, Any]", value).items()
            return ", ".join(
                f"{key} {told('', inner)}" for key, inner in members if inner not in ("", [], {}, None)
            )
        case bool():
            return "yes" if value else "no"
        case _:
            return "none" if value is None else str(value)


def _print_body(frame: Frame, body: bytes) -> None:
    import msgspec

    from recordings.views import printable

    text = body[:LONGEST]
    if frame.kind != "raw" and len(body) <= LONGEST:
        try:
            text = msgspec.json.format(body, indent=2)
        except msgspec.DecodeError as error:
            raise CliError(f"the body of frame {frame.seq} is no JSON") from error
    for line in text.decode("utf-8", "backslashreplace").split("\n"):
        sys.stdout.write(printable(line) + "\n")
    if len(body) > LONGEST:
        sys.stdout.write(f"… {len(body) - LONGEST} bytes more\n")
