"""The straight way of a plain request over HTTP: asked by a call, answered by a call, without a task.

Owns which requests take it beyond what their heads say, and what is to be done when one is answered, becomes a stream,
or loses its client. Where anything is unusual nothing has been touched, and the request is served by `http_front`,
which is the one definition of what a request means; a test holds both ways equal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from gateway.protocol import http_rules
from gateway.runtime.http_head import Head, Heads
from gateway.runtime.http_reply import Receive, Reply, Send
from transports import http_headers as names
from transports.base import TransportError

if TYPE_CHECKING:
    from gateway.runtime.http_front import FrontOptions
    from gateway.runtime.http_plain import PlainProtocol
    from gateway.runtime.http_session import SessionLink
    from gateway.runtime.http_sessions import Sessions

Clients = dict[Reply, tuple[str, int] | None]


class Straight:
    """Sends plain requests of sessions on."""

    def __init__(
        self,
        heads: Heads,
        options: FrontOptions,
        sessions: Sessions,
        clients: Clients,
        is_stopping: Callable[[], bool],
    ) -> None:
        """`clients` are the requests that are being served, with where each came from."""
        self.heads = heads
        self.options = options
        self.sessions = sessions
        self.clients = clients
        self._is_stopping = is_stopping

    def ask(self, connection: PlainProtocol, head: Head, body: bytes) -> bool:
        """Serve a request, and say whether that was done. Where not, nothing has been touched."""
        if len(self.clients) >= self.options.max_exchanges or self._is_stopping():
            return False
        decision = http_rules.judge_body(head.post, body, self.options.json_depth)
        if not isinstance(decision, http_rules.Deliver) or len(decision.parts) != 1:
            return False
        session = self.sessions.find(decision.session, head.principal)
        if session is None or not session.flowing.is_set():
            return False
        try:
            reply = session.post(decision.parts, decision.version)
        except TransportError:
            return False
        self.sessions.hold(session)
        if reply is None:
            self._tell(connection, session, decision, head)
            return True
        asked = Asked(self, connection, session, reply)
        try:
            session.deliver(decision.parts, head.origin)
        except Exception as fault:  # as uvicorn has it: whatever it is, somebody waits for an answer
            if asked.is_over:
                raise
            asked.left()
            connection.fail(fault)
        return True

    def _tell(
        self, connection: PlainProtocol, session: SessionLink, told: http_rules.Deliver, head: Head
    ) -> None:
        """Deliver what is owed no answer."""
        try:
            session.deliver(told.parts, head.origin)
        except Exception as fault:  # noqa: BLE001 - as above
            connection.fail(fault)
        else:
            connection.answer(202, ((names.SESSION.encode(), session.id.encode()),), b"")
        finally:
            self.sessions.release(session)


class Asked:
    """One request that went straight, until it is answered or given up. Takes what its reply is given."""

    __slots__ = ("_began", "_connection", "_reply", "_session", "_straight", "is_over")

    def __init__(
        self, straight: Straight, connection: PlainProtocol, session: SessionLink, reply: Reply
    ) -> None:
        self._straight = straight
        self._connection = connection
        self._session = session
        self._reply = reply
        self._began = connection.loop.time()
        self.is_over = False
        reply.taker = self
        straight.clients[reply] = connection.client
        connection.asks(self, straight.options.silence_s)

    def silence_left_s(self) -> float:
        """How long it may still say nothing."""
        silence_s = self._straight.options.silence_s
        assert silence_s is not None
        return self._began + silence_s - asyncio.get_running_loop().time()

    def answered(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """The reply is one body."""
        self._connection.answer(status, headers, body)
        self._over()

    def streams(self) -> None:
        """The reply becomes a stream."""
        self._connection.give_up()

    def left(self) -> None:
        """The client has gone."""
        self._reply.taker = None
        self._reply.leave()
        self._over()

    def let_go(self) -> Callable[[Any, Receive, Send], Awaitable[None]]:
        """Return the application that serves the rest; the reply waits for it from now on."""
        self._reply.taker = None
        return self._serve

    async def _serve(self, scope: Any, receive: Receive, send: Send) -> None:
        del scope
        options = self._straight.options
        silence_s = None if options.silence_s is None else max(0.0, self.silence_left_s())
        try:
            await self._reply.serve(receive, send, silence_s=silence_s, ping_s=options.ping_s)
        finally:
            self._over()

    def _over(self) -> None:
        self.is_over = True
        del self._straight.clients[self._reply]
        self._straight.sessions.release(self._session)
