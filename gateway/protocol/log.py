"""One line of the extension log, `pi.ext.log.v1`: its fields, its redaction, its form in fixtures.

Owns what an entry looks like on the wire and on disk, for the gateway's own lines and for the protocol's `log`
messages alike. What is worth a line is decided elsewhere. Source: the extension protocol, structured logging and
its `log` definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from recordings.linear import any_of
from recordings.marks import unmarked
from recordings.names import STEMS, is_secret

Level: TypeAlias = Literal["debug", "info", "warn", "error"]
Component: TypeAlias = Literal["capture", "harness", "runtime", "extension"]

REDACTED: Final = "[REDACTED]"
MOST_TEXT: Final = 256
"""Characters of any text in an entry: names and ids are shorter, and contents have no place here."""

PLACEHOLDERS: Final = ("run_id", "session_id", "artifact_id", "trace_id", "span_id")
"""Correlation ids that differ between two runs of the same thing."""

_ABSOLUTE = re.compile(r"(?:(?<=^)|(?<=[\s\"'=(:,\[]))(?:/(?!/)|[A-Za-z]:[\\/])[^\s\"',;)\]]*")
_NAMED = re.compile(r"(?i)api_?key|token|authorization|cookie|password|secret|private_?key|credential|bearer")
suspects = any_of((STEMS, rb"(?i:api_?key|private_?key|\[redacted:)"))
"""Whether an encoded entry may hold something that is to be redacted; never wrong the other way."""
_encode = msgspec.json.Encoder().encode
_COUNTS = re.compile(r"(?i)^(?:max_?|num_?|total_?)?\w*tokens$|^(?:progress|cancel)_?token$")


class Correlation(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Ids that join an entry to others. The first two are on every entry; the rest where there are any."""

    extension_id: str
    scenario_id: str
    session_id: str | None = None
    run_id: str | None = None
    artifact_id: str | None = None
    tool_call_id: str | None = None
    slash_command_id: str | None = None
    event_id: str | None = None
    host_call_id: str | None = None
    rpc_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None


class Source(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Who wrote an entry."""

    component: Component
    host: str | None = None
    pid: int | None = None


class Entry(
    msgspec.Struct, kw_only=True, omit_defaults=True, gc=False, tag_field="schema", tag="pi.ext.log.v1"
):
    """One line of the log. Its `schema` member names this format."""

    ts: str
    level: Level
    event: str
    message: str
    correlation: Correlation
    source: Source | None = None
    data: dict[str, Any] | None = None


def timestamp(wall_ns: int) -> str:
    """Return nanoseconds since 1970 as RFC 3339 in UTC, to the millisecond, rounded down."""
    seconds, rest = divmod(wall_ns, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1_000_000:03d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def line(entry: Entry) -> bytes:
    """Return an entry as a line with its newline, redacted."""
    encoded = _encode(entry)
    if suspects(encoded):
        # Most entries hold nothing of the kind, and to look into each costs more than all the rest.
        encoded = _encode(redacted(msgspec.to_builtins(entry)))
    return encoded + b"\n"


def redacted(value: Any, *, name: str = "") -> Any:
    """Return a decoded entry, or a part of it, without secrets: by the name of its key, and as marked earlier.

    What stands under a telling name becomes `[REDACTED]` whole, but for flags and null. Text is cut to
    `MOST_TEXT` characters.
    """
    if value is None or isinstance(value, bool):
        return value
    if name and tells(name):
        return REDACTED
    if isinstance(value, dict):
        table = cast(dict[str, Any], value)
        return {clean(key): redacted(item, name=key) for key, item in table.items()}
    if isinstance(value, list | tuple):
        return [redacted(item) for item in cast(list[Any], value)]
    return clean(value) if isinstance(value, str) else value


def tells(name: str) -> bool:
    """Whether what stands under this key is to be taken for a secret."""
    return (_NAMED.search(name) is not None and not _COUNTS.match(name)) or is_secret(name)


def clean(text: str) -> str:
    """Return text in which every mark of an earlier redaction is `[REDACTED]`, cut to `MOST_TEXT` characters."""
    if "[REDACTED:" in text:
        text = unmarked(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"


def normalised(entry: dict[str, Any], *, cwd: str = "") -> dict[str, Any]:
    """Return a decoded entry as fixtures hold it: what differs between runs is a placeholder.

    `ts`, `pid`, `host` and the ids of one run become `<name>`, as do in a decision the session, and the hashes of the
    program, the project's folder and the grants; durations become 0; absolute paths below `cwd` become `<cwd>/…`,
    others `<cwd>/` with their last part.
    """
    out = cast(dict[str, Any], _placed(entry, cwd.rstrip("/\\")))
    out["ts"] = "<ts>"
    correlation = cast(dict[str, Any], out.get("correlation", {}))
    for name in PLACEHOLDERS:
        if name in correlation:
            correlation[name] = f"<{name}>"
    source = cast(dict[str, Any], out.get("source", {}))
    for name in ("host", "pid"):
        if name in source:
            source[name] = f"<{name}>"
    data = cast(dict[str, Any], out.get("data", {}))
    _fix(data, (("duration_ms", 0), ("took_ns", 0), ("pid", "<pid>"), ("grants", "<grants>")))
    _fix(data.get("answer"), (("took_ns", 0),))
    _fix(data.get("facts"), tuple((name, f"<{name}>") for name in ("session", "executable", "project")))
    return out


def _fix(table: object, values: Iterable[tuple[str, object]]) -> None:
    """Set what is there of these members."""
    if isinstance(table, dict):
        members = cast(dict[str, Any], table)
        members.update((name, value) for name, value in values if name in members)


def _placed(value: Any, cwd: str) -> Any:
    if isinstance(value, dict):
        return {key: _placed(item, cwd) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_placed(item, cwd) for item in cast(list[Any], value)]
    if isinstance(value, str):
        return _ABSOLUTE.sub(lambda match: _place(match.group(), cwd), value)
    return value


def _place(path: str, cwd: str) -> str:
    plain = path.replace("\\", "/")
    base = cwd.replace("\\", "/")
    if base and (plain == base or plain.startswith(base + "/")):
        return "<cwd>" + plain[len(base) :]
    return "<cwd>/" + plain.rstrip("/").rpartition("/")[2]
