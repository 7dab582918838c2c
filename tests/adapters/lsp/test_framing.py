"""The frames of a language server, in pieces of any size and behind what does not belong there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.lsp.framing import Framer, TooLargeError, frame

BODIES = st.lists(st.binary(max_size=60), max_size=6)
# What a program prints by mistake holds no header of its own.
NOISE = st.text(st.characters(codec="ascii", exclude_characters=":"), max_size=30)


@given(BODIES, st.data())
def test_bodies_come_out_as_they_went_in_however_they_are_cut(
    bodies: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(map(frame, bodies))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    framer, found = Framer(1000), list[bytes]()
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += framer.feed(stream[begin:end])
    assert found == bodies
    assert framer.skipped == 0


@given(NOISE, BODIES.filter(bool))
def test_what_a_server_prints_before_a_frame_is_skipped_and_counted(noise: str, bodies: list[bytes]) -> None:
    framer = Framer(1000)
    assert framer.feed(noise.encode() + b"\n" + b"".join(map(frame, bodies))) == bodies
    assert framer.skipped == len(noise) + 1


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
        b"Content-Type: x\r\nContent-Length: 2\r\n\r\n",
        b"content-length:2\n\n",
    ],
)
def test_other_headers_and_plain_line_ends_are_read(header: bytes) -> None:
    assert Framer(10).feed(header + b"{}") == [b"{}"]


def test_a_body_that_is_larger_than_allowed_is_refused_before_it_is_read() -> None:
    with pytest.raises(TooLargeError, match="11"):
        Framer(10).feed(b"Content-Length: 11\r\n\r\n")


def test_a_header_without_an_end_is_not_kept_for_ever() -> None:
    framer = Framer(10)
    for _ in range(1000):
        framer.feed(b"Content-Length: 5\r\n" + b"x" * 100)
    assert framer.skipped > 50_000
