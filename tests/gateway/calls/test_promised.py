"""Output schemas as types against the schemas themselves: what a type takes, its schema takes, whatever it is."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, cast

import jsonschema_rs
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from gateway.calls.inputs import Inputs
from gateway.calls.promised import readers_of
from gateway.calls.results import Results
from gateway.protocol.jsonrpc import LongAnswer, ToolResult
from gateway.protocol.long_messages import read_long
from tests.no_descriptors import cannot_load

NAMES = ["text", "n", 'a"b', "größe", "", "items"]

scalar_schemas = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "number", "boolean", "null"])}),
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "minLength": st.integers(-1, 3),
            "maxLength": st.integers(0, 3),
            "title": st.just("T"),
            "format": st.just("date"),
            "pattern": st.just("^a"),
        },
    ),
    st.fixed_dictionaries({"type": st.just("integer")}, optional={"minimum": st.integers(0, 2)}),
    st.fixed_dictionaries(
        {"enum": st.lists(st.one_of(st.sampled_from(["a", "b"]), st.just(1)), min_size=1, max_size=2)},
        optional={"type": st.sampled_from(["string", "integer"])},
    ),
    st.fixed_dictionaries(
        {
            "type": st.lists(
                st.sampled_from(["string", "null", "integer", "number", "object", "array"]), max_size=3
            )
        }
    ),
    st.sampled_from([{}, True, False, {"description": "anything"}, {"const": 1}, {"$ref": "#"}, {"not": {}}]),
)


def _deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={
                "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
                "required": st.lists(st.sampled_from(NAMES), max_size=2),
                "additionalProperties": st.one_of(st.booleans(), inner),
                "minProperties": st.just(1),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={"items": inner, "minItems": st.integers(0, 2), "maxItems": st.integers(0, 2)},
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=3)}),
    )


schemas = st.recursive(scalar_schemas, _deeper, max_leaves=6)
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from([0, 1, -1, 1.0, 0.5, 1 << 53, 1 << 64, 1 << 100, -(1 << 70)]),
        st.sampled_from(["", "a", "b", "ab", "abc", "é", "🜁🜁", "2026-01-01"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*NAMES, "other"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def fitting(schema: Any) -> st.SearchStrategy[Any]:
    """Values that a schema may well take."""
    if not isinstance(schema, dict) or not schema:
        return values
    told = cast("dict[str, Any]", schema)
    if isinstance(told.get("anyOf"), list) and told["anyOf"]:
        return st.one_of(*map(fitting, told["anyOf"]))
    kind = told.get("type")
    if kind == "object":
        properties: dict[str, Any] = told.get("properties") or {}
        wanted = {name: fitting(properties.get(name, {})) for name in told.get("required", [])}
        others = {name: fitting(each) for name, each in properties.items() if name not in wanted}
        return st.fixed_dictionaries(wanted, optional=others)
    if kind == "array":
        return st.lists(fitting(told.get("items", {})), max_size=2)
    kinds = {"string": str, "integer": int, "boolean": bool, "null": type(None), "number": float}
    wanted_kind: Any = kinds.get(str(kind), object)
    return values.filter(lambda value: isinstance(value, wanted_kind))


class LongWay(Results):
    """Results that are held against their schema alone."""

    def _reader(self, key: tuple[str, str]) -> None:
        return None


def learned(results: Results, schema: Any) -> Results:
    """Results that know the schema of a tool."""
    results.learn("p", json.dumps({"name": "t", "outputSchema": schema}).encode())
    return results


def long_way(schema: Any) -> Results:
    """Results that are held against this schema alone."""
    return learned(LongWay(), schema)


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_what_a_type_takes_its_schema_takes(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    value = data.draw(st.one_of(fitting(schema), values))
    reads = readers_of(schema)
    if reads is None:
        return
    result = json.dumps({"content": [], "structuredContent": value}).encode()
    structured = json.dumps(value).encode()
    try:
        reads.structured(structured)
    except msgspec.DecodeError:
        with pytest.raises(msgspec.DecodeError):
            reads.result(result)
    else:
        members = ToolResult(content=Raw(b"[]"), structured=Raw(structured))
        assert long_way(schema).complaint("p", "t", result, members) == ""
    try:
        reads.result(result)
    except msgspec.DecodeError:
        return
    try:
        validator = jsonschema_rs.validator_for(schema)
    except ValueError:
        return  # a schema that is none promises nothing
    assert validator.is_valid(value)
    assert long_way(schema).complaint("p", "t", result) == ""


OBJECT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "title": "Text", "maxLength": 5},
        "n": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}},
        "kind": {"enum": ["a", "b"], "type": "string"},
        "more": {"type": "object", "additionalProperties": {"type": "number"}},
        "any": {},
    },
    "required": ["text", "kind"],
    "additionalProperties": False,
    "$schema": "https://json-schema.org/draft/2020-12/schema",
}
GOOD: dict[str, Any] = {
    "text": "é",
    "n": None,
    "rows": [{"id": 1}, {}],
    "kind": "b",
    "more": {"x": 1, "y": 1.5},
}


def test_a_schema_as_most_are_is_a_type() -> None:
    reads = readers_of(OBJECT)
    assert reads is not None
    reads.result(json.dumps({"content": [], "structuredContent": GOOD}).encode())


NO_TYPES: list[Any] = [
    {"type": "string", "pattern": "a"},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}},
    {"type": "integer", "$schema": "http://json-schema.org/draft-04/schema#"},
    {"type": "object", "properties": {str(number): {} for number in range(101)}},
    {"type": "object", "properties": {'a"b': {}}},
    {"type": "object", "properties": {"a": {}}, "required": ["b"], "additionalProperties": False},
    {"oneOf": [{"type": "string"}]},
    {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "array"}]},
    True,
    [],
]


@pytest.mark.parametrize("schema", NO_TYPES)
def test_other_schemas_are_no_type(schema: Any) -> None:
    assert readers_of(schema) is None


bodies = st.sampled_from(
    [
        b'{"content":[],"structuredContent":{"text":"a","kind":"a"}}',
        b'{"content":[],"structuredContent":{"text":"a","kind":"a"},"isError":true}',
        b'{"content":[],"structuredContent":{"text":1}}',
        b'{"content":[],"structuredContent":{"text":1},"isError":true}',
        b'{"structuredContent":{"text":"a","kind":"a"}}',
        b'{"content":[],"structuredContent":{"text":"a","kind":"a"},"structuredContent":{"text":1}}',
        b'{"content":[],"structuredContent":{"text":1},"structuredContent":{"text":"a","kind":"a"}}',
        b'{"content":[],"structuredContent":{"text":"a","kind":"a","any":1e999}}',
        b'{"content":[],"structuredContent":{"text":"a","kind":"a","other":1e999}}',
        b'{"content":[],"structuredContent":{"text":"a","kind":"a","any":"\xff"}}',
        b'{"content":[],"structuredContent":{"text":"a","kind":"a"},"isError":1e999}',
        b'{"content":[],"structuredContent":{"text":"a","kind":"a"}',
        b'{"content":[],"structuredContent":null}',
        b'{"content":[]}',
        b'{"task":{}}',
        b"[]",
        b"null",
    ]
)


def members_of(result: bytes) -> ToolResult | None:
    """What is known of a result that came in a long message."""
    message = b'{"jsonrpc":"2.0","id":1,"result":%b}' % result
    try:
        envelope = read_long(message, len(message))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return envelope.members if isinstance(envelope, LongAnswer) else None


@given(
    st.lists(bodies, min_size=2, max_size=3),
    st.sampled_from([OBJECT, {**OBJECT, "additionalProperties": True}, {"type": "object", "title": 5}]),
)
@settings(max_examples=150, deadline=None)
@example([b"{}", b'{"content":[],"structuredContent":{"text":"a","kind":"a","other":1}}'], OBJECT)
def test_what_is_said_of_a_result_is_what_its_schema_says(results: list[bytes], schema: Any) -> None:
    known = learned(Results(), schema)
    expected = [long_way(schema).complaint("p", "t", each) for each in results]
    assert [known.complaint("p", "t", each) for each in results] == expected
    assert [known.complaint("p", "t", each, members_of(each)) for each in results] == expected


@pytest.mark.parametrize("properties", [{}, {"text": {"type": "string"}}])
def test_a_member_that_is_needed_but_not_allowed_is_refused(properties: dict[str, Any]) -> None:
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["n"],
        "additionalProperties": False,
    }
    result = b'{"content":[],"structuredContent":{"n":1}}'

    assert learned(Results(), schema).complaint("p", "t", result) == (
        "`/structuredContent` breaks `additionalProperties` of the schema"
    )


def test_results_that_are_of_their_type_are_taken_without_loading_what_reads_schemas() -> None:
    program = (
        "import sys; from gateway.calls.results import Results\n"
        "known = Results()\n"
        'known.learn(\'p\', b\'{"name":"t","outputSchema":{"type":"string"}}\')\n'
        "assert not known.complaint('p', 't', b'{\"content\":[],\"structuredContent\":\"a\"}')\n"
        "assert 'jsonschema_rs' not in sys.modules\n"
        "assert known.complaint('p', 't', b'{\"content\":[],\"structuredContent\":1}')\n"
        "assert 'jsonschema_rs' in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", program], timeout=30, check=True)


def test_a_result_that_cannot_be_held_against_its_schema_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = long_way(OBJECT)
    cannot_load(monkeypatch, "jsonschema_rs")
    good = json.dumps({"content": [], "structuredContent": GOOD}).encode()

    assert known.complaint("p", "t", good) == "the result cannot be held against its schema"
    assert Inputs().complaint(b"{}", b"{}") == "`input` cannot be held against the tool's schema"
    monkeypatch.undo()
    assert known.complaint("p", "t", good) == ""
