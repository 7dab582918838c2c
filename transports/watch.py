"""One descriptor through which an event loop watches many that seldom have anything to say.

Owns who is called when one of them can be read. A descriptor that a loop watches by itself costs it half a kilobyte,
and an idle server has three that tell of its end alone. What carries messages is watched by the loop: a look at
what lies behind one more descriptor is one more system call each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    Call: TypeAlias = Callable[[], object]


class Watch:
    """What is watched on one loop: called there, again and again while there is something to read."""

    __slots__ = ("_calls", "_loop", "_poll")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._calls: dict[int, Call] = {}
        self._poll: select.epoll | None = None

    def add(self, descriptor: int, call: Call) -> None:
        """Call whenever the descriptor can be read, or nothing will come of it any more."""
        if not self._calls:
            self._open()
        if self._poll is None:
            if (loop := self._loop()) is not None:
                loop.add_reader(descriptor, call)
        elif descriptor not in self._calls:
            self._poll.register(descriptor, select.EPOLLIN)
        self._calls[descriptor] = call

    def remove(self, descriptor: int) -> None:
        """Call no more, if that was wanted. To be called before the descriptor is closed."""
        if self._calls.pop(descriptor, None) is None:
            return
        loop = self._loop()
        if self._poll is None:
            if loop is not None:
                loop.remove_reader(descriptor)
            return
        self._poll.unregister(descriptor)
        if not self._calls:
            if loop is not None:
                loop.remove_reader(self._poll.fileno())
            self._poll.close()
            self._poll = None

    def _open(self) -> None:
        loop = self._loop()
        if self._poll is None and loop is not None and hasattr(select, "epoll"):
            # Where there is no descriptor for it, or no such thing on this system, the loop watches each by itself.
            with contextlib.suppress(OSError):
                self._poll = select.epoll()
                loop.add_reader(self._poll.fileno(), self._look)

    def _look(self) -> None:
        if self._poll is None:
            return
        ready = [(descriptor, self._calls.get(descriptor)) for descriptor, _ in self._poll.poll(0)]
        for descriptor, call in ready:
            # What was called before may have ended the watch, and closed what is another's by now.
            if call is None or self._calls.get(descriptor) is not call:
                continue
            try:
                call()
            except Exception as fault:  # noqa: BLE001 - a fault of one must not keep the others from being called
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
