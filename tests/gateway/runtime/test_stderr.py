"""What a peer says on stderr: passed on up to a rate, cut, counted; the tail kept; memory bounded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.runtime.stderr import LINE_BYTES, LINES_PER_S, TAIL_BYTES, StderrLine, StderrTap
from tests.gateway.runtime.process_kit import run, until


def tapped(*pieces: bytes, look: Callable[[StderrTap], object] = lambda tap: None) -> list[StderrLine]:
    """Pass pieces through a tap, each drained before the next is written, and close it."""

    async def main() -> list[StderrLine]:
        lines: list[StderrLine] = []
        reader, writer = os.pipe()
        tap = StderrTap(reader, lines.append)
        for piece in pieces:
            for start in range(0, len(piece), 65536):
                os.write(writer, piece[start : start + 65536])
                tap.drain()
        os.close(writer)
        tap.drain()
        look(tap)
        tap.close()
        return lines

    return run(main())


def test_everything_is_echoed_as_it_comes_also_what_is_over_the_rate_of_lines() -> None:
    async def main() -> bytes:
        echoed: list[bytes] = []
        reader, writer = os.pipe()
        tap = StderrTap(reader, lambda line: None, echoed.append)
        os.write(writer, b"line\n" * 3 * LINES_PER_S + b"no end")
        tap.drain()
        os.close(writer)
        tap.close()
        return b"".join(echoed)

    assert run(main()) == b"line\n" * 3 * LINES_PER_S + b"no end"


def test_nothing_is_read_while_it_is_held_and_everything_afterwards() -> None:
    async def main() -> tuple[bytes, bytes]:
        echoed: list[bytes] = []
        reader, writer = os.pipe()
        tap = StderrTap(reader, lambda line: None, echoed.append)
        tap.hold(held=True)
        os.write(writer, b"waits")
        for _ in range(5):
            await asyncio.sleep(0)
        meanwhile = b"".join(echoed)
        tap.hold(held=False)
        await until(lambda: echoed)
        os.close(writer)
        tap.close()
        return meanwhile, b"".join(echoed)

    assert run(main()) == (b"", b"waits")


def test_lines_come_as_they_were_written_whatever_the_pieces() -> None:
    lines = tapped(b"one\ntw", b"o\n", b"\nfour")
    assert [line.data for line in lines] == [b"one", b"two", b"", b"four"]
    assert [line.size for line in lines] == [3, 3, 0, 4]


def test_a_long_line_is_cut_and_its_true_length_told() -> None:
    (line, after) = tapped(b"x" * 300_000 + b"\nshort\n")
    assert (line.data, line.size) == (b"x" * LINE_BYTES, 300_000)
    assert after.data == b"short"


def test_beyond_the_rate_lines_are_counted_and_the_count_is_told_at_the_end() -> None:
    lines = tapped(b"noise\n" * 1000)
    passed = [line for line in lines if line.data is not None]
    # A slow machine may earn a few more while it works through the flood.
    assert LINES_PER_S <= len(passed) < 1000
    assert sum(line.dropped_lines for line in lines) == 1000 - len(passed)
    assert sum(line.dropped_bytes for line in lines) == 6 * (1000 - len(passed))


def test_the_tail_holds_the_end() -> None:
    tails: list[bytes] = []
    data = b"".join(b"%06d\n" % number for number in range(40_000))
    tapped(data, look=lambda tap: tails.append(tap.tail))
    assert tails == [data[-TAIL_BYTES:]]


def test_memory_stays_bounded_without_any_newline() -> None:
    sizes: list[int] = []

    def look(tap: StderrTap) -> None:
        sizes.append(tap.held_bytes)

    (line,) = tapped(b"e" * 5_000_000, look=look)
    assert line.size == 5_000_000
    assert sizes[0] <= 2 * TAIL_BYTES + LINE_BYTES


def test_a_flood_does_not_keep_the_loop_from_others() -> None:
    async def main() -> None:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        tap = StderrTap(reader, lambda line: None)
        turns = 0

        def flood() -> None:
            try:
                while True:
                    os.write(writer, b"f" * 65536)
            except BlockingIOError:
                pass

        loop = asyncio.get_running_loop()
        loop.add_writer(writer, flood)
        while tap.total_bytes < 8 * 1024 * 1024:
            turns += 1
            await asyncio.sleep(0)
        # One turn reads at most once, so that everybody else has had a turn for each 64 KiB.
        assert turns >= 8 * 1024 * 1024 // 65536
        loop.remove_writer(writer)
        os.close(writer)
        await until(lambda: tap.closed, "the end of stderr")

    run(main())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=400).map(lambda b: b.replace(b"a", b"\n")), max_size=20))
def test_nothing_is_lost_uncounted(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    lines = tapped(*pieces)
    expected = whole.split(b"\n")
    if not expected[-1]:
        expected.pop()
    passed = [line for line in lines if line.data is not None]
    assert len(passed) + sum(line.dropped_lines for line in lines) == len(expected)
    sizes = sum(line.size + 1 for line in passed) + sum(line.dropped_bytes for line in lines)
    assert sizes - len(whole) in {0, 1}  # the last line may have no newline
    assert [line.data for line in passed[:LINES_PER_S]] == expected[:LINES_PER_S]
