"""What is a message and what is not, for any bytes that a sender may think of."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocol import jsonrpc
from gateway.protocol.bounds import MAX_DIGITS
from gateway.protocol.jsonrpc import MAX_DEPTH, BadMessage, Envelope, Id, LongAnswer, LongCall
from gateway.protocol.long_messages import read_long
from gateway.protocol.salvage import Salvaged, salvage, split
from tests.gateway.protocol.bounds_kit import depth
from tests.no_descriptors import cannot_load

IDS = st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
MEMBERS = ("jsonrpc", "id", "method", "params", "result", "error", "extra")
ODD_OBJECTS = st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=7)


def bad(data: bytes) -> BadMessage:
    """Return why these bytes are no message."""
    with pytest.raises(BadMessage) as caught:
        jsonrpc.kind_of(jsonrpc.read(data))
    return caught.value


def read_or_refuse(data: bytes) -> Envelope | BadMessage:
    try:
        envelope = jsonrpc.read(data)
        jsonrpc.kind_of(envelope)
    except BadMessage as fault:
        return fault
    return envelope


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_verdict(data: bytes) -> None:
    read_or_refuse(data)
    split(data)
    salvage(data)
    depth(data)


@given(ODD_OBJECTS, st.booleans(), st.integers(0, 400), st.integers(0, 400))
def test_any_object_damaged_anywhere_is_a_message_or_a_verdict(
    value: dict[str, Any], spaced: bool, cut: int, hit: int
) -> None:
    text = json.dumps(value, separators=None if spaced else (",", ":")).encode()
    read_or_refuse(text)
    read_or_refuse(text[:cut])
    read_or_refuse(text[:hit] + b'"' + text[hit + 1 :])


@given(ODD_OBJECTS, st.booleans())
def test_what_shows_at_once_is_what_a_message_is(value: dict[str, Any], spaced: bool) -> None:
    text = json.dumps(value | {"jsonrpc": "2.0"}, separators=None if spaced else (",", ":")).encode()
    try:
        envelope, kind = jsonrpc.scan(text)
    except BadMessage:
        return
    if kind is not None:
        assert kind == jsonrpc.kind_of(envelope)


answers = st.fixed_dictionaries(
    {"id": st.one_of(st.integers(0, 9), st.text(max_size=2))},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0"]),
        "result": st.one_of(
            st.none(), st.text(), st.recursive(st.integers(), lambda inner: st.lists(inner, max_size=3))
        ),
        "method": st.just("m"),
        "x": st.just(1),
    },
)


@given(
    answers,
    st.sampled_from([b"", b'"id":7,', b'"result":{},', b'"method":"m",']),
    st.integers(1, 20),
    st.booleans(),
)
def test_a_result_that_shows_at_once_is_that_of_the_response_that_a_message_is(
    value: dict[str, Any], twice: bytes, most_depth: int, spaced: bool
) -> None:
    text = json.dumps(value, separators=None if spaced else (",", ":"), ensure_ascii=False).encode()
    text = text[:1] + twice + text[1:]
    result = jsonrpc.result_of(text, most_depth)
    try:
        envelope, kind = jsonrpc.scan(text, most_depth)
    except BadMessage:
        assert result is None
    else:
        assert result is None or (kind, bytes(envelope.result)) == ("response", bytes(result))


def test_the_results_of_most_responses_show_at_once() -> None:
    data = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%b"}]}}'
    for size in (1, 100, 400):
        whole = data % (b"x" * size)
        assert jsonrpc.result_of(whole) == jsonrpc.scan(whole)[0].result
    assert jsonrpc.result_of(data % (b"x" * 5000)) is None


ODD: list[dict[str, Any]] = [
    {"id": "7"}, {"id": 1e5}, {"id": None}, {"jsonrpc": "1.0"}, {"method": "prompts/get"}, {"method": "x"},
    {"result": {}}, {"more": 1}, {"params": {"name": 7}}, {"params": {"name": "\"params\":"}},
    {"params": {"_meta": {}}}, {"params": {"_meta": {"progressToken": 1}}}, {"params": {"more": "params"}},
    {"params": {"arguments": None}}, {"params": {"name": "échø"}}, {"params": {}},
]  # fmt: skip
"""What of a plain call is otherwise."""
TWICE = st.sampled_from(
    [
        '"id":7,',
        '"params":{},',
        '"name":"y",',
        '"arguments":{},',
        '"jsonrpc":"2.0",',
        '"jsonrpc":"1",',
        '"":0,',
        " ",
    ]
)


def all_of(value: Envelope) -> list[object]:
    """The fields of an envelope, as such."""
    fields = (getattr(value, name) for name in Envelope.__struct_fields__)
    return [bytes(each) if isinstance(each, msgspec.Raw) else each for each in fields]


@settings(max_examples=400)
@given(
    st.lists(st.sampled_from(ODD), max_size=2),
    st.permutations(["jsonrpc", "id", "method", "params"]),
    st.booleans(),
    st.sampled_from([False, False, False, True]),
    st.booleans(),
    st.lists(
        st.tuples(st.sampled_from(["{", '{"name"', '{"arguments"', '"id"', '"params"']), TWICE), max_size=2
    ),
)
def test_a_long_call_that_is_read_once_is_the_one_that_is_read_twice(
    odd: list[dict[str, Any]],
    order: list[str],
    name_first: bool,
    spaced: bool,
    escaped: bool,
    twice: list[tuple[str, str]],
) -> None:
    params: dict[str, Any] = {"name": "echo"} if name_first else {}
    params |= {"arguments": {"text": "é" + "x" * MAX_DIGITS}, "name": "echo"}
    members: dict[str, Any] = {"jsonrpc": "2.0", "id": 12, "method": "tools/call", "params": params}
    for change in odd:
        members |= {**change, "params": members["params"] | change.get("params", {})}
    value = {name: members[name] for name in (*order, *(name for name in members if name not in order))}
    text = json.dumps(value, separators=None if spaced else (",", ":"), ensure_ascii=escaped)
    for where, what in twice:
        at = text.find(where) + (where[0] == "{")
        text = text[:at] + what + text[at:]
    data = text.encode()
    try:
        read = msgspec.json.decode(data, type=Envelope)
    except msgspec.DecodeError:
        with pytest.raises(msgspec.DecodeError):
            read_long(data, len(data))
        return
    once = read_long(data, len(data))
    assert all_of(once) == all_of(read)
    if isinstance(once, LongCall):
        found = json.loads(bytes(read.params))
        assert found == {"name": once.name, "arguments": json.loads(bytes(once.arguments))}
        assert not twice or not any(what.strip() for _, what in twice)


@pytest.mark.parametrize("first", ["id", "method", "params", "jsonrpc"])
def test_a_long_compact_call_is_read_once_whatever_comes_first(first: str) -> None:
    params = {"arguments": {"text": "é" * MAX_DIGITS}, "name": "café"}
    value = {"jsonrpc": "2.0", "id": 17, "method": "tools/call", "params": params}
    data = json.dumps({first: value[first]} | value, separators=(",", ":"), ensure_ascii=False).encode()
    envelope, kind = jsonrpc.scan(data)
    assert isinstance(envelope, LongCall)
    assert (kind, envelope.id, envelope.name, json.loads(bytes(envelope.params))) == (
        "request",
        17,
        "café",
        params,
    )


RESULTS = st.sampled_from(
    [
        '"content":[]', '"content":null', '"content":[{"type":"text","text":"é"}]', '"structuredContent":{"a":1e400}',
        '"isError":false', '"isError":true', '"isError":1', '"_meta":{}', '"resultType":"complete"', '"other":[{}]',
        '"content":"%s"', '"structuredContent":{"text":"%s"}', '"result":{"content":[]}', '" content":[]',
    ]
)  # fmt: skip
"""Members of a result; LONG stands where `%s` does."""
LONG = "é" + "x" * MAX_DIGITS


@settings(max_examples=400)
@given(
    st.lists(RESULTS, max_size=5),
    st.permutations(['"jsonrpc":"2.0"', '"id":%s', '"result":%s']),
    st.sampled_from(["1", "-1", "12345678901234567890123", '"a"', '"result"', "null", "1.0"]),
    st.sampled_from(["{%s}", "{%s}", "{ %s}", "[%s]", "{%s }"]),
    st.sampled_from(["", "", ',"id":7', ',"result":{"content":[]}', ',"jsonrpc":"1"', ',"more":1', " "]),
)
def test_a_long_answer_that_is_read_once_is_the_one_that_is_read_twice(
    members: list[str], order: list[str], id_: str, brackets: str, more: str
) -> None:
    result = brackets % ",".join(members).replace("%s", LONG)
    text = ",".join(order).replace('"id":%s', f'"id":{id_}').replace('"result":%s', f'"result":{result}')
    data = f"{{{text}{more}}}".encode()
    try:
        read = msgspec.json.decode(data, type=Envelope)
    except msgspec.DecodeError:
        with pytest.raises(msgspec.DecodeError):
            read_long(data, len(data))
        return
    once = read_long(data, len(data))
    assert all_of(once) == all_of(read)
    assert isinstance(once, LongAnswer) == bool(read.result)
    told = once.members if isinstance(once, LongAnswer) else None
    if told is None:
        return
    expected = msgspec.json.decode(bytes(read.result), type=dict[str, msgspec.Raw])
    named = ("content", "structuredContent", "isError", "_meta")
    found = (told.content, told.structured, told.is_error, told.meta)
    assert {name: bytes(raw) for name, raw in zip(named, found, strict=True) if raw} == {
        name: bytes(raw) for name, raw in expected.items()
    }
    assert len(members) == len(expected)
    assert bytes(told.is_error) != b"true"


@pytest.mark.parametrize("first", ["result", "id", "jsonrpc"])
def test_a_long_compact_answer_is_read_once_whatever_comes_first(first: str) -> None:
    result: dict[str, Any] = {"structuredContent": {"a": "é" * MAX_DIGITS}, "isError": False, "content": []}
    value: dict[str, Any] = {"jsonrpc": "2.0", "id": 17, "result": result}
    data = json.dumps({first: value[first]} | value, separators=(",", ":"), ensure_ascii=False).encode()
    envelope, kind = jsonrpc.scan(data)
    assert isinstance(envelope, LongAnswer)
    assert envelope.members is not None
    assert (kind, envelope.id, json.loads(bytes(envelope.result))) == ("response", 17, result)
    assert json.loads(bytes(envelope.members.structured)) == result["structuredContent"]


@given(IDS, st.booleans())
def test_an_id_keeps_its_type_and_value_under_any_spacing(id_: Id, spaced: bool) -> None:
    text = json.dumps(
        {"jsonrpc": "2.0", "id": id_, "method": "tools/list"}, separators=None if spaced else (",", ":")
    )
    read = jsonrpc.read(text.encode())

    assert read.id == id_
    assert type(read.id) is type(id_)
    assert json.loads(jsonrpc.with_id(text.encode(), read, id_))["id"] == id_


@pytest.mark.parametrize("id_", [9, "9", 0, -1, 2**63, 10**40, "", "a b", 'a"b\\', "é\u2028\0"])
def test_an_answer_under_another_id_is_the_same_answer(id_: Id) -> None:
    data = b'{"jsonrpc":"2.0","id":1,"result":{"big":1e400,"odd":"\\u00e9\\u2028\\u0000","n":12345678901234567890}}'
    written = jsonrpc.with_id(data, jsonrpc.read(data), id_)

    assert written == data.replace(b'"id":1,', b'"id":%b,' % jsonrpc.encode_id(id_))
    assert jsonrpc.read(written).id == id_


@pytest.mark.parametrize("id_", [b"9.0", b"9e0", b"true", b"null", b"[9]", b"{}", b"1e400", b"1" * 5000])
def test_an_id_that_is_no_integer_and_no_string_is_refused(id_: bytes) -> None:
    fault = bad(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % id_)

    assert fault.reason in ("bad-id", "not-json", "number")
    assert fault.salvaged.id is None


@pytest.mark.parametrize("value", [True, False, None, 9.0, [], {}])
def test_what_decodes_to_something_else_is_no_id(value: object) -> None:
    assert jsonrpc.as_id(value) is None
    assert (jsonrpc.as_id(1), jsonrpc.as_id("")) == (1, "")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"x"}', "request"),
        (b'{"jsonrpc":"2.0","method":"x"}', "notification"),
        (b'{"jsonrpc":"2.0","id":1,"result":null}', "response"),
        (b'{"jsonrpc":"2.0","id":1,"error":{}}', "error"),
        (b'{"jsonrpc":"2.0","id":null,"error":{}}', "error"),
    ],
)
def test_the_members_tell_what_a_message_is(data: bytes, kind: str) -> None:
    assert jsonrpc.kind_of(jsonrpc.read(data)) == kind


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":7}',
        b"null",
        b'"text"',
        b"7",
    ],
)
def test_members_that_contradict_each_other_are_no_message(data: bytes) -> None:
    assert bad(data).reason == "shape"


def test_a_batch_is_named_as_one() -> None:
    assert bad(b' [{"jsonrpc":"2.0","id":1,"method":"ping"}]').reason == "batch"


@pytest.mark.parametrize("spaced", [True, False])
def test_members_that_nobody_knows_yet_survive_another_id(spaced: bool) -> None:
    value = {"jsonrpc": "2.0", "trace": {"a": [1.50]}, "id": 1, "result": {}, "zusätzlich": None}
    data = json.dumps(value, separators=None if spaced else (",", ":")).encode()

    assert json.loads(jsonrpc.with_id(data, jsonrpc.read(data), "n")) == value | {"id": "n"}


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"x","params":{}}',  # as long as if it were spaced
        b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"extra":0,"extra":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"i\\u0064":2,"method":"x"}',
        b'{ "jsonrpc" : "2.0" , "id" : 1 , "id" : 2 , "method" : "x" }',
    ],
)
def test_a_member_that_stands_twice_is_refused(data: bytes) -> None:
    assert bad(data).reason == "duplicate-key"


@given(st.integers(0, 10**6), st.text(max_size=6), JSON, st.sampled_from(["id", "method", "params"]), JSON)
def test_no_repeated_member_hides_behind_the_length_of_a_message(
    id_: int, method: str, params: Any, twice: str, again: Any
) -> None:
    text = json.dumps({"jsonrpc": "2.0", "id": id_, "method": method or "m", "params": params})
    for data in (text, text.replace(": ", ":").replace(", ", ",")):
        doubled = data[:-1] + "," + json.dumps(twice) + ":" + json.dumps(again, separators=(",", ":")) + "}"

        assert isinstance(read_or_refuse(doubled.encode()), BadMessage)


def test_json_100_000_levels_deep_is_refused_and_its_id_still_read() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    fault = bad(b'{"jsonrpc":"2.0","result":%b,"id":7}' % deep)

    assert (fault.reason, fault.salvaged) == ("too-deep", Salvaged(7, "answer"))


def test_the_deepest_that_is_taken_is_a_matter_of_the_caller() -> None:
    fits = b'{"jsonrpc":"2.0","id":1,"result":%b}' % (b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1))

    assert depth(fits) == MAX_DEPTH
    jsonrpc.read(fits)
    assert bad(fits.replace(b"[]", b"[[]]")).reason == "too-deep"
    with pytest.raises(BadMessage):
        jsonrpc.read(fits, 20)


@pytest.mark.parametrize(
    ("opens", "closes"), [(b"[", b"]"), (b'{"":', b"}"), (b'[{"":', b"}]"), (b'[[[[{"":', b"}]]]]")]
)
def test_the_shortest_message_that_is_too_deep_is_refused(opens: bytes, closes: bytes) -> None:
    times = (MAX_DEPTH - 1) // len(closes)
    more = b"[" * (MAX_DEPTH - 1 - times * len(closes))
    inner = more + opens * times + b"%b" + closes * times + more.replace(b"[", b"]")
    fits = b'{"id":1,"method":"m","params":%b}' % (inner % b"0")

    assert depth(fits) == MAX_DEPTH
    jsonrpc.read(fits)
    assert bad(fits.replace(b"0", b"[0]")).reason == "too-deep"


def test_brackets_inside_strings_are_not_nesting() -> None:
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "result": '[{\\"' * 1000}).encode()

    assert depth(text) == 1
    jsonrpc.read(text)


@pytest.mark.parametrize("digits", [b"7" * 10**6, b"0." + b"3" * 10**6, b"1e" + b"0" * 10**6])
def test_a_number_of_a_million_digits_is_refused_and_its_id_still_read(digits: bytes) -> None:
    fault = bad(b'{"jsonrpc":"2.0","id":"a","result":{"n":%b}}' % digits)

    assert (fault.reason, fault.salvaged) == ("number", Salvaged("a", "answer"))


@pytest.mark.parametrize("at", range(0, 2050, 205))
def test_a_number_just_past_the_limit_is_found_wherever_it_starts(at: int) -> None:
    def message(digits: bytes) -> bytes:
        return b'{"jsonrpc":"2.0","id":1,"result":{"s":"%b","n":%b}}' % (b"x" * at, digits)

    long = b"7" * 4000 + b"." + b"7" * (MAX_DIGITS - 4000)
    assert bad(message(long)).reason == "number"
    jsonrpc.read(message(long[:-1]))
    jsonrpc.read(message(b'"' + b"7" * 100_000 + b'"'))


@pytest.mark.parametrize("data", [b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
def test_bytes_that_are_no_utf8_are_refused_with_the_id_that_stands_before_them(data: bytes) -> None:
    fault = bad(b'{"jsonrpc":"2.0","id":3,"result":"%b"}' % data)

    assert (fault.reason, fault.salvaged) == ("not-utf8", Salvaged(3, "answer"))


def test_half_a_surrogate_pair_is_refused_since_other_readers_choke_on_it() -> None:
    assert bad(b'{"jsonrpc":"2.0","id":3,"result":"\\ud800"}').salvaged == Salvaged(3, "answer")


@pytest.mark.parametrize("text", [b"\\u0000", b"\xe2\x80\xa8", b"\\u2028", b"\xc2\x85", b"\\/", b"\x7f"])
def test_odd_characters_pass_as_they_were_written(text: bytes) -> None:
    data = b'{"jsonrpc":"2.0","id":1,"result":"%b"}' % text

    assert jsonrpc.with_id(data, jsonrpc.read(data), 1) == data


@given(IDS, st.text(min_size=1, max_size=10), JSON)
def test_what_is_written_is_read_again(id_: Id, method: str, value: Any) -> None:
    try:
        body = msgspec.json.encode(value)
        written = jsonrpc.request(id_, method, body)
    except UnicodeEncodeError:
        return
    read = jsonrpc.read(written)

    assert (read.id, read.method, bytes(read.params)) == (id_, method, body)
    assert jsonrpc.read(jsonrpc.notification(method, body)).method == method
    assert bytes(jsonrpc.read(jsonrpc.response(id_, body)).result) == body
    assert jsonrpc.read(jsonrpc.error(None, b"{}")).id is None


@pytest.mark.parametrize(
    "body", [b'"result":{"content":[],"more":"%b"}', b'"method":"tools/call","params":{"name":"%b"}']
)
def test_a_long_message_is_read_where_what_reads_it_cannot_be_loaded(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b'{"jsonrpc":"2.0","id":1,%b}' % (body % (b"x" * MAX_DIGITS))
    expected = jsonrpc.scan(data)
    cannot_load(monkeypatch, "gateway.protocol.long_messages")

    found, kind = jsonrpc.scan(data)
    assert (found, kind) == expected
    assert type(found) is type(expected[0])
