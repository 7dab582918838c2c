"""`tieline verify`: the recorded requests against the live services, and how their answers have drifted.

Owns the options and the exit code. How recordings are compared is `recordings.compare`'s business, what a drift is
called `recordings.drift`'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.options import RecordingArgument
from gateway.cli.output import BAD_INPUT, CliError, ensure_writable, examples
from gateway.cli.reading import opened

if TYPE_CHECKING:
    from gateway.config import Config

SEVERITIES = ("breaking", "changed", "added")


def register(app: typer.Typer) -> None:
    """Add `verify`."""

    @app.command(
        epilog=examples(
            "tieline verify session/",
            "tieline verify session/ --config tieline.toml",
            "tieline verify session/ --junit drift.xml -- npx -y some-server",
        ),
    )
    def verify(
        recording: RecordingArgument,
        command: Annotated[
            list[str] | None,
            typer.Argument(help="The live server, after `--`, where the recording has one peer."),
        ] = None,
        *,
        config: Annotated[
            Path | None, typer.Option(help="Configuration of the live peers. Default: tieline.toml here.")
        ] = None,
        url: Annotated[str | None, typer.Option(help="The live server behind a URL instead.")] = None,
        out: Annotated[
            Path | None, typer.Option(metavar="DIR", help="Keep the recording of the live run here.")
        ] = None,
        timeout: Annotated[float, typer.Option(help="Seconds to wait for a live answer.", min=0.1)] = 30.0,
        fail_on: Annotated[
            str, typer.Option(help="What ends with 1: breaking, changed (and breaking), or added (anything).")
        ] = "changed",
        junit: Annotated[
            Path | None, typer.Option(metavar="FILE", help="Write the drift as JUnit XML.")
        ] = None,
        json: Annotated[bool, typer.Option("--json", help="One JSON value.")] = False,
    ) -> int:
        """Ask live services what was recorded, and compare.

        Requests go out in their causal order; cursors, handles and ids that the services make up anew are put in the
        place of the recorded ones. Effects are real: what the recorded agent wrote is written again.

        Ends with 0 if nothing has drifted, 1 if something has, 2 if requests were left without an answer, 3 if the
        recording cannot be used or a live server cannot be reached.
        """
        if fail_on not in SEVERITIES:
            raise CliError(f"`--fail-on {fail_on}` is not known", hint="Say breaking, changed or added")
        if junit is not None:
            ensure_writable(junit, makes=out)
        try:
            source = opened(recording)
        except CliError as error:
            raise CliError(str(error), hint=error.hint, code=BAD_INPUT) from error
        live = live_config(list(source.header.peers), command or [], config, url, "the recording")
        from gateway.cli.verified import run_verify

        return run_verify(source, live, out=out, timeout_s=timeout, fail_on=fail_on, junit=junit, json=json)

    del verify


def live_config(
    names: list[str], command: list[str], path: Path | None, url: str | None, what: str
) -> Config:
    """The configuration of the live peers, under the names that they have in `what` they are compared with."""
    from msgspec.structs import replace

    from gateway.cli.arguments import config_path, load_config
    from gateway.config import for_one_peer

    if not command and not url:
        try:
            found = config_path(path)
        except CliError as error:
            raise CliError(
                str(error), hint=f"{error.hint}; or put the server's command after `--`", code=error.code
            ) from error
        config = load_config(found)
        missing = [name for name in names if name not in config.active_peers]
        if missing:
            raise CliError(
                f"`{config.source}` has no peer `{missing[0]}`, which {what} has",
                hint="Name its configuration with `--config`, or the server's command after `--`",
            )
        return config
    if command and url:
        raise CliError("a command and `--url` are two servers", hint="Name one of them")
    if len(names) != 1:
        raise CliError(
            f"{what} has {len(names)} peers, a command is one",
            hint="Name a configuration with `--config`",
        )
    config = for_one_peer(command=command or None, url=url, headers=())
    return replace(config, peers={names[0]: next(iter(config.peers.values()))})
