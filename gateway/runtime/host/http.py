"""The host call `http`: one request, its redirects, and a body that is bounded as it comes.

Owns the course of a request and what its faults are called. Every hop is decided about anew and has a connection of
its own, which nobody else uses. No proxy and no credentials of the machine are used.
"""

from __future__ import annotations

import asyncio
import codecs
import errno
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

import httpcore2
import msgspec

from gateway.calls.host import http_calls as calls
from gateway.calls.host.bounds import Bounds
from gateway.calls.host.unpacking import Unpacker, UnpackError
from gateway.policy.hosts import PORTS, HostError, host_of_url
from gateway.runtime.host.base import Emit, HostFault, Work, bad_params
from gateway.runtime.host.dialing import CheckedNetwork, PrivateHosts, Resolve, system_resolve

CONNECT_S: Final = 10.0
_SAFE: Final = "/:?#[]@!$&'()*+,;=%-._~"


class Http:
    """Serves `http`."""

    def __init__(
        self,
        private: PrivateHosts,
        *,
        resolve: Resolve = system_resolve,
        network: httpcore2.AsyncNetworkBackend | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        """Reach public hosts and `private` ones; whom TLS trusts is the system's to say unless `trust` does."""
        self._private = private
        self._resolve = resolve
        self._network = network or cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())
        self._trust = trust

    async def serve(self, work: Work, emit: Emit) -> dict[str, Any]:
        """Ask for it. The output is `status`, `headers`, `body` or `body_bytes`, `size_bytes`, `duration_ms`."""
        call = work.granted(calls.HttpCall)
        try:
            hop = calls.first(call)
        except ValueError as error:
            raise bad_params(str(error)) from error
        if hop.body is not None and len(hop.body) > work.bounds.request_bytes:
            raise bad_params(f"the body is longer than {work.bounds.request_bytes} bytes", errno="EFBIG")
        wanted = work.bounds.http_s if call.timeout_ms is None else call.timeout_ms / 1000
        limit = asyncio.timeout(min(wanted, work.bounds.http_s))
        try:
            async with limit:
                return await self._follow(work, call, hop, emit)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise HostFault(
                "timeout", "the server took too long", "http_time", outcome="unknown",
                advice="give it a longer `timeout_ms`, or ask for less",
            ) from error  # fmt: skip

    async def _follow(self, work: Work, call: calls.HttpCall, hop: calls.Hop, emit: Emit) -> dict[str, Any]:
        began = asyncio.get_running_loop().time()
        target = work.decision.facts.need.hosts[0]
        for left in range(work.bounds.redirects, -1, -1):
            async with self._asked(hop, target) as response:
                headers = calls.joined(response.headers)
                location = headers.get("location")
                if call.redirect == "manual" or response.status not in calls.REDIRECTS or location is None:
                    output = calls.head_of(response.status, headers)
                    size, body = await _body(
                        response, headers, work.bounds, emit if call.stream else None, output
                    )
                    took = round((asyncio.get_running_loop().time() - began) * 1000)
                    return {**output, **body, "size_bytes": size, "duration_ms": took}
                if call.redirect == "error" or not left:
                    why = "may not be followed" if left else f"is one of more than {work.bounds.redirects}"
                    raise HostFault(
                        "io", f"{target} answers with a redirect, which {why}", "redirect", outcome="completed",
                        retryable=False,
                    )  # fmt: skip
            hop, target = self._next(work, hop, target, response.status, location)
        raise AssertionError

    def _next(
        self, work: Work, hop: calls.Hop, target: str, status: int, location: str
    ) -> tuple[calls.Hop, str]:
        try:
            url = calls.target(hop, location)
            leads_to = host_of_url(url)
        except (HostError, ValueError) as error:
            raise HostFault(
                "io",
                f"{target} redirects to what is no URL: {error}",
                "redirect",
                outcome="completed",
                retryable=False,
            ) from error
        if not work.may(msgspec.structs.replace(work.decision.facts.need, hosts=(leads_to,))):
            raise HostFault(
                "denied", f"{target} redirects to {leads_to}, which the call may not reach", "out_of_scope",
                outcome="completed", retryable=False, capability="http",
            )  # fmt: skip
        same = leads_to == target and urlsplit(url).scheme == urlsplit(hop.url).scheme
        return calls.following(hop, status, url, is_same_origin=same), leads_to

    @asynccontextmanager
    async def _asked(self, hop: calls.Hop, target: str) -> AsyncGenerator[httpcore2.Response]:
        scheme = urlsplit(hop.url).scheme
        network = CheckedNetwork(target, self._private, self._resolve, self._network)
        request = _request(hop, target, scheme)
        try:
            async with httpcore2.AsyncConnectionPool(
                ssl_context=self._context() if scheme == "https" else None,
                network_backend=network,
                max_connections=1,
                retries=0,
            ) as pool:
                response = await pool.handle_async_request(request)
                try:
                    yield response
                finally:
                    await response.aclose()
        except _FAULTS as error:
            raise _fault(error, target, is_connected=network.is_connected) from error

    def _context(self) -> ssl.SSLContext:
        if self._trust is None:
            self._trust = ssl.create_default_context()
        return self._trust


_FAULTS: Final = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
    ssl.SSLError,
)


def _request(hop: calls.Hop, target: str, scheme: str) -> httpcore2.Request:
    """The request as it is sent: to the host that was decided about, however the URL spells it."""
    parts = urlsplit(hop.url)
    path = quote(parts.path or "/", safe=_SAFE) + (
        f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
    )
    host, _, port = target.rpartition(":")
    headers = [("host", host if int(port) == PORTS[scheme] else target), *calls.sent(hop)]
    if hop.body is not None:
        headers.append(("content-length", str(len(hop.body))))
    elif hop.method in ("POST", "PUT", "PATCH"):
        headers.append(("content-length", "0"))
    return httpcore2.Request(
        hop.method,
        httpcore2.URL(scheme=scheme, host=host.strip("[]"), port=int(port), target=path),
        headers=[(name.encode("ascii"), value.encode("ascii")) for name, value in headers],
        content=hop.body,
        extensions={"timeout": {"connect": CONNECT_S}},
    )


async def _body(
    response: httpcore2.Response,
    headers: dict[str, str],
    bounds: Bounds,
    emit: Emit | None,
    output: dict[str, Any],
) -> tuple[int, dict[str, Any]]:
    """Read the body; return its size and its member of the output, which is empty where it was given in chunks."""
    kept = bytearray()
    text: Any = codecs.getincrementaldecoder("utf-8")()
    is_text = True
    try:
        unpacker = Unpacker(headers.get("content-encoding", ""), bounds)
        if emit is not None:
            await emit(output)
        async for data in response.aiter_stream():
            for piece in unpacker.add(data):
                if emit is None:
                    kept += piece
                    continue
                part, is_text = _part(text, piece, is_text=is_text)
                if part:
                    await emit(part)
        unpacker.end()
        if emit is not None and is_text and (rest := text.getstate()[0]):
            await emit(calls.bytes_of(rest))
    except UnpackError as error:
        raise HostFault(
            "io", str(error), error.reason, outcome="completed", retryable=False,
            **({"errno": "EFBIG"} if error.reason in ("too_large", "bomb") else {}),
        ) from error  # fmt: skip
    if emit is None:
        return unpacker.gave, calls.body_of(bytes(kept))
    return unpacker.gave, {}


def _part(text: Any, piece: bytes, *, is_text: bool) -> tuple[dict[str, Any], bool]:
    """A piece of a body as a chunk; once something was no text, everything that follows comes as bytes."""
    if is_text:
        waiting: bytes = text.getstate()[0]
        try:
            found: str = text.decode(piece)
        except UnicodeDecodeError:
            return calls.bytes_of(waiting + piece), False
        return ({"body": found} if found else {}), True
    return calls.bytes_of(piece), False


def _fault(error: Exception, target: str, *, is_connected: bool) -> HostFault:
    cause: BaseException | None = error
    while cause is not None and not (
        isinstance(cause, OSError) and (cause.errno or isinstance(cause, ssl.SSLError))
    ):
        cause = cause.__cause__ or cause.__context__
    number = cause.errno if isinstance(cause, OSError) else None
    named: dict[str, Any] = {"errno": errno.errorcode[number]} if number and number in errno.errorcode else {}
    outcome = "unknown" if is_connected else "not_sent"
    if isinstance(error, ssl.SSLError) or isinstance(cause, ssl.SSLError):
        why = getattr(cause, "verify_message", "") or "the handshake failed"
        return HostFault("io", f"{target} is not trusted over TLS: {why}", "tls", retryable=False)
    if isinstance(error, httpcore2.TimeoutException):
        return HostFault("timeout", f"{target} took too long to answer", "connect_time", outcome=outcome)
    if isinstance(error, httpcore2.ProtocolError):
        return HostFault(
            "io", f"{target} does not answer as HTTP has it", "bad_response", outcome=outcome, retryable=False
        )
    what = "has ended the connection" if is_connected else "cannot be reached"
    return HostFault("io", f"{target} {what}", "network", outcome=outcome, **named)
