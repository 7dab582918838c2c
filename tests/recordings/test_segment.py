"""Lines of a recording: what is written is what is read, and nothing else is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, cast

import google_crc32c
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordings.errors import DamagedError
from recordings.frame import FIELDS, Frame
from recordings.segment import (
    BLOCK_BYTES,
    BLOCK_NS,
    BadLineError,
    Chain,
    Tally,
    decode,
    encode,
    hole,
    line_from,
    line_of,
    scan,
    settle,
)
from tests.recordings.recording_kit import frame, same, session

crc32c = cast("Callable[[bytes], int]", google_crc32c.value)  # pyright: ignore[reportUnknownMemberType]
texts = st.text(max_size=20)
numbers = st.integers(min_value=0, max_value=2**63 - 1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
frames = st.builds(
    frame,
    numbers,
    json_values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40),
    st.sampled_from(["request", "response", "raw", "hook", "chunk"]),
    at=numbers,
    wall=st.none() | numbers,
    peer=st.none() | texts,
    life=st.integers(1, 65535),
    way=st.sampled_from([None, "core>", ">core", "peer>", ">peer", "inside"]),
    lane=st.none() | texts,
    id=st.none() | texts | st.integers(-(2**53), 2**63) | st.just(msgspec.UNSET),
    re=st.none() | numbers,
    op=st.none() | numbers,
    method=st.none() | texts,
    flags=st.lists(st.sampled_from(["late", "orphan", "fault"]), max_size=2).map(tuple),
    x=st.none() | st.dictionaries(texts, json_values, max_size=3),
)


@given(frames)
@settings(max_examples=300, deadline=None)
def test_a_frame_that_is_read_is_the_frame_that_was_written(each: Frame) -> None:
    line = encode(each)
    assert line.count(b"\n") == 1
    assert same([decode(line)], [settle(each)])
    assert encode(decode(line)) == line


@given(json_values.map(lambda value: json.dumps(value, indent=1).encode()))
@settings(deadline=None)
def test_newlines_between_tokens_become_spaces_and_no_other_byte_of_a_body_changes(body: bytes) -> None:
    assert bytes(decode(encode(frame(1, body))).body) == body.replace(b"\n", b" ")


def test_a_line_is_json_with_fields_in_the_order_of_the_contract_and_the_checksum_last() -> None:
    line = encode(frame(7, b'{"a":1.0}', "request", id="9", peer="db", way="core>", flags=("late",)))
    fields = json.loads(line)
    assert list(fields) == ["seq", "at", "kind", "peer", "way", "id", "flags", "body", "crc"]
    without = line[: line.rindex(b',"crc":')] + b"}"
    assert fields["crc"] == crc32c(without)
    assert FIELDS[:4] == ("seq", "at", "wall", "kind")
    assert FIELDS[-3:] == ("body", "blob", "x")


def test_what_is_unset_costs_no_byte_and_a_usual_frame_at_most_125() -> None:
    body = b'{"jsonrpc":"2.0","id":1234,"result":{}}'
    line = encode(
        frame(123_456, body, "response", at=3_600_000_000_000, peer="database", way="peer>", re=123_455)
    )
    assert len(line) - len(body) <= 125
    assert b"null" not in line


@pytest.mark.parametrize(("id_", "text"), [(9, b'"id":9,'), ("9", b'"id":"9",'), (None, b'"id":null,')])
def test_an_id_keeps_its_type(id_: Any, text: bytes) -> None:
    line = encode(frame(1, b"{}", id=id_))
    assert text in line
    assert decode(line).id == id_


@pytest.mark.parametrize(
    "body",
    [b"\xff\xfe", b'{"a":"\xff"}', b'{"a":NaN}', b"{", b"Port 80", b"[" * 100_000, b'"a\nb"', b"{}{}"],
)
def test_what_is_no_json_is_kept_as_a_raw_frame_with_its_bytes_and_its_kind(body: bytes) -> None:
    line = encode(frame(1, body, "response", x={"a": 1}))
    stored = json.loads(line)
    assert stored["kind"] == "raw"
    assert stored["x"] == {"a": 1, "kind": "response"}
    assert bytes(decode(line).body) == body


def test_fields_of_later_versions_are_kept_in_x() -> None:
    payload = b'{"seq":1,"kind":"mark","novel":{"a":[1]},"x":{"b":2}}'
    line = b'%b,"crc":%d}\n' % (payload[:-1], crc32c(payload))
    assert decode(line).x == {"novel": {"a": [1]}, "b": 2}


def test_every_changed_byte_of_a_line_is_noticed() -> None:
    line = encode(frame(1, b'{"text":"hello"}', "request", id=3))
    for place in range(len(line)):
        for bit in range(8):
            changed = bytearray(line)
            changed[place] ^= 1 << bit
            with pytest.raises(BadLineError):
                decode(bytes(changed))


def lines_with_blocks(frames_: list[Frame], every: int) -> list[bytes]:
    chain = Chain()
    lines: list[bytes] = []
    for number, each in enumerate(frames_, 1):
        line = encode(each)
        chain.add(line, each.seq, each.at)
        lines.append(line)
        if number % every == 0:
            lines.append(chain.close(each.seq, each.at))
    return lines


@pytest.mark.parametrize(
    "payload", [b'{"seq":1,"lane":"\xe6a"}', b'{"\xe6a":1}', b'{"x":{"\xe6a":1}}', b"[", b"[" * 9999]
)
def test_a_line_that_is_no_frame_is_bad_also_with_a_checksum_that_is_right(payload: bytes) -> None:
    with pytest.raises(BadLineError):
        decode(line_from(payload))


def test_a_block_is_due_by_size_or_by_time_and_never_when_empty() -> None:
    chain = Chain()
    assert not chain.due(10**12)
    chain.add(b"x" * 10, 1, 1000)
    assert not chain.due(1000 + BLOCK_NS - 1)
    assert chain.due(1000 + BLOCK_NS)
    chain.add(b"x" * BLOCK_BYTES, 2, 1001)
    assert chain.due(1002)


def test_each_block_begins_with_the_block_line_before_it() -> None:
    lines = lines_with_blocks(session(4), 2)
    for block, covered in ((2, lines[:2]), (5, lines[2:5])):
        expected = hashlib.blake2b(b"".join(covered), digest_size=32).hexdigest()
        assert json.loads(lines[block])["x"]["hash"] == expected


def test_a_scan_gives_all_frames_of_an_intact_run() -> None:
    tally = Tally()
    frames_ = session(40)
    found = [each.frame for each in scan(lines_with_blocks(frames_, 7), tally) if each.frame.kind != "block"]
    assert same(found, frames_)
    assert (tally.frames, tally.blocks, tally.last, tally.torn_lines) == (40, 5, 40, 0)


def forged(line: bytes, old: bytes, new: bytes) -> bytes:
    """A line changed by somebody who knows the checksum."""
    changed = line.replace(old, new)
    assert changed != line
    payload = changed[: changed.rindex(b',"crc":')] + b"}"
    return b'%b,"crc":%d}\n' % (payload[:-1], crc32c(payload))


def test_a_line_that_was_changed_with_its_checksum_breaks_the_chain_at_its_block() -> None:
    lines = lines_with_blocks([frame(seq, b'{"n":1}') for seq in range(1, 10)], 3)
    lines[4] = forged(lines[4], b'"n":1', b'"n":2')
    with pytest.raises(DamagedError) as raised:
        list(scan(lines))
    assert raised.value.seq == 4
    assert raised.value.byte == sum(map(len, lines[:4]))


def test_a_block_that_was_changed_with_its_checksum_breaks_the_chain() -> None:
    lines = lines_with_blocks([frame(seq, b'{"n":1}') for seq in range(1, 10)], 3)
    lines[3] = forged(lines[3], b'"at":3000000', b'"at":3000001')
    with pytest.raises(DamagedError):
        list(scan(lines))


@pytest.mark.parametrize("change", ["remove", "twice", "swap"])
def test_lines_that_are_missing_or_moved_are_damage_that_names_the_number(change: str) -> None:
    lines = [encode(each) for each in session(9)]
    if change == "remove":
        del lines[4]
    elif change == "twice":
        lines.insert(4, lines[3])
    else:
        lines[4], lines[5] = lines[5], lines[4]
    with pytest.raises(DamagedError) as raised:
        list(scan(lines))
    assert raised.value.seq == 5
    assert raised.value.byte == sum(len(line) for line in lines[:4])
    assert "seq 5" in str(raised.value)


def test_a_bad_line_before_an_intact_one_is_damage_and_at_the_end_a_torn_tail() -> None:
    lines = [encode(each) for each in session(9)]
    bad = [*lines[:5], lines[5][:-5] + b"\n"]
    tally = Tally()
    assert len(list(scan([*bad, b"\0" * 100], tally))) == 5
    assert (tally.torn_lines, tally.torn_bytes) == (2, len(bad[5]) + 100)
    with pytest.raises(DamagedError) as raised:
        list(scan(bad + lines[6:]))
    assert (raised.value.seq, raised.value.byte) == (6, sum(map(len, lines[:5])))


def test_a_hole_that_the_writer_states_is_no_damage() -> None:
    tally = Tally()
    lines = [line_of(frame(1)), line_of(hole(2, 5, 0, "disk full")), line_of(frame(6))]
    assert len(list(scan(lines, tally))) == 3
    assert tally.holes == [(2, 5, "disk full")]
    with pytest.raises(DamagedError):
        list(scan([line_of(frame(1)), line_of(hole(2, 4, 0, "disk full")), line_of(frame(6))]))


def test_numbers_begin_at_0_or_1() -> None:
    for first in (0, 1):
        assert len(list(scan([line_of(frame(first)), line_of(frame(first + 1))]))) == 2
    with pytest.raises(DamagedError):
        list(scan([line_of(frame(2))]))
