"""JSON-RPC messages as importers look at them: what they are, what they say of themselves, and under another id.

Owns the reading of envelopes and the writing of what the gateway would have written. Knows neither files nor frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

Side: TypeAlias = Literal["core", "peer", "gateway"]
"""Who speaks: `gateway` asks a peer of itself, where the conversation was our own."""
Key: TypeAlias = tuple[type, int | str]
"""An id with its type: 1 and "1" are two."""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
LANE_KEY = "io.tieline/lane"
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message, or one line that is none, in a file's order. `at` is nanoseconds since the first."""

    side: Side
    body: bytes
    peer: str
    """With whom the core speaks; empty where that is the gateway itself."""
    at: int = 0
    lane: str | None = None
    about: bytes | None = None
    """The request on whose HTTP stream it came, where the file tells."""
    version: str = ""
    """The protocol version that was said beside it, in a header."""
    name: str | None = None
    """The tool, prompt or resource under its peer's own name, where that is known."""


class Envelope(msgspec.Struct, gc=False):
    """The members of a JSON-RPC message that say what it is."""

    id: int | str | float | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"")
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")


class _Meta(msgspec.Struct, gc=False):
    token: int | str | None = msgspec.field(name="progressToken", default=None)
    version: str = msgspec.field(name=VERSION_KEY, default="")
    lane: str = msgspec.field(name=LANE_KEY, default="")


class Params(msgspec.Struct, gc=False):
    """What matters of the params of any message."""

    name: Any = None
    uri: Any = None
    token: int | str | None = msgspec.field(name="progressToken", default=None)
    request: int | str | None = msgspec.field(name="requestId", default=None)
    reason: Any = None
    meta: _Meta = msgspec.field(name="_meta", default_factory=_Meta)


class Info(msgspec.Struct, gc=False):
    """A program, as it calls itself."""

    name: str = ""
    version: str = ""


class Hello(msgspec.Struct, gc=False):
    """The result of `initialize` or `server/discover`."""

    version: str = msgspec.field(name="protocolVersion", default="")
    versions: list[str] = msgspec.field(name="supportedVersions", default_factory=list[str])
    server: Info = msgspec.field(name="serverInfo", default_factory=Info)
    meta: dict[str, Raw] = msgspec.field(name="_meta", default_factory=dict[str, Raw])


_envelope = msgspec.json.Decoder(Envelope)
_params = msgspec.json.Decoder(Params)
_hello = msgspec.json.Decoder(Hello)
_info = msgspec.json.Decoder(Info)


def envelope_of(body: bytes) -> Envelope | None:
    """What a message is; None for what is no JSON-RPC message."""
    try:
        found = _envelope.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    is_answer = found.id is not UNSET and bool(found.result or found.error)
    return found if found.method is not UNSET or is_answer else None


def parts(body: bytes) -> list[bytes]:
    """The messages of a body, which may be a batch; one that is no JSON is a single one."""
    if body.lstrip()[:1] != b"[":
        return [body]
    try:
        return [bytes(each) for each in msgspec.json.decode(body, type=list[Raw])]
    except (msgspec.DecodeError, RecursionError):
        return [body]


def read_params(params: Raw) -> Params:
    """What matters of params; nothing of what is of another shape."""
    try:
        return _params.decode(params) if params else Params()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Params()


def key_of(id_: object) -> Key | None:
    """The key of an id; None for what can be none."""
    return (type(id_), id_) if isinstance(id_, int | str) else None


def hello_of(result: Raw) -> Hello:
    """What a server says of itself, in either era; nothing where that is of another shape."""
    try:
        return _hello.decode(result)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Hello()


def info_of(server: Raw) -> Info:
    """The name and version in a `serverInfo`; empty where it is of another shape."""
    try:
        return _info.decode(server)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Info()


def request_of(id_: int, body: bytes) -> bytes:
    """A request as the gateway writes it, with the params as they came."""
    members = msgspec.json.decode(body, type=dict[str, Raw])
    fields: dict[str, object] = {"jsonrpc": "2.0", "id": id_, "method": members["method"]}
    if "params" in members:
        fields["params"] = members["params"]
    return msgspec.json.encode(fields)


def answer_of(id_: int | str, envelope: Envelope) -> bytes:
    """An answer as the gateway writes it, with the result or error as it came."""
    fields: dict[str, object] = {"jsonrpc": "2.0", "id": id_}
    if envelope.error:
        return msgspec.json.encode({**fields, "error": envelope.error})
    return msgspec.json.encode({**fields, "result": envelope.result})


def with_id(body: bytes, id_: int | str) -> bytes:
    """A message under another id; as it is where it has that one."""
    members = msgspec.json.decode(body, type=dict[str, Raw])
    new = msgspec.json.encode(id_)
    if bytes(members["id"]) == new:
        return body
    members["id"] = Raw(new)
    return msgspec.json.encode(members)


def with_token(body: bytes, token: int | str) -> bytes:
    """A progress notification that names its call by another token."""
    message = msgspec.json.decode(body, type=dict[str, Raw])
    params = msgspec.json.decode(message["params"], type=dict[str, Raw])
    params["progressToken"] = Raw(msgspec.json.encode(token))
    message["params"] = Raw(msgspec.json.encode(params))
    return msgspec.json.encode(message)
