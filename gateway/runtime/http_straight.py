"""The straight way of a plain request over HTTP: asked by a call, answered by a call, without a task.

Owns which requests take it beyond what their heads say, and what is to be done when one is answered, becomes a stream,
or loses its client. Where anything is unusual nothing has been touched, and the request is served by `http_front`,
which is the one definition of what a request means; a test holds both ways equal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from gateway.protocol import http_rules
from gateway.runtime.http_head import Head, Heads
from gateway.runtime.http_reply import Receive, Reply, Send
from gateway.runtime.http_session import hand_over
from transports import http_headers as names
from transports.base import Hello, TransportError

if TYPE_CHECKING:
    from gateway.runtime.http_options import FrontOptions
    from gateway.runtime.http_plain import PlainProtocol
    from gateway.runtime.http_sessions import Sessions
    from gateway.runtime.http_single import Single

Clients = dict[Reply, tuple[str, int] | None]


class Straight:
    """Sends plain requests on: those of sessions, and those that stand alone."""

    def __init__(
        self,
        heads: Heads,
        options: FrontOptions,
        sessions: Sessions,
        clients: Clients,
        *,
        alone: Callable[[http_rules.Part, Hello], Single],
        forget: Callable[[Single], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        """`clients` are the requests that are being served, with where each came from.

        `alone` makes the link of a message that stands alone, or raises `TransportError`; `forget` ends it.
        """
        self.heads = heads
        self.options = options
        self.clients = clients
        self._sessions = sessions
        self._alone = alone
        self._forget = forget
        self._is_stopping = is_stopping

    def ask(self, connection: PlainProtocol, head: Head, body: bytes) -> bool:
        """Serve a request, and say whether that was done. Where not, nothing has been touched."""
        if len(self.clients) >= self.options.max_exchanges or self._is_stopping():
            return False
        decision = http_rules.judge_body(head.post, body, self.options.json_depth)
        if isinstance(decision, http_rules.Deliver):
            return len(decision.parts) == 1 and self._deliver(connection, head, decision)
        return isinstance(decision, http_rules.Alone) and self._exchange(connection, head, decision.part)

    def _deliver(self, connection: PlainProtocol, head: Head, decision: http_rules.Deliver) -> bool:
        session = self._sessions.find(decision.session, head.principal)
        if session is None or not session.flowing.is_set():
            return False
        try:
            reply = session.post(decision.parts, decision.version)
        except TransportError:
            return False
        self._sessions.hold(session)
        asked = Asked(self, connection, reply, lambda: self._sessions.release(session))
        accepted = ((names.SESSION.encode(), session.id.encode()),)
        asked.deliver(lambda: session.deliver(decision.parts, head.origin), accepted)
        return True

    def _exchange(self, connection: PlainProtocol, head: Head, part: http_rules.Part) -> bool:
        client = connection.client
        hello = Hello(
            transport="http",
            remote="" if client is None else f"{client[0]}:{client[1]}",
            principal=head.principal,
            ephemeral=True,
            headers=head.origin.headers,
        )
        try:
            single = self._alone(part, hello)
        except TransportError:
            return False
        receiver = single.receiver
        assert receiver is not None
        reply = None if part.id is None else single.reply
        # The receiver may be in the midst of answering when the answer has been written.
        asked = Asked(self, connection, reply, lambda: connection.loop.call_soon(self._forget, single))
        asked.deliver(lambda: hand_over(receiver, part, head.origin), ())
        return True


class Asked:
    """One request that went straight, until it is answered or given up. Takes what its reply is given."""

    __slots__ = ("_began", "_connection", "_end", "_reply", "_straight", "is_over")

    def __init__(
        self, straight: Straight, connection: PlainProtocol, reply: Reply | None, end: Callable[[], object]
    ) -> None:
        """`reply` is None where nothing is owed an answer; `end` is called once, when all is over."""
        self._straight = straight
        self._connection = connection
        self._reply = reply
        self._end = end
        self._began = connection.loop.time()
        self.is_over = False
        if reply is not None:
            reply.taker = self
            straight.clients[reply] = connection.client
            connection.asks(self, straight.options.silence_s)

    def deliver(self, deliver: Callable[[], None], accepted: Iterable[tuple[bytes, bytes]]) -> None:
        """Call what hands the message on; where no answer is owed, answer with these headers that it was taken."""
        try:
            deliver()
        except Exception as fault:  # as uvicorn has it: whatever it is, somebody waits for an answer
            if self.is_over:
                raise
            self.left()
            self._connection.fail(fault)
            return
        if self._reply is None:
            self._connection.answer(202, accepted, b"")
            self._over()

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
        if self._reply is not None:
            self._reply.taker = None
            self._reply.leave()
        self._over()

    def let_go(self) -> Callable[[Any, Receive, Send], Awaitable[None]]:
        """Return the application that serves the rest; the reply waits for it from now on."""
        assert self._reply is not None
        self._reply.taker = None
        return self._serve

    async def _serve(self, scope: Any, receive: Receive, send: Send) -> None:
        del scope
        assert self._reply is not None
        options = self._straight.options
        silence_s = None if options.silence_s is None else max(0.0, self.silence_left_s())
        try:
            await self._reply.serve(receive, send, silence_s=silence_s, ping_s=options.ping_s)
        finally:
            self._over()

    def _over(self) -> None:
        self.is_over = True
        if self._reply is not None:
            del self._straight.clients[self._reply]
        self._end()
