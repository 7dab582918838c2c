"""Errors, signals and resets of links of lines, over what was compiled and over the same in Python."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import pty
import signal
import socket
import struct
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Generator
from functools import partial
from types import FrameType
from typing import Any

import pytest

from tests.transports.pure_kit import Shut, blocking_link, compiled_lines, pure_lines
from tests.transports.wire_kit import Recorder, run
from transports.base import Limits

PURE = pure_lines()


def reset_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection, of which the second's closing resets it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return ours, theirs


@contextlib.contextmanager
def descriptor_that(fails: str) -> Generator[int]:
    """A descriptor at which reading or writing fails with this error, closed by whoever it is given to."""
    if fails == "EBADF":
        yield 1_000_000
    elif fails == "EISDIR":
        yield os.open("/", os.O_RDONLY)
    elif fails == "ENOSPC":
        yield os.open("/dev/full", os.O_RDWR)
    elif fails == "EIO":
        main, other = pty.openpty()
        os.close(other)
        yield main
    elif fails == "ECONNRESET":
        ours, theirs = reset_pair()
        theirs.close()
        yield ours.detach()
    elif fails == "EPIPE":
        reading, writing = os.pipe()
        os.close(reading)
        yield writing
    else:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        try:
            yield writing
        finally:
            os.close(reading)


def after_an_error(module: Any, fails: str, *, reads: bool, is_plain: bool, is_clean: bool) -> list[str]:
    """What a link does at which reading, or else writing, fails."""
    asked: list[str] = []

    async def main() -> None:
        class Watched(module.LineLink):
            __slots__ = ()

            def _nothing_read(self, number: int) -> None:
                asked.append(errno.errorcode.get(number, str(number)))
                module.LineLink._nothing_read(self, number)

            def _refused(self, data: bytes, error: OSError) -> None:
                asked.append(repr((data[:9], type(error), error.errno, error.strerror, error.filename)))
                module.LineLink._refused(self, data, error)

        receiver = Recorder()
        with descriptor_that(fails) as descriptor:
            other = os.open("/dev/null", os.O_RDWR)
            ends = (descriptor, other) if reads else (other, other)
            ending = module.Ending(eof_is_clean=is_clean, linger_s=0.0)
            link = Watched(*ends, limits=Limits(), ending=ending)
            link._write_fd, link._waits = (other, False) if reads else (descriptor, is_plain)
            link._receiver, link._message, link._is_plain = receiver, receiver.message, is_plain
            try:
                if reads:
                    link._on_readable()
                else:
                    link.send_line(b"{}\n")
            except OSError as error:
                asked.append(repr(error))
            for _ in range(3):
                await asyncio.sleep(0)
            asked.extend([repr(link.queued_bytes), repr(link._broken), repr(link._is_mute), repr(link._tick)])
            asked.extend(
                repr(fault and (fault.reason, str(fault), fault.details)) for fault in receiver.endings
            )
            link._loop.remove_writer(descriptor)
            if not link._closed:
                with contextlib.suppress(OSError):
                    link._end(None)

    with asyncio.Runner() as runner:
        runner.run(main())
    return asked


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("fails", ["EBADF", "EISDIR", "EIO", "ECONNRESET"])
def test_an_error_of_reading_ends_the_link_alike(fails: str, is_plain: bool, is_clean: bool) -> None:
    compiled = compiled_lines()
    expected = after_an_error(PURE, fails, reads=True, is_plain=is_plain, is_clean=is_clean)
    assert expected[0] == fails
    assert after_an_error(compiled, fails, reads=True, is_plain=is_plain, is_clean=is_clean) == expected


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("fails", ["EBADF", "EAGAIN", "ENOSPC", "EPIPE", "ECONNRESET"])
def test_an_error_of_writing_is_told_alike(fails: str, waits: bool) -> None:
    compiled = compiled_lines()
    expected = after_an_error(PURE, fails, reads=False, is_plain=waits, is_clean=False)
    assert "OSError" in expected[0] or "Error" in expected[0]
    assert after_an_error(compiled, fails, reads=False, is_plain=waits, is_clean=False) == expected


def both(test: Callable[[Any], None]) -> Callable[[str], None]:
    """The test of the link in C and of the one in Python."""

    @pytest.mark.parametrize("way", ["compiled", "pure"])
    def of_each(way: str) -> None:
        test(compiled_lines() if way == "compiled" else PURE)

    of_each.__name__ = of_each.__qualname__ = test.__name__
    return of_each


@both
def test_a_reset_that_came_with_bytes_is_noticed_though_the_loop_tells_once(module: Any) -> None:
    async def main() -> None:
        ours, theirs = reset_pair()
        receiver = Recorder()
        link = module.LineLink(
            ours.fileno(), ours.fileno(), limits=Limits(), ending=module.Ending(), sock=ours
        )
        ours.setblocking(False)
        link._receiver, link._message = receiver, receiver.message
        theirs.sendall(b"{}\n")
        link._on_readable()
        assert not link._is_reset
        theirs.sendall(b"[]\n")
        theirs.close()
        # The bytes are lost with a reset, on Linux; the error is what a read or the look tells.
        while not receiver.endings:
            link._on_readable()
            await asyncio.sleep(0)
        assert receiver.messages[0] == b"{}"
        assert "reset" in str(receiver.fault)

    run(main())


@both
def test_once_a_connection_was_reset_every_read_is_followed_by_one_more(module: Any) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        receiver = Recorder()
        link = module.LineLink(
            ours.fileno(), ours.fileno(), limits=Limits(), ending=module.Ending(), sock=ours
        )
        link._receiver, link._message = receiver, receiver.message
        link._was_reset(errno.ECONNRESET)
        theirs.sendall(b"{}\n")
        await receiver.count(1)
        theirs.sendall(b"[]\n")
        link._on_readable()
        theirs.sendall(b"{}\n")
        await receiver.count(3)
        theirs.sendall(b"[]\n")
        theirs.close()
        link._on_readable()
        await receiver.end()
        assert receiver.messages == [b"{}", b"[]", b"{}", b"[]"]
        assert "reset" in str(receiver.fault)

    run(main())


@contextlib.contextmanager
def interrupted(by: Callable[[], None]) -> Generator[None]:
    """Have the system break off what waits, until it does not any more, and this called each time."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        by()

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("way", ["compiled", "pure"])
def test_a_signal_while_it_reads_is_seen_to_and_the_read_goes_on(
    way: str, is_plain: bool, raises: bool
) -> None:
    module = compiled_lines() if way == "compiled" else PURE

    async def main() -> None:
        receiver = Recorder()
        link, said, heard = blocking_link(module, receiver)
        link._is_plain = is_plain
        times = 0

        def come() -> None:
            nonlocal times
            times += 1
            if raises:
                raise Shut
            if times == 2:
                os.write(said, b"{}\n")

        with interrupted(come):
            if raises:
                with pytest.raises(Shut):
                    link._on_readable()
            else:
                link._on_readable()
        assert receiver.messages == ([] if raises else [b"{}"])
        link._end(None)
        os.close(said)
        os.close(heard)

    run(main())


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("way", ["compiled", "pure"])
def test_a_signal_while_it_writes_is_seen_to_and_the_write_goes_on(
    way: str, waits: bool, raises: bool
) -> None:
    module = compiled_lines() if way == "compiled" else PURE

    async def main() -> None:
        link, said, heard = blocking_link(module, Recorder())
        os.set_blocking(link._write_fd, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(link._write_fd, b"x" * 4096)
        os.set_blocking(link._write_fd, True)
        link._waits = waits
        times = 0

        def come() -> None:
            nonlocal times
            times += 1
            if raises:
                raise Shut
            if times == 2:
                os.read(heard, 65536)

        with interrupted(come):
            if raises:
                with pytest.raises(Shut):
                    link.send_line(b"{}\n")
            else:
                link.send_line(b"{}\n")
                assert os.read(heard, 65536).endswith(b"{}\n")
        link._end(None)
        os.close(said)
        os.close(heard)

    run(main())


@both
def test_other_threads_run_while_a_file_or_a_long_line_is_written(module: Any) -> None:
    async def main() -> None:
        for waits, size in ((False, 80_000), (True, 80_000), (False, 10)):
            link, said, heard = blocking_link(module, Recorder())
            link._waits = waits
            if size == 10:
                os.write(link._write_fd, b"x" * 65536)
            left = 65536 + 10 if size == 10 else size

            def take(left: int = left, heard: int = heard) -> None:
                while left:
                    left -= len(os.read(heard, 65536))

            taking = threading.Thread(target=take)
            taking.start()
            link.send_line(b"y" * (size - 1) + b"\n")
            taking.join()
            assert link.queued_bytes == 0
            link._end(None)
            os.close(said)
            os.close(heard)

    run(main())


@both
def test_other_threads_run_while_the_rest_of_a_long_message_is_read(module: Any) -> None:
    async def main() -> None:
        receiver = Recorder()
        link, said, heard = blocking_link(module, receiver)
        os.write(said, b"{")
        link._on_readable()
        saying = threading.Timer(0.02, os.write, (said, b"}\n"))
        saying.start()
        link._on_readable()
        saying.join()
        assert receiver.messages == [b"{}"]
        link._end(None)
        os.close(said)
        os.close(heard)

    run(main())


@both
def test_a_receiver_may_have_another_one_put_in_its_place_and_the_link_ended(module: Any) -> None:
    async def main() -> None:
        receiver, other = Recorder(), Recorder()
        link, said, heard = blocking_link(module, receiver)
        link._is_plain = True

        def change(data: bytes) -> None:
            link._receiver = other
            link.look_up()
            receiver.message(data)
            if data == b"[]":
                link._end(None)

        for said_now in (b"{}", b"[]"):
            link._message = partial(change)
            os.write(said, said_now + b"\n")
            link._on_readable()
        assert receiver.messages == [b"{}", b"[]"]
        assert link._closed
        os.close(said)
        os.close(heard)

    run(main())


def test_a_link_may_be_begun_anew_with_another_turn_while_it_is_read() -> None:
    """Nothing of ours does that; whoever did would have had C go on with a turn that is no more."""
    speedups: Any = pytest.importorskip("transports._speedups", exc_type=ImportError)
    gone: list[weakref.ref[object]] = []

    class Turn(speedups.PlainTurn):
        __slots__ = ("__weakref__",)

    class Link(speedups.PlainLines):
        def _was_reset(self, number: int) -> None:
            before = weakref.ref(self._turn)
            link.__init__(Turn())
            # Not before the read is over.
            assert before() is not None
            gone.append(before)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        link: Any = Link(Turn())
        link._is_socket = link._is_reset = link._is_plain = True
        said: list[bytes] = []
        link._message = said.append
        link._read_fd = ours.fileno()
        theirs.send(b"{}\n")
        link._on_readable()
    assert said == [b"{}"]
    assert gone[0]() is None


@both
def test_a_line_belongs_to_who_got_it_and_is_not_read_over(module: Any) -> None:
    async def main() -> None:
        receiver = Recorder()
        link, said, heard = blocking_link(module, receiver)
        link._is_plain = True
        sizes = [1, 100, 16382, 16383, 16384, 16385, 16386, 65535, 5, 40_000]
        for number, size in enumerate(sizes):
            os.write(said, b"%c" % (65 + number) * size + b"\n")
            link._on_readable()
        assert receiver.messages == [b"%c" % (65 + number) * size for number, size in enumerate(sizes)]
        assert len({hash(message) for message in receiver.messages}) == len(sizes)
        link._end(None)
        os.close(said)
        os.close(heard)

    run(main())


@both
def test_a_link_that_nobody_has_any_more_is_let_go_of(module: Any) -> None:
    async def main() -> weakref.ref[object]:
        receiver = Recorder()
        link, said, heard = blocking_link(module, receiver)
        # A ring, as every receiver and its link make.
        receiver.on_message = link.send_line
        link._is_plain = True
        os.write(said, b"{}\n")
        link._on_readable()
        os.close(link._read_fd)
        os.close(link._write_fd)
        os.close(said)
        os.close(heard)
        return weakref.ref(link)

    gone = asyncio.run(main())
    gc.collect()
    assert gone() is None


def test_nothing_that_is_held_grows_with_reads_and_writes() -> None:
    compiled = compiled_lines()

    async def main() -> None:
        link, said, heard = blocking_link(compiled, Recorder())
        link._message = bytes
        link._is_plain = True

        def play(times: int) -> int:
            for _ in range(times):
                for size in (10, 20_000):
                    os.write(said, b"x" * size + b"\n")
                    link._on_readable()
                    link.send_line(b"y" * size + b"\n")
                    os.read(heard, 65536)
                    link._turn.tick += 1
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = play(50)
            assert play(500) - before < 1000
        finally:
            tracemalloc.stop()
        link._end(None)
        os.close(said)
        os.close(heard)

    run(main())
