"""`tieline export`: a recording as HAR, as a Chrome trace, or as one JSON document."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.options import DirArgument
from gateway.cli.output import BAD_INPUT, DONE, CliError, examples
from gateway.cli.reading import opened, telling


def register(app: typer.Typer) -> None:
    """Add `export`."""

    @app.command(
        epilog=examples(
            "tieline export session/ --har -o session.har",
            "tieline export session/ --trace -o trace.json   # open it at ui.perfetto.dev",
            "tieline export session/ --json | jq '.frames[] | select(.kind == \"error\")'",
        )
    )
    def export(
        directory: DirArgument = None,
        har: Annotated[bool, typer.Option("--har", help="HAR 1.2, an entry a call.")] = False,
        trace: Annotated[bool, typer.Option("--trace", help="Chrome trace, for Perfetto.")] = False,
        json: Annotated[bool, typer.Option("--json", help="One JSON document, for jq.")] = False,
        public: Annotated[
            bool, typer.Option("--public", help="Leave out what tells equal secrets from unequal ones.")
        ] = False,
        output: Annotated[
            Path | None,
            typer.Option("--output", "-o", metavar="FILE", help="Write here instead of to stdout."),
        ] = None,
    ) -> int:
        """Write a recording in another format.

        The file is readable by you alone, as the recording is.
        """
        from recordings.export import exported

        if har + trace + json != 1:
            raise CliError("name one format: `--har`, `--trace` or `--json`")
        recording = opened(directory)
        with telling():
            pieces = exported(recording, "har" if har else "trace" if trace else "json", public=public)
            if output is None:
                for piece in pieces:
                    sys.stdout.buffer.write(piece)
                sys.stdout.flush()
            else:
                _write(output, pieces)
        return DONE

    del export


def _write(output: Path, pieces: Iterable[bytes]) -> None:
    try:
        fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.writelines(pieces)
    except OSError as error:
        raise CliError(f"`{output}` cannot be written: {error.strerror}", code=BAD_INPUT) from error
