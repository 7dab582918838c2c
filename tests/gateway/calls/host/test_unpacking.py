"""A body is unpacked in small pieces, whole, and never beyond its bounds."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.host.bounds import Bounds
from gateway.calls.host.unpacking import Unpacker, UnpackError


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS = {"gzip": gzip.compress, "deflate": zlib.compress, "DEFLATE ": bare, "": bytes, "identity": bytes}


def unpacked(packed: bytes, encoding: str, size: int, bounds: Bounds | None = None) -> bytes:
    unpacker = Unpacker(encoding, bounds or Bounds(unpack_ratio=10_000))
    found = b"".join(
        piece for at in range(0, len(packed), size) for piece in unpacker.add(packed[at : at + size])
    )
    unpacker.end()
    return found


@given(
    data=st.binary(max_size=300),
    zeros=st.sampled_from([0, 1, 65_535, 65_536, 65_537, 131_072, 400_000]),
    encoding=st.sampled_from(sorted(PACKERS)),
    size=st.sampled_from([1, 2, 7, 100, 70_000]),
)
def test_what_was_packed_comes_out_whatever_the_pieces(
    data: bytes, zeros: int, encoding: str, size: int
) -> None:
    data = bytes(zeros) + data
    assert unpacked(PACKERS[encoding](data), encoding, max(size, len(data) // 1000)) == data


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "x"])
def test_what_was_not_asked_for_is_refused(encoding: str) -> None:
    with pytest.raises(UnpackError) as caught:
        Unpacker(encoding, Bounds())
    assert caught.value.reason == "encoding"


@pytest.mark.parametrize(
    ("packed", "encoding"),
    [(gzip.compress(b"x" * 100, mtime=0)[:-3], "gzip"), (b"no gzip", "gzip"), (b"\x00\xff\xff\xff", "deflate"),
     (gzip.compress(b"a", mtime=0) + b"more", "gzip"),
     (gzip.compress(b"x" * 1000, mtime=0)[:-9] + b"123456789", "gzip")],
)  # fmt: skip
def test_a_damaged_body_is_no_body(packed: bytes, encoding: str) -> None:
    with pytest.raises(UnpackError) as caught:
        unpacked(packed, encoding, 1000)
    assert caught.value.reason == "damaged"


def test_no_more_is_taken_than_the_bound_however_it_is_packed() -> None:
    few = Bounds(response_bytes=1000, unpack_ratio=10_000)
    for encoding, packed in (("", b"x" * 1001), ("gzip", gzip.compress(b"x" * 1001))):
        with pytest.raises(UnpackError) as caught:
            unpacked(packed, encoding, 100, few)
        assert caught.value.reason == "too_large"
    assert unpacked(gzip.compress(b"x" * 1000), "gzip", 100, few) == b"x" * 1000


def test_a_bomb_is_noticed_before_it_fills_the_memory() -> None:
    packed = gzip.compress(bytes(64 * 1024 * 1024), compresslevel=1)
    tracemalloc.start()
    try:
        with pytest.raises(UnpackError) as caught:
            for _ in Unpacker("gzip", Bounds(response_bytes=2**40)).add(packed):
                pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.reason == "bomb"
    assert peak < 8 * 1024 * 1024
