"""The params of the host call `http`, what of them is sent, where a redirect leads, and the form of a response.

Owns forms and rules, of which none needs a network. Which hosts a call may reach is the policy's, which addresses are
public `addresses.py`'s.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import urljoin

import msgspec
from msgspec import Meta

from gateway.calls.host.unpacking import ENCODINGS
from gateway.policy.hosts import LONGEST_URL

Method: TypeAlias = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
Header: TypeAlias = tuple[str, str]

REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", re.ASCII)
_OURS: Final = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer", "expect",
     "accept-encoding")
)  # fmt: skip
"""Headers that follow from the call and the connection: to set them would be to lie about either."""
_FOR_ANYBODY: Final = frozenset(
    ("accept", "accept-language", "user-agent", "content-type", "content-language")
)
"""Headers that go along to another origin. Everything else may be a secret of the first."""
_OF_BODY: Final = frozenset(("content-type", "content-language", "content-encoding"))
MOST_HEADERS: Final = 100


class HttpCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request over HTTP. Its body is text, or bytes as base64."""

    url: Annotated[str, Meta(max_length=LONGEST_URL)]
    method: Method = "GET"
    headers: Annotated[
        dict[str, Annotated[str, Meta(max_length=16 * 1024)]], Meta(max_length=MOST_HEADERS)
    ] = {}
    body: str | None = None
    body_bytes: bytes | None = None
    timeout_ms: Annotated[float, Meta(gt=0)] | None = None
    redirect: Literal["follow", "manual", "error"] = "follow"
    stream: bool = False
    """Give the body in chunks as it comes."""


class Hop(msgspec.Struct, frozen=True):
    """One request on the way to a response."""

    url: str
    method: Method
    headers: tuple[Header, ...]
    body: bytes | None


def first(call: HttpCall) -> Hop:
    """Return the request that a call begins with.

    Raises:
        ValueError: If a header cannot be sent or is not the call's to set, or the body is said twice or not wanted.
    """
    if call.body is not None and call.body_bytes is not None:
        raise ValueError("give either `body` or `body_bytes`")
    try:
        body = call.body.encode() if call.body is not None else call.body_bytes
    except UnicodeEncodeError:
        raise ValueError("`body` holds half of a surrogate pair") from None
    if body is not None and call.method in ("GET", "HEAD"):
        raise ValueError(f"a {call.method} has no body")
    headers: list[Header] = []
    for name, value in call.headers.items():
        lower = name.lower()
        if not _TOKEN.fullmatch(name) or any(ord(letter) < 32 and letter != "\t" for letter in value):
            raise ValueError(f"the header {name[:64]!r} cannot be sent")
        if not value.isascii() or "\x7f" in value:
            raise ValueError(f"the header {name[:64]!r} holds more than ASCII")
        if lower in _OURS or lower.startswith("proxy-"):
            raise ValueError(f"the header {name[:64]!r} is set by the connection")
        headers.append((lower, value.strip(" \t")))
    if len({name for name, _ in headers}) < len(headers):
        raise ValueError("a header is given twice")
    return Hop(call.url, call.method, tuple(headers), body)


def sent(hop: Hop) -> list[Header]:
    """Return the headers of a request besides those of its connection."""
    headers = [("accept-encoding", ENCODINGS), *hop.headers]
    names = {name for name, _ in hop.headers}
    usual = {"accept": "*/*", "user-agent": "tieline"}
    return [*headers, *((name, value) for name, value in usual.items() if name not in names)]


def following(hop: Hop, status: int, location: str, *, is_same_origin: bool) -> Hop:
    """Return the request that a redirect asks for; `location` is as `target` gives it."""
    method, body, headers = hop.method, hop.body, hop.headers
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        headers = tuple(each for each in headers if each[0] not in _OF_BODY)
    if not is_same_origin:
        headers = tuple(each for each in headers if each[0] in _FOR_ANYBODY)
    return Hop(location, method, headers, body)


def target(hop: Hop, location: str) -> str:
    """Return the URL that a `Location` means.

    Raises:
        ValueError: If it is none.
    """
    return urljoin(hop.url, location).partition("#")[0]


def head_of(status: int, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the members of an output that are known before the body is."""
    return {"status": status, "headers": dict(headers)}


def joined(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers of a response by their names in lower case; several of one name are joined by commas."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def body_of(data: bytes) -> dict[str, Any]:
    """Return a body as a member of an output: `body` if it is text, else `body_bytes` as base64."""
    try:
        return {"body": data.decode()}
    except UnicodeDecodeError:
        return bytes_of(data)


def bytes_of(data: bytes) -> dict[str, Any]:
    """Return a part of a body that is no text."""
    return {"body_bytes": base64.b64encode(data).decode()}
