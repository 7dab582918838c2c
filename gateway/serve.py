"""The composition root: a configuration in, a running gateway out. The only file that knows everyone.

Owns start, signals, reload and the end. Decides nothing about messages.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from gateway import __version__
from gateway.calls.acceptance import Acceptance
from gateway.calls.accepted import AcceptedError, visible
from gateway.calls.core_state import Core
from gateway.calls.exchange import Exchange
from gateway.config.mistakes import ConfigError
from gateway.config.model import Config, Dialect
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
    from gateway.runtime.listening import Listeners
    from gateway.runtime.reports import PeerReport
    from gateway.runtime.verifying import Verifying
    from gateway.telemetry.hub import Telemetry
    from recordings.held import Source

    class MakeWorld(Protocol):
        """How the world of a gateway is made: the real one, or one whose peers are recordings."""

        def __call__(
            self, config: Config, *, record_dir: Path | str | None, exact_dir: bool = False
        ) -> World:
            """Return it."""
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
        self.listeners: Listeners | None = None
        """Where it listens, besides its own stdin."""
        self.ended = asyncio.Event()
        self._is_hurried = False
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
        from gateway.runtime.listening import Listeners

        self.listeners = Listeners(
            self.config,
            self._acceptor,
            limits=self.limits,
            mint=self.world.mint,
            learned=self.world.learned,
            insecure_loopback=self.options.insecure_loopback,
        )
        await self.listeners.start()

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
        found = self.listeners.addresses if self.listeners is not None else []
        if self.options.stdio or self.config.listen.uses_stdio:
            found.insert(0, {"kind": "stdio", "url": "stdio"})
        return found

    @property
    def token_files(self) -> Iterable[str]:
        """Where the bearer tokens lie that listeners ask for."""
        return self.listeners.token_files if self.listeners is not None else ()

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
        self.exchange.reconfigure(config, replaced=replaced, settings=self.world.recordings.settings())
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

    def signalled(self) -> None:
        """A signal has come: the first one ends the gateway, one that comes while it ends has it end at once."""
        if not self.ended.is_set():
            self.ended.set()
            return
        self._is_hurried = True
        self.world.hurry()
        # A third one has nobody to ask.
        self.heed_signals(heed=False)

    def heed_signals(self, *, heed: bool) -> None:
        """Take signals to end, or take them no longer."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            if heed:
                loop.add_signal_handler(number, self.signalled)
            else:
                loop.remove_signal_handler(number)

    async def stop(self) -> None:
        """Give calls in flight the drain time, then end everything."""
        if self.exchange.drain():
            deadline = time.monotonic() + DRAIN_S
            while self.exchange.drain() and time.monotonic() < deadline and not self._is_hurried:
                await asyncio.sleep(0.02)
        self.exchange.close()
        if self.listeners is not None:
            await self.listeners.stop()
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
        if isinstance(fault, AcceptedError):
            tell(f"hint: {fault.hint}")
        return 3
    try:
        await gateway.start()
    except (TransportError, ConfigError) as fault:
        tell(f"error: {fault}")
        await gateway.stop()
        return 3
    gateway.heed_signals(heed=True)
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
        await upkeep.stop()
        await _end(gateway)
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
        await _end(gateway)
    # Not before: a server behind a URL is told of only once the requests that it has failed are answered.
    if gateway.world.news is not None:
        verifying.unreached = gateway.world.news.unreached
    return verifying


async def _end(gateway: Gateway) -> None:
    """End a gateway, whatever had it end: who signals meanwhile has waited long enough."""
    gateway.ended.set()
    gateway.heed_signals(heed=True)
    await gateway.stop()
    gateway.heed_signals(heed=False)


async def check(config: Config) -> list[PeerReport]:
    """Try every peer once."""
    from gateway.runtime.trial import check as try_all

    return await try_all(config)


def _report(fault: Exception) -> None:
    context = {"message": "the gateway has failed at a request", "exception": fault}
    asyncio.get_running_loop().call_exception_handler(context)
