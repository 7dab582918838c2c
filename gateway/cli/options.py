"""The arguments and options that several commands take: said once, so that they mean the same everywhere.

Owns their names and their help. Brings in the option parser, so `arguments` and `reading`, which the quick ways into
commands use, know nothing of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigArgument = Annotated[
    Path | None, typer.Argument(help="`tieline.toml` or another client's JSON. Default: what lies here.")
]
DIR_HELP = "The recording, or its name in `tieline recordings`. Default: the newest."
# Whether it may be read is looked at where it is opened: what cannot be is a bad recording, and not wrong use.
DirArgument = Annotated[Path | None, typer.Argument(metavar="DIR", help=DIR_HELP, readable=False)]
RecordingArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The recording.", readable=False)]
NewRecordingOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The recording, or DIR-2, DIR-3 … Default: in the state directory."),
]
ReadyFileOption = Annotated[
    Path | None, typer.Option(help="Write the listeners' addresses here, as JSON, once all accept.")
]
InsecureOption = Annotated[
    bool, typer.Option("--insecure-loopback", help="Ask for no token on loopback listeners.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
PeerOption = Annotated[list[str] | None, typer.Option(help="Only this peer; may be given several times.")]
