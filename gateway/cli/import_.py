"""`tieline import`: another tool's recording, or our text form, as a recording."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.options import JsonOption, NewRecordingOption
from gateway.cli.output import BAD_INPUT, DONE, CliError, counted, examples, print_json, tell_warning
from gateway.cli.reading import telling, usual_place
from gateway.cli.record import free

if TYPE_CHECKING:
    from recordings.reader import Recording

MOST_BYTES = 1 << 30


def register(app: typer.Typer) -> None:
    """Add `import`."""

    @app.command(
        name="import",
        epilog=examples(
            "tieline import session.har",
            "tieline import cassette.yaml --from vcrpy --out ./recordings/search",
            "tieline import tests/sessions/search   # what `tieline export --git` wrote",
        ),
    )
    def import_(
        source: Annotated[
            Path,
            typer.Argument(metavar="PATH", help="A file of another tool, or a directory of `export --git`."),
        ],
        from_: Annotated[
            str | None,
            typer.Option("--from", metavar="FORMAT", help="What it is. Default: told by what is in it."),
        ] = None,
        out: NewRecordingOption = None,
        json: JsonOption = False,
    ) -> int:
        """Make a recording of what another tool has recorded.

        Formats: HAR; cassettes of vcrpy and cassetter with MCP in them; mcp-cassette, mcp-recorder, mcp-rec, mcpsnoop,
        mcp-vcr and agent-vcr. What a format does not hold is told, and noted in the recording.
        """
        if not source.exists():
            raise CliError(f"`{source}` does not exist")
        directory = free((out or usual_place() / f"imported-{source.absolute().stem}").absolute())
        with telling():
            is_text = source.is_dir() and from_ is None
            recording = _text(source, directory) if is_text else _foreign(source, from_, directory)
        if json:
            print_json(_as_json(recording))
        else:
            _tell(recording)
        return DONE

    del import_


def _text(path: Path, directory: Path) -> Recording:
    """The recording of a text form, begun now: when it was recorded is not in it."""
    import time

    import gateway
    from gateway.config.model import Config
    from gateway.config.places import state_dir
    from gateway.runtime.redactor import make_redactor
    from recordings.export_text import TextFiles, is_text_form
    from recordings.incoming import write_recording
    from recordings.textback import read_session, with_wall

    if not is_text_form(path):
        raise CliError(
            f"`{path}` holds no text form",
            hint="Name a directory of `tieline export --git`, or a file",
            code=BAD_INPUT,
        )
    header, frames = read_session(TextFiles(path))
    header.session = directory.name
    header.by = f"tieline {gateway.__version__}"
    header.started = time.time_ns()
    frames = with_wall(frames, header.started)
    return write_recording(directory, header, frames, redactor=make_redactor(Config(), state_dir()))


def _foreign(path: Path, format_: str | None, directory: Path) -> Recording:
    import gateway
    from gateway.config.model import Config
    from gateway.config.places import state_dir
    from gateway.runtime.redactor import make_redactor
    from recordings.header import Origin
    from recordings.importers.base import Source
    from recordings.importers.detect import FORMATS, imported
    from recordings.incoming import write_recording

    if format_ is not None and format_ not in FORMATS:
        raise CliError(f"`{format_}` is no format", hint=f"Formats are {', '.join(FORMATS)}")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise CliError(f"`{path}` is larger than 1 GiB", code=BAD_INPUT)
        data = path.read_bytes()
    except OSError as error:
        raise CliError(f"`{path}` cannot be read: {error.strerror}", code=BAD_INPUT) from error
    kind, made = imported(Source(str(path), data), format_)
    header = made.header
    header.session = directory.name
    header.imported = Origin(format=f"{kind.name} ({header.by})", file=path.name, lacks=made.lacks)
    header.by = f"tieline {gateway.__version__}"
    header.settings = {"peers": {name: {} for name in header.peers}, "transparent": len(header.peers) == 1}
    return write_recording(directory, header, made.frames, redactor=make_redactor(Config(), state_dir()))


def _as_json(recording: Recording) -> dict[str, object]:
    origin = recording.header.imported
    return {
        "path": str(recording.path),
        "format": origin.format if origin is not None else None,
        "frames": recording.frames,
        "peers": list(recording.header.peers),
        "lacks": origin.lacks if origin is not None else [],
        "warnings": recording.warnings,
    }


def _tell(recording: Recording) -> None:
    """Say what there is now, and what is not."""
    origin = recording.header.imported
    if origin is not None and origin.lacks:
        sys.stderr.write(f"note: not in {origin.file}:\n")
        for each in origin.lacks:
            sys.stderr.write(f"  - {each}\n")
    for warning in recording.warnings:
        tell_warning(warning)
    sys.stdout.write(f"{recording.path}\n")
    sys.stderr.write(
        f"note: {counted(recording.frames, 'frame')}, {counted(len(recording.header.peers), 'peer')}\n"
    )
