"""The link to a core of the session revisions over streamable HTTP.

Owns on which HTTP answer a message travels, what waits while no stream is open, and the events that a client
may ask for again. Decides nothing about messages: a `Stamp` says what each is and whose request it is about.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from gateway.protocol import http_rules
from gateway.runtime.http_reply import JSON_TYPE, Reply
from transports import http_headers as names
from transports import sse
from transports.base import Id, Limits, Origin, Receiver, Stamp, TransportError

_PRIMED_SINCE: Final = "2025-11-25"
"""Older clients may not understand an event without data."""
_LISTENER: Final = 0
"""The number of the session's own stream; POSTs count from 1."""


class _Stream(msgspec.Struct, eq=False):
    """The answer to one POST over all the connections that it takes."""

    number: int
    pending: set[Id]
    reply: Reply | None = None
    streaming: bool = False
    primed: bool = False
    many: bool = False
    seq: int = 0


class _EventLog:
    """The last events of a session, bounded in bytes."""

    __slots__ = ("_bytes", "_events", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._events: deque[tuple[int, int, bytes]] = deque()

    def add(self, number: int, seq: int, chunk: bytes) -> None:
        self._events.append((number, seq, chunk))
        self._bytes += len(chunk)
        while self._bytes > self._limit:
            self._bytes -= len(self._events.popleft()[2])

    def after(self, number: int, seq: int) -> list[bytes]:
        return [chunk for stream, at, chunk in self._events if stream == number and at > seq]

    def knows(self, number: int, seq: int) -> bool:
        """Whether every event of the stream after `seq` is still here."""
        first = next((at for stream, at, _ in self._events if stream == number), None)
        return first is not None and first <= seq + 1


class SessionLink:
    """The link to a core of the session revisions."""

    stamped = True

    def __init__(
        self,
        session_id: str,
        limits: Limits,
        *,
        backlog_bytes: int,
        resume_bytes: int,
        retry_ms: int,
        forget: Callable[[SessionLink], None],
        abort: Callable[[Reply], None],
    ) -> None:
        """`forget` is called once when the session ends, `abort` to cut a client that does not read."""
        self.id = session_id
        self.receiver: Receiver | None = None
        self.principal: str | None = None
        self.busy = 0
        """HTTP requests being served."""
        self.over = False
        self.flowing = asyncio.Event()
        self.flowing.set()
        self._limits = limits
        self._backlog_limit = backlog_bytes
        self._backlog: deque[tuple[bytes, Id | None]] = deque()
        self._backlog_bytes = 0
        self._log = _EventLog(resume_bytes)
        self._retry_ms = retry_ms
        self._forget = forget
        self._abort = abort
        self._own = _Stream(_LISTENER, set())
        self._listeners: list[Reply] = []
        self._streams: dict[int, _Stream] = {}
        self._by_id: dict[Id, _Stream] = {}
        self._count = 0
        self._held_back = False
        self._opening: Id | None = None

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted by `send` that no connection has taken."""
        replies = [stream.reply for stream in self._streams.values() if stream.reply is not None]
        return self._backlog_bytes + sum(reply.queued for reply in (*replies, *self._listeners))

    # Link

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Send on the stream of the POST that the stamp names, or on the session's own."""
        if self.over or stamp is None:
            return
        if stamp.kind == "response":
            self._answer(message, stamp)
            return
        stream = None if stamp.about is None else self._by_id.get(stamp.about)
        if stream is not None and (stream.reply is not None or stream.streaming):
            self._emit(stream, message)
        else:
            self._push(message, stamp.id if stamp.kind == "request" else None)
        self._pressure()

    def cancel(self, request_id: Id) -> bool:
        """The core has taken back its request: it is owed no answer, and the stream that waits for one ends.

        Return False where there is no such stream.
        """
        stream = self._by_id.pop(request_id, None)
        if stream is None:
            return False
        stream.pending.discard(request_id)
        if not stream.pending:
            self._streams.pop(stream.number, None)
            if stream.reply is not None:
                if not stream.streaming:
                    # An empty stream, without an event id: there is nothing that could be taken up again.
                    stream.reply.event(sse.comment())
                stream.reply.end()
        return True

    def pause(self) -> None:
        """Leave what the client posts unread."""
        self.flowing.clear()

    def resume(self) -> None:
        """Take what the client posts."""
        self.flowing.set()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """End the session: its streams end, its id is unknown from now on, `closed` follows."""
        del code, reason
        self.end(None)

    def end(self, fault: TransportError | None) -> None:
        """End the session because of `fault`, or as asked."""
        if self.over:
            return
        self.over = True
        self.flowing.set()
        for stream in self._streams.values():
            if stream.reply is not None:
                _fail(stream)
        for listener in self._listeners:
            listener.end()
        self._streams.clear()
        self._by_id.clear()
        self._backlog.clear()
        self._forget(self)
        if self.receiver is not None:
            asyncio.get_running_loop().call_soon(self.receiver.closed, fault)

    # HTTP

    def post(
        self, parts: tuple[http_rules.Part, ...], version: str | None, *, opening: bool = False
    ) -> Reply | None:
        """Take the messages of one POST to be delivered with `deliver`; return the reply that answers them.

        None where nothing is owed an answer.

        Raises:
            TransportError: (`denied`) if an id is already in use.
        """
        ids = [part.id for part in parts if part.id is not None]
        if not ids:
            return None
        for id_ in ids:
            if id_ in self._by_id:
                raise TransportError("denied", f"a request with the id {id_!r} is already being answered")
        self._count += 1
        stream = _Stream(self._count, set(ids), many=len(ids) > 1)
        stream.primed = version is not None and version >= _PRIMED_SINCE
        stream.reply = reply = self._reply()
        reply.left = lambda: self._left(stream, reply)
        reply.silence = lambda: self._commit(stream)
        self._streams[stream.number] = stream
        for id_ in ids:
            self._by_id[id_] = stream
        if opening:
            self._opening = ids[0]
        return reply

    def deliver(self, parts: tuple[http_rules.Part, ...], origin: Origin) -> None:
        """Hand the messages of a POST to the receiver."""
        assert self.receiver is not None
        for part in parts:
            if self.over:
                return
            hand_over(self.receiver, part, origin)

    def listen(self, last_event: str | None, version: str | None) -> Reply | None:
        """Open a stream for a GET, or take one up after `last_event`. None where that cannot be done."""
        number, seq = _parse(last_event)
        if number != _LISTENER:
            return self._take_up(number, seq)
        reply = self._reply()
        reply.left = lambda: self._unlisten(reply)
        waiting = [chunk for chunk, _ in self._backlog]
        if seq is not None:
            waiting = self._log.after(_LISTENER, seq)
        first = self._own.seq - len(waiting)
        if version is not None and version >= _PRIMED_SINCE and seq is None:
            reply.event(sse.encode(b"", id=f"{_LISTENER}-{first}", retry=self._retry_ms))
        self._backlog.clear()
        self._backlog_bytes = 0
        reply.streaming = True
        for chunk in waiting:
            reply.event(chunk)
        self._listeners.append(reply)
        return reply

    def _take_up(self, number: int, seq: int | None) -> Reply | None:
        stream = self._streams.get(number)
        if seq is None or (stream is None and not self._log.knows(number, seq)):
            return None
        reply = self._reply()
        reply.streaming = True
        for chunk in self._log.after(number, seq):
            reply.event(chunk)
        if stream is None:
            reply.end()
            return reply
        if stream.reply is not None:
            stream.reply.end()
        stream.reply = reply
        reply.left = lambda: self._left(stream, reply)
        return reply

    # Streams

    def _reply(self) -> Reply:
        reply = Reply()
        reply.headers.append((names.SESSION.encode(), self.id.encode()))
        reply.shrunk = self._pressure
        return reply

    def _answer(self, message: bytes, stamp: Stamp) -> None:
        stream = None if stamp.id is None else self._by_id.pop(stamp.id, None)
        if stream is None or stamp.id is None:
            return
        stream.pending.discard(stamp.id)
        queues = True
        failed_opening = stamp.id == self._opening and http_rules.is_error(message)
        if stamp.id == self._opening:
            self._opening = None
        if stream.reply is not None and not stream.streaming and not stream.many:
            if failed_opening:
                stream.reply.headers.clear()
            stream.reply.json(stamp.status or 200, message, JSON_TYPE)
            queues = self._held_back
        elif stream.reply is not None or stream.streaming:
            self._emit(stream, message)
        if not stream.pending:
            self._streams.pop(stream.number, None)
            if stream.reply is not None and stream.streaming:
                stream.reply.end()
        if queues:
            self._pressure()
        if failed_opening:
            self.end(None)

    def _commit(self, stream: _Stream) -> None:
        """Make a POST's answer a stream; a client that can resume is told the first id at once."""
        if stream.streaming or stream.reply is None:
            return
        stream.streaming = True
        if stream.primed:
            stream.reply.event(sse.encode(b"", id=f"{stream.number}-0", retry=self._retry_ms))
        else:
            stream.reply.event(sse.comment())

    def _emit(self, stream: _Stream, message: bytes) -> None:
        if not stream.streaming:
            if stream.primed:
                self._commit(stream)
            stream.streaming = True
        stream.seq += 1
        chunk = sse.encode(message, id=f"{stream.number}-{stream.seq}")
        self._log.add(stream.number, stream.seq, chunk)
        if stream.reply is not None:
            self._write(stream.reply, chunk)

    def _push(self, message: bytes, request_id: Id | None) -> None:
        """Send on the session's own stream, or keep it until one is opened."""
        self._own.seq += 1
        chunk = sse.encode(message, id=f"{_LISTENER}-{self._own.seq}")
        self._log.add(_LISTENER, self._own.seq, chunk)
        if self._listeners:
            self._write(self._listeners[-1], chunk)
            return
        self._backlog.append((chunk, request_id))
        self._backlog_bytes += len(chunk)
        while self._backlog_bytes > self._backlog_limit:
            dropped, lost = self._backlog.popleft()
            self._backlog_bytes -= len(dropped)
            if lost is not None and self.receiver is not None:
                message_ = "the client opened no stream that this request could be sent on"
                self.receiver.failed(TransportError("closed", message_, {"sent": False}, lost))

    def _write(self, reply: Reply, chunk: bytes) -> None:
        if reply.queued > self._limits.hard_bytes:
            self._abort(reply)
            return
        reply.event(chunk)

    def _left(self, stream: _Stream, reply: Reply) -> None:
        if stream.reply is reply:
            stream.reply = None

    def _unlisten(self, reply: Reply) -> None:
        if reply not in self._listeners:
            return
        self._listeners.remove(reply)
        rest = reply.rest()
        if self._listeners:
            for chunk in rest:
                self._listeners[-1].event(chunk)
        else:
            self._backlog.extend((chunk, None) for chunk in rest)
            self._backlog_bytes += sum(map(len, rest))

    def _pressure(self) -> None:
        if self.receiver is None or self.over:
            return
        queued = self.queued_bytes
        if not self._held_back and queued > self._limits.high_bytes:
            self._held_back = True
            self.receiver.writable(False)  # noqa: FBT003
        elif self._held_back and queued <= self._limits.low_bytes:
            self._held_back = False
            self.receiver.writable(True)  # noqa: FBT003


def hand_over(receiver: Receiver, part: http_rules.Part, origin: Origin) -> None:
    """Give a receiver a message; as it was read, where the receiver can take it so."""
    told: Callable[..., None] | None = getattr(receiver, "told", None)
    if told is not None and part.read is not None:
        told(part.data, *part.read, origin)
    else:
        receiver.message(part.data, origin)


def _fail(stream: _Stream) -> None:
    """Answer what a stream still owes: the session is over."""
    reply = stream.reply
    assert reply is not None
    if stream.streaming:
        reply.end()
        return
    id_ = next(iter(stream.pending), None)
    refuse = http_rules.refusal(500, -32603, "the session ended before the answer", id_)
    reply.json(refuse.status, refuse.body, JSON_TYPE)


def _parse(last_event: str | None) -> tuple[int, int | None]:
    """Return the stream and the position that an event id of ours names, else the session's own stream."""
    number, dash, seq = (last_event or "").partition("-")
    if dash and number.isdecimal() and seq.isdecimal() and len(number) < 16 and len(seq) < 16:
        return int(number), int(seq)
    return _LISTENER, None
