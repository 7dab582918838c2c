"""What `tieline replay` does: opens, serves, drives, and says how it went.

Owns how the modes go together with recordings and configurations, and what becomes of a recording that a mode writes
anew.
"""

from __future__ import annotations

import glob
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gateway.cli.output import BAD_INPUT, CliError, print_json, write_file
from gateway.cli.reading import HEADER, bar, opened, recordings_in, telling

if TYPE_CHECKING:
    from gateway.config import Config, ServeOptions
    from gateway.runtime.replay_setup import Choice
    from gateway.runtime.replay_world import ReplayWorld
    from gateway.serve import MakeWorld
    from recordings.divergence import Report
    from recordings.reader import Recording

_WHY = {"diverged": "differed from the recording", "incomplete": "left a part of the recording unplayed"}

MANY = ("replay", "lenient", "hybrid")
"""Modes that leave recordings as they are, so that there may be several."""
INCOMPLETE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of one replay, checked one by one."""

    path: Path
    mode: str
    choice: Choice
    """With the mode, where that is one of a replay."""
    command: tuple[str, ...]
    config: Path | None
    http: int | None
    websocket: int | None
    unix: Path | None
    insecure_loopback: bool
    ready_file: Path | None
    record: Path | None
    report: Path | None
    junit: Path | None

    @property
    def is_stdio(self) -> bool:
        """Whether the agent is on stdin and stdout."""
        return self.http is None and self.websocket is None and self.unix is None


def drive_it(request: Request, *, json: bool) -> int:
    """Play the whole session again, print the report, and return the exit code."""
    from gateway.replay.driven import driven
    from recordings.report import as_json, lines

    source = _opened(request.path)
    with telling(), bar("driving") as shown:
        total = source.frames
        found = driven(source, progress=lambda done: shown(done, total))
    _write(found, request)
    if json:
        print_json(as_json(found))
    else:
        from gateway.cli.tones import show

        show(lines(found))
    return found.exit_code


def serve_it(request: Request) -> int:
    """Serve an agent, say how it went, and return the exit code."""
    if request.mode not in MANY and (found := _several(request.path)):
        raise CliError(
            f"mode `{request.mode}` is for one recording, and `{request.path}` holds {len(found)}",
            hint="Name one of them",
        )
    if request.mode == "rewrite" or (request.mode == "once" and not request.path.exists()):
        return _record(request)
    if request.mode == "shadow":
        return _shadow(request)
    from gateway.cli.rule_files import rules_for
    from gateway.runtime.replay_setup import ChoiceError, set_up
    from recordings.report import text

    source, *more = _all_opened(request)
    services = _services(request, source)
    target = _new_beside(request.path) if request.mode == "extend" else request.record
    reports: list[Report] = []

    def ended(found: Report) -> None:
        reports.append(found)
        sys.stderr.write(text(found))

    try:
        with telling():
            config, make = set_up(
                source,
                request.choice,
                services,
                records=target is not None,
                rules=rules_for(source.path),
                more=more,
                on_report=ended,
            )
    except ChoiceError as error:
        raise CliError(str(error), hint=error.hint) from error
    worlds: list[ReplayWorld] = []

    def made(config: Config, *, record_dir: Path | str | None, exact_dir: bool = False) -> ReplayWorld:
        worlds.append(make(config, record_dir=record_dir, exact_dir=exact_dir))
        return worlds[-1]

    code = _serve(request, _listening(config, request, source), made, source, target)
    if request.mode == "extend" and target is not None:
        _extended(source, target, reports)
    if not reports:
        if not code:
            sys.stderr.write("not played: no agent has come\n")
        return code or INCOMPLETE
    worst = max(reports, key=lambda found: (found.exit_code == 1, found.exit_code))
    _write(worst, request)
    untouched = worlds[0].shelf.untouched if more and worlds and not request.is_stdio else []
    if untouched:
        names = ", ".join(path.name for path in untouched[:3]) + (" …" if len(untouched) > 3 else "")
        sys.stderr.write(f"not played: {len(untouched)} of {len(more) + 1} recordings ({names})\n")
    return worst.exit_code or (INCOMPLETE if untouched else 0)


def _several(path: Path) -> list[Path]:
    """The recordings that lie in a directory which is none itself."""
    return recordings_in(path) if not (path / HEADER).exists() else []


def _all_opened(request: Request) -> list[Recording]:
    """The recording, or all that lie in the directory, those first that began first."""
    found = _several(request.path)
    if not found:
        return [_opened(request.path)]
    return sorted((_opened(path) for path in found), key=lambda one: (one.header.started, one.header.session))


def _opened(path: Path) -> Recording:
    try:
        return opened(path)
    except CliError as error:
        raise CliError(str(error), hint=error.hint, code=BAD_INPUT) from error


def _services(request: Request, source: Recording | None) -> Config | None:
    """The configuration of live peers, where one was named; and the error where one is needed."""
    if not request.command and request.config is None:
        if request.mode in ("rewrite", "shadow") or request.choice.needs_services:
            raise CliError(
                f"`--mode {request.mode}` may need live services"
                if request.mode != "replay"
                else "a live peer has to be reached",
                hint="Name the configuration of live services with `--config`, or one server's command after `--`",
            )
        return None
    if request.command and request.mode == "replay" and not request.choice.needs_services:
        raise CliError(
            "a server's command is named, and `--mode replay` asks nothing live",
            hint="Choose a mode that does, such as `--mode extend`, or leave the command out",
        )
    if request.command and request.config is not None:
        raise CliError("a command and `--config` are two ways to name services", hint="Choose one")
    if request.config is not None:
        from gateway.cli.arguments import load_config

        return load_config(request.config)
    from gateway.config import for_one_peer

    config = for_one_peer(command=list(request.command))
    names = list(source.header.peers) if source is not None else []
    if len(names) == 1:
        config = replace(config, peers={names[0]: next(iter(config.peers.values()))})
    return config


def _listening(config: Config, request: Request, source: Recording | None) -> Config:
    """Where the agent comes: in the dialect that was recorded, but over HTTP, which knows MCP alone."""
    from gateway.config.model import HttpListen, ListenConfig, UnixListen, WebSocketListen

    recorded = source.header.core if source is not None else None
    dialect = "pi" if recorded is not None and recorded.dialect == "pi" else "mcp"
    if request.is_stdio:
        return replace(config, listen=ListenConfig(stdio_dialect=dialect))
    listen = ListenConfig(
        http=HttpListen(port=request.http) if request.http is not None else None,
        websocket=WebSocketListen(port=request.websocket, dialect=dialect)
        if request.websocket is not None
        else None,
        unix=UnixListen(path=str(request.unix.absolute()), dialect=dialect)
        if request.unix is not None
        else None,
    )
    return replace(config, listen=listen)


def _serve(request: Request, config: Config, make: MakeWorld, source: Recording, target: Path | None) -> int:
    from gateway.cli.loop import run
    from gateway.cli.run import tell_waiting
    from gateway.serve import serve

    transparent = bool(source.header.settings.get("transparent"))
    options = _serve_options(request, target, exact=request.mode == "extend", transparent=transparent)
    tell_waiting(config, options, "`--http PORT` serves agents over HTTP. ")
    try:
        return run(serve(config, options, make))
    except KeyboardInterrupt:
        return 0


def _serve_options(request: Request, target: Path | None, *, exact: bool, transparent: bool) -> ServeOptions:
    from gateway.config import ServeOptions

    return ServeOptions(
        stdio=request.is_stdio,
        ready_file=request.ready_file and request.ready_file.absolute(),
        record_dir=target and target.absolute(),
        is_one_recording=exact,
        insecure_loopback=request.insecure_loopback,
        is_transparent=transparent,
    )


# -- modes that write ------------------------------------------------------------------------------------------


def _record(request: Request) -> int:
    """Record a live session in the place of the recording; what was there stays until all has gone well."""
    from gateway.cli.run import run_gateway

    source = _opened(request.path) if request.path.exists() else None
    services = _services(request, source)
    assert services is not None
    config = _listening(replace(services, record=replace(services.record, enabled=True)), request, source)
    target = _new_beside(request.path)
    options = _serve_options(request, target, exact=True, transparent=bool(request.command))
    code = run_gateway(config, options)
    if code == 0 and target.exists():
        _put_in_place(target, request.path)
        sys.stderr.write(f"recorded `{request.path}`\n")
    else:
        shutil.rmtree(target, ignore_errors=True)
        kept = f"`{request.path}` stays as it is" if source is not None else "nothing was recorded"
        sys.stderr.write(f"warning: the session failed, so {kept}\n")
    return code


def _shadow(request: Request) -> int:
    """Serve live, record, and say at the end how that compares with the recording."""
    from gateway.cli.rule_files import profiles_for
    from gateway.cli.run import run_gateway
    from recordings.compare import compare
    from recordings.drift import drift_lines, drifts_of
    from recordings.reader import open_recording

    source = _opened(request.path)
    services = _services(request, source)
    assert services is not None
    config = _listening(replace(services, record=replace(services.record, enabled=True)), request, source)
    target = _new_beside(request.path) if request.record is None else request.record.absolute()
    options = _serve_options(request, target, exact=True, transparent=bool(request.command))
    code = run_gateway(config, options)
    try:
        with telling():
            made = open_recording(target)
            profile, theirs = profiles_for(source, made)
            drifts = drifts_of(compare(source, made, profile, other_profile=theirs))
    finally:
        if request.record is None:
            shutil.rmtree(target, ignore_errors=True)
    sys.stderr.writelines(f"{line}\n" for _, line in drift_lines(drifts, str(request.path)))
    return code or (1 if drifts.fails("changed") else 0)


def _extended(source: Recording, target: Path, reports: list[Report]) -> None:
    """Put the session that was served in the place of the recording, if it holds all of it and more."""
    live = sum(report.live_calls for report in reports)
    if not target.exists():
        return
    if live and len(reports) == 1 and reports[0].verdict == "same":
        _put_in_place(target, source.path)
        sys.stderr.write(f"extended `{source.path}` by {live} live {'answer' if live == 1 else 'answers'}\n")
        return
    shutil.rmtree(target)
    if live:
        why = "more than one agent came" if len(reports) > 1 else f"the replay {_WHY[reports[0].verdict]}"
        sys.stderr.write(f"warning: {why}, so `{source.path}` stays as it is\n")


def _new_beside(path: Path) -> Path:
    """Where a new recording is written; what one that was killed has left there goes."""
    for left in path.absolute().parent.glob(f".{glob.escape(path.absolute().name)}.*.new"):
        number = left.suffixes[-2][1:] if len(left.suffixes) > 1 else ""
        if number.isdecimal() and not _is_running(int(number)):
            shutil.rmtree(left, ignore_errors=True)
    return path.absolute().with_name(f".{path.absolute().name}.{os.getpid()}.new")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _put_in_place(new: Path, path: Path) -> None:
    """Let a new recording take the place of another. A reader finds the old one or the new one, never a mixture."""
    from recordings.files import put_in_place

    put_in_place(new, path.absolute(), aside=f".{path.absolute().name}.{os.getpid()}.old")


def _write(found: Report, request: Request) -> None:
    from recordings.report import as_json, junit, text

    if request.report is not None:
        import msgspec

        whole = {**as_json(found), "text": text(found)}
        write_file(request.report, msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n")
    if request.junit is not None:
        write_file(request.junit, junit(found))
