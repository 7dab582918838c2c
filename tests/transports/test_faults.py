"""Faults by rule: the decisions by themselves, and what they do to real connections."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.transports.wire_kit import Recorder, run
from transports.base import Hello, Link, Receiver
from transports.faults import Plan, Rule, faulty
from transports.lines import LineLink
from transports.memory import MemoryLink, connect_memory
from transports.unix import UnixListener, connect_unix


class Service:
    """Answers every message with itself; may be told to wait with what it says."""

    def __init__(self) -> None:
        self.receivers: list[Recorder] = []

    def __call__(self, link: Link, hello: Hello) -> Receiver:
        self.receivers.append(Recorder(link.send))
        return self.receivers[-1]


def reach(*rules: Rule) -> tuple[MemoryLink, Recorder, Service]:
    service, receiver = Service(), Recorder()
    return connect_memory(faulty(service, rules), receiver), receiver, service


@contextlib.asynccontextmanager
async def over_a_socket(path: Path, *rules: Rule) -> AsyncGenerator[tuple[LineLink, Recorder]]:
    listener = UnixListener(path / "own" / "s", faulty(Service(), rules))
    await listener.start()
    receiver = Recorder()
    link = await connect_unix(listener.address, receiver)
    try:
        yield link, receiver
    finally:
        link.close()
        await receiver.end()
        await listener.stop()


@given(
    first=st.integers(1, 5),
    every=st.integers(1, 4),
    times=st.none() | st.integers(1, 4),
    count=st.integers(0, 30),
)
def test_a_rule_strikes_from_its_first_every_so_often_so_many_times(
    first: int, every: int, times: int | None, count: int
) -> None:
    plan = Plan([Rule(deed="drop", containing=b"x", first=first, every=every, times=times)])
    struck = [n for n in range(1, count + 1) if (plan.strike("out", b"no"), plan.strike("out", b"x"))[1]]
    assert struck == list(range(first, count + 1, every))[:times]
    assert plan.strike("in", b"x") == []


def test_dropped_and_doubled_and_garbage() -> None:
    async def main() -> None:
        link, receiver, _service = reach(
            Rule(deed="drop", containing=b"a"),
            Rule(deed="duplicate", containing=b"b"),
            Rule(deed="garbage", containing=b"c", data=b"%%"),
        )
        for message in (b"a", b"b", b"c", b"d"):
            link.send(message)
        await receiver.count(5)
        assert receiver.messages == [b"b", b"b", b"%%", b"c", b"d"]

    run(main())


def test_a_delayed_message_holds_back_the_later_ones() -> None:
    async def main() -> None:
        link, receiver, service = reach(
            Rule(deed="delay", containing=b"2", delay_s=0.02), Rule(deed="duplicate", containing=b"2")
        )
        for n in range(5):
            link.send(b"%d" % n)
        await receiver.count(6)
        assert receiver.messages == [b"0", b"1", b"2", b"2", b"3", b"4"]
        assert service.receivers[0].messages == [b"0", b"1", b"2", b"3", b"4"]

    run(main())


def test_incoming_messages_are_struck_too() -> None:
    async def main() -> None:
        link, receiver, service = reach(Rule(deed="drop", way="in", first=2, every=2, times=None))
        for n in range(6):
            link.send(b"%d" % n)
        await receiver.count(3)
        assert receiver.messages == service.receivers[0].messages == [b"0", b"2", b"4"]

    run(main())


def test_a_cut_ends_the_connection_in_place_of_the_message() -> None:
    async def main() -> None:
        link, receiver, service = reach(Rule(deed="cut", first=3))
        for n in range(5):
            link.send(b"%d" % n)
        await receiver.end()
        assert b"2" not in receiver.messages
        await service.receivers[0].end()

    run(main())


def test_half_an_incoming_message_is_what_is_left_of_a_stream() -> None:
    async def main() -> None:
        link, _receiver, service = reach(Rule(deed="half", way="in"))
        link.send(b"12345678")
        fault = await service.receivers[0].end()
        assert fault is not None
        assert service.receivers[0].strays == [(b"1234", "partial", 4)]

    run(main())


def test_half_a_line_on_a_real_socket_is_a_partial_stray_and_a_fault(tmp_path: Path) -> None:
    async def main() -> None:
        async with over_a_socket(tmp_path, Rule(deed="half", first=2)) as (link, receiver):
            link.send(b'{"first":1}')
            await receiver.count(1)
            link.send(b'{"second":"12345678"}')
            fault = await receiver.end()
            assert fault is not None
            assert fault.reason == "closed"
            assert receiver.messages == [b'{"first":1}']
            assert receiver.strays == [(b'{"second":', "partial", 10)]

    run(main())


def test_garbage_on_a_real_socket_is_a_line_like_any_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with over_a_socket(tmp_path, Rule(deed="garbage")) as (link, receiver):
            link.send(b"{}")
            await receiver.count(2)
            assert receiver.messages == [b"\x00\xff garbage", b"{}"]

    run(main())


def test_the_same_plan_on_the_same_messages_decides_the_same() -> None:
    rules = [Rule(deed="drop", first=2, every=3, times=None), Rule(deed="duplicate", containing=b"7")]
    messages = [b"%d" % n for n in range(30)]
    one, two = Plan(rules), Plan(rules)
    assert [one.strike("out", m) for m in messages] == [two.strike("out", m) for m in messages]
