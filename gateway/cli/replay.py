"""`tieline replay`: a recording in the place of the services that it was made with, or a whole session again.

Owns the options and what is said of the outcome. Exit codes are those of a replay: 0 same, 1 diverged, 2 incomplete,
3 bad recording.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.output import BAD_INPUT, CliError, examples, print_json
from gateway.cli.reading import opened, telling

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.runtime.replay_world import ReplayOptions
    from recordings.divergence import Report
    from recordings.reader import Recording

GATES = ("auto", "causal", "lockstep", "free")
MODES = ("replay", "lenient")


def register(app: typer.Typer) -> None:
    """Add `replay`."""

    @app.command(
        epilog=examples(
            "tieline replay session/",
            "tieline replay session/ --drive",
            "tieline replay session/ --http 8123 --junit replay.xml",
            "tieline replay session/ --pace recorded",
        )
    )
    def replay(
        recording: Annotated[Path, typer.Argument(metavar="DIR", help="The recording.")],
        *,
        drive: Annotated[
            bool,
            typer.Option(
                "--drive",
                help="Play the recorded agent as well, and compare every frame. Connects to nothing.",
            ),
        ] = False,
        gate: Annotated[
            str,
            typer.Option(
                help="What holds an answer back: causal (what caused it), lockstep (the whole recorded order), "
                "free (its request alone), or auto: causal where the recording has lanes."
            ),
        ] = "auto",
        mode: Annotated[
            str,
            typer.Option(help="replay, or lenient: of several answers that fit, the oldest is given."),
        ] = "replay",
        pace: Annotated[
            str, typer.Option(help="Pauses: zero, recorded, or scaled:N for N times as long as recorded.")
        ] = "zero",
        patience: Annotated[
            float,
            typer.Option(help="Seconds to wait for a recorded request that an answer depends on.", min=0.1),
        ] = 10.0,
        live: Annotated[
            list[str] | None,
            typer.Option(
                metavar="PEER", help="A peer that is not replayed; needs --config. May be repeated."
            ),
        ] = None,
        config: Annotated[
            Path | None, typer.Option(help="Configuration in which live peers and listeners stand.")
        ] = None,
        http: Annotated[
            int | None, typer.Option(metavar="PORT", help="Serve over HTTP on loopback; 0 for any port.")
        ] = None,
        websocket: Annotated[
            int | None, typer.Option(metavar="PORT", help="Serve over websocket on loopback; 0 for any port.")
        ] = None,
        unix: Annotated[Path | None, typer.Option(metavar="PATH", help="Serve on a unix socket.")] = None,
        insecure_loopback: Annotated[
            bool, typer.Option("--insecure-loopback", help="Ask for no token on loopback listeners.")
        ] = False,
        ready_file: Annotated[
            Path | None, typer.Option(help="Write the listeners' addresses here, as JSON, once all accept.")
        ] = None,
        record: Annotated[
            Path | None, typer.Option(metavar="DIR", help="Record the replay itself, a recording a session.")
        ] = None,
        report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON.")] = None,
        junit: Annotated[
            Path | None, typer.Option(metavar="FILE", help="Write the report as JUnit XML.")
        ] = None,
        json: Annotated[bool, typer.Option("--json", help="With --drive: print the report as JSON.")] = False,
    ) -> int:
        """Let a recording stand in for the services that it was made with.

        An MCP server on stdin and stdout, as every client can start it, or where the options say. What the recording
        does not hold is an error, never a live call. The report goes to stderr when the agent leaves.

        Ends with 0 if everything was as recorded, 1 if something differed, 2 if part of it was not played, 3 if the
        recording cannot be used.
        """
        from gateway.runtime.replay_world import ReplayOptions

        source = _opened(recording)
        if drive:
            found = _drive(source)
            _write(found, report, junit)
            if json:
                from recordings.report import as_json

                print_json(as_json(found))
            else:
                from gateway.cli.tones import show
                from recordings.report import lines

                show(lines(found))
            return found.exit_code
        options = ReplayOptions(
            path=recording,
            strength=None if _one_of("--gate", gate, GATES) == "auto" else gate,  # pyright: ignore[reportArgumentType]
            mode=_one_of("--mode", mode, MODES),  # pyright: ignore[reportArgumentType]
            pace=_pace(pace),
            patience_s=patience,
            live=frozenset(live or ()),
        )
        settings = _settings(source, config, options, record=record is not None)
        settings = _listening(settings, http=http, websocket=websocket, unix=unix)
        from gateway.config import ServeOptions

        serve_options = ServeOptions(
            stdio=http is None and websocket is None and unix is None and config is None,
            ready_file=ready_file and ready_file.absolute(),
            record_dir=record and record.absolute(),
            insecure_loopback=insecure_loopback,
            is_transparent=bool(source.header.settings.get("transparent")),
        )
        return _serve(source, settings, serve_options, options, report, junit)

    del replay


def _opened(path: Path) -> Recording:
    try:
        return opened(path)
    except CliError as error:
        raise CliError(str(error), hint=error.hint, code=BAD_INPUT) from error


def _one_of(option: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise CliError(f"`{option}` is not `{value}`", hint=f"Say {', '.join(known)}")
    return value


def _pace(text: str) -> float:
    if text == "zero":
        return 0.0
    if text == "recorded":
        return 1.0
    kind, _, number = text.partition(":")
    try:
        factor = float(number) if kind == "scaled" else -1.0
    except ValueError:
        factor = -1.0
    if not 0 <= factor < 1e6:
        raise CliError(f"`--pace` is not `{text}`", hint="Say zero, recorded, or scaled:0.5")
    return factor


def _settings(source: Recording, path: Path | None, options: ReplayOptions, *, record: bool) -> Config:
    """The configuration of the recording, with live peers and listeners of another one."""
    from msgspec.structs import replace

    from gateway.config.model import RecordConfig
    from gateway.config.recorded import config_of

    config, _ = config_of(source.header.settings, list(source.header.peers))
    config = replace(config, record=RecordConfig(enabled=record))
    if path is None:
        if options.live:
            raise CliError("`--live` needs `--config`: a recording does not say how to reach a peer")
        return config
    from gateway.cli.arguments import load_config

    given = load_config(path)
    missing = sorted(options.live - given.active_peers.keys())
    if missing:
        raise CliError(f"`{path}` has no peer `{missing[0]}`", hint="Name one of its peers with `--live`")
    peers = {**config.peers, **{name: given.peers[name] for name in options.live}}
    return replace(config, peers=peers, listen=given.listen, secrets=given.secrets)


def _listening(config: Config, *, http: int | None, websocket: int | None, unix: Path | None) -> Config:
    from msgspec.structs import replace

    from gateway.config.model import HttpListen, ListenConfig, UnixListen, WebSocketListen

    if http is None and websocket is None and unix is None:
        return config
    listen = ListenConfig(
        http=HttpListen(port=http) if http is not None else None,
        websocket=WebSocketListen(port=websocket) if websocket is not None else None,
        unix=UnixListen(path=str(unix.absolute())) if unix is not None else None,
    )
    return replace(config, listen=listen)


def _drive(source: Recording) -> Report:
    from gateway.replay.driven import driven

    with telling():
        return driven(source)


def _serve(
    source: Recording,
    config: Config,
    serve_options: object,
    options: ReplayOptions,
    report: Path | None,
    junit: Path | None,
) -> int:
    from functools import partial

    from gateway.cli.loop import run
    from gateway.runtime.replay_world import ReplayWorld
    from gateway.serve import serve
    from recordings.lookup import open_lookup
    from recordings.profile import BUILT_IN
    from recordings.report import text
    from recordings.script import Script

    with telling():
        script = Script(open_lookup(source), BUILT_IN)
    reports: list[Report] = []

    def ended(found: Report) -> None:
        reports.append(found)
        sys.stderr.write(text(found) + "\n")

    make = partial(ReplayWorld, script=script, options=options, on_report=ended)
    try:
        code = run(serve(config, serve_options, make))  # pyright: ignore[reportArgumentType]
    except KeyboardInterrupt:
        code = 0
    if reports:
        worst = max(reports, key=lambda found: (found.exit_code == 1, found.exit_code))
        _write(worst, report, junit)
        return worst.exit_code
    return code


def _write(found: Report, report: Path | None, junit_path: Path | None) -> None:
    from recordings.report import as_json, junit

    if report is not None:
        import msgspec

        report.write_bytes(msgspec.json.format(msgspec.json.encode(as_json(found)), indent=2) + b"\n")
    if junit_path is not None:
        junit_path.write_text(junit(found))
