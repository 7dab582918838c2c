"""The websocket listener, on TCP or at a unix path, with or without TLS.

Owns the socket and the connections to it. Whom it lets in is decided by `guard`, before the upgrade; what happens
on an open connection is in `ws_link`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from websockets.extensions.permessage_deflate import enable_server_permessage_deflate
from websockets.http11 import Request, Response
from websockets.protocol import Event
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from transports import http_headers
from transports.base import Acceptor, Hello, Receiver, TransportError
from transports.guard import Failures, Guard, Verdict, loopback_hosts
from transports.unix import bind_private, identity, peer_of, remove_own
from transports.ws_link import WebSocketLink, WebSocketOptions
from transports.ws_wire import SILENT, SUBPROTOCOL


class WebSocketListener:
    """Listens for websockets on TCP or at a unix path; hands each one that it lets in to the acceptor."""

    def __init__(
        self,
        acceptor: Acceptor,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        unix_path: str | None = None,
        path: str | None = None,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        tokens: Mapping[str, str] | None = None,
        guard: Callable[[int], Guard] | None = None,
        tls: ssl.SSLContext | None = None,
        options: WebSocketOptions | None = None,
        max_connections: int = 1024,
    ) -> None:
        """Take connections on `host`:`port` (0: any free one), or at `unix_path`.

        `path` is the only request path that is served (None: every one). `hosts` are `Host` values besides
        those of loopback, `origins` the web origins that are let in, `tokens` maps a principal to its bearer
        token. `guard` makes all of these rules for the port that was bound, instead.
        """
        self._acceptor = acceptor
        self._make_guard = guard
        self._host = host
        self._port = port
        self._unix_path = unix_path
        self._path = path
        self._hosts = tuple(hosts)
        self._origins = frozenset(origins)
        self._tokens = dict(tokens or {})
        self._tls = tls
        self._options = options or WebSocketOptions()
        self._max = max_connections
        self._guard = Guard(hosts=frozenset())
        self._failures = Failures()
        self._server: asyncio.Server | None = None
        self._file: tuple[int, int] | None = None
        self._links: set[_Incoming] = set()
        self._emptied = asyncio.Event()

    @property
    def address(self) -> str:
        """Where to connect to: a URL, or the path of the unix socket."""
        if self._unix_path is not None:
            return self._unix_path
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'wss' if self._tls else 'ws'}://{host}:{self._port}{self._path or '/'}"

    @property
    def port(self) -> int:
        """The TCP port, known once started."""
        return self._port

    async def start(self) -> None:
        """Begin to listen. Raises TransportError(`refused` or `denied`)."""
        loop = asyncio.get_running_loop()
        handshake_s = self._options.open_timeout_s if self._tls is not None else None
        try:
            if self._unix_path is not None:
                listening = bind_private(self._unix_path)
                self._file = identity(self._unix_path)
                self._server = await loop.create_unix_server(
                    self._incoming, sock=listening, ssl=self._tls, ssl_handshake_timeout=handshake_s
                )
            else:
                self._server = await loop.create_server(
                    self._incoming, self._host, self._port, ssl=self._tls, ssl_handshake_timeout=handshake_s
                )
                self._port = cast("int", self._server.sockets[0].getsockname()[1])
        except OSError as error:
            details: dict[str, object] = {"address": self.address, "errno": error.errno}
            message = f"Cannot listen at {self.address}: {error.strerror or error}."
            raise TransportError("refused", message, details) from error
        hosts = None if self._unix_path is not None else loopback_hosts(self._port, self._hosts)
        own = Guard(hosts=hosts, origins=self._origins, tokens=self._tokens)
        self._guard = own if self._make_guard is None else self._make_guard(self._port)

    async def stop(self) -> None:
        """Take no more connections, take leave of those that are open (for at most the close time-out)."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        if self._unix_path is not None:
            remove_own(self._unix_path, self._file)
        for link in tuple(self._links):
            link.close(1001, "the listener stops")
        while self._links:
            self._emptied.clear()
            await self._emptied.wait()

    def _incoming(self) -> _Incoming:
        return _Incoming(self, self._options)

    # -- what a connection asks ------------------------------------------------------------------------------

    def joined(self, link: _Incoming) -> None:
        """A connection has been made."""
        self._links.add(link)
        if self._server is None:
            link.abort()

    def left(self, link: _Incoming) -> None:
        """A connection has ended."""
        self._links.discard(link)
        if not self._links:
            self._emptied.set()

    def judge(self, request: Request, address: str, now_s: float) -> Verdict:
        """Whether to let this request in."""
        if len(self._links) > self._max:
            return Verdict(503, "Too many connections.")
        verdict = self._failures.count(address, now_s, self._guard.judge(request.headers.raw_items()))
        if verdict.allowed and self._path is not None and request.path.partition("?")[0] != self._path:
            return Verdict(404, f"There is nothing at this path: the endpoint is {self._path}.")
        return verdict

    def accept(self, link: _Incoming, hello: Hello) -> Receiver:
        """Hand a connection over."""
        return self._acceptor(link, hello)


class _Incoming(WebSocketLink):
    """The server's side."""

    def __init__(self, listener: WebSocketListener, options: WebSocketOptions) -> None:
        extensions = enable_server_permessage_deflate(None) if options.compression else None
        self._listener = listener
        self._server = ServerProtocol(
            extensions=extensions,
            subprotocols=[SUBPROTOCOL],
            select_subprotocol=_select_subprotocol,
            max_size=options.limits.message_bytes,
            logger=SILENT,
        )
        super().__init__(self._server, options)
        self._address = "unix"
        self._remote = ""
        self._user: str | None = None
        self._held_back: asyncio.TimerHandle | None = None
        """Gives the answer to a wrong token."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the request, but not for long."""
        super().connection_made(transport)
        self._arm_deadline(self._options.open_timeout_s)
        self._listener.joined(self)
        connection = cast("socket.socket", transport.get_extra_info("socket"))
        if connection.family == socket.AF_UNIX:
            pid, uid = peer_of(connection)
            self._remote, self._user = f"process {pid} of user {uid}", f"uid:{uid}"
            if uid != os.geteuid():
                self.abort()
        else:
            name = cast("tuple[str, int]", transport.get_extra_info("peername") or ("?", 0))
            self._address, self._remote = name[0], f"{name[0]}:{name[1]}"

    def _on_handshake(self, event: Request | Response, later: list[Event]) -> bool:
        if not isinstance(event, Request):
            return False
        verdict = self._listener.judge(event, self._address, self._loop.time())
        self._disarm()
        if verdict.delay_s:
            self.pause()
            self._held_back = self._loop.call_later(verdict.delay_s, self._refuse, verdict)
            return True
        if not verdict.allowed:
            self._refuse(verdict)
            return False
        response = self._server.accept(event)
        self._server.send_response(response)
        self._send_wire()
        if response.status_code == 101:
            self._opened()
            self._hand_over(event, verdict.principal)
        return False

    def _refuse(self, verdict: Verdict) -> None:
        self._held_back = None
        response = self._server.reject(verdict.status, verdict.reason + "\n")
        if verdict.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        self._server.send_response(response)
        self.resume()
        self._send_wire()

    def _hand_over(self, request: Request, principal: str | None) -> None:
        headers = http_headers.public([(name.lower(), value) for name, value in request.headers.raw_items()])
        hello = Hello(
            transport="websocket", remote=self._remote, principal=principal or self._user, headers=headers
        )
        try:
            self.start(self._listener.accept(self, hello))
        except TransportError as fault:
            self._fail(1008, fault.message)
        except Exception as error:  # noqa: BLE001 - one connection's fault must not end the listener
            context = {"message": "the acceptor of a websocket raised", "exception": error}
            self._loop.call_exception_handler(context)
            self._fail(1011, "internal error")

    def _lost(self, exc: Exception | None) -> None:
        if self._held_back is not None:
            self._held_back.cancel()
            self._held_back = None
        try:
            super()._lost(exc)
        finally:
            self._listener.left(self)


def _select_subprotocol(_server: ServerProtocol, offered: object) -> Subprotocol | None:
    """`mcp` where it is offered, none otherwise: a client that offers others alone is still taken."""
    return SUBPROTOCOL if SUBPROTOCOL in cast("list[str]", offered) else None
