"""The line rules: the same lines in whatever pieces the stream comes, in linear time and bounded memory."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.framing import Item, LineFramer, Stray

BOM = b"\xef\xbb\xbf"


def frame(*pieces: bytes, limit: int = 64, end: bool = True) -> list[Item]:
    framer = LineFramer(limit)
    items = [item for piece in pieces for item in framer.feed(piece)]
    return items + framer.finish() if end else items


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"", []),
        (b"\n", []),
        (b"\n\n\r\n  \n\t\n", []),
        (b"a\n", [b"a"]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\n\n\nb\n", [b"a", b"b"]),
        (b" a \n", [b" a "]),
        (b"a\rb\n", [b"a\rb"]),
        (b"a\r\r\n", [b"a\r"]),
        (BOM + b"a\n" + BOM + b"b\n", [b"a", BOM + b"b"]),
        (BOM + BOM + b"a\n", [BOM + b"a"]),
        (BOM + b"\na\n", [b"a"]),
        (b"\n" + BOM + b"a\n", [BOM + b"a"]),
        (b"{}{}\n", [b"{}{}"]),
        (b"\xff\xfe\n", [b"\xff\xfe"]),
        (b"\x00\n", [b"\x00"]),
        ("a\u2028b\u0085c\n".encode(), ["a\u2028b\u0085c".encode()]),
        (b'{"a":1}', [b'{"a":1}']),
        (b'a\n{"a":1}\r', [b"a", b'{"a":1}']),
        (BOM + b'{"a":1} ', [b'{"a":1} ']),
        (b'{"a":', [Stray(b'{"a":', "partial", 5)]),
        (b"text}", [Stray(b"text}", "partial", 5)]),
        (b"a\n \t", [b"a"]),
        (BOM, []),
    ],
)
def test_the_line_rules(stream: bytes, expected: list[Item]) -> None:
    assert frame(stream) == expected
    assert frame(*(bytes([byte]) for byte in stream)) == expected


_pieces = st.sampled_from(
    [
        b"\n",
        b"\r",
        b"\r\n",
        BOM,
        b"{",
        b"}",
        b" ",
        b"\xef",
        b"x",
        b"y" * 9,
        b"z" * 30,
        b"l" * 800,
        b'{"k":"v"}',
        b"\xff",
    ]
)


@given(
    parts=st.lists(_pieces, max_size=60),
    cuts=st.lists(st.integers(0, 4000), max_size=40),
    limit=st.integers(1, 40) | st.just(2000),
)
def test_any_chunking_gives_the_same_lines(parts: list[bytes], cuts: list[int], limit: int) -> None:
    stream = b"".join(parts)
    edges = [0, *sorted(cut for cut in cuts if cut <= len(stream)), len(stream)]
    chunks = [stream[a:b] for a, b in itertools.pairwise(edges)]
    whole = frame(stream, limit=limit)
    assert frame(*chunks, limit=limit) == whole
    assert frame(*(bytes([byte]) for byte in stream), limit=limit) == whole


@given(lines=st.lists(st.binary(min_size=1, max_size=80).filter(lambda line: b"\n" not in line), max_size=20))
def test_lines_come_as_they_were_sent(lines: list[bytes]) -> None:
    sent = [b"!" + line.replace(b"\r", b"") for line in lines]
    assert frame(b"".join(line + b"\n" for line in sent), limit=100) == sent


@given(size=st.integers(0, 12), limit=st.integers(1, 8))
def test_a_line_is_too_large_exactly_above_the_limit(size: int, limit: int) -> None:
    raw = b"x" * size
    for ending in (b"\n", b"\r\n"):
        for mark in (b"", BOM):
            (*items, last) = frame(mark + raw + ending + b"z\n", limit=limit)
            assert last == b"z"
            if size > limit:
                whole = mark + raw + ending[:-1]
                assert items == [Stray(whole, "too-large", len(whole))]
            else:
                assert items == ([raw] if size else [])


def test_an_overlong_line_is_told_once_it_ends_and_the_next_line_is_whole() -> None:
    framer = LineFramer(10_000)
    assert framer.feed(b"head" + b"x" * 9_000) == []
    assert framer.skipped == 0
    assert framer.feed(b"x" * 9_000) == []
    assert framer.skipped == 18_004
    assert framer.feed(b"x\nnext\n") == [Stray(b"head" + b"x" * 4092, "too-large", 18_005), b"next"]
    assert framer.skipped == 0


def test_an_overlong_line_that_never_ends_is_told_at_the_end_of_the_stream() -> None:
    assert frame(b"x" * 100, limit=10) == [Stray(b"x" * 100, "too-large", 100)]


def test_a_hundred_mebibytes_without_a_newline_take_constant_memory() -> None:
    framer = LineFramer(1 << 20)
    chunk = b"x" * 65536
    tracemalloc.start()
    try:
        for _ in range(1600):
            assert framer.feed(chunk) == []
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert framer.skipped == 1600 * 65536
    assert peak < 4 << 20
    assert framer.feed(b"\n{}\n") == [Stray(b"x" * 4096, "too-large", 1600 * 65536), b"{}"]


def test_a_million_one_byte_pieces_are_one_line_and_one_buffer() -> None:
    framer = LineFramer()
    for _ in range(1_000_000):
        framer.feed(b"x")
    assert len(framer._parts) == 1
    assert framer.feed(b"\n") == [b"x" * 1_000_000]


@pytest.mark.parametrize("piece", [1, 4095, 4096, 65536])
def test_work_per_byte_does_not_grow_with_the_line(piece: int) -> None:
    """Counts the bytes that are copied into buffers: a quadratic framer copies the line once per piece."""
    size = 1 << 21 if piece > 1 else 1 << 18
    framer = LineFramer(1 << 22)
    data = b"x" * piece
    for _ in range(size // piece):
        framer.feed(data)
    assert sum(map(len, framer._parts)) == size // piece * piece
    assert len(framer._parts) <= size // 4096 + 1
    assert framer.feed(b"\n") == [b"x" * (size // piece * piece)]


def test_an_overlong_line_is_told_once_before_it_ends_and_again_when_it_does() -> None:
    framer = LineFramer(4)
    assert framer.overlong() is None
    assert framer.feed(b"123456789") == []
    assert framer.overlong() == Stray(b"123456789", "unfinished", 9)
    assert framer.overlong() is None
    assert framer.feed(b"0\nok\n") == [Stray(b"1234567890", "too-large", 10), b"ok"]
    assert framer.overlong() is None
    assert framer.feed(b"another") == []
    assert framer.overlong() == Stray(b"another", "unfinished", 7)
