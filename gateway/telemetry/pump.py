"""Frames off the path of messages: kept as they pass, looked at later, in slices so short that nobody waits.

Owns the queue of each session, the bound on what is held, and when there is time. What is made of a frame is its
handler's business. Bodies that take long to read are read in a thread; their session's later frames wait for that.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Raw

from gateway.telemetry.facts import BIG_BYTES, Facts, Item, facts_of
from recordings.frame import NO_BODY, Frame

if TYPE_CHECKING:
    from gateway.telemetry.waiting import Load, Waiting
else:
    try:
        from gateway.telemetry._speedups import Load, Waiting
    except ImportError:
        from gateway.telemetry.waiting import Load, Waiting

TICK_S = 0.05
"""How long frames may lie before somebody looks."""
SLICE_S = 0.0003
"""How long the loop is kept at a time."""
GAP_S = 0.001
"""How long it is left alone in between, unless too much is waiting."""
MOST_LEFT = 1000
"""Frames that may wait before the loop is not left alone for longer than it takes to see what has come."""
QUICK_ITEMS = 32
"""Plain frames that are told of before the clock is looked at."""
FLUSH_S = 0.25
SOON_BYTES = 8 * 1024 * 1024
"""Where bodies that wait take so much, they are looked at as soon as the loop turns."""
KEEP_BYTES = 1024 * 1024
"""Where they take so much, what they give back is kept for the next ones: fresh memory costs a page fault every 4 KiB,
on the path of messages."""
MOST_ITEMS = 50_000
"""Frames of one session that may wait. What is over that is counted, and left out."""
MOST_BYTES = 64 * 1024 * 1024
"""Bytes of bodies, of all sessions together, that may wait."""
CLOSE_S = 5.0
MOST_NAMES = 4096
LONGEST_NAME = 256
"""Names of frames that are kept as harmless, and how long they may be; a peer that makes up more pays for each."""

_encode = msgspec.json.Encoder().encode

WITH_BODY = frozenset(("request", "response", "error"))


class Redacts(Protocol):
    """What is asked of a redactor."""

    @property
    def generation(self) -> int:
        """Changes whenever there is more that is a secret."""
        ...

    def suspects(self, data: bytes) -> bool:
        """Whether these bytes may hold a secret; never wrong the other way."""
        ...

    def frame(self, frame: Frame) -> Frame:
        """The frame without its secrets."""
        ...


class Handler(Protocol):
    """What is made of the frames of one session."""

    def take(self, facts: Facts) -> None:
        """The facts of the next frame."""
        ...

    def passed(self, kind: str) -> None:
        """A frame of which only the kind matters."""
        ...

    @property
    def plain(self) -> Callable[[deque[Item], int], int] | None:
        """What may be given all items first, if anything. It takes as many of the first ones away as it tells of, and
        at most so many, and returns the bytes of their bodies. The next one is to be looked at."""
        ...

    def renewed(self) -> None:
        """What was harmless may be a secret from now on."""
        ...

    def finish(self, missed: int) -> None:
        """There are no more; so many were left out."""
        ...


class Stream(Waiting):
    """The frames of one session on their way. `put` is all that the path of messages pays for."""

    __slots__ = ("_pump", "generation", "handler", "is_over", "is_waiting", "missed")

    def __init__(self, pump: Pump, handler: Handler) -> None:
        items: deque[Item] = deque()
        super().__init__(pump.load, items, BIG_BYTES, MOST_ITEMS, MOST_BYTES)
        self._pump = pump
        self.handler = handler
        self.generation = -1
        """The redactor's, when its handler was told last."""
        self.missed = 0
        self.is_waiting = False
        self.is_over = False

    def _put(self, item: Item) -> None:
        pump, load = self._pump, self.load
        if len(self.items) >= MOST_ITEMS or load.bytes > MOST_BYTES:
            self.missed += 1
            return
        size = len(item[4])
        load.bytes += size
        self.items.append(item)
        if not self.is_listed:
            pump.list(self)
        if size >= BIG_BYTES and load.bytes > KEEP_BYTES:
            pump.hurry()

    def ended(self) -> None:
        """No more frames will come."""
        self.is_over = True
        if not self.is_listed:
            self._pump.list(self)


class Pump:
    """Moves frames from their streams to their handlers."""

    def __init__(self, redactor: Redacts, *, hashed: bool, flush: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._redactor = redactor
        self._harmless: set[tuple[str | None, ...]] = set()
        """Names of frames that hold no secret, so far as was known at `_generation`."""
        self._generation = -1
        self._hashed = hashed
        self._flush = flush
        self._due: asyncio.TimerHandle | None = None
        self._is_hurried = False
        self._keeps_memory = False
        self._busy: deque[Stream] = deque()
        self._reads: set[asyncio.Future[Facts]] = set()
        self._flushed_at = 0.0
        self._is_closed = False
        self.streams: set[Stream] = set()
        self.load = Load()
        self.failures = 0
        """Frames that could not be made sense of: a mistake of ours."""

    def stream(self, handler: Handler) -> Stream:
        """Return the stream of a new session."""
        stream = Stream(self, handler)
        self.streams.add(stream)
        return stream

    def list(self, stream: Stream) -> None:
        """Have a stream looked at soon."""
        if self._is_closed or stream.is_waiting:
            return
        stream.is_listed = True
        self._busy.append(stream)
        if self._due is None:
            self._due = self._loop.call_later(TICK_S, self._drain)

    def hurry(self) -> None:
        """Long bodies wait: keep their memory, and where they take too much of it, have them looked at as soon as the
        loop turns. Lines are handed over when they would be anyway."""
        if not self._keeps_memory:
            self._keeps_memory = True
            _keep_memory()
        if self.load.bytes > SOON_BYTES and not (self._is_hurried or self._is_closed):
            self._is_hurried = True
            self._loop.call_soon(self._drain_soon)

    def _drain_soon(self) -> None:
        self._is_hurried = False
        if not self._is_closed:
            self.drain(time.perf_counter() + SLICE_S)

    def _drain(self) -> None:
        self._due = None
        if self.drain(time.perf_counter() + SLICE_S):
            self._flush_now()
            return
        if time.perf_counter() - self._flushed_at > FLUSH_S:
            self._flush_now()
        waiting = len(self._busy[0].items) if self._busy else 0
        self._due = self._loop.call_later(0 if waiting > MOST_LEFT else GAP_S, self._drain)

    def _flush_now(self) -> None:
        self._flushed_at = time.perf_counter()
        self._flush()

    def drain(self, until: float) -> bool:
        """Look at what waits, to the end or until the performance counter stands at `until`; whether to the end."""
        while self._busy:
            stream = self._busy.popleft()
            stream.is_listed = False
            items = stream.items
            if stream.generation != self._redactor.generation:
                stream.generation = self._redactor.generation
                stream.handler.renewed()
            while items and not stream.is_waiting:
                if not self._tells(stream, items):
                    self._look(stream, items.popleft())
                if time.perf_counter() > until:
                    self._again(stream)
                    return not self._busy
            if stream.is_over and not stream.items and not stream.is_waiting:
                self._finish(stream)
        return True

    def _again(self, stream: Stream) -> None:
        if not stream.is_waiting and (stream.items or stream.is_over):
            stream.is_listed = True
            self._busy.append(stream)

    def _tells(self, stream: Stream, items: deque[Item]) -> bool:
        """Have a few plain frames told of without being looked into; False where the first one is not plain."""
        plain = stream.handler.plain
        if plain is None:
            return False
        waiting = len(items)
        try:
            self.load.bytes -= plain(items, QUICK_ITEMS)
        except Exception as fault:  # noqa: BLE001 - telemetry must never end a session
            self._failed(fault)
            self.load.bytes = sum(len(item[4]) for each in self.streams for item in each.items)
        return len(items) < waiting

    def _look(self, stream: Stream, item: Item) -> None:
        kind, body = item[2], item[4]
        self.load.bytes -= len(body)
        if kind not in WITH_BODY:
            if kind == "notification" and _by_name(item)["method"] != "notifications/cancelled":
                stream.handler.passed(kind)
                return
            item = (*item[:4], b"", _by_name(item))
        elif len(body) >= BIG_BYTES:
            self._read_aside(stream, item)
            return
        try:
            facts = self._facts(item)
            stream.handler.take(facts)
        except Exception as fault:  # noqa: BLE001 - telemetry must never end a session
            self._failed(fault)

    def _facts(self, item: Item) -> Facts:
        seq, at, kind, way, body = item[:5]
        rest = _by_name(item)
        raw = Raw(body) if body else NO_BODY
        frame = Frame(seq=seq, at=at, kind=kind, way=way, body=raw, **rest)  # pyright: ignore[reportArgumentType]
        if self._may_hold_secrets(frame, body):
            frame = self._redactor.frame(frame)
        return facts_of(frame, bytes(frame.body), hashed=self._hashed)

    def _may_hold_secrets(self, frame: Frame, body: bytes) -> bool:
        """Look at a frame as a whole, and at its names once: most have none, and to look at each part costs more."""
        redactor = self._redactor
        generation = redactor.generation
        if generation != self._generation:
            self._harmless = set()
            self._generation = generation
        # By itself: a thread that still looks at a name by the rules of before is to put it into the set of before.
        harmless = self._harmless
        names = frame.peer, frame.lane, frame.method, frame.name
        if names not in harmless:
            told = [name for name in names if name]
            if any(redactor.suspects(_text(name)) for name in told):
                return True
            if len(harmless) < MOST_NAMES and max(map(len, told), default=0) <= LONGEST_NAME:
                harmless.add(names)
        # An id is another one in each frame.
        id_ = frame.id
        return (
            (isinstance(id_, str) and redactor.suspects(_text(id_)))
            or redactor.suspects(body)
            or (frame.x is not None and redactor.suspects(_encode(frame.x)))
        )

    def _read_aside(self, stream: Stream, item: Item) -> None:
        stream.is_waiting = True
        read = self._loop.run_in_executor(None, self._facts, item)
        self._reads.add(read)
        read.add_done_callback(lambda done: self._read(stream, done))

    def _read(self, stream: Stream, done: asyncio.Future[Facts]) -> None:
        self._reads.discard(done)
        stream.is_waiting = False
        try:
            stream.handler.take(done.result())
        except asyncio.CancelledError:
            return
        except Exception as fault:  # noqa: BLE001 - as above
            self._failed(fault)
        if not stream.is_listed:
            self.list(stream)

    def _failed(self, fault: Exception) -> None:
        self.failures += 1
        if self.failures == 1:
            context = {"message": "a frame could not be told of", "exception": fault}
            self._loop.call_exception_handler(context)

    def _finish(self, stream: Stream) -> None:
        if stream in self.streams:
            self.streams.discard(stream)
            stream.handler.finish(stream.missed)

    async def close(self) -> None:
        """Look at everything that still waits, end every stream, and flush."""
        deadline = time.perf_counter() + CLOSE_S
        while time.perf_counter() < deadline:
            self.drain(time.perf_counter() + 0.05)
            if self._reads:
                await asyncio.wait(set(self._reads), timeout=0.1)
            elif not self._busy:
                break
            else:
                await asyncio.sleep(0)
        self._is_closed = True
        if self._due is not None:
            self._due.cancel()
        for stream in list(self.streams):
            stream.missed += len(stream.items)
            stream.items.clear()
            self._finish(stream)
        self._flush_now()


def _keep_memory() -> None:
    """Have the C library keep what long bodies give back, in place of returning it to the system at each of them.

    It learns that from what it is given back itself: twice as much as the largest piece, of 128 KiB at first. No page
    of this one is ever touched.
    """
    bytes(SOON_BYTES)


def _by_name(item: Item) -> dict[str, Any]:
    """The further fields of a frame."""
    if len(item) != 12:
        return item[5]
    _, _, _, _, _, peer, id_, re, method, name, _, _ = item
    return {"peer": peer, "id": id_, "re": re, "method": method, "name": name}


def _text(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
