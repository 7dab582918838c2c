"""A connection of the HTTP listener: plain requests go straight to a session, all others to uvicorn's protocol.

Owns the bytes of requests that go straight and when one stops to: it is then served as any other, from where it is.
What is asked and answered is `http_straight`. Between two requests uvicorn's parser has no state that would mind the
ones that it was not shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from starlette.middleware.errors import ServerErrorMiddleware
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from gateway.runtime.http_server import BoundedProtocol

if TYPE_CHECKING:
    from gateway.runtime.http_head import Head
    from gateway.runtime.http_straight import Asked, Straight

PATIENCE_S: Final = 1.0
"""How long the rest of a body is waited for here; uvicorn's protocol and its application bound the whole of it."""


class PlainProtocol(BoundedProtocol):
    """uvicorn's HTTP/1.1, behind a way that a plain request takes without it."""

    def __init__(self, straight: Straight, **protocol: Any) -> None:
        super().__init__(**protocol)
        self._straight = straight
        self._asked: Asked | None = None
        """The request that went straight and is not answered yet; there is never another one beside it."""
        self._is_between = True
        """Whether uvicorn's parser is between two requests."""
        self._held: bytearray | None = None
        """A plain request that is not whole yet."""
        self._head: Head | None = None
        self._begin = 0
        self._patience: asyncio.TimerHandle | None = None
        self._rested = 0.0
        self._silence: asyncio.TimerHandle | None = None

    # The connection

    def data_received(self, data: bytes) -> None:
        """Take what was read."""
        if self._held is not None:
            self._take_more(self._held, data)
            return
        if self._asked is not None:
            self.give_up()
        elif self._may_go_straight():
            begin = data.find(b"\r\n\r\n") + 4
            head = self._straight.heads.read(data[:begin]) if begin > 3 else None
            if head is not None:
                missing = begin + head.size - len(data)
                if missing == 0:
                    self._take(head, data, begin)
                    return
                if missing > 0:
                    self._head, self._begin, self._held = head, begin, bytearray(data)
                    self._patience = self.loop.call_later(PATIENCE_S, self._impatient)
                    return
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._stop_holding()
        if self._silence is not None:
            self._silence.cancel()
        self._unset_keepalive_if_required()
        asked, self._asked = self._asked, None
        super().connection_lost(exc)
        if asked is not None:
            asked.left()

    def shutdown(self) -> None:
        """Answer what is asked, and what is being asked, and close then."""
        if self._held is not None:
            self._impatient()
        if self._asked is not None:
            self.give_up()
        super().shutdown()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if nothing was asked on it for so long."""
        self.timeout_keep_alive_task = None
        if self._asked is not None or self._held is not None:
            return
        left_s = self._rested + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left_s, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def on_message_begin(self) -> None:
        """As uvicorn's parser has it."""
        self._is_between = False
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """As uvicorn's parser has it. After an upgrade that was not made, bytes may mean anything."""
        assert self.parser is not None
        self._is_between = not self.parser.should_upgrade()
        super().on_message_complete()

    # Straight

    def answer(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """Write the answer to what went straight."""
        self._asked = None
        lines = [b"%b: %b\r\n" % header for header in headers]
        self.transport.write(
            b"%b%bcontent-length: %d\r\n\r\n%b" % (STATUS_LINE[status], b"".join(lines), len(body), body)
        )
        self._rested = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def asks(self, asked: Asked, silence_s: float | None) -> None:
        """Note what went straight; it is given up if it is not answered within `silence_s`."""
        self._asked = asked
        if silence_s is not None and self._silence is None:
            self._silence = self.loop.call_later(silence_s, self._silent)

    def give_up(self) -> None:
        """Have uvicorn serve what went straight, from where it is."""
        asked, self._asked = self._asked, None
        if asked is not None:
            self._serve(asked.let_go())

    def fail(self, fault: Exception) -> None:
        """Have uvicorn answer that the application has failed."""
        self._asked = None

        async def failed(*_: object) -> None:
            raise fault

        self._serve(ServerErrorMiddleware(failed))

    def _serve(
        self,
        serve: Callable[
            [
                MutableMapping[str, Any],
                Callable[[], Awaitable[MutableMapping[str, Any]]],
                Callable[[MutableMapping[str, Any]], Awaitable[None]],
            ],
            Awaitable[None],
        ],
    ) -> None:
        self._unset_keepalive_if_required()
        self.on_message_begin()
        self._is_between = True
        self.scope["method"] = "POST"
        self.cycle = RequestResponseCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=True,
            on_response=self.on_response_complete,
        )
        self.cycle.more_body = False
        self._start_asgi_task(self.cycle, serve)

    def _may_go_straight(self) -> bool:
        return (
            self._is_between
            and (self.cycle is None or self.cycle.response_complete)  # pyright: ignore[reportUnnecessaryComparison]
            and not self.flow.write_paused
            and not self.transport.is_closing()
        )

    def _take(self, head: Head, data: bytes, begin: int) -> None:
        if not self._straight.ask(self, head, data[begin:]):
            super().data_received(data)

    def _take_more(self, held: bytearray, data: bytes) -> None:
        head, begin = self._head, self._begin
        assert head is not None
        held += data
        missing = begin + head.size - len(held)
        if missing > 0:
            return
        self._stop_holding()
        if missing == 0:
            self._take(head, bytes(held), begin)
        else:
            super().data_received(bytes(held))

    def _impatient(self) -> None:
        held = self._held
        self._stop_holding()
        if held is not None and not self.transport.is_closing():
            super().data_received(bytes(held))

    def _stop_holding(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._held = self._head = self._patience = None

    def _silent(self) -> None:
        self._silence = None
        if self._asked is None:
            return
        left_s = self._asked.silence_left_s()
        if left_s > 0:
            self._silence = self.loop.call_later(left_s, self._silent)
        else:
            self.give_up()
