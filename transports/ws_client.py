"""The websocket client: a connection to one server, over TCP or a unix socket, with or without TLS.

Owns the opening of the connection and what is said where it cannot be opened. What happens on an open connection
is in `ws_link`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI
from websockets.extensions.permessage_deflate import enable_client_permessage_deflate
from websockets.http11 import Request, Response
from websockets.protocol import Event
from websockets.typing import Origin
from websockets.uri import WebSocketURI, parse_uri

from transports.base import Receiver, TransportError
from transports.ws_link import WebSocketLink, WebSocketOptions
from transports.ws_wire import SILENT, SUBPROTOCOL


async def connect_websocket(
    url: str,
    receiver: Receiver,
    *,
    headers: Iterable[tuple[str, str]] = (),
    origin: str | None = None,
    unix_path: str | None = None,
    tls: ssl.SSLContext | None = None,
    options: WebSocketOptions | None = None,
) -> WebSocketLink:
    """Open a connection to `url` (`ws:` or `wss:`), through the socket at `unix_path` where that is given.

    Subprotocol `mcp` is offered; a server that chooses none is taken. Redirects are not followed and no proxy
    is used. Messages reach `receiver` after this has returned.

    Raises TransportError: `refused` (nobody there, no websocket, bad TLS), `denied` (401, 403, a certificate
    that does not fit), `http-status` (with `details["status"]`), `timeout`.
    """
    options = options or WebSocketOptions()
    try:
        uri = parse_uri(url)
    except (InvalidURI, ValueError) as error:
        raise TransportError("refused", "The address is not a websocket URL.") from error
    where = f"{'wss' if uri.secure else 'ws'}://{uri.host}:{uri.port}{uri.path}"
    details: dict[str, object] = {"address": where}
    link = _Outgoing(uri, options, tuple(headers), origin)
    try:
        async with asyncio.timeout(options.open_timeout_s):
            await _open(link, uri, unix_path, tls)
            await link.opened
    except TimeoutError as error:
        link.give_up()
        message = f"{where} did not answer within {options.open_timeout_s} s."
        raise TransportError("timeout", message, details) from error
    except InvalidStatus as error:
        link.give_up()
        raise _refused_by_status(error.response, where) from error
    except (InvalidHandshake, EOFError) as error:
        link.give_up()
        raise TransportError("refused", f"{where} speaks no websocket: {error}.", details) from error
    except ssl.SSLCertVerificationError as error:
        link.give_up()
        message = f"The certificate of {where} is not valid: {error.verify_message}."
        raise TransportError("denied", message, details) from error
    except OSError as error:
        link.give_up()
        message = f"Cannot connect to {where}: {error.strerror or error}."
        hint = "See whether the server runs, and whether host and port are right"
        raise TransportError("refused", message, details | {"errno": error.errno, "hint": hint}) from error
    except BaseException:
        link.give_up()
        raise
    link.start(receiver)
    return link


async def _open(
    link: _Outgoing, uri: WebSocketURI, unix_path: str | None, tls: ssl.SSLContext | None
) -> None:
    loop = asyncio.get_running_loop()
    context = (tls or ssl.create_default_context()) if uri.secure else None
    name = uri.host if uri.secure else None
    if unix_path is not None:
        await loop.create_unix_connection(lambda: link, unix_path, ssl=context, server_hostname=name)
    else:
        await loop.create_connection(lambda: link, uri.host, uri.port, ssl=context, server_hostname=name)


def _refused_by_status(response: Response, where: str) -> TransportError:
    status = response.status_code
    details: dict[str, object] = {"address": where, "status": status}
    if response.body:
        details["body"] = bytes(response.body[:200]).decode(errors="replace")
    if status in (401, 403):
        details["hint"] = "It wants to know who asks, or lets others in: look at `headers` of the peer"
        return TransportError("denied", f"{where} does not let us in (HTTP {status}).", details)
    if status == 404:
        details["hint"] = "Look at the path of the URL: nothing is served there"
    hint = "; redirects are not followed" if 300 <= status < 400 else ""
    return TransportError(
        "http-status", f"{where} answered HTTP {status} instead of a websocket{hint}.", details
    )


class _Outgoing(WebSocketLink):
    """The client's side."""

    def __init__(
        self,
        uri: WebSocketURI,
        options: WebSocketOptions,
        headers: tuple[tuple[str, str], ...],
        origin: str | None,
    ) -> None:
        extensions = enable_client_permessage_deflate(None) if options.compression else None
        self._client = ClientProtocol(
            uri,
            origin=None if origin is None else Origin(origin),
            extensions=extensions,
            subprotocols=[SUBPROTOCOL],
            max_size=options.limits.message_bytes,
            logger=SILENT,
        )
        super().__init__(self._client, options)
        self._headers = headers
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self._early: list[Event] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade."""
        super().connection_made(transport)
        request = self._client.connect()
        for name, value in self._headers:
            request.headers[name] = value
        self._client.send_request(request)
        self._send_wire()

    def _on_handshake(self, event: Request | Response, later: list[Event]) -> bool:
        error = self._client.handshake_exc
        if error is None:
            # What came together with the answer waits until whoever connects has got the link.
            self._early = later
            if self._transport is not None:
                self._transport.pause_reading()
            self._opened()
        self._settle(error)
        return error is None

    def start(self, receiver: Receiver) -> None:
        """Begin to call `receiver`, one turn later."""
        super().start(receiver)
        self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        early, self._early = self._early, []
        if self._closed:
            super()._lost(None)
            return
        self._process(early)
        if self._transport is not None and not self._paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def _lost(self, exc: Exception | None) -> None:
        self._settle(self._client.handshake_exc or exc or EOFError("the connection ended in the handshake"))
        super()._lost(exc)

    def _settle(self, error: Exception | None) -> None:
        if not self.opened.done():
            if error is None:
                self.opened.set_result(None)
            else:
                self.opened.set_exception(error)

    def give_up(self) -> None:
        """The connection is not to be: leave nothing behind."""
        if self.opened.done() and not self.opened.cancelled():
            self.opened.exception()
        self.opened.cancel()
        self.abort()
