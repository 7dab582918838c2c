"""The joined pair: order, ends, holding back, on the loop and at once."""

from __future__ import annotations

import asyncio

import pytest

from tests.transports.wire_kit import Recorder, run
from transports.base import Hello, Limits, Link, Receiver, TransportError
from transports.memory import MemoryLink, connect_memory, memory_pair


def joined(
    *, synchronous: bool, limits: Limits | None = None
) -> tuple[MemoryLink, Recorder, MemoryLink, Recorder]:
    one, two = memory_pair(synchronous=synchronous, limits=limits)
    first, second = Recorder(), Recorder()
    one.start(first)
    two.start(second)
    return one, first, two, second


@pytest.mark.parametrize("synchronous", [True, False])
def test_messages_go_both_ways_in_order_and_close_comes_last(synchronous: bool) -> None:
    async def main() -> None:
        one, first, two, second = joined(synchronous=synchronous)
        for n in range(10):
            one.send(b"%d" % n)
            two.send(b"back %d" % n)
        await second.count(10)
        one.send(b"last")
        one.close()
        one.send(b"too late")
        assert await second.end() is None
        assert await first.end() is None
        two.send(b"to nobody")
        await asyncio.sleep(0)
        assert second.messages == [*(b"%d" % n for n in range(10)), b"last"]
        assert first.messages == [b"back %d" % n for n in range(10)]
        assert len(first.endings) == len(second.endings) == 1

    run(main())


def test_at_once_means_before_send_returns_and_without_a_loop() -> None:
    one, two = memory_pair(synchronous=True)
    got: list[bytes] = []

    class Echo:
        def message(self, data: bytes, origin: object = None) -> None:
            got.append(data)
            if len(data) < 5:
                two.send(data + b"x")
                got.append(b"after")

        def stray(self, data: bytes, why: str, *, size: int) -> None: ...
        def failed(self, fault: TransportError) -> None: ...
        def writable(self, ready: bool) -> None: ...
        def closed(self, fault: TransportError | None) -> None: ...

    class Back(Echo):
        def message(self, data: bytes, origin: object = None) -> None:
            one.send(data)

    one.start(Back())
    two.start(Echo())
    one.send(b"x")
    # An answer to an answer waits until the first call has returned: calls do not nest.
    assert got == [b"x", b"after", b"xx", b"after", b"xxx", b"after", b"xxxx", b"after", b"xxxxx"]


def test_on_the_loop_means_not_before_send_returns() -> None:
    async def main() -> None:
        one, _first, _two, second = joined(synchronous=False)
        one.send(b"x")
        assert second.messages == []
        await second.count(1)

    run(main())


def test_pause_holds_back_and_queued_bytes_tell_it() -> None:
    async def main() -> None:
        limits = Limits(high_bytes=10, low_bytes=4, hard_bytes=1000)
        one, first, two, second = joined(synchronous=True, limits=limits)
        two.pause()
        for _ in range(4):
            one.send(b"123")
        assert second.messages == []
        assert one.queued_bytes == 12
        assert first.writables == [False]
        two.resume()
        assert second.messages == [b"123"] * 4
        assert first.writables == [False, True]
        assert one.queued_bytes == 0

    run(main())


def test_too_much_that_nobody_takes_ends_both() -> None:
    async def main() -> None:
        one, first, two, second = joined(synchronous=True, limits=Limits(hard_bytes=100))
        two.pause()
        for _ in range(50):
            one.send(b"12345")
        two.resume()
        assert first.fault.reason == second.fault.reason == "slow-consumer"

    run(main())


def test_an_odd_code_is_a_fault_for_the_other_end_alone() -> None:
    one, first, _two, second = joined(synchronous=True)
    one.close(1011, "broken")
    assert first.endings == [None]
    assert second.fault.details == {"code": 1011, "reason": "broken"}


def test_abort_loses_what_is_under_way() -> None:
    async def main() -> None:
        one, first, _two, second = joined(synchronous=False)
        one.send(b"lost")
        one.abort(TransportError("closed", "cut"))
        assert (await first.end()) is not None
        assert (await second.end()) is not None
        assert second.messages == []

    run(main())


def test_an_acceptor_in_this_process_is_reached_like_any_other() -> None:
    async def main() -> None:
        hellos: list[Hello] = []

        def acceptor(link: Link, hello: Hello) -> Receiver:
            hellos.append(hello)
            link.send(b"welcome")
            return Recorder(link.send)

        receiver = Recorder()
        link = connect_memory(acceptor, receiver, name="a test")
        link.send(b"{}")
        await receiver.count(2)
        assert receiver.messages == [b"welcome", b"{}"]
        assert hellos == [Hello(transport="memory", remote="a test")]
        assert not link.stamped
        assert not link.cancel(1)

    run(main())
