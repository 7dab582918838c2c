"""Server-sent events: whatever is encoded is parsed again, however it is cut into chunks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.sse import Event, SseParser, comment, encode

LIMIT = 1 << 20
NAMES = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), min_size=1, max_size=8)


def parse(data: bytes, limit: int = LIMIT) -> list[Event]:
    return SseParser(limit).feed(data)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({place % (len(data) + 1) for place in cuts})
    edges = [0, *places, len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(
    datas=st.lists(st.binary(max_size=40).filter(lambda data: b"\r" not in data), max_size=6),
    id_=st.none() | NAMES.filter(lambda name: not name.startswith(" ")),
    retry=st.none() | st.integers(0, 10**8),
    cuts=st.lists(st.integers(0, 10_000), max_size=8),
)
def test_what_is_encoded_is_parsed_again_wherever_it_is_cut(
    datas: list[bytes], id_: str | None, retry: int | None, cuts: list[int]
) -> None:
    wire = b"".join(encode(data, id=id_, retry=retry) + comment(b"still here") for data in datas)
    parser = SseParser(LIMIT)
    events = [event for chunk in cut(wire, cuts) for event in parser.feed(chunk)]
    assert [event.data for event in events] == datas
    assert all(event.id == id_ and event.retry == retry and event.size is None for event in events)
    assert parser.last_id == (id_ if datas else None)


@given(
    wire=st.text("ab:\r\n \ufeffdataid", max_size=60).map(str.encode),
    cuts=st.lists(st.integers(0, 99), max_size=5),
)
def test_where_a_stream_is_cut_changes_nothing(wire: bytes, cuts: list[int]) -> None:
    parser = SseParser(LIMIT)
    assert [event for chunk in cut(wire, cuts) for event in parser.feed(chunk)] == parse(wire)


@given(
    wire=st.lists(
        st.sampled_from([b"data: ", b"x" * 7, b"\n", b"\n\n", b"\r", b"id: 4", b": no"]), max_size=40
    ),
    limit=st.integers(1, 30),
)
def test_no_event_within_the_limit_is_longer_than_the_limit(wire: list[bytes], limit: int) -> None:
    parser = SseParser(limit)
    for event in (event for chunk in wire for event in parser.feed(chunk)):
        if event.size is None:
            assert len(event.data) <= limit
        else:
            assert event.size > limit


@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_of_the_format_ends_a_line(eol: bytes) -> None:
    wire = eol.join([b"event: endpoint", b"data: /a", b"data:b", b"id", b"", b""])
    assert parse(wire) == [Event(b"/a\nb", "endpoint", "")]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_other_line_separators_are_data(character: str) -> None:
    data = f'{{"a":"{character}"}}'.encode()
    assert parse(encode(data)) == [Event(data)]


def test_newlines_between_json_tokens_become_data_lines_of_one_event() -> None:
    assert parse(encode(b'{\r\n"a":\r1\n}')) == [Event(b'{\n"a":\n1\n}')]


def test_a_priming_event_is_told_although_it_has_no_data() -> None:
    assert parse(b"id: 7\nretry: 500\ndata: \n\n") == [Event(b"", id="7", retry=500)]
    assert parse(b"id: 7\n\n") == [Event(b"", id="7")]


def test_the_last_id_stays_until_another_comes() -> None:
    assert [event.id for event in parse(b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n")] == ["1", "1", ""]


def test_an_unusable_field_is_ignored() -> None:
    assert parse(b"id: a\0b\nretry: soon\nretry: -1\nfuture: x\ndata: y\n\n") == [Event(b"y")]


def test_a_byte_order_mark_is_skipped_at_the_start_only() -> None:
    assert parse(b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\ndata: c\n\n") == [Event(b"a"), Event(b"c")]


def test_an_event_without_its_blank_line_is_not_told() -> None:
    assert parse(b"data: a\n\ndata: cut of") == [Event(b"a")]


def test_an_event_over_the_limit_is_told_by_its_size_and_the_next_one_is_whole() -> None:
    parser = SseParser(100)
    events = [event for _ in range(1000) for event in parser.feed(b"data: " + b"x" * 994 + b"\n")]
    events += parser.feed(b"\ndata: next\n\n")
    assert events[1:] == [Event(b"next")]
    assert events[0].size is not None
    assert events[0].size > 1_000_000
    assert len(events[0].data) <= 4096
    assert events[0].data.startswith(b"xxx")


def test_a_line_that_never_ends_is_held_in_bounded_memory() -> None:
    parser = SseParser(1000)
    for _ in range(1000):
        assert parser.feed(b"x" * 1000) == []
    held = sum(map(len, parser._parts)) + sum(map(len, parser._data)) + len(parser._head)  # pyright: ignore[reportPrivateUsage]
    assert held < 5000
    assert [event.size for event in parser.feed(b"\n\n")] == [1_000_002]
