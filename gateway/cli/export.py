"""`tieline export`: a recording as text for git, as a public copy, or in another format."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.options import DirArgument
from gateway.cli.output import BAD_INPUT, DONE, CliError, counted, examples
from gateway.cli.reading import opened, telling

if TYPE_CHECKING:
    from recordings.reader import Recording

FORMATS = ("har", "trace", "json", "otlp")


def register(app: typer.Typer) -> None:
    """Add `export`."""

    @app.command(
        epilog=examples(
            "tieline export session/ --git -o tests/sessions/search   # text, the same for the same session",
            "tieline export session/ --public -o bug-report/          # a recording to give away",
            "tieline export session/ --har -o session.har",
            "tieline export session/ --trace -o trace.json            # open it at ui.perfetto.dev",
            "tieline export session/ --otlp -o spans.json             # for a collector or a trace viewer",
            "tieline export session/ --json | jq '.frames[] | select(.kind == \"error\")'",
        )
    )
    def export(
        directory: DirArgument = None,
        git: Annotated[
            bool, typer.Option("--git", help="A directory of text files, for `tieline import`.")
        ] = False,
        har: Annotated[bool, typer.Option("--har", help="HAR 1.2, an entry a call.")] = False,
        trace: Annotated[bool, typer.Option("--trace", help="Chrome trace, for Perfetto.")] = False,
        json: Annotated[bool, typer.Option("--json", help="One JSON document, for jq.")] = False,
        otlp: Annotated[bool, typer.Option("--otlp", help="Spans of OpenTelemetry, as OTLP/JSON.")] = False,
        public: Annotated[
            bool,
            typer.Option(
                "--public",
                help="Leave out which secrets were equal, and of this machine and user what can be known. "
                "Without a format: a recording.",
            ),
        ] = False,
        output: Annotated[
            Path | None,
            typer.Option("--output", "--out", "-o", metavar="PATH", help="Write here instead of to stdout."),
        ] = None,
    ) -> int:
        """Write a recording as text, as a copy, or for other tools.

        What is written is readable by you alone, as the recording is.
        """
        chosen = [name for name, is_it in zip(FORMATS, (har, trace, json, otlp), strict=True) if is_it]
        if len(chosen) + git > 1 or not (chosen or git or public):
            raise CliError("name one of `--git`, `--public`, `--har`, `--trace`, `--otlp` and `--json`")
        if output is None and not chosen:
            raise CliError("name the directory to write", hint="For example `--out ./session`")
        recording = opened(directory)
        with telling():
            if chosen:
                _write(output, _pieces(recording, chosen[0], public=public))
            elif output is not None and git:
                _write_text(recording, output, public=public)
            elif output is not None:
                _write_public(recording, output)
        return DONE

    del export


def _pieces(recording: Recording, form: str, *, public: bool) -> Iterator[bytes]:
    from recordings.export import exported
    from recordings.public import public_view

    shown = public_view(recording, *_here()) if public else recording
    if form == "otlp":
        from gateway.telemetry.otlp_file import otlp_json

        return otlp_json(shown)
    return exported(shown, "har" if form == "har" else "trace" if form == "trace" else "json")


def _write_text(recording: Recording, output: Path, *, public: bool) -> None:
    from recordings.export_text import write_text_form
    from recordings.public import public_view
    from recordings.textform import text_files

    shown = public_view(recording, *_here()) if public else recording
    files = write_text_form(output, text_files(shown.header, shown, shown.body, public=public))
    sys.stderr.write(f"note: {counted(files, 'file')} in `{output}`\n")


def _write_public(recording: Recording, output: Path) -> None:
    from recordings.incoming import write_recording
    from recordings.public import public_view

    shown = public_view(recording, *_here())
    copy = write_recording(output.absolute(), shown.header, shown.whole())
    sys.stderr.write(f"note: {counted(copy.frames, 'frame')} in `{output}`\n")


def _here() -> tuple[str, str]:
    """The home and the working directory of whoever exports, which are mostly those of whoever recorded."""
    return str(Path.home()), str(Path.cwd())


def _write(output: Path | None, pieces: Iterable[bytes]) -> None:
    if output is None:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.flush()
        return
    try:
        fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.writelines(pieces)
    except OSError as error:
        raise CliError(f"`{output}` cannot be written: {error.strerror}", code=BAD_INPUT) from error
