"""Chunks of a result: their order on the way in, their numbers and credits on the way out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.pi.stream import Incoming, Outgoing
from gateway.protocol.pi_messages import Backpressure, Chunk


@given(st.lists(st.booleans(), max_size=20), st.none() | st.integers(0, 5))
def test_what_is_numbered_on_the_way_out_is_in_order_on_the_way_in(
    last: list[bool], granted: int | None
) -> None:
    outgoing, incoming = Outgoing(granted), Incoming()

    for is_last in last:
        if is_last or outgoing.may_send:
            chunk = outgoing.next(is_last=is_last)
            assert isinstance(chunk.backpressure, Backpressure) == (granted is not None)
            assert incoming.take(chunk) is None

    sent = outgoing.index - sum(last)
    assert granted is None or sent <= granted


@pytest.mark.parametrize(
    ("indices", "reason"),
    [
        ([1], "chunk_missing"),
        ([0, 0], "chunk_repeated"),
        ([0, 1, 3], "chunk_missing"),
        ([0, 1, 2, 1], "chunk_repeated"),
    ],
)
def test_a_gap_or_a_repeat_is_an_invalid_request(indices: list[int], reason: str) -> None:
    incoming = Incoming()
    *right, wrong = indices
    assert [incoming.take(Chunk(index=index, is_last=False)) for index in right] == [None] * len(right)

    fault = incoming.take(Chunk(index=wrong, is_last=True))

    assert fault is not None
    assert (fault.code, fault.reason) == ("invalid_request", reason)
    assert fault.details == {"index": wrong, "expected": len(right)}
