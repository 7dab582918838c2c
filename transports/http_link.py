"""What both southbound HTTP links have in common: messages go out as POSTs, in order, and all ends together.

Owns the outbox, the tasks and the ending of a link. Which POST carries a message, and on which streams answers come,
is `http_client` for streamable HTTP and `sse_client` for what came before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx2

from transports.base import Receiver, TransportError
from transports.http_common import HttpClient, HttpOptions
from transports.http_outbox import Crew, Outbox, Post


class PostingLink:
    """The common half of `HttpLink` and `SseLink`. Made inside a running event loop."""

    stamped = True

    def __init__(self, url: str, receiver: Receiver, options: HttpOptions | None = None) -> None:
        self._options = options or HttpOptions()
        self._http = HttpClient(url, self._options)
        self._receiver = receiver
        self._outbox = Outbox(self._options.limits, receiver)
        self._crew = Crew(self._end)
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._ending: asyncio.Task[None] | None = None

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted by `send` that have not been written to a connection."""
        return self._outbox.queued_bytes

    def pause(self) -> None:
        """Stop reading all streams: the server is held back by their windows."""
        self._flowing.clear()

    def resume(self) -> None:
        """Read again."""
        self._flowing.set()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Send what is queued, take leave of the server, close every stream."""
        del code, reason
        self._end(None)

    async def wait_closed(self) -> None:
        """Return once `closed` has been called."""
        if self._ending is not None:
            await asyncio.wait((self._ending,))

    def _put(self, post: Post) -> None:
        """Queue a message; one too many ends the link."""
        self._outbox.put(post)
        if self._outbox.overfull:
            held: dict[str, object] = {"queued": self._outbox.queued_bytes}
            self._end(TransportError("slow-consumer", f"{self._http.origin} takes no messages", held))

    async def _post(
        self, url: httpx2.URL, headers: Mapping[str, str], post: Post, timeout_s: float
    ) -> httpx2.Response:
        return await self._http.open(
            "POST", url, headers, content=post.message, timeout_s=timeout_s, hook=post.heard
        )

    def _end(self, fault: TransportError | None) -> None:
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._finish(fault))

    async def _finish(self, fault: TransportError | None) -> None:
        if fault is None and self._is_posting():
            await self._outbox.drain(self._options.close_s)
        await self._crew.dismiss()
        await self._take_leave(fault)
        await self._http.close()
        self._receiver.closed(fault)

    def _is_posting(self) -> bool:
        """Whether what is queued can still leave."""
        raise NotImplementedError

    async def _take_leave(self, fault: TransportError | None) -> None:
        """Do what is left to do when all tasks have ended."""
        raise NotImplementedError
