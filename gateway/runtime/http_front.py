"""The streamable HTTP listener: a uvicorn server whose sessions and single exchanges become links.

Owns the socket, and what is refused before a receiver hears of it. The rules are `gateway.protocol.http_rules`;
which session an id names is `http_sessions`, what happens inside of one `http_session`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gateway.protocol import http_rules
from gateway.protocol.errors import JSONRPC
from gateway.runtime.http_head import Heads
from gateway.runtime.http_options import FrontOptions
from gateway.runtime.http_plain import PlainProtocol
from gateway.runtime.http_reply import Receive, Reply, Send, respond
from gateway.runtime.http_server import AsgiServer
from gateway.runtime.http_session import SessionLink, hand_over
from gateway.runtime.http_sessions import Sessions
from gateway.runtime.http_single import Single
from gateway.runtime.http_straight import Straight
from transports import http_headers as names
from transports.base import Acceptor, Hello, Origin, TransportError
from transports.guard import Failures, Guard, Verdict, loopback_hosts

Scope: TypeAlias = dict[str, Any]
_Decision: TypeAlias = http_rules.Begin | http_rules.Deliver | http_rules.Alone | http_rules.Refuse


def loopback_guard(port: int) -> Guard:
    """The rules of a listener for this machine alone: its own names as Host and as Origin, and no token."""
    hosts = loopback_hosts(port)
    return Guard(hosts=hosts, origins=frozenset(f"http://{host}" for host in hosts))


class HttpFront:
    """Listens for MCP over HTTP and hands each session, or each single exchange, to an acceptor."""

    def __init__(
        self,
        accept: Acceptor,
        mint: Callable[[], str],
        *,
        guard: Callable[[int], Guard] | None = None,
        options: FrontOptions | None = None,
    ) -> None:
        """`mint` returns a new session id: visible ASCII that nobody can guess.

        `guard` makes the rules for the port that was bound; `loopback_guard` unless given.
        """
        self._accept = accept
        self._mint = mint
        self._make_guard = guard or loopback_guard
        self._guard = Guard(hosts=frozenset())
        self._failures = Failures()
        self._options = options or FrontOptions()
        self._sessions = Sessions(self._options.max_sessions, self._options.idle_s)
        self._clients: dict[Reply, tuple[str, int] | None] = {}
        self._singles: set[Single] = set()
        self._server: AsgiServer | None = None
        self._url = ""
        self._stopping = asyncio.Event()
        self.app = Starlette(
            routes=[Route(self._options.path, endpoint=_Endpoint(self)), Route("/livez", _livez)]
        )
        self.app.router.default = self._elsewhere

    @property
    def address(self) -> str:
        """The URL of the endpoint, once started."""
        return self._url

    @property
    def sessions(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            TransportError: (`refused`) if the address cannot be bound.
        """
        options = self._options
        self._server = AsgiServer(
            options.host,
            options.port,
            tls_cert=options.tls_cert,
            tls_key=options.tls_key,
            stop_s=options.stop_s,
        )
        self._guard = self._make_guard(self._server.port)
        self._url = f"{self._server.origin}{options.path}"
        straight = Straight(
            Heads(self._guard, options.path, options.limits.message_bytes),
            options,
            self._sessions,
            self._clients,
            alone=self._alone,
            forget=self._forget,
            is_stopping=self._stopping.is_set,
        )
        await self._server.start(self.app, functools.partial(PlainProtocol, straight))

    async def stop(self) -> None:
        """Stop listening, end every session and exchange, and wait until their connections are closed."""
        self._stopping.set()
        for reply in list(self._clients):
            # What ends now is answered on a connection that is being closed, and says so.
            if reply.taker is not None:
                reply.taker.streams()
        self._sessions.close()
        for single in list(self._singles):
            single.close()
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop()

    # HTTP

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request to the endpoint (ASGI)."""
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        verdict = self._guard.judge(headers)
        if not verdict.allowed:
            await self._turn_away(verdict, scope, send)
            return
        if self._stopping.is_set() or len(self._clients) >= self._options.max_exchanges:
            await _refuse(send, self._busy())
            return
        decision = http_rules.judge_head(scope["method"], headers, self._options.limits.message_bytes)
        if isinstance(decision, http_rules.Post):
            body = await self._body(receive)
            if body is None:
                return
            decision = self._judge(decision, body)
        exchange = _Request(scope, receive, send, headers, verdict.principal)
        match decision:
            case http_rules.Refuse():
                await _refuse(send, decision)
            case http_rules.Alone():
                await self._exchange(decision, exchange)
            case http_rules.Begin():
                await self._begin(decision, exchange)
            case http_rules.Deliver():
                await self._deliver(decision, exchange)
            case http_rules.Listen():
                await self._listen(decision, exchange)
            case http_rules.End():
                session = self._sessions.find(decision.session, exchange.principal)
                if session is not None:
                    session.close()
                await (
                    _refuse(send, http_rules.unknown_session())
                    if session is None
                    else respond(send, 200, b"", [])
                )

    async def _elsewhere(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer at a path where nothing is. Whoever asks as no client would is not told where something is."""
        del receive
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        is_foreign = self._guard.judge(headers).status == 403
        await _refuse(send, http_rules.nowhere(None if is_foreign else self._options.path))

    async def _turn_away(self, verdict: Verdict, scope: Scope, send: Send) -> None:
        client = scope.get("client")
        verdict = self._failures.count(
            client[0] if client else "", asyncio.get_running_loop().time(), verdict
        )
        if verdict.delay_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(verdict.delay_s):
                    await self._stopping.wait()
        refuse = http_rules.refusal(verdict.status, JSONRPC["denied"], verdict.reason)
        headers = refuse.headers
        if verdict.status == 401:
            headers = (*headers, ("www-authenticate", "Bearer"))
        await _refuse(send, http_rules.Refuse(refuse.status, refuse.body, headers))

    async def _body(self, receive: Receive) -> bytes | http_rules.Refuse | None:
        """Read a request's body; None where the client went away."""
        limit = self._options.limits.message_bytes
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._options.body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    chunk = cast("bytes", message.get("body", b""))
                    size += len(chunk)
                    if size > limit:
                        return http_rules.too_large(limit)
                    chunks.append(chunk)
                    if not message.get("more_body", False):
                        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        except TimeoutError:
            return http_rules.refusal(
                408, http_rules.INVALID_REQUEST, "the request's body did not come in time"
            )

    def _judge(self, post: http_rules.Post, body: bytes | http_rules.Refuse) -> _Decision:
        if isinstance(body, http_rules.Refuse):
            return body
        if self._stopping.is_set():
            return self._busy()
        return http_rules.judge_body(post, body, self._options.json_depth)

    def _busy(self) -> http_rules.Refuse:
        is_stopping = self._stopping.is_set()
        return http_rules.busy(
            "The gateway is stopping" if is_stopping else "Too many requests are being served"
        )

    async def _exchange(self, decision: http_rules.Alone, request: _Request) -> None:
        try:
            single = self._alone(decision.part, request.hello(ephemeral=True))
        except TransportError as fault:
            await _refuse(request.send, http_rules.busy(fault.message, decision.part.id))
            return
        assert single.receiver is not None
        try:
            hand_over(single.receiver, decision.part, request.origin())
            if decision.part.id is None:
                await respond(request.send, 202, b"", [])
            else:
                await self._reply(single.reply, request)
        finally:
            self._forget(single)

    def _alone(self, part: http_rules.Part, hello: Hello) -> Single:
        single = Single(part, self._options.limits, self._abort)
        single.receiver = self._accept(single, hello)
        self._singles.add(single)
        return single

    def _forget(self, single: Single) -> None:
        self._singles.discard(single)
        single.finished()

    async def _begin(self, decision: http_rules.Begin, request: _Request) -> None:
        options = self._options
        if not self._sessions.make_room():
            await _refuse(request.send, http_rules.busy("Too many sessions are open", decision.part.id))
            return
        session = SessionLink(
            self._mint(),
            options.limits,
            backlog_bytes=options.backlog_bytes,
            resume_bytes=options.resume_bytes,
            retry_ms=options.retry_ms,
            forget=self._sessions.forget,
            abort=self._abort,
        )
        session.principal = request.principal
        try:
            session.receiver = self._accept(session, request.hello(ephemeral=False))
        except TransportError as fault:
            await _refuse(request.send, http_rules.busy(fault.message, decision.part.id))
            return
        self._sessions.add(session)
        await self._post(session, (decision.part,), None, request, opening=True)

    async def _deliver(self, decision: http_rules.Deliver, request: _Request) -> None:
        session = self._sessions.find(decision.session, request.principal)
        if session is None:
            await _refuse(request.send, http_rules.unknown_session())
            return
        if not session.flowing.is_set():
            await session.flowing.wait()
        await self._post(session, decision.parts, decision.version, request)

    async def _post(
        self,
        session: SessionLink,
        parts: tuple[http_rules.Part, ...],
        version: str | None,
        request: _Request,
        *,
        opening: bool = False,
    ) -> None:
        try:
            reply = session.post(parts, version, opening=opening)
        except TransportError as fault:
            refuse = http_rules.refusal(400, http_rules.INVALID_REQUEST, fault.message, parts[0].id)
            await _refuse(request.send, refuse)
            return
        with self._sessions.busy(session):
            session.deliver(parts, request.origin())
            if reply is None:
                await respond(request.send, 202, b"", [(names.SESSION.encode(), session.id.encode())])
            else:
                await self._reply(reply, request)

    async def _listen(self, decision: http_rules.Listen, request: _Request) -> None:
        session = self._sessions.find(decision.session, request.principal)
        if session is None:
            await _refuse(request.send, http_rules.unknown_session())
            return
        reply = session.listen(decision.last_event, decision.version)
        if reply is None:
            why = "the events after this id are no longer kept"
            await _refuse(request.send, http_rules.refusal(400, http_rules.INVALID_REQUEST, why))
            return
        with self._sessions.busy(session):
            await self._reply(reply, request)

    async def _reply(self, reply: Reply, request: _Request) -> None:
        self._clients[reply] = request.scope.get("client")
        try:
            options = self._options
            await reply.serve(
                request.receive, request.send, silence_s=options.silence_s, ping_s=options.ping_s
            )
        finally:
            del self._clients[reply]

    def _abort(self, reply: Reply) -> None:
        """Cut the connection of a client that takes nothing."""
        client = self._clients.get(reply)
        if client is not None and self._server is not None:
            self._server.abort(client)


@dataclass(slots=True)
class _Request:
    scope: Scope
    receive: Receive
    send: Send
    headers: http_rules.Headers
    principal: str | None

    def public(self) -> tuple[tuple[str, str], ...]:
        return names.public(self.headers)

    def origin(self) -> Origin:
        return Origin(headers=self.public(), is_plain=not names.says_more(self.headers))

    def hello(self, *, ephemeral: bool) -> Hello:
        client = self.scope.get("client")
        return Hello(
            transport="http",
            remote="" if client is None else f"{client[0]}:{client[1]}",
            principal=self.principal,
            ephemeral=ephemeral,
            headers=self.public(),
        )


class _Endpoint:
    """The ASGI application of the endpoint; an instance, so that starlette passes every method through."""

    def __init__(self, front: HttpFront) -> None:
        self._front = front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._front.serve(scope, receive, send)


async def _refuse(send: Send, refuse: http_rules.Refuse) -> None:
    headers = [(name.encode(), value.encode()) for name, value in refuse.headers]
    await respond(send, refuse.status, refuse.body, headers)


async def _livez(_request: Request) -> Response:
    return PlainTextResponse("ok\n")
