"""`tieline show`: one frame whole, with what caused it and what came of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.output import DONE, CliError, console, examples, print_json, table, tell_warning
from gateway.cli.reading import COLUMNS, DIR_HELP, RIGHT, cells, opened, telling

if TYPE_CHECKING:
    from recordings.frame import Frame
    from recordings.reader import Recording

LONGEST = 1024 * 1024
"""Bytes of a body that are shown; `--json` gives all."""


def register(app: typer.Typer) -> None:
    """Add `show`."""

    @app.command(
        epilog=examples("tieline show session/ 42", "tieline show session/ 42 --json | jq .frame.body")
    )
    def show(
        directory: Annotated[Path, typer.Argument(metavar="DIR", help=DIR_HELP)],
        seq: Annotated[int, typer.Argument(metavar="SEQ", min=0, help="The frame's number.")],
        json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    ) -> int:
        """Show one frame with its body.

        Beside it: the frames that caused it (what it answers, what it serves, what its sender had seen), and
        those that belong to it (answers, progress, decisions).
        """
        recording = opened(directory)
        with telling():
            frame = recording.frame(seq)
            causes, results = around(recording, frame)
        body = _body(recording, frame)
        if json:
            _print_json(frame, body, causes, results)
        else:
            _print(frame, body, causes, results)
        return DONE

    del show


def around(recording: Recording, frame: Frame) -> tuple[dict[str, Frame], list[Frame]]:
    """What a frame names as its causes, by how it names them, and the frames that name it, in order."""
    wanted = {
        name: number for name in ("re", "parent", "after") if (number := getattr(frame, name)) is not None
    }
    found: dict[int, Frame] = {}
    results: list[Frame] = []
    for other in recording:
        if other.seq in wanted.values():
            found[other.seq] = other
        if frame.seq in (other.re, other.parent):
            results.append(other)
    return {name: found[number] for name, number in wanted.items() if number in found}, results


def _body(recording: Recording, frame: Frame) -> bytes:
    from recordings.errors import MissingBlobError

    try:
        return recording.body(frame)
    except MissingBlobError as error:
        tell_warning(error.message)
        return b""


def _fields(frame: Frame) -> dict[str, Any]:
    import msgspec

    from recordings.segment import json_of

    return msgspec.json.decode(json_of(frame))


def _print_json(frame: Frame, body: bytes, causes: dict[str, Frame], results: list[Frame]) -> None:
    import msgspec

    fields = _fields(frame)
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

    out = console()
    fields = {name: value for name, value in _fields(frame).items() if name != "body"}
    for name, value in fields.items():
        text = f"{frame.at / 1e9:.6f} s" if name == "at" else str(value)
        out.print(f"{name:12} {printable(text)}", markup=False)
    if body:
        out.print()
        _print_body(frame, body)
    request = causes.get("re")
    if request is not None and request.kind == "request":
        out.print(f"\ntook         {took(frame.at - request.at)}", markup=False)
    for title, others in (("caused by", list(causes.items())), ("led to", [("", each) for each in results])):
        if others:
            out.print(f"\n{title}", markup=False)
            rows = [
                (name, *cells(Row(each, each.method, each.name, each.peer, each.lane)))
                for name, each in others
            ]
            out.print(table(("as", *COLUMNS), rows, right=RIGHT))


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
