"""Trace context as messages carry it: `traceparent`, `tracestate` and `baggage` in a request's `_meta`.

Owns reading it and the ids of our own spans, which are drawn from the session and the frame, so that a recording
gives the same ids again. Exports nothing. Source: W3C Trace Context level 1, W3C Baggage, SEP-414.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import unquote

import msgspec

MOST_STATE: Final = 512
"""Characters of `tracestate` that are handed on; what is longer is left out whole, as the standard has it."""
MOST_BAGGAGE: Final = 8192

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class TraceContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request stands in somebody's trace. Ids are lower-case hex, 32 and 16 digits."""

    trace_id: str
    span_id: str
    sampled: bool = True
    state: str = ""
    """The value of `tracestate`; empty where there is none."""
    baggage: str = ""
    """The value of `baggage`; never exported but for the members that are asked for by name."""


def read(parent: object, state: object = None, baggage: object = None) -> TraceContext | None:
    """Return the context that the three members of `_meta` give, or None where `traceparent` is not valid."""
    found = _PARENT.fullmatch(parent) if isinstance(parent, str) else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not (trace_id.strip("0") and span_id.strip("0")):
        return None
    return TraceContext(
        trace_id=trace_id,
        span_id=span_id,
        sampled=bool(int(flags, 16) & 1),
        state=state if isinstance(state, str) and len(state) <= MOST_STATE else "",
        baggage=baggage if isinstance(baggage, str) and len(baggage) <= MOST_BAGGAGE else "",
    )


def members(baggage: str) -> dict[str, str]:
    """Return the members of a `baggage` value, decoded; properties after `;` and what has no `=` are left out."""
    found: dict[str, str] = {}
    for member in baggage.split(","):
        key, joint, value = member.partition(";")[0].partition("=")
        if joint and key.strip():
            found[key.strip()] = unquote(value.strip())
    return found


def trace_id_of(session: str, seed: int | str | None, seq: int) -> str:
    """Return the id of the trace that frame `seq` begins where its sender is in none."""
    return _digest(f"trace {session} {seed} {seq}", 16)


def span_id_of(session: str, seed: int | str | None, seq: int, side: str) -> str:
    """Return the id of the span of the request in frame `seq`, seen from one `side` of the gateway."""
    return _digest(f"span {session} {seed} {seq} {side}", 8)


def _digest(text: str, size: int) -> str:
    # Never all zeros, which is no id: the chance is that of guessing a key.
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
