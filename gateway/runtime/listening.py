"""Where a gateway can be reached besides its own stdin and stdout: a unix socket, websockets, HTTP.

Owns the listeners that a configuration wants, whom they let in, and what is told of an address that cannot be had. Who
is behind a connection, and what it says, is the acceptor's business.
"""

from __future__ import annotations

import errno
import os
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from gateway.config.mistakes import ConfigError, Mistake, port_taken
from transports.base import Acceptor, Limits, TransportError

if TYPE_CHECKING:
    from gateway.config.model import Config, Dialect, TcpListen, WebSocketListen
    from transports.guard import Guard


class Listener(Protocol):
    """What every listener offers."""

    @property
    def address(self) -> str:
        """Where it can be reached."""
        ...

    async def start(self) -> None:
        """Begin to listen."""
        ...

    async def stop(self) -> None:
        """Stop listening and close what is open."""
        ...


class Listeners:
    """The listeners of one gateway."""

    def __init__(
        self,
        config: Config,
        acceptor: Callable[[Dialect], Acceptor],
        *,
        limits: Limits,
        mint: Callable[[], str],
        learned: Callable[[str], None],
        insecure_loopback: bool,
    ) -> None:
        """`learned` is told of each bearer token; none is asked for on this machine where `insecure_loopback`."""
        self._config = config
        self._acceptor = acceptor
        self._limits = limits
        self._mint = mint
        self._learned = learned
        self._insecure_loopback = insecure_loopback
        self._open: list[tuple[str, Listener]] = []
        self.token_files: dict[str, None] = {}
        """Where the bearer tokens lie that are asked for."""

    @property
    def addresses(self) -> list[dict[str, str]]:
        """Where the gateway can be reached."""
        return [{"kind": kind, "url": listener.address} for kind, listener in self._open]

    async def start(self) -> None:
        """Open every listener.

        Raises:
            TransportError: If one cannot be opened.
            ConfigError: If its address cannot be had.
        """
        listen = self._config.listen
        if listen.unix is not None:
            from transports.unix import UnixListener

            acceptor = self._acceptor(listen.unix.dialect)
            await self._begin("unix", partial(UnixListener, listen.unix.path, acceptor, limits=self._limits))
        if listen.websocket is not None:
            await self._begin("websocket", partial(self._websocket, listen.websocket), listen.websocket)
        if listen.http is not None:
            await self._begin("http", partial(self._http, listen.http), listen.http)

    async def stop(self) -> None:
        """Close them all."""
        for _, listener in self._open:
            await listener.stop()

    async def _begin(self, kind: str, make: Callable[[], Listener], on: TcpListen | None = None) -> None:
        try:
            listener = make()
            await listener.start()
        except TransportError as fault:
            raise self._mistake(kind, on, fault) from fault
        self._open.append((kind, listener))

    def _mistake(self, kind: str, listen: TcpListen | None, fault: TransportError) -> Exception:
        """Return what is told of an address that cannot be had: the key that names it, and what to do."""
        number = fault.details.get("errno")
        if listen is None or not isinstance(number, int):
            return fault
        key, why = "host", f"is {listen.host}, where this machine cannot listen: {os.strerror(number)}"
        if number == errno.EADDRINUSE:
            key, why = "port", port_taken(listen.port)
        elif number == errno.EACCES:
            key, why = "port", f"is {listen.port}, which this user may not listen on: choose one above 1023"
        return ConfigError([Mistake(self._config.source or "tieline", None, f"listen.{kind}.{key}", why)])

    def _websocket(self, listen: WebSocketListen) -> Listener:
        from transports.ws_link import WebSocketOptions
        from transports.ws_listener import WebSocketListener

        return WebSocketListener(
            self._acceptor(listen.dialect),
            host=listen.host,
            port=listen.port,
            path=listen.path,
            guard=self._guard(listen),
            tls=_server_tls(listen),
            options=WebSocketOptions(limits=self._limits),
            max_connections=self._config.limits.max_sessions,
        )

    def _http(self, listen: TcpListen) -> Listener:
        from gateway.runtime.http_front import HttpFront
        from gateway.runtime.http_options import FrontOptions

        _server_tls(listen)
        options = FrontOptions(
            path=listen.path,
            host=listen.host,
            port=listen.port,
            limits=self._limits,
            json_depth=self._config.limits.max_json_depth,
            max_sessions=self._config.limits.max_sessions,
            tls_cert=listen.tls.cert if listen.tls else None,
            tls_key=listen.tls.key if listen.tls else None,
        )
        return HttpFront(self._acceptor("mcp"), self._mint, guard=self._guard(listen), options=options)

    # Whom they let in

    def _tokens(self, listen: TcpListen) -> Mapping[str, str]:
        """Principal to bearer token; empty where the listener asks for none."""
        from gateway.runtime.tokens import TokenError, bearer_token, token_file
        from transports.guard import is_loopback

        if (listen.insecure_loopback or self._insecure_loopback) and is_loopback(listen.host):
            return {}
        try:
            token = bearer_token(token_file(listen))
        except TokenError as fault:
            raise TransportError("denied", str(fault)) from fault
        self._learned(token)
        self.token_files[str(token_file(listen))] = None
        return {"core": token}

    def _guard(self, listen: TcpListen) -> Callable[[int], Guard]:
        from transports.guard import Guard, loopback_hosts, named_hosts

        tokens = self._tokens(listen)
        scheme = "https" if listen.tls else "http"

        def guard(port: int) -> Guard:
            own = f"[{listen.host}]" if ":" in listen.host else listen.host
            bare = {own} if port in (80, 443) else set[str]()
            hosts = loopback_hosts(port) | bare | {f"{own}:{port}"} | named_hosts(listen.allowed_hosts, port)
            origins = {f"{scheme}://{host}" for host in hosts} | set(listen.allowed_origins)
            return Guard(hosts=frozenset(hosts), origins=frozenset(origins), tokens=tokens)

        return guard


def _server_tls(listen: TcpListen) -> ssl.SSLContext | None:
    if listen.tls is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        for path in (listen.tls.cert, listen.tls.key):
            # OpenSSL does not say which of the two it could not open.
            with open(path, "rb"):
                pass
        context.load_cert_chain(listen.tls.cert, listen.tls.key)
    except OSError as fault:
        # What OpenSSL says of a file that is no certificate is an OSError too.
        why = f"the certificate `{listen.tls.cert}` cannot be used with the key `{listen.tls.key}`"
        if fault.filename is not None:
            why = f"`{fault.filename}`, which `tls` names, cannot be read"
        raise TransportError("refused", f"{why}: {fault.strerror or fault}") from fault
    return context
