"""One HTTP client and what both HTTP transports need of it: open an answer, follow a redirect, name a fault.

Owns the `httpx2` client of one peer (one connection pool for its whole life), the rule for redirects (never
to another origin, never with another method) and the translation of `httpx2` errors. Knows no messages.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import httpx2

from transports.base import Id, Limits, TransportError

HEAD_BYTES: Final = 512
"""How much of an unexpected body an error quotes."""
_MAX_HOPS: Final = 3
_REFUSALS: Final = {401: "denied", 403: "denied", 407: "denied", 413: "too-large"}
_HINTS: Final = {
    401: "It wants to know who asks: give it a token with `headers` (`--header` of `tieline record`), or `oauth`",
    403: "It does not let this caller in: look at the token in `headers` and at what it is good for",
    404: "Look at the path of the URL: nothing is served there",
    405: 'There is no streamable HTTP at this URL: look at its path, or set `type = "sse"` for an older server',
}
_LONG_SEGMENT: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """How one HTTP peer is talked to. Times are seconds, sizes bytes."""

    headers: tuple[tuple[str, str], ...] = ()
    """Sent with every request, as configured; they may hold secrets and never show in an error."""
    auth: httpx2.Auth | None = None
    """Signs requests and may answer a 401, for example an OAuth provider."""
    verify: ssl.SSLContext | bool = True
    limits: Limits = field(default_factory=Limits)
    connect_s: float = 10.0
    answer_s: float = 300.0
    """From a request to the end of its answer's headers, which a JSON server sends when it is done."""
    body_s: float = 60.0
    """The longest pause inside a JSON body."""
    ack_s: float = 30.0
    """From a notification or response to its acknowledgement; later messages wait for it."""
    close_s: float = 2.0
    """For what is queued and for ending the session, each."""
    retry_s: float = 1.0
    """Before a cut stream is resumed, where the server names no time."""
    max_retries: int = 5
    """Attempts without a new event before a cut stream is given up."""


# At their usual levels these two write whole URLs, and headers with secrets in them.
for _chatty in ("httpx2", "httpcore2"):
    logging.getLogger(_chatty).setLevel(logging.WARNING)

Hook = Callable[[str], None]


class HttpClient:
    """The connections to one HTTP peer. Errors leave it as `TransportError`, without query and credentials."""

    def __init__(self, url: str, options: HttpOptions) -> None:
        """Prepare a client for `url`.

        Raises:
            TransportError: (`refused`) if `url` is not an absolute http or https URL.
        """
        try:
            self.url = httpx2.URL(url)
        except httpx2.InvalidURL as fault:
            raise TransportError("refused", f"not a URL: {fault}") from None
        if self.url.scheme not in ("http", "https") or not self.url.host:
            raise TransportError("refused", "an HTTP peer needs an absolute http:// or https:// URL")
        self.options = options
        self.origin = origin_of(self.url)
        verify = options.verify
        if verify is True and self.url.scheme == "http" and options.auth is None:
            # Loading the certificate store costs 20 ms, and this client never leaves its plain origin.
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client = httpx2.AsyncClient(
            headers={"accept-encoding": "identity", **dict(options.headers)},
            auth=options.auth,
            verify=verify,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(None, connect=options.connect_s),
            # Unlimited, since a cancel that waits for a free connection would wait for the call it cancels.
            # Idle ones are dropped before the five seconds after which common servers do.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=4.0),
        )

    async def open(
        self,
        method: str,
        url: httpx2.URL,
        headers: Mapping[str, str],
        *,
        timeout_s: float,
        content: bytes | None = None,
        hook: Hook | None = None,
    ) -> httpx2.Response:
        """Send a request and return its answer with the body unread. The caller closes it.

        `hook` hears `sending` before the first byte leaves and `written` after the last.

        Raises:
            TransportError: `refused`, `closed`, `timeout`, or `denied` for a redirect to another origin.
        """
        extensions = None if hook is None else {"trace": _trace(hook)}
        try:
            async with asyncio.timeout(timeout_s):
                for _ in range(_MAX_HOPS + 1):
                    request = self._client.build_request(
                        method, url, headers=headers, content=content, extensions=extensions
                    )
                    response = await self._client.send(request, stream=True)
                    target = _redirect(response, method)
                    if target is None:
                        return response
                    await response.aclose()
                    if origin_of(target) != origin_of(url):
                        raise TransportError(
                            "denied",
                            f"{self.origin} redirects to {origin_of(target)}, which was not configured",
                            {"status": response.status_code, "location": origin_of(target)},
                        )
                    url = target
                raise TransportError("http-status", f"{self.origin} redirects without end", {"status": 310})
        except TimeoutError:
            raise TransportError("timeout", f"{self.origin} sent no answer within {timeout_s:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as fault:
            raise self.fault(fault) from None

    async def body(self, response: httpx2.Response) -> bytes:
        """Return the whole body of an answer, of at most the size of a message.

        Raises:
            TransportError: `too-large`, `timeout`, `closed` or `content-type`.
        """
        self.check_plain(response)
        limit = self.options.limits.message_bytes
        declared = response.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            raise self.too_large(int(declared))
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.options.body_s) as pause:
                async for chunk in response.aiter_raw():
                    size += len(chunk)
                    if size > limit:
                        raise self.too_large(size)
                    chunks.append(chunk)
                    pause.reschedule(asyncio.get_running_loop().time() + self.options.body_s)
        except TimeoutError:
            message = f"{self.origin} stopped in the middle of an answer for {self.options.body_s:g} s"
            raise TransportError("timeout", message) from None
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as fault:
            raise self.fault(fault) from None
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def check_plain(self, response: httpx2.Response) -> None:
        """Refuse an answer that is compressed although none was asked for: what it unpacks to has no bound.

        Raises:
            TransportError: (`content-type`).
        """
        coding = response.headers.get("content-encoding", "identity")
        if coding.strip().lower() not in ("", "identity"):
            raise self.status_error(response, b"", f" with the content encoding {coding[:40]}")

    def too_large(self, size: int | None) -> TransportError:
        """Return the fault for a message over the limit, of `size` bytes where that is known."""
        limit = self.options.limits.message_bytes
        details: dict[str, object] = {"limit": limit}
        if size is not None:
            details["size"] = size
        return TransportError("too-large", f"{self.origin} sent a message over {limit} bytes", details)

    async def status_fault(self, response: httpx2.Response, why: str = "") -> TransportError:
        """Return the fault for an answer of the wrong status or kind, with the first bytes of its body."""
        head = b""
        try:
            async with asyncio.timeout(1.0):
                async for chunk in response.aiter_raw():
                    head += chunk
                    if len(head) >= HEAD_BYTES:
                        break
        except (TimeoutError, httpx2.HTTPError, httpx2.StreamError, OSError):
            pass
        return self.status_error(response, head, why)

    def status_error(self, response: httpx2.Response, head: bytes, why: str = "") -> TransportError:
        """Return the fault for an answer of the wrong status or kind, whose body begins with `head`."""
        status = response.status_code
        details: dict[str, object] = {
            "status": status,
            "content_type": response.headers.get("content-type", ""),
            "head": head[:HEAD_BYTES].decode("utf-8", "replace"),
        }
        if status in _HINTS:
            details["hint"] = _HINTS[status]
        reason = "content-type" if why else _REFUSALS.get(status, "http-status")
        return TransportError(reason, f"{shown(response.url)} answered {status}{why}", details)

    def fault(self, fault: Exception) -> TransportError:
        """Return what an error of the HTTP library means."""
        said = str(fault) or type(fault).__name__
        if isinstance(fault, httpx2.ConnectTimeout):
            message = f"{self.origin} did not take the connection within {self.options.connect_s:g} s"
            return TransportError("timeout", message)
        if isinstance(fault, httpx2.TimeoutException):
            return TransportError("timeout", f"{self.origin} stopped answering")
        if isinstance(
            fault, httpx2.ConnectError | httpx2.UnsupportedProtocol | httpx2.InvalidURL | httpx2.ProxyError
        ):
            hint: dict[str, object] = {
                "hint": "See whether the server runs, and whether host and port are right"
            }
            return TransportError("refused", f"cannot connect to {self.origin}: {said}", hint)
        return TransportError("closed", f"{self.origin} broke the connection: {said}")

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()


@asynccontextmanager
async def closing(response: httpx2.Response) -> AsyncGenerator[httpx2.Response]:
    """Close `response` on the way out, whatever happens."""
    try:
        yield response
    finally:
        await response.aclose()


def shown(url: httpx2.URL) -> str:
    """Return a URL as it may be shown: no query, no credentials, no part of the path that looks like a key."""
    parts = url.path.split("/")
    return origin_of(url) + "/".join("…" if _is_like_a_key(part) else part for part in parts)


def _is_like_a_key(part: str) -> bool:
    has_both = any(char.isdigit() for char in part) and any(char.isalpha() for char in part)
    return len(part) >= _LONG_SEGMENT and has_both


def origin_of(url: httpx2.URL) -> str:
    """Return scheme, host and port."""
    port = url.port or (443 if url.scheme == "https" else 80)
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}:{port}"


def with_request(fault: TransportError, request_id: Id | None, *, sent: bool) -> TransportError:
    """Return `fault` as the fault of one request. `sent` says whether a byte of it may have left."""
    return TransportError(fault.reason, fault.message, {**fault.details, "sent": sent}, request_id)


def _redirect(response: httpx2.Response, method: str) -> httpx2.URL | None:
    """Return where to go, or None where the answer is no redirect that keeps `method`."""
    location = response.headers.get("location")
    if location is None or not (
        response.status_code in (307, 308) or (method == "GET" and response.is_redirect)
    ):
        if location is not None and response.is_redirect:
            # Another method would be another request; only a foreign target is worth telling apart.
            target = response.url.join(location)
            return target if origin_of(target) != origin_of(response.url) else None
        return None
    return response.url.join(location)


def _trace(hook: Hook) -> Callable[[str, object], object]:
    async def trace(event: str, _info: object) -> None:
        if event.endswith("send_request_headers.started"):
            hook("sending")
        elif event.endswith(("send_request_body.complete", "send_request_body.failed")):
            hook("written")

    return trace
