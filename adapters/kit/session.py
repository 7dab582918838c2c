"""One connection of an extension, as far as it is the same in both dialects.

Owns its state, the list of the calls that are running and the way out for messages from any thread. What is said is
`mcp_session`'s and `pi_session`'s.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING

from adapters.kit.app import App
from adapters.kit.context import Context

if TYPE_CHECKING:
    from transports.base import Id, Link, TransportError


class Session:
    """The extension's end of one connection."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.link: Link | None = None
        self.ended = asyncio.Event()
        """Set once the extension is to end."""
        self.gone = asyncio.Event()
        """Set once the connection has ended."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._calls: dict[Id, tuple[asyncio.Task[None], Context]] = {}
        """What is running, by what it is cancelled by."""
        self._count = 0
        self._writable = True

    # What the transport calls.

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """Say on stderr what was skipped."""
        self._complain(f"skipped {size} bytes that are no message ({why})")

    def failed(self, fault: TransportError) -> None:
        """Only a transport with one stream per request has this."""

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - the interface of `Receiver`
        """While the other side does not read, progress and logs are dropped; answers are kept."""
        self._writable = ready

    def closed(self, fault: TransportError | None) -> None:
        """Cancel what is running: nobody is there to be answered."""
        self.gone.set()
        self.app.hops.left()
        self.stop()

    # What whoever serves calls.

    def stop(self) -> None:
        """Have the extension end: cancel what is running."""
        raise NotImplementedError

    async def settle(self) -> None:
        """Wait until every cancelled call has let go."""
        await asyncio.gather(*(task for task, _ in self._calls.values()), return_exceptions=True)

    # What a call says.

    def next_id(self) -> str:
        """An id of our own."""
        self._count += 1
        return f"{self.app.name}-{self._count}"

    def _send(self, message: bytes, *, may_drop: bool = False) -> None:
        """Send one message, from any thread. One that may be dropped is, while the other side does not read."""
        if threading.get_ident() == self._thread:
            self._write(message, may_drop)
        else:
            self._loop.call_soon_threadsafe(self._write, message, may_drop)

    def _write(self, message: bytes, may_drop: bool) -> None:  # noqa: FBT001 - the loop calls it by place
        if self.link is not None and (self._writable or not may_drop):
            self.link.send(message)

    def _complain(self, what: str) -> None:
        sys.stderr.write(f"{self.app.name}: {what}\n")

    def _cancel(self, task: asyncio.Task[None], context: Context) -> None:
        context.cancelled = True
        # One turn later: a task that has not begun would otherwise end without its one result, and stay on the list.
        self._loop.call_soon(task.cancel)
