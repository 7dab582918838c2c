"""Newline-framed links over real pipes: order, bounds, writes that are joined, and endings."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import contextlib
import os
import resource
from collections.abc import AsyncGenerator, Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transports.wire_kit import Recorder, Taker, eventually, run
from transports.base import Limits
from transports.framing import LineFramer, Stray
from transports.lines import Ending, LineLink
from transports.plain_lines import READ_BYTES, READS
from transports.stdio import connect_pipes, grow_pipe
from transports.turn import turn_of

MIB = 1 << 20
needs_packets = pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="no pipes here that keep writes apart")


class Wire:
    """A link whose other side is in our hands, as blocking descriptors."""

    def __init__(
        self, limits: Limits | None = None, receiver: Recorder | None = None, *, by_write: bool = False
    ) -> None:
        # Such a pipe is read write by write.
        self.theirs_in, link_out = os.pipe2(os.O_DIRECT) if by_write else os.pipe()
        link_in, self.theirs_out = os.pipe()
        self.receiver = receiver or Recorder()
        self.link = connect_pipes(self.receiver, read_fd=link_in, write_fd=link_out, limits=limits)

    def say(self, data: bytes) -> None:
        assert os.write(self.theirs_out, data) == len(data)

    async def say_all(self, data: bytes) -> None:
        def write() -> None:
            view = memoryview(data)
            while view:
                view = view[os.write(self.theirs_out, view) :]

        await asyncio.to_thread(write)

    async def heard(self, size: int) -> bytes:
        def read() -> bytes:
            parts: list[bytes] = []
            left = size
            while left and (data := os.read(self.theirs_in, min(left, 65536))):
                parts.append(data)
                left -= len(data)
            return b"".join(parts)

        return await asyncio.to_thread(read)

    def writes(self) -> list[int]:
        """The sizes of the writes so far, where it is a pipe that keeps them apart."""
        sizes: list[int] = []
        while data := self.waiting():
            sizes.append(len(data))
        return sizes

    def waiting(self) -> bytes:
        """What has been written to the other side so far, without waiting."""
        os.set_blocking(self.theirs_in, False)
        try:
            return os.read(self.theirs_in, 65536)
        except BlockingIOError:
            return b""
        finally:
            os.set_blocking(self.theirs_in, True)

    def hang_up(self) -> None:
        for name in ("theirs_in", "theirs_out"):
            self.shut(name)

    def shut(self, name: str) -> None:
        fd: int = getattr(self, name)
        if fd >= 0:
            os.close(fd)
            setattr(self, name, -1)


@contextlib.asynccontextmanager
async def wire(
    limits: Limits | None = None, receiver: Recorder | None = None, *, by_write: bool = False
) -> AsyncGenerator[Wire]:
    made = Wire(limits, receiver, by_write=by_write)
    try:
        yield made
    finally:
        made.link.abort()
        await made.receiver.end()
        made.hang_up()


def reads_so_far() -> int:
    """How often this thread has called the system to read, with this look."""
    try:
        descriptor = os.open("/proc/thread-self/io", os.O_RDONLY)
    except OSError:
        pytest.skip("this system does not count the reads of a thread")
    try:
        told = dict(line.split(b": ") for line in os.read(descriptor, 4096).splitlines())
    finally:
        os.close(descriptor)
    return int(told[b"syscr"])


def test_messages_come_in_order_without_their_framing() -> None:
    async def main() -> None:
        async with wire() as it:
            it.say(b'{"id":1}\n{"id":2}\r\n\n{"id":3}\n')
            await it.receiver.count(3)
            assert it.receiver.messages == [b'{"id":1}', b'{"id":2}', b'{"id":3}']
            it.link.send(b'{"id":4}')
            it.link.send(b'{"id":5}')
            assert await it.heard(18) == b'{"id":4}\n{"id":5}\n'
            assert not it.link.stamped
            assert not it.link.cancel(1)

    run(main())


PIECES = [b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"{", b" ", b"x", b"y" * 9, b"z" * 30, b"l" * 800, b"\xff"]


@settings(deadline=None)
@given(
    parts=st.lists(
        st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map(b"".join) | st.just(b"x\n"), max_size=30
    ),
    ends=st.booleans(),
    limit=st.integers(1, 40) | st.just(2000),
)
def test_a_read_of_one_whole_line_is_given_as_the_framer_gives_it(
    parts: list[bytes], ends: bool, limit: int
) -> None:
    chunks = [part + b"\n" * ends for part in parts]
    framer = LineFramer(limit)
    items = [item for chunk in chunks for item in framer.feed(chunk)]

    async def main() -> None:
        async with wire(Limits(message_bytes=limit)) as it:
            for chunk in chunks:
                it.say(chunk)
                it.link._on_readable()
            assert it.receiver.messages == [item for item in items if isinstance(item, bytes)]
            strays = [(item.data, item.why, item.size) for item in items if isinstance(item, Stray)]
            assert it.receiver.strays == strays
            assert it.receiver.log == ["stray" if isinstance(item, Stray) else "message" for item in items]

    run(main())


def test_a_message_with_newlines_stays_one_line() -> None:
    async def main() -> None:
        async with wire() as it:
            it.link.send(b'{\n  "id": 1\r\n}')
            assert await it.heard(15) == b'{   "id": 1\r }\n'

    run(main())


def test_a_lone_message_is_written_before_send_returns() -> None:
    async def main() -> None:
        async with wire() as it:
            it.link.send(b"{}")
            assert it.waiting() == b"{}\n"
            assert it.link.queued_bytes == 0

    run(main())


@needs_packets
@pytest.mark.parametrize("is_line", [True, False])
def test_a_request_and_its_answer_are_one_read_and_one_write(*, is_line: bool) -> None:
    async def main() -> None:
        async with wire(by_write=True) as it:

            def answer(data: bytes) -> None:
                if is_line:
                    it.link.send_line(data + b"\n")
                else:
                    it.link.send(data)

            it.receiver.on_message = answer
            before = reads_so_far()
            for n in range(10, 22):
                it.say(b'{"id":%d}\n' % n)
                await it.receiver.count(n - 9)
            assert reads_so_far() - before == 12 + 1
            assert it.writes() == [10] * 12

    run(main())


@needs_packets
def test_answers_to_one_read_are_one_write() -> None:
    async def main() -> None:
        async with wire(by_write=True) as it:
            it.receiver.on_message = it.link.send
            it.say(b"{}\n" * 64)
            await it.receiver.count(64)
            assert it.writes() == [192]

    run(main())


@pytest.mark.parametrize("most", [0, 2, 3])
@needs_packets
def test_what_came_in_one_piece_is_offered_together_and_the_rest_comes_one_by_one(most: int) -> None:
    async def main() -> None:
        taker = Taker(most)
        async with wire(Limits(message_bytes=20), taker, by_write=True) as it:
            taker.link = it.link
            taker.on_message = it.link.send
            it.say(b"1\n2\n3\n" + b"x" * 30 + b"\n4\n")
            await taker.count(4 - most)
            assert it.waiting() == b"1\n2\n3\n4\n"
            assert taker.pieces == [[b"1", b"2", b"3"]], "a stray ends what can be taken together"
            assert taker.messages == [b"1", b"2", b"3", b"4"][most:]
            assert len(taker.strays) == 1
            it.link.send_all([b"5", b"6\n6"])
            assert await it.heard(6) == b"5\n6 6\n"

    run(main())


def test_the_end_of_the_input_offers_nothing_to_be_taken_together() -> None:
    async def main() -> None:
        taker = Taker(0)
        async with wire(receiver=taker) as it:
            taker.link = it.link
            it.say(b"1\n2\n")
            await taker.count(2)
            it.hang_up()
            await taker.end()
        assert taker.pieces == [[b"1", b"2"]]

    run(main())


def test_what_cannot_be_taken_together_comes_one_by_one() -> None:
    problems: list[object] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: problems.append(context["exception"]))
        async with wire(receiver=Taker(-1)) as it:
            it.say(b"1\n2\n")
            await it.receiver.count(2)

    run(main())
    assert [str(problem) for problem in problems] == ["it takes none"]


@needs_packets
def test_messages_sent_in_one_turn_are_at_most_two_writes() -> None:
    async def main() -> None:
        async with wire(by_write=True) as it:
            for _ in range(50):
                it.link.send(b"{}")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert it.writes() == [3, 147]

    run(main())


@pytest.mark.parametrize("size", [1, 8, 16])
def test_megabytes_go_both_ways_at_once(size: int) -> None:
    async def main() -> None:
        async with wire() as it:
            big = b'"' + b"x" * (size * MIB - 2) + b'"'
            it.link.send(big)
            assert it.link.queued_bytes > 0
            sent, heard = it.say_all(big + b"\n"), it.heard(len(big) + 1)
            _, got = await asyncio.gather(sent, heard)
            assert got == big + b"\n"
            await it.receiver.count(1)
            assert it.receiver.messages == [big]
            await eventually(lambda: it.link.queued_bytes == 0)

    run(main())


def test_a_line_over_the_limit_is_skipped_and_the_next_message_comes() -> None:
    async def main() -> None:
        async with wire() as it:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            await it.say_all(b"x" * (100 * MIB))
            it.say(b"\n{}\n")
            await it.receiver.count(1)
            assert it.receiver.strays == [(b"x" * 4096, "too-large", 100 * MIB)]
            assert it.receiver.messages == [b"{}"]
            # The 100 MiB of the sender in this process come on top of what the link holds.
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < (100 + 64) * 1024

    run(main())


def test_a_line_that_does_not_end_ends_the_connection_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transports.lines.MAX_SKIPPED_BYTES", 1 * MIB)

    async def main() -> None:
        async with wire(Limits(message_bytes=1000)) as it:
            os.set_blocking(it.theirs_out, False)
            while not it.receiver.endings:
                with contextlib.suppress(BlockingIOError, BrokenPipeError):
                    os.write(it.theirs_out, b"x" * 65536)
                await asyncio.sleep(0)
            assert it.receiver.fault.reason == "too-large"

    run(main())


def test_a_slow_reader_is_told_about_and_then_given_up() -> None:
    async def main() -> None:
        limits = Limits(high_bytes=200_000, low_bytes=50_000, hard_bytes=1_000_000)
        async with wire(limits) as it:
            sent = 0
            while not it.receiver.writables:
                it.link.send(b"x" * 9_999)
                sent += 10_000
                await asyncio.sleep(0)
            assert it.receiver.writables == [False]
            assert 200_000 < it.link.queued_bytes <= 210_000
            assert len(await it.heard(sent)) == sent
            await it.receiver.until(lambda: len(it.receiver.writables) == 2)
            assert it.receiver.writables == [False, True]
            for _ in range(150):
                it.link.send(b"x" * 9_999)
            fault = await it.receiver.end()
            assert fault is not None
            assert fault.reason == "slow-consumer"
            assert it.link.queued_bytes == 0

    run(main())


def test_a_reader_that_takes_nothing_is_given_up_in_time() -> None:
    async def main() -> None:
        async with wire(Limits(stall_s=0.05)) as it:
            it.link.send(b"x" * MIB)
            fault = await it.receiver.end()
            assert fault is not None
            assert fault.reason == "slow-consumer"

    run(main())


def test_a_blocked_writer_does_not_hold_up_reading() -> None:
    async def main() -> None:
        async with wire() as it:
            it.link.send(b"x" * MIB)
            for n in range(10):
                it.say(b"{}\n")
                await it.receiver.count(n + 1)
            assert it.link.queued_bytes > 0

    run(main())


def test_order_is_kept_while_the_writer_is_blocked() -> None:
    async def main() -> None:
        async with wire() as it:
            messages = [b"%d" % n * (1 + n % 97) * 500 for n in range(400)]
            expected = b"".join(message + b"\n" for message in messages)
            reading = asyncio.create_task(it.heard(len(expected)))
            for n, message in enumerate(messages):
                it.link.send(message)
                if n % 7 == 0:
                    await asyncio.sleep(0)
            assert await reading == expected

    run(main())


@pytest.mark.parametrize("size", [65535, 65536, 65537, 70_000, 200_000, MIB - 1])
def test_what_is_there_of_a_long_message_is_read_in_one_turn(size: int) -> None:
    async def main() -> None:
        async with wire() as it:
            grow_pipe(it.theirs_out, MIB)
            it.say(b"x" * size + b"\n")
            it.link._on_readable()
            assert [len(message) for message in it.receiver.messages] == [size]

    run(main())


def test_a_line_without_an_end_keeps_a_turn_for_a_bounded_number_of_reads() -> None:
    async def main() -> None:
        link = LineLink(
            os.open("/dev/zero", os.O_RDONLY),
            os.open("/dev/null", os.O_WRONLY),
            limits=Limits(),
            ending=Ending(),
        )
        link._on_readable()
        assert link._framer._size == READS * READ_BYTES
        for descriptor in (link._read_fd, link._write_fd):
            os.close(descriptor)

    run(main())


@pytest.mark.parametrize("size", [1, 40_000, 300_000])
@pytest.mark.parametrize("is_batch", [False, True])
def test_a_message_in_parts_is_the_message_that_they_make(size: int, is_batch: bool) -> None:
    parts = (b'{"a":', msgspec.Raw(b"x" * size), b"}")
    expected = [b"before", b'{"a":%b}' % (b"x" * size), b"after"]

    async def main() -> None:
        async with wire() as it:
            turn = turn_of(asyncio.get_running_loop())
            if is_batch:
                turn.begin()
            it.link.send(expected[0])
            if not is_batch:
                await asyncio.sleep(0)
                turn.tick += 1
            it.link.send_parts(parts)
            it.link.send(expected[2])
            if is_batch:
                turn.end()
            whole = b"".join(message + b"\n" for message in expected)
            assert await it.heard(len(whole)) == whole

    run(main())


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("size", [10, 300_000])
def test_a_line_is_sent_as_its_message_is(size: int, *, is_batch: bool) -> None:
    expected = [b"before", b"y" * size, b"between", b"after"]

    async def main() -> None:
        async with wire() as it:
            turn = turn_of(asyncio.get_running_loop())
            if is_batch:
                turn.begin()
            it.link.send_line(expected[0] + b"\n")
            if not is_batch:
                await asyncio.sleep(0)
                turn.tick += 1
            it.link.send_line(expected[1] + b"\n")
            it.link.send(expected[2])
            it.link.send_line(expected[3] + b"\n")
            if is_batch:
                turn.end()
            whole = b"".join(message + b"\n" for message in expected)
            assert await it.heard(len(whole)) == whole

    run(main())


@pytest.mark.parametrize("way", ["parts", "line"])
def test_a_message_in_parts_or_a_line_to_nobody_ends_the_link_as_any_other_does(way: str) -> None:
    def send(link: LineLink) -> None:
        if way == "parts":
            link.send_parts((b"{", b"}"))
        else:
            link.send_line(b"{}\n")

    async def main() -> None:
        async with wire() as it:
            it.shut("theirs_in")
            send(it.link)
            fault = await it.receiver.end()
            assert fault is not None
            assert fault.reason == "closed"
            send(it.link)

    run(main())


class Look:
    """Looks at long messages until it is told to end."""

    least_bytes = 66_000

    def __init__(self) -> None:
        self.then: list[Callable[[], None]] = []
        self.log: list[str] = []

    def begin(self, message: bytes, then: Callable[[], None]) -> None:
        self.log.append(f"began {message[:1].decode()}")
        self.then.append(then)

    def passed(self, message: bytes) -> None:
        self.log.append(message[:1].decode())

    def end(self, message: bytes) -> None:
        self.log.append(f"ended {message[:1].decode()}")


async def looked(look: Look) -> None:
    """Let the look that goes on end in a thread, and what follows happen."""
    await eventually(lambda: bool(look.then))
    await asyncio.to_thread(look.then.pop(0))


@pytest.mark.parametrize("paused", [False, True])
def test_nothing_behind_a_long_message_is_passed_on_before_that_was_looked_at(paused: bool) -> None:
    async def main() -> None:
        async with wire() as it:
            look = it.link.look = Look()
            it.receiver.on_message = look.passed
            grow_pipe(it.theirs_out, MIB)
            it.say(b"a" * 65_000 + b"\nb\n")
            await it.receiver.count(2)
            it.say(b"c" * 70_000 + b"\nd\n" + b"e" * 50_000)
            await eventually(lambda: bool(look.then))
            if paused:
                it.link.pause()
            it.say(b"e" * 50_000 + b"\nf\n")
            await looked(look)
            if paused:
                await it.receiver.count(4)
                it.link.resume()
            await looked(look)
            await it.receiver.count(6)
            assert look.log == ["a", "b", "began c", "c", "d", "ended c", "began e", "e", "f", "ended e"]

    run(main())


def test_a_message_that_is_looked_at_while_its_link_ends_is_not_passed_on() -> None:
    async def main() -> None:
        async with wire() as it:
            look = it.link.look = Look()
            grow_pipe(it.theirs_out, MIB)
            it.say(b"a" * 70_000 + b"\n")
            await eventually(lambda: bool(look.then))
            it.link.abort()
            await it.receiver.end()
            await looked(look)
            await eventually(lambda: look.log == ["began a", "ended a"])
            assert it.receiver.messages == []

    run(main())


def test_a_message_that_is_looked_at_when_its_link_is_closed_is_passed_on_before_the_end() -> None:
    """A peer that has answered and exited has answered, however long the answer is looked at."""

    async def main() -> None:
        async with wire() as it:
            look = it.link.look = Look()
            grow_pipe(it.theirs_out, MIB)
            it.say(b"a" * 70_000 + b"\nb\n")
            await eventually(lambda: bool(look.then))
            it.link.close()
            await it.receiver.end()
            assert [len(message) for message in it.receiver.messages] == [70_000, 1]
            await looked(look)
            await eventually(lambda: look.log == ["began a", "ended a"])
            assert len(it.receiver.messages) == 2

    run(main())


def test_a_look_that_is_told_of_twice_lets_no_other_message_go() -> None:
    async def main() -> None:
        async with wire() as it:
            look = it.link.look = Look()
            grow_pipe(it.theirs_out, MIB)
            it.say(b"a" * 70_000 + b"\n")
            await eventually(lambda: bool(look.then))
            then = look.then[0]
            await looked(look)
            await it.receiver.count(1)
            it.say(b"b" * 70_000 + b"\n")
            await eventually(lambda: bool(look.then))
            then()
            await eventually(lambda: look.log.count("ended a") == 2)
            assert len(it.receiver.messages) == 1
            await looked(look)
            await it.receiver.count(2)

    run(main())


def test_the_end_of_input_behind_a_long_message_comes_after_it() -> None:
    async def main() -> None:
        async with wire() as it:
            look = it.link.look = Look()
            grow_pipe(it.theirs_out, MIB)
            it.say(b"a" * 70_000 + b"\n")
            it.shut("theirs_out")
            await looked(look)
            await it.receiver.end()
            assert [len(message) for message in it.receiver.messages] == [70_000]

    run(main())


def test_pause_holds_the_other_side_back_and_resume_lets_go() -> None:
    async def main() -> None:
        async with wire() as it:
            it.link.pause()
            os.set_blocking(it.theirs_out, False)
            written = 0
            with contextlib.suppress(BlockingIOError):
                while True:
                    written += os.write(it.theirs_out, b"{}\n" * 1000)
                    await asyncio.sleep(0)
            assert it.receiver.messages == []
            it.link.resume()
            await it.receiver.count(written // 3)

    run(main())


def test_a_receiver_that_raises_loses_that_message_alone() -> None:
    problems: list[object] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: problems.append(context["exception"]))

        def refuse_odd(data: bytes) -> None:
            if data == b"odd":
                raise ValueError("odd")

        async with wire(receiver=Recorder(refuse_odd)) as it:
            it.say(b"odd\neven\nodd\neven\n")
            await it.receiver.count(4)

    run(main())
    assert [str(problem) for problem in problems] == ["odd", "odd"]


def test_close_writes_what_is_queued_and_reads_to_the_end() -> None:
    async def main() -> None:
        async with wire() as it:
            big = b"x" * MIB
            it.link.send(big)
            it.link.close()
            it.link.send(b"after the close")
            assert await it.heard(2 * MIB) == big + b"\n"
            it.say(b'{"last":1}\n')
            it.shut("theirs_out")
            assert await it.receiver.end() is None
            assert it.receiver.messages == [b'{"last":1}']

    run(main())


def test_close_is_bounded_where_the_other_side_never_reads() -> None:
    async def main() -> None:
        async with wire() as it:
            it.link.send(b"x" * MIB)
            it.link.close()
            assert await it.receiver.end() is None

    run(main())


def test_the_end_of_their_output_is_a_fault_unless_it_was_asked_for() -> None:
    async def main() -> None:
        async with wire() as it:
            it.say(b'{"a":1}\n{"b":')
            it.shut("theirs_out")
            fault = await it.receiver.end()
            assert fault is not None
            assert (fault.reason, fault.details["side"]) == ("closed", "read")
            assert it.receiver.messages == [b'{"a":1}']
            assert it.receiver.strays == [(b'{"b":', "partial", 5)]
            it.link.send(b"to nobody")

    run(main())


def test_a_whole_answer_without_a_newline_is_delivered_at_the_end() -> None:
    async def main() -> None:
        async with wire() as it:
            it.say(b'{"a":1}')
            it.shut("theirs_out")
            await it.receiver.end()
            assert it.receiver.messages == [b'{"a":1}']

    run(main())


def test_their_closed_input_is_noticed_without_a_write_and_their_last_words_are_read() -> None:
    async def main() -> None:
        async with wire() as it:
            it.shut("theirs_in")
            await eventually(lambda: it.link._broken is not None)
            it.say(b'{"last":1}\n')
            fault = await it.receiver.end()
            assert fault is not None
            assert (fault.reason, fault.details["side"]) == ("closed", "write")
            assert it.receiver.messages == [b'{"last":1}']

    run(main())


def test_an_idle_connection_has_no_timer() -> None:
    async def main() -> None:
        async with wire(Limits(stall_s=10)) as it:
            it.receiver.on_message = it.link.send
            it.say(b"{}\n")
            await it.receiver.count(1)
            assert (it.link._timer, it.link._stall) == (None, None)

    run(main())
