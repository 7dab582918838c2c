"""What may leave a frame: names, ids, sizes, hashes and codes, never contents.

Owns the one place where telemetry looks into bodies. Everything else in this package sees `Facts` alone, so that
what is not in them cannot reach a span, a metric or a log line. Takes redacted frames.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw

from gateway.policy import record
from gateway.protocol import mcp, trace
from gateway.protocol.canonical import NotCanonicalError, params_hash
from gateway.protocol.jsonrpc import LongAnswer, LongCall
from gateway.protocol.log import clean
from gateway.protocol.trace import TraceContext
from recordings.frame import Frame

BIG_BYTES: Final = 32 * 1024
"""Bodies of this size and more are not looked into on the event loop."""

PlainItem: TypeAlias = tuple[
    int, int, str, str, bytes, str, Any, int | None, str, str, bool, LongCall | LongAnswer | None
]
"""A frame of which nothing more is to be said: as below, then peer, id, `re`, method, name, whether the redactor has
looked at its body and suspects nothing, and what was read of it, where it is long."""
NamedItem: TypeAlias = tuple[int, int, str, str, bytes, dict[str, Any]]
"""A frame as it passed: seq, at, kind, way, body, and its other fields by name."""
Item: TypeAlias = NamedItem | PlainItem

TOLD: Final = frozenset(
    (
        "life", "pid", "code", "signal", "era", "version", "reason", "asked", "in_flight", "bytes",
        "notifications", "decision", "capability", "mode", "point", "source", "took_ns", "deadline_ms", "fault",
        "passed", "mutes", "unmutes",
    )
)  # fmt: skip
"""Members of a frame's `x` that are told on, where they are scalars."""

PI: Final = b'"io.tieline/pi"'
"""What the greeting of a peer holds that speaks the Pi dialect."""
HOST_CALL: Final = "pi/host_call"
EVENT_HOOK: Final = "pi/event_hook"

_SHORT: Final = 128
_WORD = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")


class Said(msgspec.Struct, frozen=True, gc=False):
    """What an extension has said for the log, by its host call `log`."""

    level: Literal["debug", "info", "warn", "error"]
    event: str
    message: str
    data: dict[str, Any] | None = None


class HostCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is told of a host call beside its frame: never its params, but for what is meant for the log."""

    call_id: str
    capability: str
    """As the extension states it."""
    verb: str
    """The connector's method."""
    timeout_ms: int | None = None
    said: Said | None = None


class Facts(msgspec.Struct, kw_only=True, gc=False):
    """What telemetry knows of one frame. Times are nanoseconds on the session's clock, sizes are bytes."""

    seq: int
    at: int
    kind: str
    way: str = ""
    peer: str = ""
    life: int = 1
    lane: str = ""
    id: str | None = None
    """The wire id as text; None where there is none."""
    re: int | None = None
    parent: int | None = None
    op: int | None = None
    method: str = ""
    name: str = ""
    is_own: bool = False
    """Whether the gateway itself made the message."""
    size: int = 0
    params_hash: str = ""
    """Of the params as they are recorded, for a host call of its connector's method and params; empty where they have
    none or nobody asked."""
    host_call: HostCall | None = None
    trace: TraceContext | None = None
    version: str = ""
    """The protocol version that the message names."""
    code: int | None = None
    """The code of a JSON-RPC error."""
    fault: str = ""
    """The code and the reason of an error of the gateway's own."""
    reason: str = ""
    is_tool_error: bool = False
    is_input_required: bool = False
    is_pi: bool = False
    """Whether it is the greeting of a Pi extension."""
    x: dict[str, Any] = {}
    """Of the frame's own `x`, the members in `TOLD`; of a decision of the policy, what `policy.record` tells of it."""


class _Meta(msgspec.Struct, gc=False):
    traceparent: Any = None
    tracestate: Any = None
    baggage: Any = None
    version: Any = msgspec.field(name=mcp.META_VERSION, default=None)


class _Params(msgspec.Struct, gc=False):
    meta: _Meta | None = msgspec.field(name="_meta", default=None)


class _Request(msgspec.Struct, gc=False):
    params: Raw = Raw(b"")


class _Hosted(msgspec.Struct, gc=False):
    call_id: Any = None
    capability: Any = None
    method: Any = None
    params: Raw = Raw(b"{}")
    timeout_ms: Any = None


class _Result(msgspec.Struct, gc=False):
    is_error: Any = msgspec.field(name="isError", default=None)
    version: Any = msgspec.field(name="protocolVersion", default=None)
    kind: Any = msgspec.field(name="resultType", default=None)


class _Answer(msgspec.Struct, gc=False):
    result: _Result | None = None


class _Data(msgspec.Struct, gc=False):
    code: Any = None
    reason: Any = None


class _Error(msgspec.Struct, gc=False):
    code: Any = None
    data: Raw = Raw(b"")


class _Refusal(msgspec.Struct, gc=False):
    error: _Error | None = None


read_request = msgspec.json.Decoder(_Request).decode
"""What is looked at in a request, and in an answer. Raise `DecodeError` where it has another shape."""
read_answer = msgspec.json.Decoder(_Answer).decode
_params = msgspec.json.Decoder(_Params)
_refusal = msgspec.json.Decoder(_Refusal)
_data = msgspec.json.Decoder(_Data)
_hosted = msgspec.json.Decoder(_Hosted)
_said = msgspec.json.Decoder(Said)


def facts_of(frame: Frame, body: bytes, *, hashed: bool) -> Facts:
    """Return the facts of a redacted frame whose body is `body`; its params are hashed only where `hashed`.

    Never raises for what a message holds: what cannot be read is left out.
    """
    id_ = frame.id
    facts = Facts(
        seq=frame.seq,
        at=frame.at,
        kind=frame.kind,
        way=frame.way or "",
        peer=_short(frame.peer),
        life=frame.life,
        lane=_short(frame.lane) if frame.lane else "",
        id=None if id_ is UNSET or id_ is None else str(id_) if id_.__class__ is int else _short(str(id_)),
        re=frame.re,
        parent=frame.parent,
        op=frame.op,
        method=_short(frame.method),
        name=_short(frame.name) if frame.name else "",
        is_own="synthetic" in frame.flags,
        size=len(body),
    )
    if frame.x:
        is_decision = frame.kind == "policy" and record.is_decision(frame.x)
        facts.x = record.log_data(frame.x) if is_decision else _told(frame.x)
    try:
        if frame.kind == "request":
            _read_request(facts, frame, body, hashed=hashed)
        elif frame.kind == "response":
            _read_answer(facts, body)
            facts.is_pi = frame.method == "initialize" and PI in body
        elif frame.kind == "error":
            _read_error(facts, body)
    except (msgspec.DecodeError, NotCanonicalError, RecursionError):
        # A message of another shape than its method's: its frame still counts.
        return facts
    return facts


def _short(name: str | None) -> str:
    """As `clean`, for what is seldom there, or long, or marked."""
    return "" if not name else name if len(name) <= _SHORT and "[" not in name else clean(name)


def _read_request(facts: Facts, frame: Frame, body: bytes, *, hashed: bool) -> None:
    params = bytes(read_request(body).params)
    if b'"_meta"' in params:
        meta = _params.decode(params).meta
        if meta is not None:
            # What a redaction has left of `tracestate` is none; members of `baggage` are cleaned one by one.
            state = "" if b"[REDACTED" in params and "[REDACTED" in str(meta.tracestate) else meta.tracestate
            facts.trace = trace.read(meta.traceparent, state, meta.baggage)
            facts.version = _word(meta.version)
    if frame.method == HOST_CALL:
        _read_host_call(facts, params, hashed=hashed)
    elif hashed:
        facts.params_hash = params_hash(frame.method or "", params)


def _read_host_call(facts: Facts, params: bytes, *, hashed: bool) -> None:
    """A host call is hashed as its extension has made it: without the envelope in which it has come."""
    hosted = _hosted.decode(params)
    verb = hosted.method if isinstance(hosted.method, str) else ""
    is_count = isinstance(hosted.timeout_ms, int) and not isinstance(hosted.timeout_ms, bool)
    facts.host_call = HostCall(
        call_id=clean(str(hosted.call_id or "")),
        capability=clean(str(hosted.capability or "")),
        verb=clean(verb),
        timeout_ms=hosted.timeout_ms if is_count else None,
        said=_read_said(bytes(hosted.params)) if verb == "log" else None,
    )
    if hashed:
        facts.params_hash = params_hash(verb, bytes(hosted.params))


def _read_said(params: bytes) -> Said | None:
    """An entry for the log; None for what its connector refuses too."""
    try:
        return _said.decode(params)
    except (msgspec.DecodeError, RecursionError):
        return None


def _read_answer(facts: Facts, body: bytes) -> None:
    result = read_answer(body).result
    if result is not None:
        facts.is_tool_error = result.is_error is True
        facts.is_input_required = result.kind == "input_required"
        facts.version = _word(result.version)


def _read_error(facts: Facts, body: bytes) -> None:
    error = _refusal.decode(body).error
    if error is None:
        return
    if isinstance(error.code, int) and not isinstance(error.code, bool):
        facts.code = error.code
    if facts.is_own and error.data:
        data = _data.decode(error.data)
        facts.fault, facts.reason = _word(data.code), _word(data.reason)


def _told(x: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for key in TOLD & x.keys():
        value = x[key]
        if isinstance(value, str):
            told[key] = _word(value)
        elif isinstance(value, int | float):
            told[key] = value
    return {key: told[key] for key in sorted(told)}


def _word(value: object) -> str:
    """Return a short text without spaces as it is, and nothing of any other value: sentences are contents."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""


def target_of(method: str, name: str) -> tuple[str, str]:
    """Return what a request names as (`tool`, name), (`prompt`, name) or (`resource`, URI); empty where nothing.

    A URI loses its query, its fragment and its user: secrets are put there.
    """
    if not name:
        return "", ""
    if method == "tools/call":
        return "tool", name
    if method == "prompts/get":
        return "prompt", name
    if method in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
        return "resource", plain_uri(name)
    return "", ""


def plain_uri(uri: str) -> str:
    """Return a URI without user, query and fragment."""
    bare = re.split(r"[?#]", uri, maxsplit=1)[0]
    return re.sub(r"^([A-Za-z][\w+.-]*://)[^/@]*@", r"\1", bare)
