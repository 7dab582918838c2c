"""Messages of the Pi extension protocol as bytes: read one whole message, write one.

Owns what is a message and what is not: exactly what the protocol's JSON Schema takes, less what no JSON should hold
(a key twice in one object, a number that no double can hold, half a surrogate pair, more depth than anybody needs).
Knows nothing of connections. Reading a call of 300 bytes costs about 10 µs, half of it to find keys that stand twice.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, Literal, NamedTuple, cast

import msgspec
from msgspec import Raw

from gateway.protocol.bounds import MAX_DIGITS, TOKENS, has_endless_number, is_deep
from gateway.protocol.pi_messages import (
    EMPTY,
    PAYLOADS,
    TYPE_OF,
    TYPES,
    VERSIONS,
    Envelope,
    Payload,
    Type,
    Version,
)

MAX_BYTES: Final = 16 * 1024 * 1024
"""The longest message by default."""
MAX_DEPTH: Final = 128
"""How deep a message may nest by default."""
SALVAGED_BYTES: Final = 256 * 1024
"""How much of a message that cannot be read is looked at, to tell whom it concerns."""


class Message(NamedTuple):
    """One message: its id, its type, its payload as a struct and as bytes: those that came, but for integers such as
    `5.0`, which are written anew.
    """

    id: str
    type: Type
    body: Payload
    payload: Raw


class Salvaged(NamedTuple):
    """What can be told of a message that is none; empty where it cannot. `id` is None where there is none."""

    id: str | None
    type: str


class BadPiMessage(Exception):  # noqa: N818 - a verdict about an extension's message, not an error of ours
    """Bytes that are no message.

    `reason` is stable: `not-utf8`, `not-json`, `duplicate-key`, `too-deep`, `number`, `version`, `type` or `shape`.
    """

    def __init__(self, reason: str, message: str, salvaged: Salvaged) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.salvaged = salvaged


class Answered(msgspec.Struct, gc=False):
    """An answer to `event_hook`: whose question it answers, about which event, and what it has decided."""

    id: str
    event: str
    result: bytes
    """Empty for no opinion."""


class _Decided(msgspec.Struct, frozen=True, gc=False):
    result: Raw = Raw(b"")


class _HookPayload(msgspec.Struct, gc=False):
    event: str
    data: _Decided = _Decided()


class _HookAnswer(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The one form of answers to hooks that is worth a way of its own."""

    id: str
    version: Version
    type: Literal["event_hook"]
    payload: _HookPayload


_hook_answer: msgspec.json.Decoder[_HookAnswer] = msgspec.json.Decoder(_HookAnswer)
_envelope: msgspec.json.Decoder[Envelope] = msgspec.json.Decoder(Envelope)
_payloads: dict[str, msgspec.json.Decoder[Any]] = {
    type_: msgspec.json.Decoder(struct) for type_, struct in PAYLOADS.items()
}
_encode = msgspec.json.Encoder().encode
_VALUE = re.compile(rb'\s*:\s*("(?:[^"\\]|\\.){0,200}")', re.DOTALL)


class _RepeatedError(Exception):
    pass


def read(data: bytes, most_depth: int = MAX_DEPTH) -> Message:
    """Return one whole message.

    Raises:
        BadPiMessage: If the bytes are not one message of the protocol.
    """
    try:
        data.decode()
    except UnicodeDecodeError as fault:
        raise BadPiMessage("not-utf8", f"not UTF-8 at byte {fault.start}", salvage(data)) from None
    if len(data) > 2 * most_depth and is_deep(data, most_depth):
        raise BadPiMessage("too-deep", f"JSON nested deeper than {most_depth}", salvage(data))
    if len(data) > MAX_DIGITS and has_endless_number(data):
        raise BadPiMessage("number", f"a number of more than {MAX_DIGITS} digits", salvage(data))
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        reason = "number" if "out of range" in str(fault) else "not-json"
        raise BadPiMessage(reason, str(fault), salvage(data)) from None
    if _repeats_a_key(data, value):
        raise BadPiMessage("duplicate-key", "a key stands twice in one object", salvage(data))
    try:
        envelope = _envelope.decode(data)
        return Message(envelope.id, envelope.type, *_body(envelope))
    except msgspec.ValidationError as fault:
        raise BadPiMessage(_reason(value), str(fault), _known(value)) from None


def read_answer(data: bytes, most_depth: int = MAX_DEPTH) -> Answered | None:
    """Return a message that is an answer to `event_hook`, read in a third of the time that `read` takes.

    None for every message that is not of that form, or not right: `read` tells then what it is, or what is wrong.
    """
    size = len(data)
    if size > MAX_DIGITS or data.find(b'"event_hook"') < 0 or data.find(b"\\u003") >= 0:
        return None
    try:
        if not data.isascii():
            data.decode()
        found = _hook_answer.decode(data)
        if _encode(msgspec.json.decode(data)).count(b":") != data.count(b":"):
            return None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if size > 2 * most_depth and is_deep(data, most_depth):
        return None
    result = bytes(found.payload.data.result)
    return Answered(found.id, found.payload.event, b"" if result == b"null" else result)


def write(id_: str, body: Payload, context: Raw = EMPTY) -> bytes:
    """Return a message around a payload. `context`, an object, becomes a member of payloads that have none in v1."""
    payload = _encode(body)
    if context is not EMPTY:
        payload = b'%b,"context":%b}' % (payload[:-1], bytes(context))
    return raw(id_, TYPE_OF[type(body)], payload)


def hook_head(event: str) -> bytes:
    """Return what stands between the id and the data of an `event_hook` about an event."""
    return b',"version":"1.0","type":"event_hook","payload":{"event":%b,"data":' % _encode(event)


def raw(id_: str, type_: Type, payload: bytes) -> bytes:
    """Return a message around a payload that is encoded already."""
    return b'{"id":%b,"version":"1.0","type":"%b","payload":%b}' % (_encode(id_), type_.encode(), payload)


def salvage(data: bytes) -> Salvaged:
    """Return what bytes that are no message, or the beginning of one, tell of it.

    Only members of the outermost object count: an `id` inside a payload is somebody else's.
    """
    found: dict[str, set[str]] = {"id": set(), "type": set()}
    level = 0
    for match in TOKENS.finditer(data[:SALVAGED_BYTES]):
        token = match.group()
        if token in (b"[", b"{"):
            level += 1
        elif token in (b"]", b"}"):
            level -= 1
        elif level == 1 and token in (b'"id"', b'"type"'):
            value = _VALUE.match(data, match.end())
            text = _text(value.group(1)) if value is not None else None
            if text is not None:
                found[token[1:-1].decode()].add(text)
    ids, types = found["id"], found["type"] & set(TYPES)
    return Salvaged(ids.pop() if len(ids) == 1 else None, types.pop() if len(types) == 1 else "")


def _body(envelope: Envelope) -> tuple[Payload, Raw]:
    decoder, payload = _payloads[envelope.type], envelope.payload
    try:
        return decoder.decode(payload), payload
    except msgspec.ValidationError as fault:
        if "got `float`" not in str(fault):
            raise
        # To a JSON Schema 5.0 is an integer. Rare enough that the payload may be written anew for it, also for those
        # who read the bytes after us.
        payload = Raw(_encode(_with_integers(envelope.type, msgspec.json.decode(payload))))
        return decoder.decode(payload), payload


_INTEGERS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "host_call": (("timeout_ms",),),
    "host_result": (
        ("chunk", "index"),
        ("chunk", "backpressure", "credits"),
        ("chunk", "backpressure", "delay_ms"),
    ),
    "log": (("source", "pid"),),
}
"""Where the schema has an integer."""


def _with_integers(type_: str, payload: Any) -> Any:
    for path in _INTEGERS.get(type_, ()):
        place: Any = payload
        for name in path[:-1]:
            place = place.get(name) if isinstance(place, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        value = cast(dict[str, Any], place).get(path[-1]) if isinstance(place, dict) else None
        if isinstance(value, float) and value.is_integer():
            place[path[-1]] = int(value)
    return payload


def _repeats_a_key(data: bytes, value: Any) -> bool:
    """Written anew, a value lacks the members that were overwritten, and so has fewer colons than it came with.

    That costs a third of looking at each object, which is left for those that hide a colon behind an escape.
    """
    if b"\\u003" not in data:
        return _encode(value).count(b":") != data.count(b":")
    try:
        json.loads(data, object_pairs_hook=_unique)
    except _RepeatedError:
        return True
    return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RepeatedError
    return found


def _reason(value: Any) -> str:
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        version, type_ = members.get("version"), members.get("type")
        if isinstance(version, str) and version not in VERSIONS:
            return "version"
        if isinstance(type_, str) and type_ not in TYPES:
            return "type"
    return "shape"


def _known(value: Any) -> Salvaged:
    members = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    id_, type_ = members.get("id"), members.get("type")
    return Salvaged(
        id_ if isinstance(id_, str) else None,
        type_ if isinstance(type_, str) and type_ in TYPES else "",
    )


def _text(token: bytes) -> str | None:
    try:
        return msgspec.json.decode(token, type=str)
    except (msgspec.DecodeError, UnicodeError):
        return None
