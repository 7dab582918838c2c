"""Trace context in `_meta`: what is valid is read, what is not is as if it were not there."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol import trace

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_context_is_read_whole() -> None:
    found = trace.read(PARENT, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "userId=alice")

    assert found == trace.TraceContext(
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
        span_id="00f067aa0ba902b7",
        sampled=True,
        state="rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
        baggage="userId=alice",
    )


def test_the_sampled_flag_is_one_bit_of_several() -> None:
    assert [trace.read(f"{PARENT[:-2]}{flags}").sampled for flags in ("00", "01", "02", "03")] == [  # type: ignore[union-attr]
        False, True, False, True,
    ]  # fmt: skip


def test_a_later_version_may_say_more_and_the_first_may_not() -> None:
    assert trace.read(f"cc{PARENT[2:]}-more") is not None
    assert trace.read(f"{PARENT}-more") is None


@pytest.mark.parametrize(
    "parent",
    [
        None, 7, "", "x", PARENT.upper(), f"ff{PARENT[2:]}", f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01", f" {PARENT}", f"{PARENT}\n",
    ],
)  # fmt: skip
def test_what_is_not_valid_is_not_there(parent: object) -> None:
    assert trace.read(parent) is None


def test_state_and_baggage_that_are_too_long_or_no_text_are_left_out() -> None:
    found = trace.read(PARENT, "a" * 513, ["x"])

    assert found is not None
    assert (found.state, found.baggage) == ("", "")


@given(st.text())
def test_no_text_is_too_much(text: str) -> None:
    found = trace.read(text, text, text)

    assert found is None or trace.read(text) is not None
    assert all(trace.members(text))


def test_baggage_is_decoded_and_properties_are_not_part_of_a_value() -> None:
    assert trace.members("userId=alice, node=DF%2028;ttl=1,broken,=x") == {"userId": "alice", "node": "DF 28"}


def test_our_ids_are_the_same_for_the_same_frame_and_others_for_any_other() -> None:
    ids = {
        trace.span_id_of(session, seed, seq, side)
        for session in ("a", "b") for seed in (1, 2) for seq in (1, 2) for side in ("server", "client")
    }  # fmt: skip

    assert len(ids) == 16
    assert trace.span_id_of("a", 1, 1, "server") in ids
    assert all(re.fullmatch(r"[0-9a-f]{16}", id_) for id_ in ids)
    assert re.fullmatch(r"[0-9a-f]{32}", trace.trace_id_of("a", 1, 1))
