"""The telemetry of one gateway: what is configured, put together, from the first session to the last.

Owns which parts there are, what becomes of a frame's facts, and the end. Made only where something is configured;
without it no part of this package is imported.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from gateway import __version__
from gateway.config.mistakes import ConfigError, Mistake, port_taken
from gateway.config.model import Config
from gateway.config.peer import PeerConfig
from gateway.protocol import log
from gateway.protocol.log import Entry
from gateway.telemetry.aside import Aside
from gateway.telemetry.facts import Facts, Item
from gateway.telemetry.ledger import Ledger, Writer
from gateway.telemetry.logs import LogFiles, log_dir
from gateway.telemetry.metrics import Metrics, Place, exposition
from gateway.telemetry.operations import Operation, Scene, Tracker
from gateway.telemetry.plain import PlainCalls
from gateway.telemetry.pump import Pump, Redacts, Stream
from recordings.frame import is_hop

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from gateway.telemetry.otlp import Otlp
    from gateway.telemetry.prometheus import PrometheusServer

METRICS_S = 15.0
"""How often metrics are sent over OTLP."""
MOST_SPANS = 10_000
"""Spans that may wait to be sent."""
MOST_LINE_BYTES = 16 * 1024 * 1024
"""Bytes of lines that may wait to be written, over all sessions."""
READY_BYTES = 128 * 1024
"""Bytes of lines that are handed to the thread without waiting for the pump's next flush. All lines of a quarter of a
second are megabytes of a busy gateway, held twice while they are joined."""
END_S = 3.0
"""How long the last spans and lines may take."""


class Telemetry:
    """All telemetry of one gateway."""

    def __init__(
        self,
        config: Config,
        redactor: Redacts,
        *,
        tell: Callable[[str], None],
        environ: Mapping[str, str] = os.environ,
        otlp: Otlp | None = None,
    ) -> None:
        """Put the parts together. `otlp` stands in for exporters of its own, in tests.

        Raises:
            ConfigError: If a part that is configured is not installed.
        """
        settings = config.telemetry
        started = time.time_ns()
        self._config = config
        self.redactor = redactor
        self._tell = tell
        self._told: set[str] = set()
        self._spans: list[ReadableSpan] = []
        self._lines: dict[str, list[bytes]] = {}
        self._bytes_in = 0
        self._full_at = min(READY_BYTES, MOST_LINE_BYTES)
        """Where `_bytes_in` stands when lines are to be handed over, or to be left out."""
        self._bytes_out = 0
        """Bytes of lines that came, and that were written or lost; the thread alone counts the latter."""
        self.lines_dropped = 0
        self._metrics_at = time.monotonic()
        self._prometheus: PrometheusServer | None = None
        self._places: dict[str, Place] = {}
        self.metrics = Metrics()
        self.spans_dropped = 0
        instance = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"
        self.otlp = otlp or (_otlp(config, instance, started) if settings.otlp_endpoint else None)
        self.counts_operations = settings.prometheus is not None or self.otlp is not None
        """Whether anybody can read how long operations took."""
        self.logs = _logs(config, environ)
        self.writer = Writer(
            scenario_id=settings.scenario_id,
            run_id=f"run-{instance}",
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        self.pump = Pump(redactor, hashed=self.logs is not None or self.otlp is not None, flush=self._flush)
        self._aside = Aside(self._failed)
        self._sending = self._aside if self.otlp is None else Aside(self._failed)
        """Another one: lines do not wait for a collector that does not answer."""

    async def start(self) -> None:
        """Open the endpoint for Prometheus, where there is to be one.

        Raises:
            ConfigError: If its address cannot be had.
        """
        settings = self._config.telemetry.prometheus
        if settings is None:
            return
        from gateway.telemetry.prometheus import PrometheusServer

        try:
            self._prometheus = PrometheusServer(
                settings.host, settings.port, lambda: exposition(self.metrics)
            )
        except OSError as fault:
            key, why = "", f"cannot listen on {settings.host}:{settings.port}: {fault.strerror}"
            if fault.errno == errno.EADDRINUSE:
                key, why = ".port", port_taken(settings.port)
            raise _mistake(self._config, f"telemetry.prometheus{key}", why) from fault
        self._tell(f"metrics on {self._prometheus.address}")

    @property
    def metrics_url(self) -> str | None:
        """Where Prometheus may scrape; None where it may not."""
        return self._prometheus.address if self._prometheus else None

    def watch(self, *, session: str, seed: int | None, started: int, transport: str) -> Stream:
        """Return what is to be given every frame of a new session."""
        scene = Scene(session=session, seed=seed, started=started, transport=transport)
        return self.pump.stream(_Teller(self, scene))

    def reconfigured(self, config: Config) -> None:
        """Peers may be reached elsewhere from now on; the telemetry's own settings stay as they are."""
        self._config = msgspec.structs.replace(config, telemetry=self._config.telemetry)
        self._places.clear()

    def unrecorded(self) -> None:
        """A frame could not be written, or a recording not be begun."""
        self.metrics.unrecorded += 1

    def place(self, peer: str) -> Place:
        """Return how a peer is connected."""
        place = self._places.get(peer)
        if place is None:
            config = self._config.peers.get(peer)
            place = self._places[peer] = place_of(config) if config else Place()
        return place

    def told(self, operation: Operation, place: Place, scene: Scene) -> None:
        """An operation has ended."""
        self.metrics.ended(operation, place)
        if self.otlp is None:
            return
        if len(self._spans) >= MOST_SPANS:
            self.spans_dropped += 1
            return
        span = self.otlp.span(operation, place, scene)
        if span is not None:
            self._spans.append(span)

    def write(self, session: str, entry: Entry) -> None:
        """An entry of the log is there."""
        self.write_lines(session, log.line(entry))

    def write_lines(self, session: str, lines: bytes) -> None:
        """Lines of the log are there."""
        if self._bytes_in >= self._full_at:
            if self._bytes_in - self._bytes_out >= MOST_LINE_BYTES:
                self.lines_dropped += lines.count(b"\n")
                self._once("lines of the extension log are lost: it is not written as fast as they come")
                return
            self._flush_lines()
        self._bytes_in += len(lines)
        try:
            self._lines[session].append(lines)
        except KeyError:
            self._lines[session] = [lines]

    def _flush_lines(self) -> None:
        """Hand the lines that are ready to the thread."""
        self._full_at = min(self._bytes_in + READY_BYTES, self._bytes_out + MOST_LINE_BYTES)
        if self.logs is not None:
            lines, self._lines = self._lines, {}
            for session, ready in lines.items():
                if not self._aside.do(partial(self._append, self.logs, session, b"".join(ready))):
                    self._lines[session] = ready

    def _flush(self) -> None:
        """Hand what is ready to the thread."""
        self._flush_lines()
        if self.otlp is None:
            return
        if self._spans and self._sending.do(partial(self._send, self.otlp, self._spans)):
            self._spans = []
        if time.monotonic() - self._metrics_at >= METRICS_S:
            self._send_metrics()

    def _append(self, logs: LogFiles, session: str, lines: bytes) -> None:
        """Write to the log, in the thread."""
        try:
            logs.append(session, lines)
        finally:
            self._bytes_out += len(lines)

    def _send(self, otlp: Otlp, spans: list[ReadableSpan]) -> None:
        if not otlp.send_spans(spans):
            self._collector_failed()

    def _send_metrics(self) -> None:
        otlp = self.otlp
        if otlp is None:
            return
        self._metrics_at = time.monotonic()

        def send() -> None:
            if not otlp.send_metrics(self.metrics, time.time_ns()):
                self._collector_failed()

        self._sending.do(send)

    def _collector_failed(self) -> None:
        # Neither user nor path: secrets are put there.
        host = (
            urlsplit(self._config.telemetry.otlp_endpoint or "").netloc.rpartition("@")[2] or "the collector"
        )
        self._once(f"telemetry could not be sent to {host}; what it has not taken is lost")

    def _failed(self, fault: Exception) -> None:
        if isinstance(fault, OSError) and fault.filename is not None:
            self._once(f"the extension log cannot be written: {fault.strerror}: {fault.filename}")
        else:
            self._once(f"telemetry has failed: {type(fault).__name__}")

    def _once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._tell(f"warning: {sentence}")

    def forget(self) -> None:
        """Drop what is ready and was not handed over; for measurements."""
        self._spans = []
        self._lines = {}
        self._bytes_in = self._bytes_out
        self._full_at = self._bytes_in + min(READY_BYTES, MOST_LINE_BYTES)

    async def close(self) -> None:
        """Tell of everything that has passed, and end. Takes a few seconds at most, whoever does not answer."""
        await self.pump.close()
        self._send_metrics()
        if not await asyncio.to_thread(self._end):
            self._once(f"telemetry was not told to the end: it was not taken within {END_S:g} s")
        if self.otlp is not None:
            self.otlp.shutdown()
        if self._prometheus is not None:
            await asyncio.to_thread(self._prometheus.close)

    def _end(self) -> bool:
        """End the threads, in time; whether they have done everything."""
        until = time.monotonic() + END_S
        # Lines come first: a disk takes them, where a collector may not answer at all.
        is_written = self._aside.close(END_S)
        is_sent = self._sending is self._aside or self._sending.close(max(until - time.monotonic(), 0.0))
        return is_written and is_sent


class _Teller:
    """What is made of the frames of one session."""

    def __init__(self, hub: Telemetry, scene: Scene) -> None:
        self._hub = hub
        self._scene = scene
        self._core = Place(transport=scene.transport)
        self._version = ""
        self._first: int | None = None
        # The log has no lines of parts.
        self._tracker = Tracker(
            scene, on_start=self._started, on_end=self._ended, has_parts=hub.counts_operations
        )
        self._ledger: Ledger | None = None
        self._plain: PlainCalls | None = None
        self.plain: Callable[[deque[Item], int], int] | None = None
        if hub.logs is not None:
            self._ledger = Ledger(scene, hub.writer, partial(hub.write, scene.session))
            if not hub.counts_operations:
                # Nobody reads metrics then.
                write = partial(hub.write_lines, scene.session)
                self._plain = PlainCalls(scene, hub.writer, self._tracker, hub.redactor.suspects, write)
                self.plain = self._plain.take
        hub.metrics.sessions += 1

    def take(self, facts: Facts) -> None:
        if self._first is None:
            self._first = facts.at
        metrics = self._hub.metrics
        metrics.frames[facts.kind] += 1
        if facts.kind == "exit" and not is_hop(facts.peer):
            metrics.exits[facts.peer] += 1
        self._tracker.see(facts)
        if self._ledger is not None:
            self._ledger.happened(facts)

    def renewed(self) -> None:
        if self._plain is not None:
            self._plain.forget()

    def passed(self, kind: str) -> None:
        self._hub.metrics.frames[kind] += 1

    def finish(self, missed: int) -> None:
        metrics = self._hub.metrics
        self._tracker.finish()
        if missed:
            metrics.dropped += missed
            if self._ledger is not None:
                self._ledger.missed(self._tracker.last, missed)
        metrics.sessions -= 1
        if self._first is not None:
            metrics.session_ended(self._tracker.last - self._first, self._core, self._version, "")

    def _started(self, operation: Operation) -> None:
        self._hub.metrics.in_flight += 1
        if self._ledger is not None:
            self._ledger.started(operation)

    def _ended(self, operation: Operation) -> None:
        if not operation.is_part:
            self._hub.metrics.in_flight -= 1
        if not operation.other and operation.version:
            self._version = operation.version
        if self._hub.counts_operations:
            place = self._hub.place(operation.other) if operation.other else self._core
            self._hub.told(operation, place, self._scene)
        if self._ledger is not None:
            self._ledger.ended(operation)


def place_of(config: PeerConfig) -> Place:
    """Return how a peer is connected, and where it is if it has an address."""
    if config.url is None:
        return Place(transport=config.kind)
    try:
        parts = urlsplit(config.url)
        port = parts.port or {"https": 443, "wss": 443}.get(parts.scheme, 80)
        return Place(transport=config.kind, address=parts.hostname or "", port=port)
    except ValueError:
        return Place(transport=config.kind)


def need_extras(config: Config) -> None:
    """See whether everything is installed that the telemetry of a configuration needs.

    Raises:
        ConfigError: If something is not.
    """
    if not config.telemetry.otlp_endpoint:
        return
    try:
        import_module("gateway.telemetry.otlp")
    except ImportError as fault:
        from recordings.extras import extra_hint

        why = f"needs the extra `otel`: {extra_hint('otel')} (`{fault.name}` is missing)"
        raise _mistake(config, "telemetry.otlp_endpoint", why) from fault


def _otlp(config: Config, instance: str, started: int) -> Otlp:
    settings = config.telemetry
    need_extras(config)
    from gateway.telemetry.otlp import over_http

    return over_http(
        settings.otlp_endpoint or "",
        settings.otlp_headers,
        service=settings.service_name,
        version=__version__,
        instance=instance,
        started=started,
        baggage=settings.baggage,
    )


def _mistake(config: Config, key: str, why: str) -> ConfigError:
    return ConfigError([Mistake(config.source or "tieline", None, key, why)])


def _logs(config: Config, environ: Mapping[str, str]) -> LogFiles | None:
    settings = config.telemetry
    if settings.log_file is not None:
        return LogFiles(file=Path(settings.log_file))
    return LogFiles(directory=log_dir(environ)) if config.writes_log else None
