"""The structs of the Pi extension protocol against its schema: what one takes, the other takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.calls.pi.events import decision
from gateway.protocol import pi
from gateway.protocol.pi import BadPiMessage
from gateway.protocol.pi_messages import (
    CODES,
    PAYLOADS,
    TYPES,
    EventHook,
    HostCall,
    Register,
    ToolCall,
    ToolResult,
)
from gateway.protocol.pi_schema import schema

GIVEN: dict[str, Any] = json.loads((Path(__file__).parent / "pi_extension_protocol.json").read_text())
"""The schema as the protocol publishes it."""
given_schema = jsonschema_rs.Draft202012Validator(GIVEN)
our_schema = jsonschema_rs.Draft202012Validator(schema())

text = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=12), st.just("x" * 3_000), st.just("")
)
scalar = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**25), 10**25), st.integers(-3, 9).map(float),
    st.floats(allow_nan=False, allow_infinity=False), text,
)  # fmt: skip
anything = st.recursive(
    scalar, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=6
)
any_object = st.dictionaries(text, anything, max_size=3)


def valid(part: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values of one part of the given schema, seldom others."""
    if "$ref" in part:
        return valid(GIVEN["$defs"][part["$ref"].rpartition("/")[2]])
    if "enum" in part:
        return st.sampled_from(part["enum"])
    kind = part.get("type")
    if kind == "string":
        return text
    if kind == "boolean":
        return st.booleans()
    if kind == "integer":
        return st.integers(0, 10**22) | st.integers(0, 50).map(float)
    if kind == "array":
        return st.lists(valid(part["items"]), max_size=3)
    properties = {name: valid(inner) for name, inner in part.get("properties", {}).items()}
    required = {name: properties.pop(name) for name in part.get("required", ())}
    extra = st.dictionaries(st.sampled_from(("x-new", "более", "error_")), anything, max_size=1)
    known = st.fixed_dictionaries(required, optional=properties)
    return st.tuples(extra, known).map(lambda both: both[0] | both[1])


def whole(type_: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "id": text,
            "version": st.just("1.0"),
            "type": st.just(type_),
            "payload": valid(GIVEN["$defs"][type_]),
        },
        optional={"trace": anything},
    )


messages = st.sampled_from(TYPES).flatmap(whole)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return each member of a value, at any depth, as its container and its name or index."""
    names: list[Any] = []
    if type(value) is dict:
        names = sorted(cast(dict[str, Any], value))
    elif type(value) is list:
        names = list(range(len(cast(list[Any], value))))
    here = cast(dict[Any, Any], value)
    return [(here, name) for name in names] + [inner for name in names for inner in places(here[name])]


@st.composite
def broken(draw: st.DrawFn) -> Any:
    """Return a message in which one to three members are gone, null, of another type, or in a list."""
    message: Any = draw(messages)
    for _ in range(draw(st.integers(1, 3))):
        there = places(message)
        if not there:
            break
        place, name = draw(st.sampled_from(there))
        what = draw(st.sampled_from(("gone", "null", "other", "wrapped")))
        if what == "gone":
            del place[name]
        else:
            place[name] = {"null": None, "other": draw(anything), "wrapped": [place[name]]}[what]
    return message


def takes(data: bytes) -> bool:
    try:
        pi.read(data)
    except BadPiMessage:
        return False
    return True


def same_for_all(message: Any) -> bool:
    data = json.dumps(message).encode()
    verdict = takes(data)
    assert verdict == given_schema.is_valid(message)
    assert verdict == our_schema.is_valid(message)
    return verdict


@settings(max_examples=150, deadline=None)
@given(messages)
def test_generated_messages_are_taken_exactly_as_the_schema_takes_them(message: dict[str, Any]) -> None:
    same_for_all(message)


@settings(max_examples=250, deadline=None)
@given(broken())
@example(
    {"id": "1", "version": "1.0", "type": "host_result",
     "payload": {"call_id": "c", "output": {}, "is_error": False, "error": None}}
)  # fmt: skip
@example({"id": "1", "version": "1.0", "type": "slash_command", "payload": {"name": "x", "args": None}})
@example({"id": "1", "version": 1.0, "type": "slash_command", "payload": {"name": "x"}})
@example([])
@example(None)
def test_broken_messages_are_taken_exactly_as_the_schema_takes_them(message: Any) -> None:
    same_for_all(message)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(TYPES), any_object)
def test_any_payload_is_taken_exactly_as_the_schema_takes_it(type_: str, payload: dict[str, Any]) -> None:
    same_for_all({"id": "1", "version": "1.0", "type": type_, "payload": payload})


@settings(max_examples=120, deadline=None)
@given(messages)
def test_a_message_that_is_read_and_written_again_is_the_same_and_fits_the_schema(
    message: dict[str, Any],
) -> None:
    if not given_schema.is_valid(message):
        return
    once = pi.read(json.dumps(message).encode())

    written = pi.write(once.id, once.body)

    assert given_schema.is_valid(json.loads(written))
    again = pi.read(written)
    assert msgspec.json.encode(again.body) == msgspec.json.encode(once.body)
    assert pi.raw(once.id, once.type, bytes(once.payload)).endswith(bytes(once.payload) + b"}")


@pytest.mark.parametrize("type_", TYPES)
def test_each_type_has_a_struct_and_the_same_required_members_as_in_the_schema(type_: Any) -> None:
    required = {field.encode_name for field in msgspec.structs.fields(PAYLOADS[type_]) if field.required}
    members = {field.encode_name for field in msgspec.structs.fields(PAYLOADS[type_])}

    assert required == set(GIVEN["$defs"][type_]["required"])
    assert members == set(GIVEN["$defs"][type_]["properties"])


def test_the_types_and_the_codes_are_those_of_the_schema() -> None:
    assert list(TYPES) == GIVEN["properties"]["type"]["enum"]
    assert list(CODES) == GIVEN["$defs"]["host_call_error_code"]["enum"]


def test_bodies_stay_the_bytes_that_came() -> None:
    body = b'{ "b" : 1.50,\t"a":"\\u00e9" }'
    data = (
        b'{"payload":{"name":"n","input":%b,"call_id":"c"},"id":"1","type":"tool_call","version":"1.0"}'
        % body
    )

    message = pi.read(data)

    assert isinstance(message.body, ToolCall)
    assert bytes(message.body.input) == body
    assert pi.write("2", message.body).count(body) == 1


def test_an_integer_may_be_written_as_a_double_and_counts_as_the_integer() -> None:
    payload = {"call_id": "c", "capability": "read", "method": "fs", "params": {"x": 1.0}, "timeout_ms": 5e2}

    message = pi.read(
        json.dumps({"id": "1", "version": "1.0", "type": "host_call", "payload": payload}).encode()
    )

    assert isinstance(message.body, HostCall)
    assert message.body.timeout_ms == 500
    assert isinstance(message.body.timeout_ms, int)
    assert bytes(message.body.params) == b'{"x":1.0}'
    assert json.loads(bytes(message.payload)) == {**payload, "timeout_ms": 500}
    assert b'"timeout_ms":500}' in bytes(message.payload), "the next reader holds it to be an integer"


def _with(payload: bytes, **envelope: str) -> bytes:
    head = {"id": "i", "version": "1.0", "type": "tool_result", **envelope}
    return json.dumps(head).encode()[:-1] + b',"payload":' + payload + b"}"


RIGHT = b'{"call_id":"c","output":{},"is_error":false}'


@pytest.mark.parametrize(
    ("data", "reason", "id_"),
    [
        (_with(b'{"call_id":"c","output":{},"is_error":false,"call_id":"d"}'), "duplicate-key", "i"),
        (_with(b'{"call_id":"c","output":{"a":[{"k":1,"\\u006b":2}]},"is_error":false}'), "duplicate-key", "i"),
        (_with(b'{"call_id":"c","output":{"k":1,"k":2,"a":"\\u003a"},"is_error":false}'), "duplicate-key", "i"),
        (_with(RIGHT)[:-1] + b',"id":"other"}', "duplicate-key", None),
        (_with(b'{"call_id":"c","output":{"n":1e999},"is_error":false}'), "number", "i"),
        (_with(b'{"call_id":"c","output":{"n":%b},"is_error":false}' % (b"7" * 9000)), "number", "i"),
        (_with(b'{"call_id":"c","output":{"n":%b},"is_error":false}' % (b"[" * 200 + b"]" * 200)), "too-deep", "i"),
        (_with(b'{"call_id":"c","output":{"n":NaN},"is_error":false}'), "not-json", "i"),
        (_with(b'{"call_id":"c","output":{"n":"\\ud800"},"is_error":false}'), "not-json", "i"),
        (_with(b'{"call_id":"c","output":{"n":"\xff"},"is_error":false}'), "not-utf8", "i"),
        (b"\xef\xbb\xbf" + _with(RIGHT), "not-json", "i"),
        (_with(RIGHT)[:-20], "not-json", "i"),
        (_with(RIGHT, version="2.0"), "version", "i"),
        (_with(RIGHT, type="hello"), "type", "i"),
        (_with(b'{"call_id":"c","output":[],"is_error":false}'), "shape", "i"),
        (_with(b'{"call_id":"c","output":{},"is_error":0}'), "shape", "i"),
        (b'{"version":"1.0","type":"tool_result","payload":{"id":"inner"}}', "shape", None),
        (b"[" * 100_000, "too-deep", None),
        (b"", "not-json", None),
        (b"hello", "not-json", None),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused_with_its_reason_and_its_id(
    data: bytes, reason: str, id_: str | None
) -> None:
    with pytest.raises(BadPiMessage) as caught:
        pi.read(data)

    assert (caught.value.reason, caught.value.salvaged.id) == (reason, id_)


def test_the_beginning_of_a_message_tells_its_id_and_type() -> None:
    head = b'{"id":"m-9","type":"tool_result","version":"1.0","payload":{"id":"x","type":"log","output":"aaaa'

    assert pi.salvage(head) == ("m-9", "tool_result")
    assert pi.salvage(b'{"id":9,"type":"hello","id":"a","id":"b"') == (None, "")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=80).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    takes(data)
    pi.salvage(data)


def test_a_member_may_be_called_as_it_likes_and_no_colon_in_it_counts() -> None:
    for output in ('{"a:b":":","c\\u003Ad":":\\u003a"}', '{":":{":":1}}', '{"a":{"b":1},"b":{"a":1}}'):
        assert takes(_with(b'{"call_id":"c","output":%b,"is_error":false}' % output.encode()))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("a", "b:", "c\\u003a", "\\u0061")), st.sampled_from(("1", '":"', '{"a":0}'))
        )
    )
)
def test_a_key_stands_twice_exactly_where_a_plain_reader_finds_it_twice(pairs: list[tuple[str, str]]) -> None:
    output = "{" + ",".join(f'"{key}":{value}' for key, value in pairs) + "}"
    read_pairs: list[str] = []

    def keep(found: list[tuple[str, Any]]) -> None:
        read_pairs[:] = [key for key, _ in found]

    json.loads(output, object_pairs_hook=keep)
    twice = len(set(read_pairs)) != len(read_pairs)
    assert takes(_with(b'{"call_id":"c","output":%b,"is_error":false}' % output.encode())) == (not twice)


def test_what_was_not_given_is_not_written() -> None:
    register = Register(name="n", version="1", api_version="1.0")

    assert pi.write("1", register) == (
        b'{"id":"1","version":"1.0","type":"register",'
        b'"payload":{"name":"n","version":"1","api_version":"1.0"}}'
    )
    assert isinstance(pi.read(_with(RIGHT)).body, ToolResult)


PIECES = [b"", b'"', b"{", b"}", b",", b'"a":1,', b"[", b"\xff", b" ", b"null", b":", b"\\"]
near_an_answer = st.sampled_from(
    [
        b'{"id":"g1","version":"1.0","type":"event_hook","payload":{"event":"tool_call","data":{"result":{"input":{"a":1}}}}}',
        b'{"id":"g1","version":"1.0","type":"event_hook","payload":{"event":"tool_call","data":{"result":null}}}',
        b'{"id":"g1","version":"1.0","type":"event_hook","payload":{"event":"tool_call"}}',
        '{"id":"g1","version":"1.0","type":"event_hook","payload":{"event":"tool_call","data":{"result":{"é":"ü"}}}}'.encode(),
        b'{"id":"g1","version":"1.0","type":"event_hook","payload":{"event":"\\u003a","event":"x","data":{}}}',
        b'{"id":"g1","version":"1.0","type":"event_hook","payload":{"event":"x","data":{"result":1e999}}}',
    ]
)


@settings(max_examples=400, deadline=None)
@given(near_an_answer, st.data())
def test_an_answer_that_is_read_shortly_is_what_reading_it_whole_gives(
    data: bytes, draw: st.DataObject
) -> None:
    """Whatever the short way takes is right; what it leaves is looked at as ever."""
    for _ in range(draw.draw(st.integers(0, 3))):
        at = draw.draw(st.integers(0, len(data)))
        piece = draw.draw(
            st.sampled_from(
                [b"", b'"', b"{", b"}", b",", b'"a":1,', b"[", b"\xff", b" ", b"null", b":", b"\\"]
            )
        )
        data = data[:at] + piece + data[at + draw.draw(st.integers(0, 2)) :]
    found = pi.read_answer(data)
    if found is None:
        return
    read = pi.read(data)
    body = read.body
    assert isinstance(body, EventHook)
    assert (found.id, found.event, found.result) == (read.id, body.event, bytes(decision(body)))
