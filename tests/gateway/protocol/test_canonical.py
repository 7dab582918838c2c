"""One value, one form, one hash: published vectors, and a second implementation that is plain and slow."""

from __future__ import annotations

import contextlib
import hashlib
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.protocol import canonical as subject
from gateway.protocol.canonical import (
    NotCanonicalError,
    canonical,
    hash_of_call,
    hash_within,
    params_hash,
    parse,
)


class Vector(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One published case: JSON text in, canonical text and hash out, or none where it has no form."""

    what: str
    method: str
    params: str
    canonical: str | None = None
    params_hash: str | None = None


VECTORS = msgspec.json.decode(
    (Path(subject.__file__).parent / "canonical_vectors.json").read_bytes(), type=list[Vector]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=10,
)


def plainly(value: Any) -> str:
    """Write canonical JSON by the letter of the rule."""
    if isinstance(value, dict):
        items = sorted(cast("dict[str, Any]", value).items())
        return "{" + ",".join(f"{plainly(key)}:{plainly(item)}" for key, item in items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(plainly(item) for item in cast("list[Any]", value)) + "]"
    if isinstance(value, float):
        return shortest(value)
    return json.dumps(value, ensure_ascii=False)


def shortest(number: float) -> str:
    """Write a double with the digits that Python finds: plainly from 1e-5 up to 1e16, with an exponent beyond."""
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)
    minus = "-" if sign else ""
    if text == "0":
        return f"{minus}0.0"
    if -5 < point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    if 0 < point <= 16:
        whole = text[:point].ljust(point, "0")
        return f"{minus}{whole}.{text[point:] or '0'}"
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{minus}{text[0]}{fraction}e{point - 1}"


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.what)
def test_the_published_vectors_hold(vector: Vector) -> None:
    params = vector.params.encode()
    if vector.params_hash is None:
        with pytest.raises(NotCanonicalError):
            params_hash(vector.method, params)
        return

    assert params_hash(vector.method, params) == vector.params_hash
    assert hashlib.sha256((vector.canonical or "").encode()).hexdigest() == vector.params_hash
    assert plainly({"method": vector.method, "params": json.loads(params or b"null")}) == vector.canonical


@given(JSON)
def test_a_plain_implementation_writes_the_same(value: Any) -> None:
    assert canonical(value).decode() == plainly(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_read_back_exactly_from_its_shortest_form(number: float) -> None:
    assert canonical(number).decode() == shortest(number)
    assert float(canonical(number)) == number


@given(JSON, st.text(max_size=10))
def test_the_way_of_writing_does_not_change_the_hash(value: Any, method: str) -> None:
    compact = json.dumps(value, separators=(",", ":")).encode()
    pretty = json.dumps(value, indent=2, ensure_ascii=False).encode()

    assert parse(compact) == value
    try:
        assert params_hash(method, compact) == params_hash(method, pretty)
    except NotCanonicalError:
        assert any("\ud800" <= char <= "\udfff" for char in method)


@given(JSON)
def test_the_canonical_form_is_its_own(value: Any) -> None:
    assert canonical(parse(canonical(value))) == canonical(value)


@given(st.binary(max_size=60))
def test_any_bytes_are_hashed_or_refused(data: bytes) -> None:
    try:
        assert len(params_hash("m", data)) == 64
    except NotCanonicalError:
        return


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {"a": [1, float("-inf")]}, "\ud800", {"\udfff": 1}]
)
def test_a_value_in_memory_that_has_no_form_is_refused(value: Any) -> None:
    with pytest.raises(NotCanonicalError):
        canonical(value)


def test_a_value_nested_without_end_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(NotCanonicalError):
        canonical(deep)
    with pytest.raises(NotCanonicalError):
        parse(b"[" * 100_000 + b"]" * 100_000)


def test_absent_params_are_null() -> None:
    assert params_hash("ping", b"") == params_hash("ping", b"null") != params_hash("ping", b"{}")


TEXTS = st.sampled_from(
    [
        '{"a":1,"a":2}', '{"b":"\\u003a","b":1}', '{"b":1.0}', '{"n":-0}', '{"n":1e400}', '{"n":12345678901234567890}',
        '{"t":"\\ud800"}', '{"t":"é","s":"\\u00e9"}', '[1,2,{"z":null,"a":true}]', "nonsense", "",
        '{"n":9007199254740993}',
    ]
)  # fmt: skip


WITHIN = st.sampled_from(['"id":1,', '"params":{},', '"a":0,', '"":0,', '"b":12,', '"_meta":{},', " "])


@given(
    st.sampled_from([1, "x", 1.5, 1e5, 1e22, None]),
    st.sampled_from(
        [{"b": 1, "a": "é"}, {"a": {"b": [1, 2]}}, {"a": 1e5}, {"a": 0.5}, {"_meta": {}}, {}, [], None]
    ),
    st.booleans(),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 3), WITHIN), max_size=2),
)
def test_the_hash_of_params_within_a_message_is_theirs_or_none(
    id_: Any, params: Any, spaced: bool, escaped: bool, more: list[tuple[int, str]]
) -> None:
    message = {"jsonrpc": "2.0", "id": id_, "params": params}
    text = json.dumps(message, separators=None if spaced else (",", ":"), ensure_ascii=escaped)
    for which, what in more:
        starts = [at + 1 for at in range(len(text) - 2) if text[at] == "{" and text[at + 1] != "}"]
        at = starts[which % len(starts)]
        text = text[:at] + what + text[at:]
    data = text.encode()
    found = hash_within("m", data, without="_meta")
    if found is None:
        return
    within = bytes(msgspec.json.decode(data, type=dict[str, msgspec.Raw])["params"])
    assert found == params_hash("m", within)
    assert "_meta" not in json.loads(within)
    parse(data)  # which tells of a member that is there twice


def test_the_params_of_a_long_plain_message_are_hashed_within_it() -> None:
    params = b'{"name":"echo","arguments":{"text":"%b","n":[1,true,null]}}' % (b"x" * 70_000)
    for message in (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}', b'{"params":%b}'):
        assert hash_within("tools/call", message % params, without="_meta") == params_hash(
            "tools/call", params
        )


PIECES = st.sampled_from(
    [
        '"a":"é"', '"b":"x\u007f/"', '"b":"y"', '"z":1', '"z":1.0', '"z":-0', '"n":null', '"t":true', '"t":false',
        '"l":[1,{"b":2,"a":3}]', '"l":[1, 2]', '"o":{"b":1,"a":"c"}', '"o":{"b":1,"b":1}', '"":""', '"\U0001f701":1',
        '"\uffff":"e"', '"e":"\\n"', '"e":"\\u0041"', '"\\u0041":1', ' "s":""', '"n" :null', '"n":nullx',
    ]
)  # fmt: skip
"""Members of an object, or nearly."""


@settings(max_examples=400)
@given(
    st.lists(PIECES, max_size=5),
    st.sampled_from(["{%s}"] * 6 + ["{ %s}", "[%s]", "{%s,}"]),
    st.text(max_size=4),
)
@example(['"":""', '"a":"é"', '"b":"y"'], "{%s}", "arguments")
@example([f'"k{number}":"x"' for number in range(10, 50)], "{%s}", "many")
def test_the_hash_of_a_call_is_that_of_its_params_or_none(
    pieces: list[str], brackets: str, name: str
) -> None:
    data = (brackets % ",".join(pieces)).encode()
    try:
        arguments = msgspec.json.decode(b'{"a":%b}' % data, type=dict[str, msgspec.Raw])["a"]
    except msgspec.DecodeError:
        return
    params = b'{"name":%b,"arguments":%b}' % (msgspec.json.encode(name), data)
    try:
        expected = params_hash("tools/call", params)
    except NotCanonicalError:
        expected = None
    for params in (b'{"name":%b,"arguments":%b}', b'{"arguments":%b,"name":%b}'):
        parts = (msgspec.json.encode(name), data)
        message = b'{"params":%b,"id":1}' % (params % (parts if params.startswith(b'{"n') else parts[::-1]))
        found = hash_of_call(name, arguments, message)
        assert found in (None, expected)
        if expected is not None and data.startswith(b"{") and data == canonical(parse(data)):
            assert found == expected


BESIDE = [
    "",
    '"b":1,',
    '"b":12,',
    '"b":1234,',
    '"b":":",',
    '"b":"\\u003a",',
    '"b":"\\\\u003a",',
    '"c":{"b":1},',
]
"""What stands beside a number, and before another member `b`."""


@settings(max_examples=300)
@given(
    st.lists(
        st.floats() | st.integers() | st.sampled_from(["1e5", "1e22", "1.50", "-0.0"]), min_size=1, max_size=4
    ),
    st.sampled_from(["%s", "%.20e", "%.1f", "%.40f", "%E", "%.17g"]),
    st.sampled_from(BESIDE),
)
@example(["1e6"], "%s", '"b":1,')
@example(["1e7"], "%s", '"b":12,')
def test_numbers_however_they_are_written_have_one_hash_or_none(
    numbers: list[float | int | str], form: str, beside: str
) -> None:
    texts = [form % number if isinstance(number, float) else str(number) for number in numbers]
    rows = ",".join(f'{{{beside}"price":{text},"b":2}}' for text in texts)
    data = f'{{"rows":[{rows}]}}'.encode()
    try:
        value = {"method": "tools/call", "params": {"name": "n", "arguments": parse(data)}}
        expected = hashlib.sha256(canonical(value)).hexdigest()
    except NotCanonicalError:
        expected = None
    params = b'{"name":"n","arguments":%b}' % data
    found = None
    with contextlib.suppress(NotCanonicalError):
        found = params_hash("tools/call", params)
    assert found == expected
    message = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params
    assert hash_within("tools/call", message, without="_meta") in (None, expected)
    with contextlib.suppress(msgspec.DecodeError):
        arguments = msgspec.json.decode(params, type=dict[str, msgspec.Raw])["arguments"]
        assert hash_of_call("n", arguments, message) in (None, expected)


NUMBERS = [
    "0",
    "-7",
    "-0",
    "9007199254740991",
    "9007199254740992",
    "-9007199254740992",
    "1.0",
    "1e2",
    "1e999",
]


@pytest.mark.parametrize("number", [*NUMBERS, "1" * 30, "true", "null"])
@pytest.mark.parametrize("levels", [0, 1, 5, 6, 7, 40])
def test_a_number_is_hashed_alike_however_deep_it_stands(number: str, levels: int) -> None:
    nested = (
        '[{"z":1,"a":' * (levels // 2)
        + "[" * (levels % 2)
        + number
        + "]" * (levels % 2)
        + "}]" * (levels // 2)
    )
    data = nested.encode()
    try:
        expected = hashlib.sha256(canonical({"method": "m", "params": parse(data)})).hexdigest()
    except NotCanonicalError:
        with pytest.raises(NotCanonicalError):
            params_hash("m", data)
        return
    assert params_hash("m", data) == expected
    within = hash_within("m", b'{"params":{"a":%b}}' % data, without="_meta")
    assert within in (None, params_hash("m", b'{"a":%b}' % data))


@given(
    st.text(max_size=6),
    TEXTS | JSON.map(json.dumps) | JSON.map(lambda v: json.dumps(v, indent=1)),
)
def test_the_quick_hash_is_the_hash_of_the_canonical_form_and_fails_where_that_does(
    method: str, params: str
) -> None:
    data = params.encode()

    def plain() -> str:
        value = parse(data) if data else None
        return hashlib.sha256(canonical({"method": method, "params": value})).hexdigest()

    found: list[str] = []
    for way in (plain, lambda: params_hash(method, data)):
        try:
            found.append(way())
        except NotCanonicalError:
            found.append("none")
    assert found[0] == found[1]
