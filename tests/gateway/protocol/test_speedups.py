"""What `gateway.protocol._speedups` finds in messages against what is found in Python: nothing else, and never more."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.calls import plain_params
from gateway.protocol import short_messages
from gateway.protocol.jsonrpc import BadMessage, Envelope, kind_of, scan

_speedups = pytest.importorskip(
    "gateway.protocol._speedups", reason="the speedups have not been compiled", exc_type=ImportError
)

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":[1,{"b":2}]}}}'
ANSWER = b'{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"a \\u00e9"}],"isError":false}}'
DEPTHS = (2, 3, 8, 128, 1000)


def same(data: bytes) -> None:
    """Whatever C finds in a message is what Python finds."""
    for most_depth in DEPTHS:
        same_at(data, most_depth)


def same_at(data: bytes, most_depth: int) -> None:
    envelope = envelope_of(data, most_depth)
    call = _speedups.read_call(data, most_depth)
    if call is not None:
        assert envelope is not None
        assert call == call_of(data, envelope)
        assert [type(part) for part in call] == [int, str, bytes, type(None)]
    asked = _speedups.read_asked(data, most_depth)
    assert (asked is None) == (call is None)
    if asked is not None:
        assert envelope is not None
        found = plain_params.asking(data, envelope.id, envelope.params)  # type: ignore[arg-type]
        assert found is not None
        assert asked == (found[0], found[1], bytes(found[2]), bytes(found[3]))
    answer = _speedups.read_answer(data, most_depth)
    if answer is not None:
        assert envelope is not None
        assert kind_of(envelope) == "response"
        assert answer == (envelope.id, bytes(envelope.result))
        assert [type(part) for part in answer] == [int, bytes]


def envelope_of(data: bytes, most_depth: int) -> Envelope | None:
    """What `scan` reads of a message that says all that it has to; None where it refuses that."""
    try:
        envelope, kind = scan(data, most_depth)
        if kind is None:
            kind_of(envelope)
    except BadMessage:
        return None
    return envelope if envelope.jsonrpc == "2.0" else None


def call_of(data: bytes, envelope: Envelope) -> tuple[Any, ...] | None:
    """A call as the long way reads it."""
    if kind_of(envelope) != "request" or envelope.method != "tools/call":
        return None
    plain = plain_params.read_legacy(data, envelope.params)
    return None if plain is None else (envelope.id, plain.name, bytes(envelope.params), None)


texts = st.text(max_size=20) | st.sampled_from(
    [
        "",
        "add",
        "tools/call",
        "2.0",
        "progressToken",
        "io.tieline/lane",
        "é",
        "\U0001f600",
        '"',
        "\\",
        "\x00",
        "\x1f",
    ]
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.sampled_from([0, -1, 2**63, -(2**63), 10**17, 10**18, 10**40]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
ids = st.integers() | st.sampled_from([0, 1, -1, 10**18 - 1, 10**18, 2**63, None, "1", 1.0, True])


@st.composite
def params(draw: st.DrawFn) -> Any:
    """The params of a call, most of them as they should be."""
    found: dict[str, Any] = draw(st.dictionaries(texts, values, max_size=3))
    found["name"] = draw(texts | values)
    for name in ("arguments", "_meta", "uri"):
        if draw(st.booleans()):
            found[name] = draw(values)
    if draw(st.booleans()):
        found["_meta"] = {draw(texts): draw(values)}
    return draw(st.sampled_from([found, found, found, draw(values)]))


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A message that is JSON, written in one way or another."""
    members: dict[str, Any] = {
        "jsonrpc": draw(st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2.0])),
        "id": draw(ids),
    }
    if draw(st.booleans()):
        members["method"] = draw(st.sampled_from(["tools/call", "tools/call", "tools/list", ""]))
        members["params"] = draw(params())
    else:
        members[draw(st.sampled_from(["result", "result", "error"]))] = draw(values)
    if draw(st.integers(0, 5)) == 0:
        members[draw(texts)] = draw(values)
    names = draw(st.permutations(list(members)))
    return json.dumps(
        {name: members[name] for name in names},
        ensure_ascii=draw(st.booleans()),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", "\r: ")])),
        indent=draw(st.sampled_from([None, None, None, 1])),
    ).encode(errors="surrogatepass")


PIECES = [
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\n", b"0", b"-", b"1e", b".", b"\x00", b"\xff", b"\xc3",
    b"\xed\xa0\x80", b"\\u", b"\\ud800", b"\\udc00", b'"id":1,', b'"name":"x",', b',"name":"y"', b"null",
    b"\xef\xbb\xbf",
    b'"_meta":{},', b'"progressToken"', b"io.tieline/lane", b'"uri":1,', b'"params":{},', b"tru",
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A message of which something was cut off, put in, left out or put elsewhere."""
    data = draw(messages() | st.sampled_from([CALL, ANSWER]))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        end = draw(st.integers(at, min(len(data), at + 3)))
        put = draw(st.sampled_from([b"", *PIECES]) | st.binary(max_size=2))
        data = data[:at] + put + data[end:]
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 4)) == 0 else data


@settings(max_examples=300)
@given(messages())
@example(CALL)
@example(ANSWER)
def test_what_is_read_in_c_is_what_python_reads(data: bytes) -> None:
    same(data)


@settings(max_examples=500)
@given(mutated())
def test_what_was_damaged_is_never_taken_for_something_else(data: bytes) -> None:
    same(data)


@settings(max_examples=200)
@given(st.binary(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join))
def test_bytes_of_any_kind_are_no_message_or_what_python_takes_them_for(data: bytes) -> None:
    same(data)


@pytest.mark.parametrize("whole", [CALL, ANSWER])
def test_a_message_that_ends_anywhere_before_its_end_is_none(whole: bytes) -> None:
    for size in range(len(whole)):
        same(whole[:size])
        assert _speedups.read_call(whole[:size], 128) is None
        assert _speedups.read_answer(whole[:size], 128) is None


def test_a_plain_call_is_read_whole() -> None:
    params = CALL.partition(b'"params":')[2][:-1]
    assert _speedups.read_call(CALL, 128) == (7, "add", params, None)
    assert _speedups.read_asked(CALL, 128) == (7, "add", params, b'{"a":[1,{"b":2}]}')
    assert _speedups.read_asked(CALL.replace(b'"arguments"', b'"more"'), 128)[3] == b"{}"


def test_members_stand_in_any_order_and_as_widely_as_they_like() -> None:
    spaced = (
        b' { "params" :\t{"name" : "\xc3\xa9" } , "id" : -12 ,"method": "tools/call","jsonrpc" :"2.0" } \r'
    )
    assert _speedups.read_call(spaced, 128) == (-12, "é", b'{"name" : "\xc3\xa9" }', None)
    assert _speedups.read_answer(b'{"result": [ ] ,"jsonrpc":"2.0","id":0}', 128) == (0, b"[ ]")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"id":7', b'"id":"7"'), (b'"id":7', b'"id":7.0'), (b'"id":7', b'"id":07'), (b'"id":7', b'"id":-0'),
        (b'"id":7', b'"id":7e1'), (b'"id":7', b'"id":-'), (b'"id":7', b'"id":null'), (b'"id":7', b'"id":true'),
        (b'"id":7', b'"id":1234567890123456789'), (b'"id":7', b'"id":7,"id":7'), (b'"id":7,', b""),
        (b'"id":7', b'"\\u0069d":7'), (b'"2.0"', b'"2.1"'), (b'"2.0"', b"2.0"), (b'"jsonrpc":"2.0",', b""),
        (b'"2.0"', b'"2.0","jsonrpc":"2.0"'), (b"}}", b"}},"), (b"{", b"\xef\xbb\xbf{"), (b"{", b"[{"), (b"7,", b"7,,"),
        (b"7,", b'7,"more":1,'), (b"7,", b"7 "), (b"7,", b"7\x00,"), (b"7,", b'7,"error":{},'), (b"}}", b"}} x"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("whole", [CALL, ANSWER])
def test_an_envelope_out_of_the_ordinary_is_left_to_python(whole: bytes, old: bytes, new: bytes) -> None:
    data = whole.replace(old, new, 1) if old != b"}}" else whole[: -len(old)] + new
    assert data != whole
    same(data)
    assert _speedups.read_call(data, 128) is None
    assert _speedups.read_answer(data, 128) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"tools/call", b"tools/list"), (b"tools/call", b"tools\\/call"), (b'"add"', b'"a\\u0064d"'), (b'"add"', b"7"),
        (b'"name":"add"', b'"name":"add","name":"b"'), (b'"name":"add",', b""), (b'"name"', b'"nam\\u0065"'),
        (b'"name"', b'"uri":"x","name"'), (b'"params":', b'"params":{},"params":'), (b'"params":{', b'"params":[{'),
        (b'"name"', b'"_meta":{"progressToken":1},"name"'), (b'"name"', b'"_meta":{"io.tieline/lane":"l"},"name"'),
        (b'"name"', b'"_meta":{},"_meta":{},"name"'), (b'"name"', b'"arguments":1,"name"'), (b"{", b'{"result":1,'),
    ],
)  # fmt: skip
def test_a_call_that_says_more_or_not_what_it_has_to_is_left_to_python(old: bytes, new: bytes) -> None:
    data = CALL.replace(old, new, 1)
    assert data != CALL
    same(data)
    assert _speedups.read_call(data, 128) is None
    assert _speedups.read_asked(data, 128) is None


@pytest.mark.parametrize(
    "value",
    [
        b"01", b"-", b"1e", b"1.", b".5", b"+1", b"1e+", b"--1", b"nul", b"nulll", b"tru e", b'"', b'"\\', b'"\\q"',
        b'"\\u12"', b'"\\u00zz"', b'"\\ud800"', b'"\\ud800\\u0041"', b'"\\udc00"', b'"\\ud800x"', b'"\x01"', b'"\x1f"',
        b'"\n"', b'"\xff"', b'"\xc0\x80"', b'"\xe0\x80\x80"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"',
        b'"\xf0\x80\x80\x80"',
        b'"\xc3"', b'"\xe2\x82"', b'"\xf0\x9f\x98"', b"[1,]", b"[,1]", b"[1 2]", b'{"a"}', b'{"a":}', b'{"a":1,}',
        b"{1:2}",
        b'{"a":1 "b":2}', b"[1}", b'{"a":1]', b"", b"'a'", b"NaN", b"Infinity", b"\x00", b"[\x00]", b"/**/1",
        b'{"a\x00":1}',
    ],
)  # fmt: skip
def test_what_is_no_json_is_left_to_python_wherever_it_stands(value: bytes) -> None:
    for data in (
        b'{"jsonrpc":"2.0","id":1,"result":%b}' % value,
        b'{"jsonrpc":"2.0","id":1,"result":{"a":[%b]}}' % value if value else ANSWER[:-1],
        b'{"jsonrpc":"2.0","id":1,"result":[0,%b]}' % value,
        CALL.replace(b"[1,", b"[%b," % value),
    ):
        same(data)
        assert _speedups.read_answer(data, 128) is None
        assert _speedups.read_call(data, 128) is None


@pytest.mark.parametrize("value", [
    b"-0", b"0", b"-1.5e-3", b"1E+9", b"1e999", b"123456789012345678901234567890", b'""',
    b'"\\"\\\\\\/\\b\\f\\n\\r\\t"',
    b'"\\u0000"', b'"\\ud83d\\ude00"', b'"\xf0\x9f\x98\x80"', b'"\xc2\x80\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"',
    b'"\x7f"',
    b"[]", b"[ ]", b"{ }", b"[[],{}]", b'{"":{"":[]}}', b"true", b"false", b"null", b'{"\\u0041":1,"A":2,"A":3}',
    b'"0123456789abcdef"', b'"0123456789abcde\\""', b'"' + b"x" * 500 + b'"',
])  # fmt: skip
def test_all_that_is_json_is_read(value: bytes) -> None:
    data = b'{"jsonrpc":"2.0","id":1,"result":%b}' % value
    same(data)
    assert _speedups.read_answer(data, 128) == (1, value)


@pytest.mark.parametrize("opens", [b"[", b'{"":'])
def test_json_that_nests_too_deep_is_left_to_python_and_what_just_does_not_is_read(opens: bytes) -> None:
    closes = b"]" if opens == b"[" else b"}"
    inner = b"" if opens == b"[" else b"1"
    for most in (2, 5, 128, 256, 1000):
        allowed = min(most, 256)
        for depth in (allowed - 1, allowed):
            value = opens * depth + inner + closes * depth
            data = b'{"jsonrpc":"2.0","id":1,"result":%b}' % value
            same_at(data, most)
            assert (_speedups.read_answer(data, most) is not None) == (depth + 1 <= allowed)
    assert _speedups.read_call(CALL, 1) is None
    assert _speedups.read_call(CALL, 5) is not None
    assert _speedups.read_call(CALL, 4) is None


def test_what_goes_on_opening_brackets_is_left_to_python() -> None:
    for data in (b"[" * 8000, b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 8000, b'{"a":' * 1500):
        assert _speedups.read_answer(data, 10**30) is None
        assert _speedups.read_call(data, -1) is None


def test_long_messages_are_left_to_those_who_read_them() -> None:
    for size, is_read in ((8192, True), (8193, False)):
        around = len(b'{"jsonrpc":"2.0","id":1,"result":""}')
        data = b'{"jsonrpc":"2.0","id":1,"result":"%b"}' % (b"x" * (size - around))
        assert len(data) == size
        assert (_speedups.read_answer(data, 128) is not None) is is_read


@pytest.mark.parametrize(
    "given", [(), (CALL,), (CALL, 128, 1), (bytearray(CALL), 128), (CALL.decode(), 128), (CALL, "1")]
)
def test_what_is_no_message_is_none(given: tuple[Any, ...]) -> None:
    for reads in (_speedups.read_call, _speedups.read_asked, _speedups.read_answer):
        assert reads(*given) is None


LINES: list[tuple[Callable[[int, bytes], bytes], Callable[[int, bytes], bytes]]] = [
    (_speedups.call_line, short_messages.call_line),
    (_speedups.answer_line, short_messages.answer_line),
]


@given(
    st.integers() | st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**100]),
    st.binary(max_size=600),
)
def test_lines_are_written_as_in_python(number: int, body: bytes) -> None:
    for fast, plain in LINES:
        assert fast(number, body) == plain(number, body)
        assert fast(number, memoryview(body)) == plain(number, body)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [(), (1,), ("1", b""), (1, "x"), (1.5, b""), (1, b"", b"")])
def test_what_is_no_id_or_no_body_raises(given: tuple[Any, ...]) -> None:
    for fast, _ in LINES:
        with pytest.raises((TypeError, BufferError)):
            fast(*given)
