"""Rules of a configuration that no single type expresses: what excludes, needs or contradicts what. Pure."""

from __future__ import annotations

import re

from gateway.config.mistakes import KeyPath, Report, dotted
from gateway.config.model import CatalogConfig, RedactConfig, ReplayConfig, TcpListen
from gateway.config.peer import PeerConfig
from recordings.late import late

_SCHEMES = {
    "http": ("http", "sse"), "https": ("http", "sse"), "ws": ("websocket",), "wss": ("websocket",),
}  # fmt: skip
_IN_NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
LONGEST_NAME = 64
HEADER_NAME = late(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
FIRST_MODERN = "2026-07-28"


def may_be_called(name: str) -> bool:
    """Whether a peer may have this name. No pattern, which every start would compile: each has a peer with a name."""
    return 0 < len(name) <= LONGEST_NAME and not name.strip(_IN_NAMES)


def check(report: Report) -> None:
    """Tell `report` every rule that the sections break which could be read."""
    for path, section in report.parts.items():
        match section:
            case PeerConfig():
                _peer(section, path, report)
            case TcpListen():
                _exposure(section, path, report)
            case _:
                _either_way(section, path, report)
    for path, (section, failed) in report.halves.items():
        match section:
            case PeerConfig():
                _half_of_a_peer(section, path, report)
            case TcpListen() if not failed & {"host", "tls", "insecure_loopback"}:
                _exposure(section, path, report)
            case _:
                _either_way(section, path, report)
    _ports(report)


def _either_way(section: object, path: KeyPath, report: Report) -> None:
    """Check what is checked alike in a section that was read whole and in half of one."""
    if isinstance(section, CatalogConfig):
        _text_is_name(section.separator, (*path, "separator"), report)
    elif isinstance(section, RedactConfig) and section != RedactConfig():
        _redact(section, path, report)
    elif isinstance(section, ReplayConfig) and section != ReplayConfig():
        _replay(section, path, report)


def _peer(peer: PeerConfig, path: KeyPath, report: Report) -> None:
    name = str(path[-1])
    if report.peers_at == ("peers",) and not may_be_called(name):
        report.mistake(path, "must be named with up to 64 letters, digits, `_` and `-`")
    ways = [key for key in ("command", "url", "unix") if getattr(peer, key)]
    if len(ways) != 1:
        has = " and ".join(f"`{way}`" for way in ways) or "none"
        report.mistake(path, f"needs exactly one of `command`, `url` and `unix`, has {has}")
        return
    if ways == ["url"]:
        _url(peer, path, report)
    elif peer.type not in {None, peer.kind}:
        report.mistake((*path, "type"), f"is `{peer.type}`, but `{ways[0]}` makes it `{peer.kind}`")
    _belongs(peer, ways[0], path, report)
    _parts(peer, path, report)


def _half_of_a_peer(peer: PeerConfig, path: KeyPath, report: Report) -> None:
    """What can be said of a peer of which something else is wrong: all mistakes are told at once."""
    if peer.url:
        _url(peer, path, report)
    _parts(peer, path, report)


def _parts(peer: PeerConfig, path: KeyPath, report: Report) -> None:
    if peer.version and peer.era != "auto" and (peer.version >= FIRST_MODERN) != (peer.era == "modern"):
        report.mistake((*path, "version"), f"is `{peer.version}`, which is not of the `{peer.era}` era")
    if peer.dialect == "pi" and (peer.era == "modern" or (peer.version or "") >= FIRST_MODERN):
        report.mistake(
            (*path, "dialect"), "is `pi`, which speaks neither a modern `era` nor a modern `version`"
        )
    if peer.hops and peer.dialect == "pi":
        report.mistake((*path, "hops"), "is for adapters that speak `mcp`, and `dialect` is `pi`")
    if peer.hops and peer.scope == "shared":
        report.mistake(
            (*path, "hops"),
            'needs `scope = "session"`: what a shared peer says to its service is part of no one session',
        )
    for header, value in peer.headers.items():
        if not HEADER_NAME.fullmatch(header):
            report.mistake((*path, "headers", header), "is not the name of a header")
        elif not value.isascii() or not value.isprintable():
            # Not the value: it may be a secret.
            report.mistake(
                (*path, "headers", header), "holds a line break or another character that no header may"
            )
    if peer.prefix:
        _text_is_name(peer.prefix, (*path, "prefix"), report)
    _renames(peer, path, report)


def _url(peer: PeerConfig, path: KeyPath, report: Report) -> None:
    # For who has peers at URLs.
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(peer.url or "")
        host = parts.hostname
    except ValueError:
        report.mistake((*path, "url"), "is not a URL")
        return
    if parts.scheme not in _SCHEMES or not host:
        report.mistake(
            (*path, "url"), "must begin with `http://`, `https://`, `ws://` or `wss://` and a host"
        )
    elif peer.type is not None and peer.type not in _SCHEMES[parts.scheme]:
        fits = " or ".join(f"`{kind}`" for kind in _SCHEMES[parts.scheme])
        report.mistake((*path, "type"), f"is `{peer.type}`, but a `{parts.scheme}` URL is {fits}")


def _belongs(peer: PeerConfig, way: str, path: KeyPath, report: Report) -> None:
    """Tell settings that the peer's way of being reached has no use for: they would be ignored in silence."""
    only = {
        "env": "command", "inherit_env": "command", "cwd": "command", "hops": "command",
        "headers": "url", "oauth": "url",
    }  # fmt: skip
    for key, owner in only.items():
        if getattr(peer, key) and way != owner:
            report.mistake((*path, key), f"belongs to a peer with `{owner}`, this one has `{way}`")
    if peer.oauth is not None and peer.kind == "websocket":
        report.mistake((*path, "oauth"), "belongs to an HTTP peer, this one is a websocket")
    if peer.dialect == "pi" and way != "command":
        report.mistake((*path, "dialect"), f"`pi` belongs to a peer with `command`, this one has `{way}`")
    for key in ("memory_bytes", "cpu_s", "processes", "open_files"):
        if getattr(peer.limits, key) and way != "command":
            report.mistake((*path, "limits", key), f"belongs to a peer with `command`, this one has `{way}`")


def _renames(peer: PeerConfig, path: KeyPath, report: Report) -> None:
    seen: dict[str, str] = {}
    for old, new in peer.tools.rename.items():
        where = (*path, "tools", "rename", old)
        if not new:
            report.mistake(where, "must not be empty; use `deny` to leave a tool out")
        elif new in seen:
            report.mistake(where, f"gives the name `{new}`, which `{seen[new]}` is given already")
        seen[new] = old


def _ports(report: Report) -> None:
    taken: dict[tuple[str, int], KeyPath] = {}
    for path, section in report.parts.items():
        if not isinstance(section, TcpListen) or section.port == 0:
            continue
        address = (section.host, section.port)
        if address in taken:
            message = f"is {section.port}, which `{dotted(taken[address])}` has already"
            report.mistake((*path, "port"), message)
        taken[address] = path


def _exposure(section: TcpListen, path: KeyPath, report: Report) -> None:
    # Here, since a start without listeners need not pay for it.
    from transports.guard import is_loopback

    if is_loopback(section.host):
        return
    if section.insecure_loopback:
        message = f"is for loopback only, and `host` is `{section.host}`"
        report.mistake((*path, "insecure_loopback"), message)
    if section.tls is None:
        report.mistake((*path, "host"), f"is `{section.host}`, not loopback: that needs a `tls` section")


def _text_is_name(text: str, path: KeyPath, report: Report) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_.-]*", text):
        report.mistake(path, "may hold letters, digits, `_`, `.` and `-` only")


def _redact(section: RedactConfig, path: KeyPath, report: Report) -> None:
    # Here, since it costs milliseconds that a start without such rules need not pay.
    from recordings.names import key_fault
    from recordings.patterns import pattern_fault

    for key, names in (("keys", section.keys), ("allow_keys", section.allow_keys)):
        for index, name in enumerate(names):
            if fault := key_fault(name):
                report.mistake((*path, key, index), fault)
    for index, pattern in enumerate(section.patterns):
        if fault := pattern_fault(pattern):
            report.mistake((*path, "patterns", index), fault)


def _replay(section: ReplayConfig, path: KeyPath, report: Report) -> None:
    # Here, as above: only a replay has a use for rules.
    from recordings.profile import ProfileError, profile_of

    try:
        profile_of({"exact": section.exact, "rule": section.rule}, at=path)
    except ProfileError as error:
        for fault in error.faults:
            report.mistake(fault.path, fault.message)
