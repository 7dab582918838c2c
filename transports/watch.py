"""One descriptor through which an event loop watches many that seldom have anything to say.

Owns who is called when one of them can be read. A descriptor that a loop watches by itself costs it half a kilobyte,
and an idle server has three that tell of its end alone. What carries messages is watched by the loop: a look at
what lies behind one more descriptor is one more system call each time.
"""

from __future__ import annotations

import asyncio
import select
import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:

    class Watching(Protocol):
        """Who watches a descriptor. Itself, not a method of it, which would be one more object for each."""

        def noticed(self) -> None:
            """The descriptor can be read, or nothing will come of it any more."""
            ...


class Watch:
    """What is watched on one loop: told there, again and again while there is something to read."""

    __slots__ = ("_loop", "_poll", "_watching")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._watching: dict[int, Watching] = {}
        self._poll: select.epoll | None = None

    def add(self, descriptor: int, who: Watching) -> None:
        """Tell `who` whenever the descriptor can be read, or nothing will come of it any more."""
        if not self._watching:
            self._open()
        if self._poll is None:
            if (loop := self._loop()) is not None:
                loop.add_reader(descriptor, who.noticed)
        elif descriptor not in self._watching:
            self._poll.register(descriptor, select.EPOLLIN)
        self._watching[descriptor] = who

    def remove(self, descriptor: int) -> None:
        """Tell nobody any more, if that was wanted. To be called before the descriptor is closed."""
        if self._watching.pop(descriptor, None) is None:
            return
        loop = self._loop()
        if self._poll is None:
            if loop is not None:
                loop.remove_reader(descriptor)
            return
        self._poll.unregister(descriptor)
        if not self._watching:
            if loop is not None:
                loop.remove_reader(self._poll.fileno())
            self._poll.close()
            self._poll = None

    def _open(self) -> None:
        loop = self._loop()
        # Where there is no such thing on this system, or no descriptor for it, the loop watches each by itself.
        if self._poll is None and loop is not None and hasattr(select, "epoll"):
            try:
                poll = select.epoll()
            except OSError:
                return
            loop.add_reader(poll.fileno(), self._look)
            self._poll = poll

    def _look(self) -> None:
        if self._poll is None:
            return
        ready = [(descriptor, self._watching.get(descriptor)) for descriptor, _ in self._poll.poll(0)]
        for descriptor, who in ready:
            # Who was told before may have ended the watch, and closed what is another's by now.
            if who is None or self._watching.get(descriptor) is not who:
                continue
            try:
                who.noticed()
            except Exception as fault:  # noqa: BLE001 - a fault of one must not keep the others from being told
                loop = self._loop()
                if loop is not None:
                    context = {"message": "what watches a descriptor has failed", "exception": fault}
                    loop.call_exception_handler(context)


_watches: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Watch] = weakref.WeakKeyDictionary()


def watch_of(loop: asyncio.AbstractEventLoop) -> Watch:
    """The one `Watch` of this loop."""
    watch = _watches.get(loop)
    if watch is None:
        watch = _watches[loop] = Watch(loop)
    return watch
