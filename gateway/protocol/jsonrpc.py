"""JSON-RPC 2.0 messages as bytes: read the envelope, leave the rest verbatim, write with another id.

Owns what is a message and what is not; what is still read of the latter is `salvage.py`'s. Never decodes `params`,
`result` or `error`; never knows a method. Reading a 300-byte message costs about 0.6 µs, since everything but the
envelope stays `msgspec.Raw`.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.protocol.bounds import FLAT, LIST, MAX_DIGITS, has_endless_number, is_deep
from gateway.protocol.salvage import NOTHING, Salvaged, salvage
from recordings.late import late_decoder

# Types are no text here (`annotations`): a decoder would have each compiled, at every start.
Id: TypeAlias = int | str
"""A request id. Integers and strings are different ids: `9` is not `"9"`."""

Kind: TypeAlias = Literal["request", "notification", "response", "error"]

EMPTY: Final = Raw(b"")
MAX_DEPTH: Final = 128
"""Deeper JSON is refused: no known message nests past 40, and a recursive reader dies somewhere past 1 000."""


class BadMessage(Exception):  # noqa: N818 - a verdict about a peer's message, not an error of ours
    """Bytes that are no message.

    `reason` is stable (`not-json`, `not-utf8`, `duplicate-key`, `too-deep`, `bad-id`, `batch`, `shape`,
    `number`); `salvaged` is what could still be read of it, for whoever waits for an answer.
    """

    def __init__(self, reason: str, message: str, salvaged: Salvaged | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.salvaged = salvaged or NOTHING


class Envelope(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """One message. Absent members are `UNSET` or empty; `params`, `result`, `error` are bytes as received."""

    jsonrpc: str = ""
    id: int | str | UnsetType | None = UNSET
    method: str = ""
    params: Raw = EMPTY
    result: Raw = EMPTY
    error: Raw = EMPTY


class LongCall(Envelope, gc=False):
    """A long `tools/call` of which all is known that its way needs. Made by `scan` alone."""

    name: str = ""
    """What is called."""
    arguments: Raw = EMPTY
    """All that the params hold beside the name."""


class ToolResult(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The result of a call as most are: its members as they came, empty where they are not there."""

    content: Raw = EMPTY
    structured: Raw = msgspec.field(name="structuredContent", default=EMPTY)
    is_error: Raw = msgspec.field(name="isError", default=EMPTY)
    kind: Raw = msgspec.field(name="resultType", default=EMPTY)
    meta: Raw = msgspec.field(name="_meta", default=EMPTY)


class LongAnswer(Envelope, gc=False):
    """A long message with a result. Made by `scan` alone."""

    members: ToolResult | None = None
    """All that the result holds, each member once, where it is compact and that of a call: no error, and of no kind."""


class _Loose(msgspec.Struct, gc=False):
    """An envelope with members that no specification names yet; they are kept by `extra`."""

    jsonrpc: str = ""
    id: int | str | UnsetType | None = UNSET
    method: str = ""
    params: Raw = EMPTY
    result: Raw = EMPTY
    error: Raw = EMPTY


class _Answer(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A response and nothing else."""

    id: int
    jsonrpc: str = ""
    result: Raw = EMPTY


class _SureEnvelope(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """An envelope of the version that there is. For itself, since the first field is what is first in a message."""

    jsonrpc: Literal["2.0"]
    id: int | str | UnsetType | None = UNSET
    method: str = ""
    params: Raw = EMPTY
    result: Raw = EMPTY
    error: Raw = EMPTY


read_strict = msgspec.json.Decoder(Envelope).decode
"""An envelope without a look at what else there is. Raises `DecodeError`, `RecursionError` or `ValueError`."""
read_sure = cast("Callable[[bytes], Envelope]", msgspec.json.Decoder(_SureEnvelope).decode)
"""As `read_strict`; whatever does not say `"jsonrpc":"2.0"` is an error here."""
_read_answer = msgspec.json.Decoder(_Answer).decode
_loose = late_decoder(_Loose)
_members: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode

# What is not a member's own is less than another member would take, `,"id":0` being the shortest. Core and peer look at
# what most messages are by themselves, as `scan` does: to call it costs a third of what it does.
ANSWER_ROOM: Final = len(b'{"jsonrpc":"2.0","id":,"result":}') + 8
_REQUEST_ROOM: Final = len(b'{"jsonrpc":"2.0","id":,"method":"","params":}') + 8
CALL_ROOM: Final = _REQUEST_ROOM + len(b"tools/call")
_KNOWN: Final = frozenset(("jsonrpc", "id", "method", "params", "result", "error"))


def read(data: bytes, most_depth: int = MAX_DEPTH) -> Envelope:
    """Return the envelope of one whole message, nested at most `most_depth` levels.

    Raises:
        BadMessage: If the bytes are not one JSON-RPC message.
    """
    return scan(data, most_depth)[0]


def scan(data: bytes, most_depth: int = MAX_DEPTH) -> tuple[Envelope, Kind | None]:
    """As `read`, with what the message is where that shows at once; where not, `kind_of` tells.

    Raises:
        BadMessage: If the bytes are not one JSON-RPC message.
    """
    if not data.isascii():
        _need_utf8(data)
    size = len(data)
    kind: Kind | None = None
    try:
        envelope = read_strict(data) if size <= MAX_DIGITS else _read_long(data, size)
    except (msgspec.DecodeError, RecursionError, ValueError) as fault:
        envelope = _second_look(data, fault)
    else:
        if envelope.jsonrpc == "2.0" and envelope.id.__class__ is int:
            if envelope.result:
                if size - len(envelope.result) < ANSWER_ROOM:
                    kind = "response"
            elif (
                envelope.params
                and envelope.method
                and size - len(envelope.params) - len(envelope.method) < _REQUEST_ROOM
            ):
                kind = "request"
        if kind is None and not _plain(envelope, data):
            _refuse_duplicates(data, envelope)
    if size > MAX_DIGITS and has_endless_number(data):
        raise BadMessage("number", f"a number of more than {MAX_DIGITS} digits", _known(envelope))
    # Said here too, what most messages are found not to be deep by: a call costs more than all of it.
    if (
        size > 2 * most_depth
        and (
            size > FLAT * most_depth or (LIST in data and LIST in data[(FLAT * most_depth + 1 - size) // 3 :])
        )
        and is_deep(data, most_depth)
    ):
        raise BadMessage("too-deep", f"JSON nested deeper than {most_depth}", _known(envelope))
    return envelope, kind


def _read_long(data: bytes, size: int) -> Envelope:
    try:
        # For who has long messages alone.
        from gateway.protocol.long_messages import read_long
    except (ImportError, OSError):
        # Where there are no descriptors left, say, to load it with. It tells no more than is so.
        found = read_strict(data)
        if not found.result:
            return found
        return LongAnswer(found.jsonrpc, found.id, found.method, found.params, found.result, found.error)
    return read_long(data, size)


def result_of(data: bytes, most_depth: int = MAX_DEPTH) -> Raw | None:
    """The result in a short response that shows as one at once; None where only `scan` may tell, which costs twice."""
    size = len(data)
    if size > FLAT * most_depth or (size > 2 * most_depth and is_deep(data, most_depth)):
        return None
    try:
        answer = _read_answer(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    result = answer.result
    shows = answer.jsonrpc == "2.0" and result and size - len(result) < ANSWER_ROOM and size <= MAX_DIGITS
    return result if shows and data.isascii() else None


def is_utf8(data: bytes) -> bool:
    """Whether bytes are text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _need_utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as fault:
        raise BadMessage("not-utf8", f"not UTF-8 at byte {fault.start}", salvage(data)) from None


def kind_of(envelope: Envelope) -> Kind:
    """Return what the envelope is.

    Raises:
        BadMessage: If its members contradict each other (a method with a result, neither, an id of null).
    """
    has_id = envelope.id is not UNSET
    if envelope.method:
        if envelope.result or envelope.error:
            raise BadMessage("shape", "a message with both a method and a result or error", _known(envelope))
        if not has_id:
            return "notification"
        if envelope.id is None:
            raise BadMessage("bad-id", "a request whose id is null")
        return "request"
    if not has_id:
        raise BadMessage("shape", "a message with neither a method nor an id")
    if bool(envelope.result) == bool(envelope.error):
        raise BadMessage("shape", "a response needs either a result or an error", _known(envelope))
    return "error" if envelope.error else "response"


def _known(envelope: Envelope) -> Salvaged:
    """Return the id of a message that could be read and is refused all the same."""
    id_ = envelope.id if isinstance(envelope.id, int | str) else None
    return Salvaged(id_, "request" if envelope.method else "answer")


def as_id(value: object) -> Id | None:
    """Return a decoded value as an id, or None where it is none: `true` is not 1, and 9.0 is not 9."""
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def encode_id(id_: Id) -> bytes:
    """Return the id as JSON, with its type."""
    return b"%d" % id_ if id_.__class__ is int else _encode(id_)


def request(id_: Id, method: str, params: bytes) -> bytes:
    """Return a request. Empty `params` are left out."""
    if not params:
        return b'{"jsonrpc":"2.0","id":%b,"method":%b}' % (encode_id(id_), _encode(method))
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (encode_id(id_), _encode(method), params)


def notification(method: str, params: bytes = b"") -> bytes:
    """Return a notification. Empty `params` are left out."""
    if not params:
        return b'{"jsonrpc":"2.0","method":%b}' % _encode(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (_encode(method), params)


def response(id_: Id, result: bytes) -> bytes:
    """Return a success response."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode_id(id_), result)


def error(id_: Id | None, body: bytes) -> bytes:
    """Return an error response around an encoded error object. `id_` is None where no id could be read."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (b"null" if id_ is None else encode_id(id_), body)


def with_id(data: bytes, envelope: Envelope, id_: Id) -> bytes:
    """Return the same message under another id, with members that we do not know kept."""
    if envelope.method:
        out = request(id_, envelope.method, bytes(envelope.params))
    elif envelope.error:
        out = error(id_, bytes(envelope.error))
    else:
        out = response(id_, bytes(envelope.result))
    return out if envelope.jsonrpc == "2.0" else _with_extra(out, data)


def encode(value: Any) -> bytes:
    """Return compact JSON."""
    return _encode(value)


def _with_extra(out: bytes, data: bytes) -> bytes:
    extra = [(key, value) for key, value in _members.decode(data).items() if key not in _KNOWN]
    return out[:-1] + b"".join(b",%b:%b" % (_encode(key), value) for key, value in extra) + b"}"


def _plain(envelope: Envelope, data: bytes) -> bool:
    """Whether there is no room for a repeated member: what is not a member's own is white space at most.

    True for compact JSON and for Python's spaced default; others are looked at again.
    """
    size, commas = 17, 0
    id_ = envelope.id
    if id_ is not UNSET:
        size += 6 + (len(encode_id(id_)) if id_ is not None else 4)
        commas = 1
    if envelope.method:
        size += 12 + len(envelope.method)
        commas += 1
    rest = len(envelope.params) + len(envelope.result) + len(envelope.error)
    if rest:
        size += rest + (9 if envelope.error else 10)
        commas += 1
    if len(data) == size:
        return True
    spaces = 2 * commas + 1
    return len(data) == size + spaces and spaces == data.count(b" ") - _own_spaces(envelope)


def _own_spaces(envelope: Envelope) -> int:
    own = envelope.method.count(" ") + envelope.jsonrpc.count(" ")
    own += envelope.id.count(" ") if isinstance(envelope.id, str) else 0
    return own + sum(bytes(raw).count(b" ") for raw in (envelope.params, envelope.result, envelope.error))


def _second_look(data: bytes, fault: Exception) -> Envelope:
    if isinstance(fault, RecursionError):
        raise BadMessage("too-deep", "JSON nested too deep to read", salvage(data)) from None
    if not isinstance(fault, msgspec.ValidationError):
        raise BadMessage("not-json", str(fault), salvage(data)) from None
    if data.lstrip()[:1] == b"[":
        raise BadMessage("batch", "a batch; no revision since 2025-06-18 allows one") from None
    if "unknown field" not in str(fault):
        reason = "bad-id" if "$.id" in str(fault) else "shape"
        raise BadMessage(reason, str(fault), salvage(data)) from None
    try:
        loose = _loose.decode(data)
    except RecursionError:
        raise BadMessage("too-deep", "JSON nested too deep to read", salvage(data)) from None
    except (msgspec.DecodeError, ValueError) as again:
        raise BadMessage("bad-id" if "$.id" in str(again) else "shape", str(again), salvage(data)) from None
    # A version that is not "2.0" is what tells `with_id` to look for members that we do not know.
    envelope = Envelope(
        jsonrpc="",
        id=loose.id,
        method=loose.method,
        params=loose.params,
        result=loose.result,
        error=loose.error,
    )
    _refuse_duplicates(data, envelope)
    return envelope


def _refuse_duplicates(data: bytes, envelope: Envelope) -> None:
    import json

    top: list[tuple[str, object]] = []

    def keep(pairs: list[tuple[str, object]]) -> None:
        nonlocal top
        top = pairs

    try:
        json.loads(data, object_pairs_hook=keep)
    except RecursionError:
        raise BadMessage("too-deep", "JSON nested too deep to read", _known(envelope)) from None
    except ValueError as fault:
        raise BadMessage("number", str(fault), _known(envelope)) from None
    names = [name for name, _ in top]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        known = NOTHING if "id" in twice else _known(envelope)
        raise BadMessage("duplicate-key", f"the member `{twice[0]}` stands twice", known)
