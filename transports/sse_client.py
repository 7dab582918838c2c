"""Southbound HTTP+SSE of 2024-11-05: one `SseLink` to one MCP server that still speaks it.

Owns the one event stream that everything comes on, the endpoint that it names, and the POSTs to it.
A stream that ends is the end of the connection: this transport has no resumption.
"""

from __future__ import annotations

import asyncio

import httpx2

from transports import http_headers as names
from transports.base import Id, Origin, Receiver, Stamp, TransportError
from transports.http_common import HttpOptions, closing, origin_of, with_request
from transports.http_link import PostingLink
from transports.http_outbox import Post
from transports.sse import Event, SseParser


class SseLink(PostingLink):
    """A connection to an MCP server over HTTP+SSE. Implements `transports.base.Link`.

    The stream is opened at once; what is sent before the server has named its endpoint waits for it. Made
    inside a running event loop.
    """

    def __init__(self, url: str, receiver: Receiver, options: HttpOptions | None = None) -> None:
        """Connect to the stream at `url`.

        Raises:
            TransportError: (`refused`) if `url` is not an absolute http or https URL.
        """
        super().__init__(url, receiver, options)
        self._endpoint: asyncio.Future[httpx2.URL] = asyncio.get_running_loop().create_future()
        self._crew.start(self._listen())
        self._crew.start(self._run())

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Queue one message."""
        if self._ending is not None:
            return
        post = Post(message, stamp or Stamp(kind="notification"))
        if post.stamp.kind == "request":
            post.about = post.stamp.id
        self._put(post)

    def cancel(self, request_id: Id) -> bool:
        """Return False: this transport cancels by a message."""
        del request_id
        return False

    async def _listen(self) -> None:
        url = self._http.url
        try:
            response = await self._http.open(
                "GET", url, {"accept": names.EVENTS}, timeout_s=self._options.ack_s
            )
            async with closing(response):
                if not response.is_success:
                    raise await self._http.status_fault(response)
                content_type = response.headers.get("content-type")
                if not names.is_type(content_type, names.EVENTS):
                    raise await self._http.status_fault(
                        response, f" with {content_type or 'no content type'}"
                    )
                self._http.check_plain(response)
                await self._read(response)
            raise TransportError("closed", f"{self._http.origin} ended its event stream")
        except TransportError as fault:
            self._end(fault)

    async def _read(self, response: httpx2.Response) -> None:
        parser = SseParser(self._options.limits.message_bytes)
        try:
            async with asyncio.timeout(self._options.ack_s) as naming:
                async for chunk in response.aiter_raw():
                    if not self._flowing.is_set():
                        await self._flowing.wait()
                    for event in parser.feed(chunk):
                        self._event(event)
                    if self._endpoint.done() and naming.when() is not None:
                        naming.reschedule(None)
        except TimeoutError:
            message = f"{self._http.origin} named no endpoint within {self._options.ack_s:g} s"
            raise TransportError("timeout", message) from None
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as fault:
            raise self._http.fault(fault) from None

    def _event(self, event: Event) -> None:
        if event.size is not None:
            self._receiver.stray(event.data, "too-large", size=event.size)
        elif event.event == "endpoint":
            self._named(event.data)
        elif event.event == "message" and event.data:
            self._receiver.message(event.data, Origin())

    def _named(self, data: bytes) -> None:
        if self._endpoint.done():
            return
        try:
            target = self._http.url.join(data.decode().strip())
        except (UnicodeDecodeError, httpx2.InvalidURL):
            raise TransportError("closed", f"{self._http.origin} named an endpoint that is no URL") from None
        if origin_of(target) != self._http.origin:
            message = (
                f"{self._http.origin} names an endpoint at {origin_of(target)}, which was not configured"
            )
            raise TransportError("denied", message)
        self._endpoint.set_result(target)

    async def _run(self) -> None:
        endpoint = await self._endpoint
        while True:
            post = await self._outbox.take()
            try:
                await self._carry(endpoint, post)
            except TransportError as fault:
                if fault.details.get("status") == 404:
                    self._end(
                        TransportError("session-lost", f"{self._http.origin} has forgotten the session")
                    )
                else:
                    self._receiver.failed(with_request(fault, post.about, sent=post.sent))
            self._outbox.done(post)

    async def _carry(self, endpoint: httpx2.URL, post: Post) -> None:
        headers = {"content-type": names.JSON, "accept": "*/*"}
        if post.stamp.version is not None and post.stamp.method != "initialize":
            headers[names.VERSION] = post.stamp.version
        headers.update(post.stamp.headers)
        response = await self._post(endpoint, headers, post, self._options.ack_s)
        async with closing(response):
            if not response.is_success:
                raise await self._http.status_fault(response)
            await self._http.body(response)

    def _is_posting(self) -> bool:
        return self._endpoint.done()

    async def _take_leave(self, fault: TransportError | None) -> None:
        self._endpoint.cancel()
