"""The composition root: a configuration in, a running gateway out. The only file that knows everyone.

Owns start, signals, reload and the end. Decides nothing about messages.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import ssl
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from gateway import __version__
from gateway.calls.acceptance import Acceptance
from gateway.calls.accepted import AcceptedError, visible
from gateway.calls.core_state import Core
from gateway.calls.exchange import Exchange
from gateway.config.mistakes import ConfigError, Mistake
from gateway.config.model import Config, Dialect, TcpListen, WebSocketListen
from gateway.config.options import ServeOptions
from gateway.config.places import recordings_place
from gateway.runtime.bounds import link_limits
from gateway.runtime.lockfile import read_accepted
from gateway.runtime.peer_news import PeerNews
from gateway.runtime.world import World, echo, tell
from recordings.errors import RecordingError
from transports.base import Acceptor, Hello, Link, Receiver, TransportError
from transports.lines import LineLink

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.runtime.ahead import Ahead
    from gateway.runtime.control import GatewayStatus
    from gateway.runtime.reports import PeerReport
    from gateway.runtime.verifying import Verifying
    from gateway.telemetry.hub import Telemetry
    from recordings.script import Source

    class MakeWorld(Protocol):
        """How the world of a gateway is made: the real one, or one whose peers are recordings."""

        def __call__(
            self, config: Config, *, record_dir: Path | str | None, exact_dir: bool = False
        ) -> World:
            """Return it."""
            ...

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


DRAIN_S = 10.0
"""How long calls in flight may take once the gateway is told to end."""


class Gateway:
    """One running gateway: an exchange, its world, its listeners."""

    def __init__(self, config: Config, options: ServeOptions, make_world: MakeWorld = World) -> None:
        self.config = config
        self.options = options
        record_dir = options.record_dir or recordings_place(config)
        self.world = make_world(config, record_dir=record_dir, exact_dir=options.is_one_recording)
        if config.has_extensions:
            self.world.read_policy()
        self.acceptance = Acceptance(
            config, read_accepted(config), tell=lambda text: self._tell(f"warning: {text}")
        )
        self.telemetry: Telemetry | None = None
        if config.has_telemetry:
            from gateway.telemetry.hub import Telemetry

            self.telemetry = Telemetry(config, self.world.redactor, tell=tell)
            self.world.watch = self.telemetry.watch
            self.world.recordings.on_unrecorded = self.telemetry.unrecorded
        judge = self.acceptance if self.acceptance.is_needed else None
        self.exchange = Exchange(config, self.world, version=__version__, judge=judge)
        self.exchange.on_fault = _report
        self.exchange.is_transparent = self.world.is_transparent = options.is_transparent
        self.world.news = PeerNews(self._tell, last_words=not options.is_transparent)
        if options.is_transparent:
            self.world.echo = echo
        self.exchange.on_notice = lambda sentence: self._tell(f"note: {sentence}")
        self.listeners: list[tuple[str, Listener]] = []
        self.token_files: dict[str, None] = {}
        """Where the bearer tokens lie that listeners ask for."""
        self.ended = asyncio.Event()
        self.started_at = time.monotonic()
        self.limits = link_limits(config.limits)

    def _tell(self, sentence: str) -> None:
        """Tell people something that holds words of peers: without secrets, and without what acts on a terminal."""
        tell(visible(self.world.redact_text(sentence)))

    async def start(self) -> None:
        """Open every listener.

        Raises:
            TransportError: If one cannot be opened.
            ConfigError: If what is to be told of the gateway cannot be.
        """
        listen = self.config.listen
        if self.telemetry is not None:
            await self.telemetry.start()
        self.world.warm_up()
        if self.options.has_ui:
            from gateway.runtime.terminal import TerminalScreen

            self.world.screen = TerminalScreen()
        if self.options.stdio or listen.uses_stdio:
            from transports.stdio import serve_stdio

            self.exchange.on_empty = self.ended.set
            acceptor = self._acceptor(listen.stdio_dialect)
            serve_stdio(acceptor, limits=self.limits, pipe_bytes=1024 * 1024)
            if self.options.stdio:
                return
        if listen.unix is not None:
            from transports.unix import UnixListener

            acceptor = self._acceptor(listen.unix.dialect)
            await self._open("unix", partial(UnixListener, listen.unix.path, acceptor, limits=self.limits))
        if listen.websocket is not None:
            await self._open("websocket", partial(self._websocket, listen.websocket), listen.websocket)
        if listen.http is not None:
            await self._open("http", partial(self._http, listen.http), listen.http)

    async def _open(self, kind: str, make: Callable[[], Listener], on: TcpListen | None = None) -> None:
        try:
            listener = make()
            await listener.start()
        except TransportError as fault:
            raise self._mistake(kind, on, fault) from fault
        self.listeners.append((kind, listener))

    def _mistake(self, kind: str, listen: TcpListen | None, fault: TransportError) -> Exception:
        """Return what is told of an address that cannot be had: the key that names it, and what to do."""
        number = fault.details.get("errno")
        if listen is None or not isinstance(number, int):
            return fault
        key, why = "host", f"is {listen.host}, where this machine cannot listen: {os.strerror(number)}"
        if number == errno.EADDRINUSE:
            key = "port"
            why = f"is {listen.port}, where another program listens already: choose another, or 0 for any"
        elif number == errno.EACCES:
            key, why = "port", f"is {listen.port}, which this user may not listen on: choose one above 1023"
        return ConfigError([Mistake(self.config.source or "tieline", None, f"listen.{kind}.{key}", why)])

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
            options=WebSocketOptions(limits=self.limits),
            max_connections=self.config.limits.max_sessions,
        )

    def _http(self, listen: TcpListen) -> Listener:
        from gateway.runtime.http_front import HttpFront
        from gateway.runtime.http_options import FrontOptions

        _server_tls(listen)
        options = FrontOptions(
            path=listen.path,
            host=listen.host,
            port=listen.port,
            limits=self.limits,
            json_depth=self.config.limits.max_json_depth,
            max_sessions=self.config.limits.max_sessions,
            tls_cert=listen.tls.cert if listen.tls else None,
            tls_key=listen.tls.key if listen.tls else None,
        )
        return HttpFront(self.accept, self.world.mint, guard=self._guard(listen), options=options)

    def _tokens(self, listen: TcpListen) -> Mapping[str, str]:
        """Principal to bearer token; empty where the listener asks for none."""
        from gateway.runtime.tokens import TokenError, bearer_token, token_file
        from transports.guard import is_loopback

        if (listen.insecure_loopback or self.options.insecure_loopback) and is_loopback(listen.host):
            return {}
        try:
            token = bearer_token(token_file(listen))
        except TokenError as fault:
            raise TransportError("denied", str(fault)) from fault
        self.world.learned(token)
        self.token_files[str(token_file(listen))] = None
        return {"core": token}

    def _guard(self, listen: TcpListen) -> Callable[[int], Any]:
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

    def _acceptor(self, dialect: Dialect) -> Acceptor:
        """Return what takes in connections of cores that speak a dialect."""
        return self._accept_pi if dialect == "pi" else self.accept

    def _accept_pi(self, link: Link, hello: Hello) -> Receiver:
        from gateway.runtime.pi_core_link import PiCoreLink

        depth = self.config.limits.max_json_depth
        front = PiCoreLink(link, self.world.now, self.limits, most_depth=depth)
        core = self.accept(front, replace(hello, dialect="pi"))
        if isinstance(link, LineLink) and isinstance(core, Core):
            link.on_eof = core.sent_all
        return front.before(core)

    def accept(self, link: Link, hello: Hello) -> Receiver:
        """Take in a connection of a core."""
        try:
            core = self.exchange.accept(link, hello)
        except OverflowError as fault:
            from gateway.calls.turned_away import TurnedAway

            return TurnedAway(link, self.world, str(fault), is_ending=self.exchange.is_draining)
        if isinstance(link, LineLink):
            link.on_eof = core.sent_all
            link.look = self.world.recordings.looks
        return core

    def addresses(self) -> list[dict[str, str]]:
        """Return where the gateway can be reached."""
        found = [{"kind": kind, "url": listener.address} for kind, listener in self.listeners]
        if self.options.stdio or self.config.listen.uses_stdio:
            found.insert(0, {"kind": "stdio", "url": "stdio"})
        return found

    def status(self) -> GatewayStatus:
        """Return what `tieline status` shows."""
        from gateway.runtime.health import health

        return health(
            self.config,
            self.exchange,
            self.world,
            uptime_s=time.monotonic() - self.started_at,
            addresses=self.addresses(),
        )

    def reload(self) -> None:
        """Read the configuration again and go on by it. One that is broken changes nothing."""
        from gateway.config.diff import diff
        from gateway.config.load import load_any

        if not self.options.can_reload:
            return
        path = self.options.config_path
        try:
            config = self._discovered(load_any(path))
            accepted = read_accepted(config)
            if config.has_extensions and not self.config.has_extensions:
                self.world.read_policy()
        except (ConfigError, AcceptedError) as fault:
            tell(f"warning: the configuration stays as it was: {fault}")
            for session in self.exchange.sessions:
                session.tap.record("mark", "inside", x={"reload_failed": str(fault)})
            return
        change = diff(self.config, config)
        if not self.acceptance.update(config, accepted) and not change:
            return
        self.exchange.judge = self.acceptance if self.acceptance.is_needed else None
        for section in change.needs_restart:
            tell(f"warning: `{section}` has changed; only a new start of the gateway applies it")
        # What was warned of stays as it was, for new sessions too.
        config = replace(
            config, **{section: getattr(self.config, section) for section in change.needs_restart}
        )
        self.config = self.world.config = config
        if self.telemetry is not None:
            self.telemetry.reconfigured(config)
        self.world.redactor.know(config.secret_values())
        replaced = (*change.changed, *change.removed)
        self.exchange.reconfigure(config, replaced=replaced)
        self.world.spawn(self.world.warm_anew(set(replaced)))
        tell(f"configuration reloaded: {change.sentence()}")

    def _discovered(self, config: Config) -> Config:
        """Return a configuration that was read anew, with the extensions that are there now."""
        if not (self.options.discovers or config.extensions.discover):
            return config
        from gateway.runtime.extension_files import look_around, with_extensions

        found = look_around(config)
        for sentence in found.sentences():
            self._tell(f"warning: {sentence}")
        return with_extensions(config, found)

    async def stop(self) -> None:
        """Give calls in flight the drain time, then end everything."""
        if self.exchange.drain():
            deadline = time.monotonic() + DRAIN_S
            while self.exchange.drain() and time.monotonic() < deadline:
                await asyncio.sleep(0.02)
        self.exchange.close()
        for _, listener in self.listeners:
            await listener.stop()
        if self.world.screen is not None:
            self.world.screen.close()
        await self.world.finish()
        if self.telemetry is not None:
            await self.telemetry.close()


async def serve(
    config: Config, options: ServeOptions, make_world: MakeWorld = World, *, ahead: Ahead | None = None
) -> int:
    """Run a gateway until its stdio core leaves or a signal ends it; return the exit code.

    `ahead` are processes of peers that have been started already; what is not taken stays the caller's.
    """
    from gateway.runtime.upkeep import Upkeep, no_ready_file

    try:
        no_ready_file(options.ready_file)
        gateway = Gateway(config, options, make_world)
        gateway.world.ahead = ahead
        gateway.world.recordings.need()
    except (AcceptedError, ConfigError, RecordingError) as fault:
        tell(f"error: {fault}")
        return 3
    try:
        await gateway.start()
    except (TransportError, ConfigError) as fault:
        tell(f"error: {fault}")
        await gateway.stop()
        return 3
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, gateway.ended.set)
    upkeep = Upkeep(gateway)
    code = 0
    try:
        await upkeep.start()
        # What has been loaded stays: the collector need not walk it again and again while calls wait.
        gc.freeze()
        gc.enable()
        await gateway.ended.wait()
    except ConfigError as fault:
        tell(f"error: {fault}")
        code = 3
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        await upkeep.stop()
        await gateway.stop()
    if options.is_transparent and gateway.world.news is not None and gateway.world.news.never_served:
        code = 1
    return code


async def play_core(
    config: Config,
    options: ServeOptions,
    source: Source,
    *,
    transport: str,
    timeout_s: float,
    dialect: str = "mcp",
    progress: Callable[[int, int], None] | None = None,
    waiting: Callable[[list[str], float], None] | None = None,
) -> Verifying:
    """Play a recorded core against the peers of a configuration; what comes of it is recorded as `options` say.

    Raises:
        RecordingError: If nothing can be recorded.
    """
    from gateway.runtime.verifying import Verifying

    gateway = Gateway(config, options)
    gateway.world.redactor.look_closely()
    gateway.world.recordings.need()
    verifying = Verifying(
        source,
        gateway.exchange,
        transport=transport,
        dialect=dialect,
        timeout_s=timeout_s,
        progress=progress,
        waiting=waiting,
    )
    try:
        await verifying.run()
    finally:
        await gateway.stop()
    # Not before: a server behind a URL is told of only once the requests that it has failed are answered.
    if gateway.world.news is not None:
        verifying.unreached = gateway.world.news.unreached
    return verifying


async def check(config: Config) -> list[PeerReport]:
    """Try every peer once."""
    from gateway.runtime.trial import check as try_all

    return await try_all(config)


def _report(fault: Exception) -> None:
    context = {"message": "the gateway has failed at a request", "exception": fault}
    asyncio.get_running_loop().call_exception_handler(context)


def _server_tls(listen: TcpListen) -> ssl.SSLContext | None:
    if listen.tls is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(listen.tls.cert, listen.tls.key)
    except OSError as fault:
        # What OpenSSL says of a file that is no certificate is an OSError too.
        why = f"the certificate `{listen.tls.cert}` cannot be used with the key `{listen.tls.key}`"
        raise TransportError("refused", f"{why}: {fault.strerror or fault}") from fault
    return context
