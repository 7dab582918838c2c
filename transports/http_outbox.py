"""What waits to be posted: messages in order, bounded in bytes, and the tasks that carry them.

Owns the queue of an HTTP link and its water marks, and that all tasks of a link end with it. Posts nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from transports.base import Id, Limits, Receiver, Stamp, TransportError


@dataclass(slots=True, eq=False)
class Post:
    """One message on its way."""

    message: bytes
    stamp: Stamp
    about: Id | None = None
    """The id, where the message is a request."""
    sessionless: bool = False
    task: asyncio.Task[None] | None = None
    written: asyncio.Event = field(default_factory=asyncio.Event)
    sent: bool = False
    """Whether a byte of it may have left."""
    answered: bool = False
    dropped: bool = False

    def heard(self, event: str) -> None:
        """Note what an `http_common.Hook` hears."""
        if event == "sending":
            self.sent = True
        else:
            self.written.set()


class Outbox:
    """A queue of posts that tells its receiver when it is full and when it has drained."""

    def __init__(self, limits: Limits, receiver: Receiver) -> None:
        self.queued_bytes = 0
        """Bytes put in and not yet done."""
        self._limits = limits
        self._receiver = receiver
        self._posts: deque[Post] = deque()
        self._work = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._held_back = False

    @property
    def overfull(self) -> bool:
        """Whether more waits than a link may hold."""
        return self.queued_bytes > self._limits.hard_bytes

    def put(self, post: Post) -> None:
        """Add a post at the end."""
        self._posts.append(post)
        self._drained.clear()
        self._work.set()
        self.queued_bytes += len(post.message)
        if not self._held_back and self.queued_bytes > self._limits.high_bytes:
            self._held_back = True
            self._receiver.writable(False)  # noqa: FBT003

    async def take(self) -> Post:
        """Wait for the first post and remove it; `done` follows when it has been written."""
        while not self._posts:
            self._drained.set()
            self._work.clear()
            await self._work.wait()
        return self._posts.popleft()

    def done(self, post: Post) -> None:
        """Note that the bytes of a post are not held any more."""
        self.queued_bytes -= len(post.message)
        if self._held_back and self.queued_bytes <= self._limits.low_bytes:
            self._held_back = False
            self._receiver.writable(True)  # noqa: FBT003

    async def drain(self, seconds: float) -> None:
        """Wait until everything is done, for at most so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._drained.wait()
        except TimeoutError:
            pass


class Crew:
    """The tasks of one link. A task that fails is a fault of ours, and reported."""

    def __init__(self, failed: Callable[[TransportError], None]) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed = failed

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run `work` until it ends or `dismiss` is called."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def dismiss(self) -> None:
        """End all tasks and wait for them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            why = f"the HTTP transport failed: {type(bug).__name__}: {bug}"
            self._failed(TransportError("internal", why))
