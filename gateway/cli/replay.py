"""`tieline replay`: a recording in the place of the services that it was made with, or a whole session again.

Owns the options. What is done with them is `replaying`'s business. Exit codes are those of a replay: 0 same, 1
diverged, 2 incomplete, 3 bad recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.output import CliError, ensure_writable, examples

if TYPE_CHECKING:
    from gateway.runtime.replay_setup import PeerMode

GATES = ("auto", "causal", "lockstep", "free")
MODES = ("replay", "once", "extend", "rewrite", "hybrid", "lenient", "shadow")
LENIENT = ("error", "nearest", "stub")
PATIENCE_S = 10.0
DRIVEN = "A driven session is played whole and as it was recorded; it connects to nothing and serves nobody"
PEER_MODES = ("mock", "live", "inner", "off")


def register(app: typer.Typer) -> None:
    """Add `replay`."""

    @app.command(
        epilog=examples(
            "tieline replay session/",
            "tieline replay session/ --drive",
            "tieline replay session/ --http 8123 --junit replay.xml",
            "tieline replay session/ --cut lsp --config tieline.toml",
            "tieline replay session/ --mode extend --config tieline.toml",
            "tieline replay session/ --mode hybrid --allow files:resources/* --config tieline.toml --record ./more",
        )
    )
    def replay(
        recording: Annotated[
            Path,
            typer.Argument(
                metavar="DIR", help="The recording, or what holds several, one a session.", readable=False
            ),
        ],
        command: Annotated[
            list[str] | None,
            typer.Argument(help="The live server, after `--`, for modes that may need one; or --config."),
        ] = None,
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
            typer.Option(
                help="replay: what is not recorded is an error. once: record where there is no recording yet. "
                "extend: what is missing is asked live and added. rewrite: record all anew. hybrid: what is missing "
                "and allowed is asked live. lenient: see --lenient. shadow: all is live, and compared."
            ),
        ] = "replay",
        lenient: Annotated[
            str, typer.Option(help="What is given in place of a missing answer: error, nearest, or stub.")
        ] = "nearest",
        allow: Annotated[
            list[str] | None,
            typer.Option(
                metavar="PEER[:METHOD]", help="hybrid: globs of what may be asked live. May be repeated."
            ),
        ] = None,
        peer: Annotated[
            list[str] | None,
            typer.Option(
                metavar="NAME=MODE",
                help="One peer: mock, live, off, or inner: it runs, and the recording stands behind it in the place "
                "of its language server or database. May be repeated.",
            ),
        ] = None,
        cut: Annotated[
            str | None,
            typer.Option(
                metavar="KIND,…",
                help="Cut behind every adapter that has such services, as `lsp,sql`: `inner` for each of these peers. "
                "Needs a recording made with `hops = true`.",
            ),
        ] = None,
        fault: Annotated[
            list[str] | None,
            typer.Option(
                metavar="RULE",
                help="Put a fault in, as `exit peer=db nth=3` or `error at=204 code=timeout`. May be "
                "repeated; see `tieline faults --help`.",
            ),
        ] = None,
        pace: Annotated[
            str, typer.Option(help="Pauses: zero, recorded, or scaled:N for N times as long as recorded.")
        ] = "zero",
        patience: Annotated[
            float,
            typer.Option(help="Seconds to wait for a recorded request that an answer depends on.", min=0.1),
        ] = PATIENCE_S,
        config: Annotated[Path | None, typer.Option(help="Configuration in which live peers stand.")] = None,
        http: Annotated[
            int | None,
            typer.Option(
                metavar="PORT", min=0, max=65535, help="Serve over HTTP on loopback; 0 for any port."
            ),
        ] = None,
        websocket: Annotated[
            int | None,
            typer.Option(
                metavar="PORT", min=0, max=65535, help="Serve over websocket on loopback; 0 for any port."
            ),
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
        """Let a recording stand in for its services.

        An MCP server on stdin and stdout, as every client can start it, or where the options say. What the recording
        does not hold is an error and never a live call, unless the mode says so. The report goes to stderr when the
        agent leaves. Where DIR holds several recordings, each session is played from one of its own: of those whose
        opening requests are the same, the first that was not played yet. A recording is never changed in place: extend
        and rewrite put a whole new one there at the end.

        Ends with 0 if everything was as recorded, 1 if something differed, 2 if part of it was not played, 3 if the
        recording cannot be used.
        """
        from gateway.cli.fault_rules import rules_for
        from gateway.cli.reading import check_access
        from gateway.cli.replaying import Request, drive_it, serve_it
        from gateway.runtime.replay_setup import Choice

        serving = {
            "--http": http is not None,
            "--websocket": websocket is not None,
            "--unix": unix is not None,
            "--insecure-loopback": insecure_loopback,
            "--ready-file": ready_file is not None,
            "--record": record is not None,
            "--config": config is not None,
            "a command": bool(command),
        }
        playing = {
            "--fault": bool(fault),
            "--peer": bool(peer),
            "--cut": cut is not None,
            "--gate": gate != "auto",
            "--pace": pace != "zero",
            "--patience": patience != PATIENCE_S,
            "--lenient": lenient != "nearest",
        }
        if drive:
            _refuse(
                {"--mode": mode != "replay", "--allow": bool(allow)} | playing | serving,
                "beside `--drive`",
                DRIVEN,
            )
        elif json:
            _refuse(
                {"--json": True}, "without `--drive`", "`--report FILE` writes the report of a replay as JSON"
            )
        elif mode in ("rewrite", "shadow"):
            _refuse(playing, f"in mode `{mode}`", "There all is asked live")
            _refuse(
                {"--report": report is not None, "--junit": junit is not None},
                f"in mode `{mode}`",
                "It is written of a replay, and there all is asked live",
            )
        if mode in ("extend", "rewrite"):
            hint = "What is said goes into the recording itself there"
            _refuse({"--record": record is not None}, f"in mode `{mode}`", hint)
        check_access(recording)
        for path in (report, junit):
            if path is not None:
                ensure_writable(path, makes=record)
        how = _one_of("--mode", mode, MODES)
        strength = _one_of("--gate", gate, GATES)
        instead = _one_of("--lenient", lenient, LENIENT)
        if how != "lenient":
            _refuse(
                {"--lenient": instead != "nearest"}, "without `--mode lenient`", "Leave it out, or say so"
            )
        choice = Choice(
            gate=None if strength == "auto" else strength,  # pyright: ignore[reportArgumentType] - it is one of them
            mode=how if how not in ("rewrite", "shadow") else "replay",  # pyright: ignore[reportArgumentType]
            lenient=instead,  # pyright: ignore[reportArgumentType]
            allow=tuple(allow or ()),
            peers=_peers(peer or ()),
            cut=tuple(kind for kind in (cut or "").split(",") if kind),
            faults=rules_for(recording, fault or ()),
            pace=_pace(pace),
            patience_s=patience,
        )
        request = Request(
            path=recording,
            mode=how,
            choice=choice,
            command=tuple(command or ()),
            config=config,
            http=http,
            websocket=websocket,
            unix=unix,
            insecure_loopback=insecure_loopback,
            ready_file=ready_file,
            record=record,
            report=report,
            junit=junit,
        )
        return drive_it(request, json=json) if drive else serve_it(request)

    del replay


def _refuse(given: Mapping[str, bool], where: str, hint: str) -> None:
    """Raise `CliError` for the first of these options that was given."""
    option = next((name for name, is_given in given.items() if is_given), None)
    if option is not None:
        raise CliError(f"{_quoted(option)} means nothing {where}", hint=hint)


def _quoted(option: str) -> str:
    return f"`{option}`" if option.startswith("-") else option


def _one_of(option: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise CliError(f"`{option} {value}` is not known", hint=f"Say {', '.join(known)}")
    return value


def _peers(given: Sequence[str]) -> dict[str, PeerMode]:
    found: dict[str, PeerMode] = {}
    for each in given:
        name, sign, how = each.partition("=")
        if not sign or how not in PEER_MODES:
            raise CliError(f"`--peer {each}` says nothing", hint=f"Write NAME={'|'.join(PEER_MODES)}")
        found[name] = how
    return found


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
        raise CliError(f"`--pace {text}` is not known", hint="Say zero, recorded, or scaled:0.5")
    return factor
