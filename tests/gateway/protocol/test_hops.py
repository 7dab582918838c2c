"""The message of a hop: whole where it is short, in pieces where it is long, and the same on the other side."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol import hops, jsonrpc

LETTERS = st.sampled_from(["a", '"', "é", "\u2028", "😀", "\n"])


def crossings(text: str, repeated: int) -> hops.Crossing:
    message = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": text * repeated})
    return hops.Crossing(hop="sql:x", way="out", message=msgspec.Raw(message), call="c")


@given(
    st.lists(LETTERS, min_size=1, max_size=5).map("".join),
    st.sampled_from([1, 20_000, hops.PIECE_BYTES]) | st.integers(1, hops.PIECE_BYTES),
)
def test_what_is_written_is_put_together_again_and_no_part_of_it_is_long(text: str, repeated: int) -> None:
    crossing, pieces = crossings(text, repeated), hops.Pieces()
    found: list[tuple[hops.Crossing | None, int]] = []
    for data in hops.write(crossing):
        assert len(data) < 2 * hops.PIECE_BYTES + 200
        found.append(pieces.whole(hops.read(bytes(jsonrpc.read(data).params))))
    assert found.pop() == (crossing, len(bytes(crossing.message)))
    assert [one for one, _ in found] == [None] * len(found)


def test_a_message_that_is_longer_than_the_bound_is_cut_and_its_size_told() -> None:
    crossing, pieces = crossings("x", 3 * hops.PIECE_BYTES), hops.Pieces(most_bytes=hops.PIECE_BYTES + 10)
    *_, last = [pieces.whole(hops.read(bytes(jsonrpc.read(data).params))) for data in hops.write(crossing)]
    assert last[0] is not None
    assert bytes(last[0].message) == bytes(crossing.message)[: hops.PIECE_BYTES + 10]
    assert last[1] == len(bytes(crossing.message))


def test_another_message_in_between_is_a_fault_and_the_next_one_is_whole() -> None:
    pieces, short = hops.Pieces(), crossings("x", 1)
    pieces.whole(hops.Crossing(hop="sql:x", way="out", piece="{", more=True))
    with pytest.raises(msgspec.ValidationError, match="follow each other"):
        pieces.whole(short)
    assert pieces.whole(short)[0] == short
    pieces.whole(hops.Crossing(hop="sql:x", way="out", piece="{", more=True))
    with pytest.raises(msgspec.ValidationError, match="follow each other"):
        pieces.whole(hops.Crossing(hop="sql:y", way="out", piece="}"))
