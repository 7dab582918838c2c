"""What one HTTP request is answered with: a JSON body, or a stream of server-sent events, decided late.

Owns the queue between the exchange, which writes at any time without waiting, and the ASGI server, which
waits for the client. Knows neither sessions nor messages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from transports import http_headers as names
from transports import sse

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON_TYPE: Final = ((b"content-type", names.JSON.encode()),)
_JOIN_BYTES: Final = 65536
_STREAM_HEADERS: Final = (
    (b"content-type", names.EVENTS.encode()),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class Taker(Protocol):
    """What takes an answer at once, as long as it is to be one body."""

    def answered(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """It is one body, and complete."""
        ...

    def streams(self) -> None:
        """It is a stream, or will be answered at the end of all: from now on it is to be served."""
        ...


class Reply(msgspec.Struct, eq=False):
    """The answer to one request. `event` makes it a stream, `json` a single body; `end` completes a stream.

    `left` is called once if the client goes before the answer is complete. `silence` is called once if
    nothing has been said for the time given to `serve`, so that the owner may begin a stream.
    Where there is a `taker` it is given a single body without anybody serving.
    """

    headers: list[tuple[bytes, bytes]] = []
    streaming: bool = False
    gone: bool = False
    queued: int = 0
    """Bytes not yet taken by the server."""
    left: Callable[[], None] | None = None
    silence: Callable[[], None] | None = None
    shrunk: Callable[[], None] | None = None
    """Called whenever `queued` has become smaller."""
    taker: Taker | None = None
    _body: tuple[int, bytes, tuple[tuple[bytes, bytes], ...]] | None = None
    _outbox: deque[bytes] = msgspec.field(default_factory=deque[bytes])
    _over: bool = False
    _complete: bool = False
    _waiter: asyncio.Future[None] | None = None
    _pinger: asyncio.TimerHandle | None = None
    _ping_s: float | None = None

    def json(self, status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        """Answer with one body. Only before any event."""
        if not self.streaming and self._body is None:
            self._body = (status, body, headers)
            if self.taker is None:
                self._wake()
            else:
                taker, self.taker = self.taker, None
                self._complete = True
                # Those who are called refer to the reply: it is gone at once only without them.
                self.left = self.silence = self.shrunk = None
                taker.answered(status, [*self.headers, *headers], body)

    def event(self, chunk: bytes) -> None:
        """Add an encoded event, or several; the first makes the answer a stream."""
        self.streaming = True
        if self.taker is not None:
            self.taker.streams()
        if self.gone or self._over:
            return
        self._outbox.append(chunk)
        self.queued += len(chunk)
        self._wake()

    def end(self) -> None:
        """Complete the stream after what is queued."""
        self._over = True
        if self.taker is not None:
            self.taker.streams()
        self._wake()

    def rest(self) -> list[bytes]:
        """Return the events that were never handed to the server, and forget them."""
        rest = list(self._outbox)
        self._outbox.clear()
        self.queued = 0
        return rest

    async def serve(
        self, receive: Receive, send: Send, *, silence_s: float | None = None, ping_s: float | None = None
    ) -> None:
        """Write the answer as it comes, until it is complete or the client has gone."""
        loop = asyncio.get_running_loop()
        watcher = loop.create_task(self._watch(receive))
        timer = None if silence_s is None else loop.call_later(silence_s, self._silent)
        try:
            while self._body is None and not self.streaming and not self._over and not self.gone:
                await self._wait()
            if timer is not None:
                timer.cancel()
            if self.gone:
                return
            if self._body is not None:
                status, body, headers = self._body
                await respond(send, status, body, [*self.headers, *headers])
            else:
                self._ping_s = ping_s
                await self._stream(send, loop)
            self._complete = not self.gone
        finally:
            watcher.cancel()
            if timer is not None:
                timer.cancel()
            if self._pinger is not None:
                self._pinger.cancel()
            if not self._complete:
                self.leave()

    async def _stream(self, send: Send, loop: asyncio.AbstractEventLoop) -> None:
        headers = [*self.headers, *_STREAM_HEADERS]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if self._ping_s is not None:
            self._pinger = loop.call_later(self._ping_s, self._ping)
        while not self.gone:
            while self._outbox and not self.gone:
                chunk = self._outbox.popleft()
                while self._outbox and len(chunk) < _JOIN_BYTES:
                    chunk += self._outbox.popleft()
                last = self._over and not self._outbox
                await send({"type": "http.response.body", "body": chunk, "more_body": not last})
                self.queued = max(0, self.queued - len(chunk))
                if self.shrunk is not None:
                    self.shrunk()
                if last:
                    return
            if self._over:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            await self._wait()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.leave()

    def leave(self) -> None:
        """The client has gone."""
        if self._complete or self.gone:
            return
        self.gone = True
        self._wake()
        if self.left is not None:
            self.left()

    def _silent(self) -> None:
        if self.silence is not None and self._body is None and not self.streaming:
            self.silence()

    def _ping(self) -> None:
        assert self._ping_s is not None
        if not self._outbox:
            self.event(sse.comment())
        self._pinger = asyncio.get_running_loop().call_later(self._ping_s, self._ping)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def respond(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """Send a whole answer."""
    headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
