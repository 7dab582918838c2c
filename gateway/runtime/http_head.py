"""The heads of HTTP requests that may go straight: read once, and known again by their bytes.

Owns which heads are plain enough, and what follows from one: who asks, for how large a body. What follows is a
function of the bytes alone, since the rules of a listener do not change. Decides nothing about bodies; does no I/O.
"""

from __future__ import annotations

import re
from typing import Final

import httptools
import msgspec

from gateway.protocol import http_rules
from transports import http_headers as names
from transports.base import Origin
from transports.guard import Guard

MOST_BODY: Final = 256 * 1024
"""A larger body does not go straight."""
_MOST_HEAD: Final = 4096
_MOST_KNOWN: Final = 256
_LENGTH: Final = re.compile(r"[0-9]{1,9}")
_UNUSUAL: Final = frozenset(("transfer-encoding", "expect", "upgrade", "trailer", "te"))


class Head(msgspec.Struct, frozen=True, gc=False):
    """What is known of a request from its head."""

    post: http_rules.Post
    principal: str | None
    origin: Origin
    size: int
    """Bytes of the body."""


class Heads:
    """Reads heads by the rules of one listener, and remembers those that were taken."""

    def __init__(self, guard: Guard, path: str, most_bytes: int) -> None:
        """`path` is that of the endpoint, `most_bytes` the longest body that is taken from anybody."""
        self._guard = guard
        self._path = path.encode()
        self._most_bytes = most_bytes
        self._known: dict[bytes, Head] = {}

    def read(self, head: bytes) -> Head | None:
        """Return what a head says, its empty line included; None where it is refused, or unusual in any way."""
        known = self._known.get(head)
        if known is not None:
            return known
        found = self._judge(head) if len(head) <= _MOST_HEAD else None
        if found is not None:
            if len(self._known) >= _MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[head] = found
        return found

    def _judge(self, head: bytes) -> Head | None:
        headers = _parsed(head, self._path)
        if headers is None:
            return None
        lengths = [value for name, value in headers if name == "content-length"]
        if len(lengths) != 1 or not _LENGTH.fullmatch(lengths[0]) or not 0 < int(lengths[0]) <= MOST_BODY:
            return None
        verdict = self._guard.judge(headers)
        if not verdict.allowed:
            return None
        post = http_rules.judge_head("POST", headers, self._most_bytes)
        if not isinstance(post, http_rules.Post):
            return None
        origin = Origin(headers=names.public(headers), is_plain=not names.says_more(headers))
        return Head(post, verdict.principal, origin, int(lengths[0]))


class _Seen:
    """What httptools calls back with."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: http_rules.Headers = []
        self.heads = 0
        self.is_over = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower().decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self.heads += 1

    def on_body(self, body: bytes) -> None:
        del body
        self.is_over = True

    def on_message_complete(self) -> None:
        self.is_over = True


def _parsed(head: bytes, path: bytes) -> http_rules.Headers | None:
    """Return the headers of a POST to `path` in HTTP/1.1 on a connection that stays; None where it is none."""
    seen = _Seen()
    parser = httptools.HttpRequestParser(seen)
    try:
        parser.feed_data(head)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    if seen.heads != 1 or seen.is_over or seen.url != path:
        return None
    if parser.get_method() != b"POST" or parser.get_http_version() != "1.1":
        return None
    if parser.should_upgrade() or not parser.should_keep_alive():
        return None
    return None if any(name in _UNUSUAL for name, _ in seen.headers) else seen.headers
