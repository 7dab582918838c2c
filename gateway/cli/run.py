"""`tieline run`: the gateway, with everything that a configuration names."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from gateway.cli.arguments import load_config, need_peers, plain
from gateway.cli.output import examples
from gateway.config import Config, ServeOptions
from recordings.spelling import absolute

if TYPE_CHECKING:
    from pathlib import Path

    import typer

    from gateway.runtime.ahead import Ahead

_FLAGS = ("--stdio", "--watch", "--extensions", "--ui", "--insecure-loopback")
_VALUES = ("--ready-file", "--record")


def register(app: "typer.Typer") -> None:
    """Add `run`."""
    from pathlib import Path

    import typer

    from gateway.cli.options import ConfigArgument, InsecureOption, ReadyFileOption

    @app.command(
        epilog=examples(
            "tieline run",
            "tieline run tieline.toml --watch",
            "tieline run ~/.cursor/mcp.json --stdio --record ./recordings",
            "tieline run --extensions --stdio",
        )
    )
    def run(
        config: ConfigArgument = None,
        stdio: Annotated[
            bool, typer.Option("--stdio", help="Serve one agent on stdin and stdout, and nobody else.")
        ] = False,
        ready_file: ReadyFileOption = None,
        watch: Annotated[
            bool, typer.Option("--watch", help="Apply changes when the file is saved, not only on SIGHUP.")
        ] = False,
        record: Annotated[
            Path | None, typer.Option(metavar="DIR", help="Put recordings here instead of `record.dir`.")
        ] = None,
        extensions: Annotated[
            bool, typer.Option("--extensions", help="Serve the Pi extensions that are found, too.")
        ] = False,
        ui: Annotated[
            bool,
            typer.Option(
                "--ui", help="Show what Pi extensions ask people on this terminal, not at the agent."
            ),
        ] = False,
        insecure_loopback: InsecureOption = False,
    ) -> int:
        """Run the gateway that a configuration describes.

        Agents connect to it, it connects to every peer, and everything that crosses is recorded.

        Ends with 0 on SIGTERM, SIGINT or when its one agent has gone; calls in flight are answered first.
        """
        return start(
            config,
            stdio=stdio,
            ready_file=ready_file,
            watch=watch,
            record=record,
            extensions=extensions,
            ui=ui,
            insecure_loopback=insecure_loopback,
        )

    del run


def quick(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Return the work of plain arguments, or None."""
    split = plain(arguments, flags=_FLAGS, values=_VALUES)
    if split is None or len(split[1]) > 1:
        return None
    options, rest = split
    return lambda: start(
        rest[0] if rest else None,
        stdio="--stdio" in options,
        ready_file=options.get("--ready-file"),
        watch="--watch" in options,
        record=options.get("--record"),
        extensions="--extensions" in options,
        ui="--ui" in options,
        insecure_loopback="--insecure-loopback" in options,
    )


def start(
    given: "Path | str | None",
    *,
    stdio: bool,
    ready_file: "Path | str | None",
    watch: bool,
    record: "Path | str | None",
    extensions: bool,
    ui: bool,
    insecure_loopback: bool,
) -> int:
    """Read the configuration and serve until told to end; return the exit code."""
    config = load_config(given, discovers=extensions)
    need_peers(config, config.source)
    options = ServeOptions(
        stdio=stdio,
        ready_file=_path(ready_file),
        watch=watch,
        config_path=config.source,
        discovers=extensions,
        has_ui=ui,
        record_dir=None if record is None else absolute(str(record)),
        insecure_loopback=insecure_loopback,
    )
    return run_gateway(config, options)


def _path(given: "Path | str | None") -> "Path | None":
    if given is None:
        return None
    from pathlib import Path

    return Path(given).absolute()


def run_gateway(config: Config, options: ServeOptions) -> int:
    """Serve until told to end; return the exit code."""
    # What stands before one server has no configuration to add anything to.
    tell_waiting(
        config, options, "" if options.is_transparent else "Add `[listen.http]` to serve agents over HTTP. "
    )
    ahead: Ahead | None = None
    try:
        ahead = _begun(config) if options.stdio or config.listen.is_for_one else None
        from gateway.cli.loop import run
        from gateway.serve import serve

        return run(serve(config, options, ahead=ahead))
    except KeyboardInterrupt:
        return 0
    finally:
        if ahead is not None:
            ahead.close()


def tell_waiting(config: Config, options: ServeOptions, otherwise: str) -> None:
    """Say to a person at a terminal what this waits for, and how agents come `otherwise`."""
    if (options.stdio or config.listen.uses_stdio) and sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write("Waiting for an agent on stdin: this command is meant to be started by one.\n")
        sys.stderr.write(f"{otherwise}Ctrl-D ends.\n")


def _begun(config: Config) -> "Ahead":
    """Start the servers that the agent is going to need: they start while the gateway is loaded."""
    from gateway.runtime.ahead import Ahead

    return Ahead(config)
