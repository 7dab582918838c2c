"""Southbound HTTP+SSE of 2024-11-05: one `SseLink` to one MCP server that still speaks it.

Owns the one event stream that everything comes on, the endpoint that it names, and the POSTs to it.
A stream that ends is the end of the connection: this transport has no resumption.
"""

from __future__ import annotations

import asyncio

import httpx2

from transports import http_headers as names
from transports.base import Id, Origin, Receiver, Stamp, TransportError
from transports.http_common import HttpClient, HttpOptions, closing, origin_of, with_request
from transports.http_outbox import Crew, Outbox, Post
from transports.sse import Event, SseParser


class SseLink:
    """A connection to an MCP server over HTTP+SSE. Implements `transports.base.Link`.

    The stream is opened at once; what is sent before the server has named its endpoint waits for it. Made
    inside a running event loop.
    """

    stamped = True

    def __init__(self, url: str, receiver: Receiver, options: HttpOptions | None = None) -> None:
        """Connect to the stream at `url`.

        Raises:
            TransportError: (`refused`) if `url` is not an absolute http or https URL.
        """
        self._options = options or HttpOptions()
        self._http = HttpClient(url, self._options)
        self._receiver = receiver
        self._outbox = Outbox(self._options.limits, receiver)
        self._crew = Crew(self._end)
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._endpoint: asyncio.Future[httpx2.URL] = asyncio.get_running_loop().create_future()
        self._ending: asyncio.Task[None] | None = None
        self._crew.start(self._listen())
        self._crew.start(self._run())

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted by `send` that have not been posted."""
        return self._outbox.queued_bytes

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Queue one message."""
        if self._ending is not None:
            return
        post = Post(message, stamp or Stamp(kind="notification"))
        if post.stamp.kind == "request":
            post.about = post.stamp.id
        self._outbox.put(post)
        if self._outbox.overfull:
            held: dict[str, object] = {"queued": self._outbox.queued_bytes}
            self._end(TransportError("slow-consumer", f"{self._http.origin} takes no messages", held))

    def cancel(self, request_id: Id) -> bool:
        """Return False: this transport cancels by a message."""
        del request_id
        return False

    def pause(self) -> None:
        """Stop reading the stream."""
        self._flowing.clear()

    def resume(self) -> None:
        """Read again."""
        self._flowing.set()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Send what is queued, then close the stream."""
        del code, reason
        self._end(None)

    async def wait_closed(self) -> None:
        """Return once `closed` has been called."""
        if self._ending is not None:
            await asyncio.wait((self._ending,))

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
                await self._post(endpoint, post)
            except TransportError as fault:
                if fault.details.get("status") == 404:
                    self._end(
                        TransportError("session-lost", f"{self._http.origin} has forgotten the session")
                    )
                else:
                    self._receiver.failed(with_request(fault, post.about, sent=post.sent))
            self._outbox.done(post)

    async def _post(self, endpoint: httpx2.URL, post: Post) -> None:
        headers = {"content-type": names.JSON, "accept": "*/*"}
        if post.stamp.version is not None and post.stamp.method != "initialize":
            headers[names.VERSION] = post.stamp.version
        headers.update(post.stamp.headers)
        response = await self._http.open(
            "POST",
            endpoint,
            headers,
            content=post.message,
            timeout_s=self._options.ack_s,
            hook=post.heard,
        )
        async with closing(response):
            if not response.is_success:
                raise await self._http.status_fault(response)
            await self._http.body(response)

    def _end(self, fault: TransportError | None) -> None:
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._finish(fault))

    async def _finish(self, fault: TransportError | None) -> None:
        if fault is None and self._endpoint.done():
            await self._outbox.drain(self._options.close_s)
        await self._crew.dismiss()
        self._endpoint.cancel()
        await self._http.close()
        self._receiver.closed(fault)
