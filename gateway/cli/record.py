"""`tieline record`: in front of one server command or URL, unchanged for the client, recorded for you."""

import itertools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gateway.cli.arguments import plain
from gateway.cli.output import CliError, examples
from gateway.cli.run import run_gateway
from gateway.config import ServeOptions, for_one_peer
from gateway.config.places import recordings_dir

if TYPE_CHECKING:
    import typer


def register(app: "typer.Typer") -> None:
    """Add `record`."""
    import typer

    from gateway.cli.options import NewRecordingOption

    @app.command(
        context_settings={"allow_interspersed_args": False},
        epilog=examples(
            "tieline record -- npx -y @modelcontextprotocol/server-filesystem .",
            "tieline record --out ./session -- uvx mcp-server-git",
            "tieline record --twice --out ./session -- npx -y some-server",
            "tieline record --url https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'",
        ),
    )
    def record(
        command: Annotated[
            list[str] | None, typer.Argument(help="Server command and its arguments, after `--`.")
        ] = None,
        out: NewRecordingOption = None,
        url: Annotated[str | None, typer.Option(help="Record a server behind a URL instead.")] = None,
        header: Annotated[
            list[str] | None,
            typer.Option(
                metavar="'NAME: VALUE'",
                help="A header of every request to the URL; may be given several times. ${VAR} in it is "
                "replaced from the environment, and is not recorded.",
            ),
        ] = None,
        twice: Annotated[
            bool,
            typer.Option(
                "--twice",
                help="When the client has left, send its requests to a second start of the server, and propose rules "
                "for what differs. Effects are real, again.",
            ),
        ] = False,
        write_rules: Annotated[
            bool,
            typer.Option(
                "--write-rules", help="With --twice: add the rules to `replay.toml` beside the recording."
            ),
        ] = False,
    ) -> int:
        """Stand before one MCP server and record it.

        Put this before the server's command in any client's configuration.

        Speaks MCP on its own stdin and stdout. The server sees the same environment and working directory.
        """
        return start(
            command or [], out=out, url=url, headers=header or (), twice=twice, write_rules=write_rules
        )

    del record


def quick(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Return the work of plain arguments, or None."""
    split = plain(arguments, flags=(), values=("--out", "--url"), command=True)
    if split is None:
        return None
    options, rest = split
    out = Path(options["--out"]) if "--out" in options else None
    return lambda: start(rest, out=out, url=options.get("--url"))


def start(
    command: Sequence[str],
    *,
    out: Path | None,
    url: str | None,
    headers: Sequence[str] = (),
    twice: bool = False,
    write_rules: bool = False,
) -> int:
    """Serve the one peer on stdin and stdout until the client leaves; return the exit code."""
    if bool(command) == bool(url):
        wanted = "either a command or `--url`, not both" if url else "a server command, or `--url`"
        hint = "For example `tieline record -- npx some-server`"
        raise CliError(f"`tieline record` needs {wanted}", hint=hint)
    if headers and not url:
        raise CliError("`--header` is for `--url`: a command has no headers")
    if write_rules and not (twice and out):
        raise CliError(
            "`--write-rules` needs `--twice` and `--out`: rules lie beside one recording, not beside all",
            hint="For example `tieline record --twice --write-rules --out session -- npx some-server`",
        )
    config = for_one_peer(command=list(command) or None, url=url, headers=headers)
    if twice and out is None:
        out = recordings_dir(config) / f"twice-{os.getpid()}"
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = _free_told(out) if out else None
    options = ServeOptions(
        stdio=True, record_dir=directory, is_one_recording=directory is not None, is_transparent=True
    )
    code = run_gateway(config, options)
    if twice and directory is not None:
        from gateway.cli.twice import twice as send_again

        send_again(directory, config, write=write_rules)
    return code


def _free_told(out: Path) -> Path:
    """As `free`; on stderr stands which it is, where it is not the one that was named."""
    directory = free(out.absolute())
    if directory != out.absolute():
        sys.stderr.write(f"tieline: note: `{out}` is there already; this recording is `{directory.name}`\n")
    return directory


def free(out: Path) -> Path:
    """Return `out`, or `out-2`, `out-3` … if something is there: a client starts its servers often."""
    return next(
        path
        for path in itertools.chain([out], (out.with_name(f"{out.name}-{n}") for n in itertools.count(2)))
        if not path.exists()
    )
