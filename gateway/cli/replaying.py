"""What `tieline replay` does: opens, serves, drives, and says how it went.

Owns how the modes go together with recordings and configurations, and what becomes of a recording that a mode writes
anew.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gateway.cli.output import BAD_INPUT, CliError, print_json
from gateway.cli.reading import bar, opened, telling

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.replay.misses import MissPolicy
    from gateway.runtime.replay_world import ReplayOptions
    from recordings.divergence import Report
    from recordings.profile import Profile
    from recordings.reader import Recording
    from recordings.script import Script

WRITES = ("once", "extend", "rewrite")
"""Modes that leave a recording where the given one lies, or is to lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of one replay, checked one by one."""

    path: Path
    gate: str
    mode: str
    lenient: str
    allow: tuple[str, ...]
    peers: dict[str, str]
    pace: float
    patience_s: float
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
    if request.mode == "rewrite" or (request.mode == "once" and not request.path.exists()):
        return _record(request)
    if request.mode == "shadow":
        return _shadow(request)
    source = _opened(request.path)
    services = _services(request, source)
    with telling():
        recorded, live = _profiles(source, services)
    options = _options(request, services, live)
    config = _settings(request, source, services, options)
    target = _new_beside(request.path) if request.mode == "extend" else request.record
    with telling():
        script = _script(source, recorded)
    code, reports = _serve(request, config, options, script, source, target)
    if request.mode == "extend" and target is not None:
        _extended(source, target, reports)
    if not reports:
        return code
    worst = max(reports, key=lambda found: (found.exit_code == 1, found.exit_code))
    _write(worst, request)
    return 0 if request.mode == "extend" and worst.exit_code == 1 and not worst.unplayed else worst.exit_code


def _opened(path: Path) -> Recording:
    try:
        return opened(path)
    except CliError as error:
        raise CliError(str(error), hint=error.hint, code=BAD_INPUT) from error


def _script(source: Recording, profile: Profile) -> Script:
    from recordings.lookup import open_lookup
    from recordings.script import Script

    return Script(open_lookup(source), profile)


def _profiles(source: Recording, services: Config | None) -> tuple[Profile, Profile]:
    from gateway.config.places import usual_roots
    from gateway.config.recorded import profiles_of

    more = services.replay if services is not None else None
    return profiles_of(source.header.settings, roots=usual_roots(), more=more)


def _services(request: Request, source: Recording | None) -> Config | None:
    """The configuration of live peers, where one was named; and the error where one is needed."""
    needed = (
        request.mode in ("once", "extend", "rewrite", "hybrid", "shadow") or "live" in request.peers.values()
    )
    if not request.command and request.config is None:
        if needed:
            raise CliError(
                f"`--mode {request.mode}` may need live services"
                if request.mode != "replay"
                else "a live peer has to be reached",
                hint="Name their configuration with `--config`, or one server's command after `--`",
            )
        return None
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


def _options(request: Request, services: Config | None, profile: Profile) -> ReplayOptions:
    from gateway.runtime.replay_world import ReplayOptions

    return ReplayOptions(
        path=request.path,
        strength=None if request.gate == "auto" else request.gate,  # pyright: ignore[reportArgumentType]
        misses=_misses(request),
        pace=request.pace,
        patience_s=request.patience_s,
        profile=profile,
        live=frozenset(name for name, how in request.peers.items() if how == "live"),
        services=dict(services.active_peers) if services is not None else {},
    )


def _misses(request: Request) -> MissPolicy:
    from gateway.replay.misses import Allowed, MissPolicy

    if request.allow and request.mode != "hybrid":
        raise CliError("`--allow` is for `--mode hybrid`")
    allowed = tuple(
        Allowed(peer, method or "*") for peer, _, method in (each.partition(":") for each in request.allow)
    )
    if request.mode == "hybrid" and not allowed:
        raise CliError(
            "`--mode hybrid` asks nothing live that `--allow` does not name", hint="Add `--allow PEER`"
        )
    return MissPolicy(mode=request.mode, lenient=request.lenient, allowed=allowed)  # pyright: ignore[reportArgumentType]


def _settings(request: Request, source: Recording, services: Config | None, options: ReplayOptions) -> Config:
    """The configuration of the recording, with live peers of another one, and our listeners."""
    from gateway.config.model import RecordConfig
    from gateway.config.recorded import config_of

    config, _ = config_of(source.header.settings, list(source.header.peers))
    writes = request.record is not None or request.mode == "extend"
    record = replace(services.record if services is not None else RecordConfig(), enabled=writes)
    peers = {name: replace(peer, scope="session") for name, peer in config.peers.items()}
    for name in request.peers.keys() - peers.keys():
        raise CliError(f"the recording has no peer `{name}`", hint=f"It has {', '.join(peers)}")
    for name in sorted(options.live):
        if name not in options.services:
            raise CliError(f"no peer `{name}` is in the configuration", hint="A live peer has to stand there")
        peers[name] = options.services[name]
    off = {name for name, how in request.peers.items() if how == "off"}
    peers = {name: peer for name, peer in peers.items() if name not in off}
    secrets = services.secrets if services is not None else frozenset[str]()
    return _listening(replace(config, peers=peers, record=record, secrets=secrets), request)


def _listening(config: Config, request: Request) -> Config:
    from gateway.config.model import HttpListen, ListenConfig, UnixListen, WebSocketListen

    if request.is_stdio:
        return replace(config, listen=ListenConfig())
    listen = ListenConfig(
        http=HttpListen(port=request.http) if request.http is not None else None,
        websocket=WebSocketListen(port=request.websocket) if request.websocket is not None else None,
        unix=UnixListen(path=str(request.unix.absolute())) if request.unix is not None else None,
    )
    return replace(config, listen=listen)


def _serve(
    request: Request,
    config: Config,
    options: ReplayOptions,
    script: Script,
    source: Recording,
    target: Path | None,
) -> tuple[int, list[Report]]:
    from gateway.cli.loop import run
    from gateway.runtime.replay_world import ReplayWorld
    from gateway.serve import serve
    from recordings.report import text

    reports: list[Report] = []

    def ended(found: Report) -> None:
        reports.append(found)
        sys.stderr.write(text(found))

    make = partial(ReplayWorld, script=script, options=options, on_report=ended)
    serve_options = _serve_options(
        request,
        target,
        exact=request.mode == "extend",
        transparent=bool(source.header.settings.get("transparent")),
    )
    try:
        return run(serve(config, serve_options, make)), reports
    except KeyboardInterrupt:
        return 0, reports


def _serve_options(request: Request, target: Path | None, *, exact: bool, transparent: bool) -> Any:
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
    config = _listening(replace(services, record=replace(services.record, enabled=True)), request)
    target = _new_beside(request.path)
    options = _serve_options(request, target, exact=True, transparent=bool(request.command))
    code = run_gateway(config, options)
    if code == 0 and target.exists():
        _put_in_place(target, request.path)
        sys.stderr.write(f"recorded `{request.path}`\n")
    elif target.exists():
        sys.stderr.write(f"warning: the session failed; what was recorded of it is `{target}`\n")
    return code


def _shadow(request: Request) -> int:
    """Serve live, record, and say at the end how that compares with the recording."""
    from gateway.cli.run import run_gateway
    from recordings.compare import compare
    from recordings.drift import drift_lines, drifts_of
    from recordings.profile import BUILT_IN
    from recordings.reader import open_recording

    source = _opened(request.path)
    services = _services(request, source)
    assert services is not None
    config = _listening(replace(services, record=replace(services.record, enabled=True)), request)
    target = _new_beside(request.path) if request.record is None else request.record.absolute()
    options = _serve_options(request, target, exact=True, transparent=bool(request.command))
    code = run_gateway(config, options)
    try:
        with telling():
            drifts = drifts_of(compare(source, open_recording(target), BUILT_IN))
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
    if not live:
        shutil.rmtree(target)
    elif len(reports) == 1 and not reports[0].unplayed:
        _put_in_place(target, source.path)
        sys.stderr.write(f"extended `{source.path}` by {live} live {'answer' if live == 1 else 'answers'}\n")
    else:
        sys.stderr.write(
            f"warning: part of `{source.path}` was not played, so it stays; the extended session is `{target}`\n"
        )


def _new_beside(path: Path) -> Path:
    return path.absolute().with_name(f".{path.absolute().name}.{os.getpid()}.new")


def _put_in_place(new: Path, path: Path) -> None:
    """Let a new recording take the place of another. A reader finds the old one or the new one, never a mixture."""
    old = path.absolute().with_name(f".{path.absolute().name}.{os.getpid()}.old")
    if path.exists():
        os.rename(path, old)
    os.rename(new, path.absolute())
    shutil.rmtree(old, ignore_errors=True)


def _write(found: Report, request: Request) -> None:
    from recordings.report import as_json, junit

    if request.report is not None:
        import msgspec

        request.report.write_bytes(msgspec.json.format(msgspec.json.encode(as_json(found)), indent=2) + b"\n")
    if request.junit is not None:
        request.junit.write_text(junit(found))
