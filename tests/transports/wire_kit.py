"""What the transport tests share: a receiver that remembers, and bounded waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import uvloop

from transports.base import Origin, TransportError

T = TypeVar("T")
WAIT_S = 20.0


def run(main: Coroutine[Any, Any, T], *, seconds: float = 50.0, loop: str = "asyncio") -> T:
    """Run `main` on a fresh loop; fail where it takes longer than `seconds`, or where a callback raised."""
    problems: list[dict[str, Any]] = []

    async def bounded() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
        return await asyncio.wait_for(main, seconds)

    make = uvloop.new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=make) as runner:
        result = runner.run(bounded())
    assert problems == []
    return result


class Recorder:
    """A receiver that keeps everything, and can be waited for."""

    def __init__(self, on_message: Callable[[bytes], None] | None = None) -> None:
        self.messages: list[bytes] = []
        self.strays: list[tuple[bytes, str, int]] = []
        self.writables: list[bool] = []
        self.endings: list[TransportError | None] = []
        self.log: list[str] = []
        self.on_message = on_message
        self._changed = asyncio.Event()

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        assert type(data) is bytes
        self.messages.append(data)
        self.log.append("message")
        self._changed.set()
        if self.on_message is not None:
            self.on_message(data)

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        assert type(data) is bytes
        self.strays.append((data, why, size))
        self.log.append("stray")
        self._changed.set()

    def failed(self, fault: TransportError) -> None:
        raise AssertionError("a stream transport has no single failures")

    def writable(self, ready: bool) -> None:
        self.writables.append(ready)
        self._changed.set()

    def closed(self, fault: TransportError | None) -> None:
        self.endings.append(fault)
        self.log.append("closed")
        self._changed.set()

    @property
    def fault(self) -> TransportError:
        """The fault that the connection ended with."""
        assert len(self.endings) == 1
        assert self.endings[0] is not None
        return self.endings[0]

    async def until(self, condition: Callable[[], object], seconds: float = WAIT_S) -> None:
        """Wait until `condition()` holds; it is looked at after every event."""
        async with asyncio.timeout(seconds):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def count(self, messages: int) -> None:
        """Wait for that many messages."""
        await self.until(lambda: len(self.messages) >= messages)

    async def end(self) -> TransportError | None:
        """Wait for the end of the connection."""
        await self.until(lambda: self.endings)
        assert self.log[-1] == "closed"
        return self.endings[0]


class SendsAll(Protocol):
    """A link that sends several messages in one go."""

    def send_all(self, many: list[bytes], /) -> object: ...


class Taker(Recorder):
    """Takes so many of the first messages of a read together, and says them back."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.link: SendsAll | None = None
        self.pieces: list[list[bytes]] = []

    def together(self, many: list[bytes]) -> int:
        self.pieces.append(list(many))
        if self.most < 0:
            raise ValueError("it takes none")
        assert self.link is not None
        self.link.send_all(many[: self.most])
        return min(self.most, len(many))


async def eventually(condition: Callable[[], object], seconds: float = WAIT_S) -> None:
    """Wait until `condition()` holds, where nothing announces it."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
