"""Lines of the extension log read back: what they say, which of them somebody asks for, how one looks in a row.

Owns the reading of a line and what a filter means. Pure; where logs lie is `logs`'s, whether one is true is `verify`'s.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Final, cast

import msgspec

from gateway.protocol.log import Entry
from recordings.views import printable

_AGO = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|h|d)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DECODER = msgspec.json.Decoder(Entry)
IDS: Final = ("host_call_id", "event_id", "slash_command_id", "tool_call_id", "rpc_id")
"""Ids of one thing, the most specific first."""


class NotALineError(ValueError):
    """A line that is no entry of the log."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines are asked for: those that fit everything in it."""

    extension: str | None = None
    """A glob, as the other two."""
    event: str | None = None
    call: str | None = None
    """One of a line's ids."""
    levels: frozenset[str] = frozenset()
    denied: bool = False
    errors: bool = False
    since: datetime | None = None
    until: datetime | None = None


def read_line(line: bytes) -> Entry:
    """Return what a line says.

    Raises:
        NotALineError: If it is none.
    """
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotALineError(f"is no `pi.ext.log.v1` entry: {error}") from None


def fits(entry: Entry, query: Query) -> bool:
    """Whether a line is asked for."""
    ids = entry.correlation
    if query.extension is not None and not fnmatchcase(ids.extension_id, query.extension):
        return False
    if query.event is not None and not fnmatchcase(entry.event, query.event):
        return False
    if query.call is not None and query.call not in [getattr(ids, name) for name in IDS]:
        return False
    if query.levels and entry.level not in query.levels:
        return False
    if query.denied and not is_denied(entry):
        return False
    if query.errors and not is_error(entry):
        return False
    if query.since is None and query.until is None:
        return True
    at = moment(entry.ts)
    if at is None:
        return False
    return (query.since is None or at >= query.since) and (query.until is None or at <= query.until)


def is_denied(entry: Entry) -> bool:
    """Whether it tells of something that was not allowed."""
    data = entry.data or {}
    return data.get("decision") == "deny" or _error(data).get("code") == "denied"


def is_error(entry: Entry) -> bool:
    """Whether it tells of something that went wrong."""
    return (entry.data or {}).get("is_error") is True or entry.level == "error"


def moment(text: str) -> datetime | None:
    """Return a time as RFC 3339 writes it, None for other text. Without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def moment_or_ago(text: str, now: datetime) -> datetime | None:
    """Return a time, or what `90s`, `10m`, `2h` or `1d` before `now` was; None for other text."""
    if ago := _AGO.fullmatch(text):
        return now - timedelta(seconds=float(ago[1]) * _SECONDS[ago[2]])
    return moment(text)


def row(entry: Entry) -> dict[str, str]:
    """Return a line as a row of a table, by column."""
    data = entry.data or {}
    ids = entry.correlation
    took = data.get("duration_ms")
    told = {
        "time": entry.ts[11:23] if len(entry.ts) > 11 else entry.ts,
        "extension": ids.extension_id,
        "event": entry.event,
        "call": next((value for name in IDS if (value := getattr(ids, name)) is not None), ""),
        "took": f"{took:.1f} ms" if isinstance(took, int | float) else "",
        "what": " ".join(_what(entry, data)),
    }
    return {name: printable(text) for name, text in told.items()}


def _what(entry: Entry, data: dict[str, Any]) -> list[str]:
    said: list[str] = []
    if entry.event == "policy.decision":
        verdict, rule = data.get("decision", ""), data.get("rule")
        said += [str(verdict), str(data.get("capability", "")), str(data.get("reason", ""))]
        said += [f"({rule})"] if rule else []
    elif entry.event == "hook.decision":
        said += [str(data.get(name, "")) for name in ("point", "decision") if data.get(name)]
    else:
        names = (
            ("hook",) if "hook" in data else ("capability", "method", "tool", "prompt", "resource", "name")
        )
        said += [str(data[name]) for name in names if data.get(name)]
    if error := _error(data):
        said.append(":".join(str(error[name]) for name in ("code", "reason") if error.get(name)))
    return [part for part in said if part] or [entry.message]


def _error(data: dict[str, Any]) -> dict[str, Any]:
    error = data.get("error")
    return cast(dict[str, Any], error) if isinstance(error, dict) else {}
