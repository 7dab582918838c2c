"""A uvicorn server without its habits: no signal handlers, no ten wake-ups a second, no exit of the process.

Owns one listening socket and the connections to it. What is served is an ASGI application that is handed in.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from transports.base import TransportError

_READ_BYTES: Final = 65536
_HEAD_BYTES: Final = 65536
_KEEP_ALIVE_S: Final = 75
_PROBES: Final = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 60),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 15),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 4),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 120_000),
)
"""Has the system end the connection of a client that is gone without a word, two minutes after it was heard last:
an open stream would keep its session, and the processes of that, for ever. No timer of ours wakes up for it."""

# What it warns of is what strangers send; they are answered, and need no line on our stderr.
logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


class AsgiServer:
    """Listens at one address and serves one application."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        stop_s: int = 2,
    ) -> None:
        """Bind, without listening yet; port 0 takes a free one. `stop_s` bounds what `stop` waits for.

        Raises:
            TransportError: (`refused`) if the address cannot be bound.
        """
        self.tls = tls_cert is not None
        self._tls_cert = tls_cert
        self._tls_key = tls_key
        self._stop_s = stop_s
        self._server: uvicorn.Server | None = None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # The protocol must be named: asyncio turns Nagle's algorithm off only where it is, and with it on, an
        # answer in two writes waits 40 ms for the client's delayed acknowledgement.
        self._socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.setblocking(False)  # noqa: FBT003
            self._socket.bind((host, port))
        except OSError as fault:
            self._socket.close()
            why = f"cannot listen on {host}:{port}: {fault.strerror or fault}"
            raise TransportError("refused", why, {"errno": fault.errno}) from None
        bound: tuple[Any, ...] = self._socket.getsockname()
        self.host = str(bound[0])
        self.port = int(bound[1])

    @property
    def origin(self) -> str:
        """Scheme, host and port that clients reach the server at."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    async def start(self, app: Any, protocol: Callable[..., BoundedProtocol] | None = None) -> None:
        """Serve `app` from now on, each connection by a `protocol`."""
        config = uvicorn.Config(
            app,
            http=protocol or BoundedProtocol,  # pyright: ignore[reportArgumentType] - it is called, no more
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            # Who has connected is who the system says, not what a header of theirs says: refusals are counted by it,
            # and the connection of a client that takes nothing is found by it.
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=self._stop_s,
            ssl_certfile=self._tls_cert,
            ssl_keyfile=self._tls_key,
        )
        config.load()
        server = uvicorn.Server(config)
        # Started by its parts, since its main loop would poll and `serve` would take the signals over.
        server.lifespan = config.lifespan_class(config)
        await server.startup(sockets=[self._socket])
        self._server = server

    async def stop(self) -> None:
        """Take no more connections, and wait until those that are open have ended, or end them."""
        server, self._server = self._server, None
        if server is None:
            self._socket.close()
        else:
            await server.shutdown(sockets=[self._socket])

    def abort(self, client: tuple[str, int]) -> None:
        """Cut the connection from `client`, an address and port, without sending what is queued for it."""
        if self._server is None:
            return
        for connection in list(self._server.server_state.connections):
            if isinstance(connection, BoundedProtocol) and connection.client == client:
                connection.transport.abort()


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 on httptools, with a bound on what comes before a body.

    Reads are of at most 64 KiB, since the allocator makes larger ones dear.
    """

    _head_bytes = 0
    _in_head = True
    _running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        if hasattr(transport, "max_size"):
            transport.max_size = _READ_BYTES  # pyright: ignore[reportAttributeAccessIssue]
        _probe(transport.get_extra_info("socket"))
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._in_head:
            self._head_bytes = 0
            return
        self._head_bytes += len(data)
        if self._head_bytes > _HEAD_BYTES:
            self.send_400_response("The head of the request is too long.")
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        # uvicorn tells the latest request alone, which may be queued behind the one that is being served.
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()


def _probe(connection: socket.socket | None) -> None:
    """Have the system ask now and then whether the other end of a connection is still there."""
    if connection is None:
        return
    for level, name, value in _PROBES:
        number = getattr(socket, name, None)  # some of them are Linux's own
        if number is not None:
            connection.setsockopt(level, number, value)
