"""What makes two requests the same in a replay, and what does not."""

from __future__ import annotations

import json
from typing import Any, cast
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordings.classes import Detector, class_of_name
from recordings.form import Form, Forms, form_of, is_within
from recordings.marks import unmarked
from recordings.profile import BUILT_IN, Profile, Rule
from recordings.redaction import Redactor

HERE = BUILT_IN.with_roots({"cwd": "/home/ann/shop", "home": "/home/ann", "tmp": "/tmp"})
ELSEWHERE = BUILT_IN.with_roots({"cwd": "/builds/17/shop", "home": "/root", "tmp": "/var/tmp"})
ONE, TWO, THREE = (str(UUID(int=number << 90 | number)) for number in (11, 12, 13))


def form(params: object, profile: Profile = HERE, method: str = "tools/call", **more: Any) -> Form:
    """The form of a request with these params; text is taken as it is."""
    data = params.encode() if isinstance(params, str) else msgspec.json.encode(params)
    return form_of(profile, method, "query", data, **more)


def arguments(**members: object) -> dict[str, object]:
    """Params of a call with these arguments."""
    return {"name": "query", "arguments": members}


# What does not matter


def test_spelling_of_json_does_not_matter() -> None:
    written = form('{"name":"query","arguments":{"a":1,"b":[0,2.5]}}')
    assert form('{ "arguments" : {"b":[-0.0,25e-1],"a":1.0},\n"name":"que\\u0072y"}') == written
    assert form('{"name":"query","arguments":{"a":1e0,"b":[-0,2.50]}}') == written


def test_absent_params_and_empty_ones_are_the_same() -> None:
    assert form("") == form("{}") == form('{"_meta":{"progressToken":1}}') == form("null")


def test_whole_numbers_of_any_size_are_exact() -> None:
    big = 2**64
    assert form(arguments(n=big)) != form(arguments(n=big + 1))
    assert form('{"n":1e22}') == form('{"n":10000000000000000000000}')
    assert form('{"n":9007199254740993}') != form('{"n":9007199254740992}')
    assert form('{"n":1e400}') != form('{"n":1e401}')
    assert form('{"n":10e400}') == form('{"n":1e401}')


def test_what_the_protocol_makes_volatile_is_in_neither_hash() -> None:
    plain = form(arguments(a=1))
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "2"},
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/subscriptionId": 7,
        "io.tieline/lane": "turn1",
        "progressToken": 3,
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "a=b",
        "baggage": "c=d",
    }
    assert form({**arguments(a=1), "_meta": meta}) == plain


@pytest.mark.parametrize("key", ["io.modelcontextprotocol/logLevel", "com.example/tenant"])
def test_the_log_level_and_what_vendors_say_is_kept(key: str) -> None:
    one = form({**arguments(a=1), "_meta": {key: "a"}})
    assert one.key not in (form(arguments(a=1)).key, form({**arguments(a=1), "_meta": {key: "b"}}).key)


def test_only_the_meta_of_the_request_is_the_protocols() -> None:
    assert form(arguments(_meta={"progressToken": 1})).key != form(arguments(_meta={"progressToken": 2})).key


def test_a_handshake_is_the_same_whoever_shakes_hands() -> None:
    old = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    assert form(old, method="initialize") == form("", method="initialize")
    assert form(old).key != form("").key


def test_a_cancellation_does_not_hang_on_the_id_of_what_it_takes_back() -> None:
    method = "notifications/cancelled"
    assert form({"requestId": 3, "reason": "x"}, method=method) == form(
        {"requestId": "q", "reason": "x"}, method=method
    )


# Class values


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ({"x": ONE}, {"x": TWO}, "uuid"),
        ({"x": f"see {ONE}."}, {"x": f"see {TWO}."}, "uuid"),
        ({"x": "deadbeef00112233"}, {"x": "0011223344556677feed"}, "hex"),
        ({"x": "call_deadbeef00112233"}, {"x": "call_0011223344556677feed"}, "hex"),
        ({"x": "2026-11-28T03:00:00Z"}, {"x": "2026-11-28T04:00:00.25+01:00"}, "timestamp"),
        ({"ts": 1_700_000_000}, {"ts": 1_800_000_000}, "timestamp"),
        ({"createdAt": 1_700_000_000_123}, {"createdAt": 1_800_000_000_123}, "timestamp"),
        ({"start_time_ms": "1700000000123"}, {"start_time_ms": "1800000000123"}, "timestamp"),
        ({"date": "2026-11-28"}, {"date": "2026-11-29"}, "timestamp"),
        ({"ts": 1_700_000_000.5}, {"ts": 1_800_000_000.25}, "timestamp"),
        ({"pid": 4711}, {"pid": 4712}, "pid"),
        ({"processId": 4711}, {"processId": 4712}, "pid"),
        ({"http_port": 49152}, {"http_port": 49153}, "port"),
        ({"session_id": "one"}, {"session_id": "two"}, "session"),
        ({"toolCallId": "call_1"}, {"toolCallId": "call_2"}, "session"),
        ({"run-id": 17}, {"run-id": 18}, "session"),
        ({"x": "[REDACTED:named:00112233]"}, {"x": "[REDACTED:openai:aabbccdd]"}, "secret"),
        ({"x": "Bearer [REDACTED:bearer:00112233]"}, {"x": "Bearer [REDACTED]"}, "secret"),
        ({"x": "/tmp/tmpab12cd34/f"}, {"x": "/tmp/tmpxy98zw76/f"}, "tempname"),
    ],
)
def test_a_class_value_is_in_the_values_and_not_in_the_key(
    one: dict[str, object], other: dict[str, object], kind: str
) -> None:
    first, second = form(arguments(**one)), form(arguments(**other))
    assert first.key == second.key
    assert first.exact != second.exact
    assert kind in [found for found, _value in first.values]
    assert first.values != second.values


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"x": "1234567890123456"}, {"x": "1234567890123457"}),
        ({"x": 1_700_000_000}, {"x": 1_800_000_000}),
        ({"timeout": 1_700_000_000}, {"timeout": 1_800_000_000}),
        ({"ts": 12}, {"ts": 13}),
        ({"updates": 1_700_000_000}, {"updates": 1_800_000_000}),
        ({"port": 443}, {"port": 80}),
        ({"support": 5000}, {"support": 6000}),
        ({"pid": -1}, {"pid": -2}),
        ({"pid": True}, {"pid": False}),
        ({"x": "2026-11-28"}, {"x": "2026-11-29"}),
        ({"x": "before 2026-11-28T03:00:00Z"}, {"x": "before 2026-11-28T04:00:00Z"}),
        ({"id": "a"}, {"id": "b"}),
        ({"session_id": "two words"}, {"session_id": "three words"}),
        ({"x": "deadbeef0011223"}, {"x": "deadbeef0011224"}),
        ({"x": "xdeadbeef00112233"}, {"x": "xdeadbeef00112234"}),
        ({ONE: 1}, {TWO: 1}),
        ({"x": None}, {"x": 0}),
        ({"x": True}, {"x": 1}),
        ({"x": "1"}, {"x": 1}),
    ],
)
def test_what_only_looks_like_a_class_value_stays_in_the_key(
    one: dict[str, object], other: dict[str, object]
) -> None:
    first, second = form(arguments(**one)), form(arguments(**other))
    assert first.key != second.key
    assert first.values == second.values == ()


def test_equal_values_stay_equal_and_others_different() -> None:
    same = form(arguments(a=ONE, b=ONE, c=TWO))
    assert same.key == form(arguments(a=TWO, b=TWO, c=THREE)).key
    assert same.key != form(arguments(a=ONE, b=TWO, c=TWO)).key
    assert same.values == (("uuid", ONE), ("uuid", TWO))


def test_values_are_listed_in_the_order_of_names_whatever_the_order_of_members() -> None:
    assert form(arguments(b=ONE, a=TWO)) == form(arguments(a=TWO, b=ONE))
    assert form(arguments(b=ONE, a=TWO)).values == (("uuid", TWO), ("uuid", ONE))


def test_a_text_that_looks_like_a_renamed_value_is_none() -> None:
    for fake in ("<uuid#1>", "\x1auuid#1\x1a", "\x1a\x1auuid#1\x1a\x1a"):
        assert form(arguments(a=fake)).key != form(arguments(a=ONE)).key
        assert form(arguments(a=fake, b=ONE)).key != form(arguments(a=ONE, b=fake)).key


def test_a_cursor_and_a_state_are_classes_where_the_protocol_has_them() -> None:
    one = form({"cursor": "page 2"}, method="tools/list")
    assert one.values == (("cursor", "page 2"),)
    assert one.key == form({"cursor": "page 3"}, method="tools/list").key != form("", method="tools/list").key
    assert form({**arguments(), "requestState": "a"}).values == (("state", "a"),)
    assert form(arguments(cursor="a")).key != form(arguments(cursor="b")).key


# Paths


@pytest.mark.parametrize(
    ("here", "elsewhere"),
    [
        ("/home/ann/shop/src/a.py", "/builds/17/shop/src/a.py"),
        ("/home/ann/shop", "/builds/17/shop"),
        ("/home/ann/.config/x", "/root/.config/x"),
        ("file:///home/ann/shop/a.py", "file:///builds/17/shop/a.py"),
        ("at /home/ann/shop/a.py:3 and (/tmp/x).", "at /builds/17/shop/a.py:3 and (/var/tmp/x)."),
        ("/home/ann/shop:/home/ann/shop/bin", "/builds/17/shop:/builds/17/shop/bin"),
        ("see /home/ann/shop.", "see /builds/17/shop."),
        ("/home/ann/shop-2/x", "/root/shop-2/x"),
    ],
)
def test_a_path_under_a_root_is_the_same_in_another_place(here: str, elsewhere: str) -> None:
    one, other = form(arguments(p=here)), form(arguments(p=elsewhere), ELSEWHERE)
    assert one.key == other.key
    assert [kind for kind, _value in one.values] == [kind for kind, _value in other.values]
    assert one.key != form(arguments(p=here + "x")).key


def test_a_name_that_is_a_path_is_renamed_and_sorted_as_such() -> None:
    one = form(arguments(**{"/home/ann/shop/b": ONE, "/etc/x": TWO, "/zzz": THREE}))
    other = form(arguments(**{"/builds/17/shop/b": THREE, "/etc/x": TWO, "/zzz": ONE}), ELSEWHERE)
    assert one.key == other.key
    assert [kind for kind, _value in one.values] == [kind for kind, _value in other.values]


@pytest.mark.parametrize("text", ["/srv/home/ann/shop/a", "x/tmp/a", "/tmpfile", "/home/anna", "/tmp.bak"])
def test_a_path_that_only_contains_a_root_stays_what_it_is(text: str) -> None:
    assert form(arguments(p=text)).values == ()


def test_windows_paths_have_roots_too() -> None:
    one = BUILT_IN.with_roots({"cwd": "C:\\Users\\ann\\shop"})
    other = BUILT_IN.with_roots({"cwd": "D:\\b"})
    assert (
        form(arguments(p="C:\\Users\\ann\\shop\\a.py"), one).key
        == form(arguments(p="D:\\b\\a.py"), other).key
    )
    assert form(arguments(p="file:///C:/Users/ann/shop/a"), one).values == (("cwd", "C:\\Users\\ann\\shop"),)


# Rules


def ruled(*rules: Rule) -> Profile:
    """The built-in profile with these rules."""
    return HERE.with_rules(rules)


def test_a_place_that_is_ignored_may_be_anything_or_absent() -> None:
    profile = ruled(Rule(at="/params/arguments/**/noise", kind="ignore"))
    assert (
        form(arguments(a={"noise": 1, "b": 2}), profile)
        == form(arguments(a={"noise": {"x": []}, "b": 2}), profile)
        == form(arguments(a={"b": 2}), profile)
    )
    assert form(arguments(a={"b": 2}), profile).key != form(arguments(a={"b": 3}), profile).key


def test_an_ignored_item_of_a_list_keeps_the_others_in_their_places() -> None:
    profile = ruled(Rule(at="/params/arguments/l/0", kind="ignore"))
    assert form(arguments(l=[1, 2]), profile) == form(arguments(l=["x", 2]), profile)
    assert form(arguments(l=[1, 2]), profile).key != form(arguments(l=[2]), profile).key


def test_a_rule_makes_a_class_of_any_value() -> None:
    profile = ruled(Rule(at="/params/arguments/*/order", kind="x-order"))
    one = form(arguments(a={"order": 17}, b={"order": "17"}), profile)
    assert one.key == form(arguments(a={"order": 18}, b={"order": "18"}), profile).key
    assert one.key != form(arguments(a={"order": 18}, b={"order": "19"}), profile).key
    assert one.values == (("x-order", "17"),)
    assert form(arguments(a={"order": None}), profile).key != form(arguments(a={"order": 1}), profile).key
    assert form(arguments(a={"order": {"y": 2, "x": 1}}), profile).values == (("x-order", '{"x":1,"y":2}'),)


def test_a_tolerance_leaves_the_judgement_to_the_values() -> None:
    profile = ruled(Rule(at="/params/arguments/price", tolerance=0.5))
    one, other = form(arguments(price=10), profile), form(arguments(price=10.25), profile)
    assert one.key == other.key
    assert one.exact != other.exact
    kind = one.values[0][0]
    assert is_within(kind, one.values[0][1], other.values[0][1])
    assert not is_within(kind, "10", "10.51")
    assert form(arguments(price="10"), profile).key != one.key
    with pytest.raises(ValueError, match="no tolerance"):
        is_within("uuid", "1", "1")


def test_the_first_rule_that_fits_wins_and_rules_come_before_classes() -> None:
    profile = ruled(
        Rule(at="/params/arguments/kept", kind="x-kept"), Rule(at="/params/arguments/*", kind="ignore")
    )
    one = form(arguments(kept=ONE, rest=1), profile)
    assert one.key == form(arguments(kept=TWO, rest=2), profile).key != form(arguments(rest=2), profile).key
    assert one.values == (("x-kept", ONE),)


def test_a_rule_speaks_of_the_peers_methods_and_tools_that_it_names() -> None:
    profile = ruled(Rule(at="/params/arguments/x", kind="ignore", peer="db*", method="tools/*", tool="que?y"))
    one, other = arguments(x=1), arguments(x=2)
    assert form(one, profile, peer="db1") == form(other, profile, peer="db1")
    assert form(one, profile, peer="lsp").key != form(other, profile, peer="lsp").key
    assert form(one, profile).key != form(other, profile).key
    assert (
        form(one, profile, "prompts/get", peer="db1").key
        != form(other, profile, "prompts/get", peer="db1").key
    )


def test_a_class_that_must_be_exact_is_not_looked_for() -> None:
    profile = Profile(exact=("hex", "timestamp", "pid"))
    assert form(arguments(x="deadbeef00112233", ts=1_700_000_000, pid=17), profile).values == ()
    assert form(arguments(x=ONE), profile).values == (("uuid", ONE),)


def test_rules_for_answers_do_not_touch_requests_and_the_other_way_round() -> None:
    profile = ruled(Rule(at="/result/x", kind="ignore"), Rule(at="/params/y", kind="ignore"))
    assert form({"x": 1}, profile).key != form({"x": 2}, profile).key
    assert form({"x": 1}, profile, part="result") == form({"x": 2}, profile, part="result")
    assert form({"y": 1}, profile, part="result").key != form({"y": 2}, profile, part="result").key


# Hostile input


def test_what_cannot_be_read_is_compared_byte_for_byte() -> None:
    for text in ("{", "[" * 100_000, '{"n":' + "9" * 5000 + "}", '{"a":"\ud800"}'):
        data = text.encode("utf-8", "surrogatepass")
        one = form_of(HERE, "m", None, data)
        assert one == form_of(HERE, "m", None, data)
        assert one.key != form_of(HERE, "m", None, data + b" ").key
        assert one.values == ()


def test_a_nested_document_is_walked_without_recursion() -> None:
    depth = 400
    assert (
        form("[" * depth + f'"{ONE}"' + "]" * depth).key == form("[" * depth + f'"{TWO}"' + "]" * depth).key
    )


def test_a_number_that_is_short_to_write_and_long_to_write_out_stays_short() -> None:
    assert form('{"n":1e999999999}') == form('{"n":10e999999998}') != form('{"n":1e999999998}')
    assert form('{"n":1e99999999999999999999999}') != form('{"n":1e99999999999999999999998}')


# Properties

NAMES = st.sampled_from(
    ["a", "b", "name", "ts", "sessionId", "port", "x y", "é", "/tmp/q", "path"]
) | st.text(max_size=6)
IDS = st.uuids().map(str) | st.integers(0, 2**80).map(lambda number: f"f{number:020x}")
VOLATILE = IDS | st.datetimes().map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0"))
PLAIN = (
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "select 1", "/etc/hosts", "/tmp/a", "2026", "\x1a", "é"]) | st.text(max_size=12)
)  # fmt: skip
DOCUMENTS = st.recursive(
    PLAIN | VOLATILE | st.tuples(VOLATILE, st.text(max_size=5)).map(lambda both: f"({both[0]}) {both[1]}"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def respelled(value: Any, draw: Any) -> str:
    """The same JSON in other words: order of members, white space, numbers, escapes."""
    space = draw(st.sampled_from(["", " ", "\n\t"]))
    if isinstance(value, dict):
        items: list[tuple[str, Any]] = draw(st.permutations(list(cast("dict[str, Any]", value).items())))
        inner = ",".join(f"{space}{respelled(k, draw)}{space}:{respelled(v, draw)}" for k, v in items)
        return "{" + inner + space + "}"
    if isinstance(value, list):
        value = cast("list[Any]", value)
        return "[" + ",".join(space + respelled(item, draw) for item in value) + space + "]"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int):
        return draw(st.sampled_from([f"{value}", f"{value}.0", f"{value}0e-1", f"{value}e0"]))
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


@given(st.data(), DOCUMENTS)
@settings(deadline=None, max_examples=60)
def test_no_spelling_of_a_document_changes_its_form(data: st.DataObject, document: object) -> None:
    params = {"arguments": document}
    try:
        plain = msgspec.json.encode(params)
    except UnicodeEncodeError:
        return
    assert form_of(HERE, "m", "n", respelled(params, data.draw).encode()) == form_of(HERE, "m", "n", plain)


SHAPES = st.recursive(
    st.integers(0, 4) | st.sampled_from(["plain", 7, None, True]).map(lambda value: ("plain", value)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcdef"), inner, max_size=4),
    max_leaves=12,
)


def filled(shape: Any, values: list[str], template: str) -> Any:
    """A document in which the numbers of a shape are these values."""
    if isinstance(shape, dict):
        shape = cast("dict[str, Any]", shape)
        return {key: filled(item, values, template) for key, item in shape.items()}
    if isinstance(shape, list):
        shape = cast("list[Any]", shape)
        return [filled(item, values, template) for item in shape]
    if isinstance(shape, tuple):
        return cast("tuple[str, Any]", shape)[1]
    return template.format(values[int(str(shape))])


@given(SHAPES, st.data(), st.sampled_from(["{}", "id {}."]))
@settings(deadline=None, max_examples=60)
def test_renaming_volatile_values_keeps_the_key_and_only_the_key(
    shape: object, data: st.DataObject, template: str
) -> None:
    # Times are found as whole values alone.
    each = VOLATILE if template == "{}" else IDS
    values = data.draw(st.lists(each, min_size=10, max_size=10, unique_by=str.lower))
    kinds = [
        Detector(HERE).by_form(value) or Detector(HERE).inside(value.encode())[0].kind for value in values
    ]
    one = form(arguments(x=filled(shape, values[:5], template)))
    other = form(arguments(x=filled(shape, values[5:], template)))
    if kinds[:5] == kinds[5:]:
        assert one.key == other.key
        assert len(one.values) == len(other.values)
        assert (one.exact == other.exact) == (one.values == other.values)
    swapped = [values[1], values[0], *values[2:5]]
    if kinds[0] == kinds[1]:
        again = form(arguments(x=filled(shape, swapped, template)))
        assert again.key == one.key


@given(DOCUMENTS, st.data())
@settings(deadline=None, max_examples=60)
def test_changing_a_value_that_is_not_volatile_changes_the_key(document: object, data: st.DataObject) -> None:
    values: list[Any] = [1, 2, "one", "two", None, True, False, 1.5, "", "1", [], {}]
    at = st.sampled_from(values)
    one: Any = data.draw(at)
    other: Any = data.draw(at)
    same = json.dumps(one) == json.dumps(other)
    try:
        forms = [form(arguments(x=document, y=value)) for value in (one, other)]
    except UnicodeEncodeError:
        return
    assert (forms[0].key == forms[1].key) == same
    assert (forms[0].exact == forms[1].exact) == same


@given(st.text(max_size=80))
@settings(deadline=None, max_examples=100)
def test_the_prefilter_never_overlooks_a_name(name: str) -> None:
    if class_of_name(name) is not None:
        assert Detector(HERE).telling(msgspec.json.encode({name: 1}))


SECRETS = [
    "sk-ant-api03-Abcdefghijk1mnopqrstu",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "ghp_ABCDEFGHIJ0123456789abcdefghij543210",
]
_WORDS = [
    "time",
    "ts",
    "at",
    "session",
    "id",
    "pid",
    "port",
    "ms",
    "created",
    "http",
    "X",
    "2",
    "run",
    "UTC",
    "process",
]


@given(
    st.lists(st.sampled_from(_WORDS), min_size=1, max_size=4),
    st.sampled_from(["", "_", "-", ".", " ", "$"]),
    st.data(),
)
@settings(deadline=None, max_examples=150)
def test_the_prefilter_knows_every_way_to_write_a_name(
    words: list[str], joint: str, data: st.DataObject
) -> None:
    ways = st.sampled_from([str.lower, str.upper, str.title, str])
    name = joint.join(data.draw(ways)(word) for word in words) + data.draw(st.sampled_from(["", "_", "1"]))
    if class_of_name(name) is not None:
        assert Detector(HERE).telling(msgspec.json.encode({name: 1})), name


@given(
    DOCUMENTS,
    st.permutations(SECRETS),
)
@settings(deadline=None, max_examples=60)
def test_a_redacted_request_has_the_form_of_one_redacted_twice_or_with_other_secrets(
    document: object, secrets: list[str]
) -> None:
    try:
        body = msgspec.json.encode(arguments(x=document, api_key=secrets[0], text=f"use {secrets[0]} now"))
    except UnicodeEncodeError:
        return
    redactor, dummy = Redactor(b"one" * 8), Redactor(b"two" * 8)
    once = redactor.body(body)
    form_once = form_of(HERE, "m", "n", once)
    assert form_of(HERE, "m", "n", redactor.body(once)) == form_once
    other = dummy.body(body.replace(secrets[0].encode(), secrets[1].encode()))
    assert form_of(HERE, "m", "n", other).key == form_once.key
    assert form_of(HERE, "m", "n", unmarked(once)).key == form_once.key


# The cache


def test_remembered_forms_are_those_that_would_be_made_and_are_bounded() -> None:
    forms = Forms(HERE, most=3, most_bytes=200)
    for number in (1, 2, 3, 4, 1, 4, 4):
        data = msgspec.json.encode(arguments(n=number))
        assert forms.form("m", "n", data) == form_of(HERE, "m", "n", data)
    assert len(forms) == 3
    big = msgspec.json.encode(arguments(n="x" * 500))
    assert forms.form("m", "n", big) == form_of(HERE, "m", "n", big)
    assert len(forms) == 0


def test_a_profile_is_stored_and_read_again() -> None:
    profile = ruled(Rule(at="/params/x", kind="ignore"), Rule(tool="drop_*", consume="once"))
    again = msgspec.json.decode(msgspec.json.encode(profile), type=Profile)
    assert again == profile
    assert form({"x": 1}, again) == form({"x": 2}, profile)


def test_two_readings_of_a_clock_may_fall_together() -> None:
    one = form(arguments(created="2026-11-28T03:00:00Z", updated="2026-11-28T03:00:00Z"))
    other = form(arguments(created="2026-11-28T03:00:00Z", updated="2026-11-28T03:00:01Z"))
    assert one.key == other.key
    assert len(one.values) == len(other.values) == 2


def test_a_rule_may_say_that_a_value_is_of_the_class_of_a_root() -> None:
    profile = ruled(Rule(at="/params/arguments/*", kind="cwd"))
    one = form(arguments(a="x", b="y", c="/home/ann/shop"), profile)
    assert one.key == form(arguments(a="p", b="q", c="r"), profile).key
    assert one.values == (("cwd", "x"), ("cwd", "y"), ("cwd", "/home/ann/shop"))
