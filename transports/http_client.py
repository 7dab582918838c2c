"""Southbound streamable HTTP: one `HttpLink` to one MCP server, in the session revisions and after them.

Owns the headers of a POST, the order in which POSTs leave, the session id, the streams that answers come on, and
their resumption. Knows no methods but the two that open a session, and reads of a message only
whether it is the answer that a stream waits for.

Order: a message leaves when all sent before it has been written, and when a notification or response before
it has been acknowledged. So nothing overtakes `notifications/initialized`, and no cancel its request.
"""

from __future__ import annotations

import asyncio
from typing import Final

import httpx2

from transports import http_headers as names
from transports.base import Id, Origin, Receiver, Stamp, TransportError
from transports.http_common import HttpOptions, closing, with_request
from transports.http_link import PostingLink
from transports.http_outbox import Post
from transports.http_peek import look, same_id
from transports.sse import Event, SseParser

_ACCEPT: Final = f"{names.JSON}, {names.EVENTS}"
_LINGER_S: Final = 1.0
"""How long a stream is read past its answer, so that its connection can be used again."""
_GIVE_UP_S: Final = 5.0
"""How long a cancelled request of the session revisions may still be answered before its stream is closed."""
_LONGEST_RETRY_S: Final = 30.0
_METHOD_NOT_FOUND: Final = -32601


class HttpLink(PostingLink):
    """A connection to an MCP server over streamable HTTP. Implements `transports.base.Link`.

    Nothing is opened before the first `send`. Made inside a running event loop. `closed` comes once, after
    `close`, or with reason `session-lost` when the server has forgotten the session.
    """

    def __init__(self, url: str, receiver: Receiver, options: HttpOptions | None = None) -> None:
        """Prepare a link to the endpoint `url`.

        Raises:
            TransportError: (`refused`) if `url` is not an absolute http or https URL.
        """
        super().__init__(url, receiver, options)
        self._calls: dict[Id, Post] = {}
        self._pump: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._session: str | None = None
        self._version: str | None = None
        self._sessionless = False

    @property
    def session_id(self) -> str | None:
        """The session that the server opened, if any."""
        return self._session

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Queue one message; its `stamp` says what it is and under which version it goes."""
        if self._ending is not None:
            return
        if stamp is None:
            stamp = Stamp(kind="notification")
        self._sessionless = not names.keeps_sessions(stamp.version)
        post = Post(message, stamp, sessionless=self._sessionless)
        if stamp.kind == "request":
            post.about = stamp.id
            if stamp.id is not None:
                self._calls[stamp.id] = post
        self._put(post)
        if self._pump is None and self._ending is None:
            self._pump = self._crew.start(self._run())

    def cancel(self, request_id: Id) -> bool:
        """End the stream of a request where that cancels it (2026-07-28 and later).

        In the session revisions a closed stream means nothing: False, and the stream is given up some seconds
        after, so that a server that never answers costs nothing for ever.
        """
        post = self._calls.get(request_id)
        if post is None:
            return self._sessionless
        if not post.sessionless:
            asyncio.get_running_loop().call_later(_GIVE_UP_S, self._drop, post)
            return False
        self._drop(post)
        return True

    # Sending

    async def _run(self) -> None:
        while True:
            post = await self._outbox.take()
            if post.about is None:
                await self._notify(post)
            elif not post.dropped:
                post.task = self._crew.start(self._call(post))
                await post.written.wait()
            self._outbox.done(post)

    def _headers(self, stamp: Stamp | None, *, sessionless: bool) -> dict[str, str]:
        headers = {"accept": _ACCEPT, "content-type": names.JSON}
        version = self._version if stamp is None or stamp.version is None else stamp.version
        if stamp is not None and stamp.method == "initialize":
            version = None
        if version is not None:
            headers[names.VERSION] = version
        if not sessionless:
            self._version = version
            if self._session is not None:
                headers[names.SESSION] = self._session
        elif stamp is not None:
            if stamp.method is not None:
                headers[names.METHOD] = stamp.method
            if stamp.name is not None:
                headers[names.NAME] = names.encode_value(stamp.name)
        if stamp is not None:
            headers.update(stamp.headers)
        return headers

    async def _notify(self, post: Post) -> None:
        stamp = post.stamp
        try:
            headers = self._headers(stamp, sessionless=post.sessionless)
            response = await self._post(self._http.url, headers, post, self._options.ack_s)
            async with closing(response):
                if self._session_lost(response, post):
                    self._end(self._lost())
                    return
                if not response.is_success:
                    raise await self._http.status_fault(response)
                await self._http.body(response)
        except TransportError as fault:
            fault = with_request(fault, None, sent=post.sent)
            fault.details["kind"] = stamp.kind
            if stamp.method is not None:
                fault.details["method"] = stamp.method
            self._receiver.failed(fault)
            return
        if stamp.method == "notifications/initialized" and not post.sessionless and self._session is not None:
            self._listener = self._crew.start(self._listen())

    # Requests and their streams

    async def _call(self, post: Post) -> None:
        try:
            await self._exchange(post)
        except TransportError as fault:
            if not post.answered and not post.dropped:
                self._forget(post)
                self._receiver.failed(with_request(fault, post.about, sent=post.sent))
        finally:
            post.written.set()
            self._forget(post)

    async def _exchange(self, post: Post) -> None:
        stamp = post.stamp
        headers = self._headers(stamp, sessionless=post.sessionless)
        response = await self._post(self._http.url, headers, post, self._options.answer_s)
        post.written.set()
        async with closing(response):
            if not response.is_success or response.status_code == 202:
                await self._refused(post, response)
                return
            if stamp.method == "initialize":
                self._session = response.headers.get(names.SESSION)
            content_type = response.headers.get("content-type")
            if names.is_type(content_type, names.JSON):
                body = await self._http.body(response)
                if body:
                    self._deliver(body, post)
                if not post.answered:
                    raise self._http.status_error(response, body, " without an answer to the request")
                return
            if not names.is_type(content_type, names.EVENTS):
                raise await self._http.status_fault(response, f" with {content_type or 'no content type'}")
            self._http.check_plain(response)
            parser = SseParser(self._options.limits.message_bytes)
            retry_s = await self._read(response, parser, post)
        if not post.answered:
            await self._resume(post, parser, retry_s)

    async def _refused(self, post: Post, response: httpx2.Response) -> None:
        """Handle an answer that is no success: a JSON-RPC error is a message, the rest is a fault."""
        if response.status_code == 202:
            raise await self._http.status_fault(response, ", but a request needs an answer")
        head = b""
        if names.is_type(response.headers.get("content-type"), names.JSON):
            head = await self._http.body(response)
            peeked = look(head)
            ours = peeked is not None and peeked.code != 0 and same_id(peeked.id, post.about)
            unknown_method = peeked is not None and peeked.code == _METHOD_NOT_FOUND
            if ours and (unknown_method or not self._session_lost(response, post)):
                self._deliver(head, post)
                return
        if self._session_lost(response, post):
            fault = self._http.status_error(response, head)
            fault.reason = "session-lost"
            fault.details["refused"] = True
            self._forget(post)
            self._receiver.failed(with_request(fault, post.about, sent=post.sent))
            self._end(self._lost())
            return
        raise self._http.status_error(response, head) if head else await self._http.status_fault(response)

    async def _read(self, response: httpx2.Response, parser: SseParser, post: Post | None) -> float | None:
        """Read a stream to its end; return the reconnection time in seconds that it named last.

        A break counts as the end. What comes after the answer is still delivered, for a moment.
        """
        retry_s: float | None = None
        try:
            async with asyncio.timeout(None) as linger:
                async for chunk in response.aiter_raw():
                    if not self._flowing.is_set():
                        await self._flowing.wait()
                    for event in parser.feed(chunk):
                        if event.retry is not None:
                            retry_s = event.retry / 1000
                        self._event(event, post)
                    if parser.overflowing and post is not None and not post.answered:
                        raise self._http.too_large(None)
                    if post is not None and post.answered and linger.when() is None:
                        linger.reschedule(asyncio.get_running_loop().time() + _LINGER_S)
        except (TimeoutError, httpx2.HTTPError, httpx2.StreamError, OSError):
            pass
        return retry_s

    def _event(self, event: Event, post: Post | None) -> None:
        if event.size is not None:
            if post is None or post.answered:
                self._receiver.stray(event.data, "too-large", size=event.size)
                return
            raise self._http.too_large(event.size)
        if event.data and event.event == "message":
            self._deliver(event.data, post)

    def _deliver(self, data: bytes, post: Post | None) -> None:
        if post is None or post.dropped:
            if post is None:
                self._receiver.message(data, Origin())
            return
        if not post.answered:
            peeked = look(data)
            if peeked is not None and peeked.answers and same_id(peeked.id, post.about):
                post.answered = True
                self._forget(post)
        self._receiver.message(data, Origin(about=post.about))

    async def _resume(self, post: Post, parser: SseParser, retry_s: float | None) -> None:
        """Take a cut stream up again, where the server gave its events ids."""
        options = self._options
        attempts = 0
        while not post.answered:
            if post.sessionless or parser.last_id is None or attempts >= options.max_retries:
                message = f"{self._http.origin} ended the stream of a request before its answer"
                raise TransportError("closed", message, {"resumed": attempts})
            await asyncio.sleep(options.retry_s if retry_s is None else retry_s)
            seen = parser.last_id
            parser = SseParser(options.limits.message_bytes, seen)
            try:
                response = await self._get(seen)
            except TransportError as fault:
                if fault.reason not in ("refused", "closed", "timeout"):
                    raise
                attempts += 1
                continue
            async with closing(response):
                if not response.is_success or not names.is_type(
                    response.headers.get("content-type"), names.EVENTS
                ):
                    raise await self._http.status_fault(response, " when its stream was to be resumed")
                named = await self._read(response, parser, post)
            retry_s = retry_s if named is None else named
            attempts = attempts + 1 if parser.last_id == seen else 0

    # The session's own stream

    async def _get(self, last_id: str | None) -> httpx2.Response:
        headers = self._headers(None, sessionless=False)
        headers["accept"] = names.EVENTS
        del headers["content-type"]
        if last_id is not None:
            headers[names.LAST_EVENT] = last_id
        return await self._http.open("GET", self._http.url, headers, timeout_s=self._options.answer_s)

    async def _listen(self) -> None:
        """Keep the stream of the session open, for messages that belong to no request."""
        delay_s = self._options.retry_s
        retry_s = self._options.retry_s
        parser = SseParser(self._options.limits.message_bytes)
        while True:
            fruitful = False
            try:
                response = await self._get(parser.last_id)
                async with closing(response):
                    if 400 <= response.status_code < 500:
                        return
                    if response.is_success:
                        if not names.is_type(response.headers.get("content-type"), names.EVENTS):
                            return
                        seen = parser.last_id
                        parser = SseParser(self._options.limits.message_bytes, seen)
                        named = await self._read(response, parser, None)
                        retry_s = retry_s if named is None else named
                        fruitful = named is not None or parser.last_id != seen
            except TransportError as fault:
                if fault.reason == "denied":
                    return
            delay_s = retry_s if fruitful else min(max(delay_s * 2, retry_s), _LONGEST_RETRY_S)
            await asyncio.sleep(delay_s)

    # The end

    def _session_lost(self, response: httpx2.Response, post: Post) -> bool:
        return response.status_code == 404 and self._session is not None and not post.sessionless

    def _lost(self) -> TransportError:
        return TransportError(
            "session-lost", f"{self._http.origin} has forgotten the session", {"status": 404}
        )

    def _is_posting(self) -> bool:
        return self._pump is not None

    async def _take_leave(self, fault: TransportError | None) -> None:
        if fault is None and self._session is not None:
            await self._delete()
        self._calls.clear()

    async def _delete(self) -> None:
        try:
            headers = self._headers(None, sessionless=False)
            response = await self._http.open(
                "DELETE", self._http.url, headers, timeout_s=self._options.close_s
            )
            await response.aclose()
        except TransportError:
            pass  # The server ends the session by itself in time.

    def _forget(self, post: Post) -> None:
        if post.about is not None and self._calls.get(post.about) is post:
            del self._calls[post.about]

    def _drop(self, post: Post) -> None:
        post.dropped = True
        post.written.set()
        self._forget(post)
        if post.task is not None:
            post.task.cancel()
