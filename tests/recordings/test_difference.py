"""Two bodies: every difference is found, none is invented, and the changes lead from one to the other."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, cast

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recordings.alignment import equal_pairs, gaps
from recordings.difference import Change, applied, differences, pointer_of, replaced, tokens_of

NAMES = st.sampled_from(["a", "b", "name", "id", "a/b", "~", "", "ü", "0"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "y", "\u2028", '"\\']),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)


def body(value: object) -> bytes:
    return msgspec.json.encode(value)


def shown(changes: tuple[Change, ...]) -> list[tuple[str, str, Any, Any]]:
    def value(raw: msgspec.Raw | None) -> Any:
        return None if raw is None else msgspec.json.decode(raw)

    return [(each.pointer, each.kind, value(each.before), value(each.after)) for each in changes]


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1, and 1 is 1.0. An independent statement of what the module must hold."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        left, right = cast("list[Any]", one), cast("list[Any]", other)
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(one, dict) and isinstance(other, dict):
        members, others = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return members.keys() == others.keys() and all(same(members[key], others[key]) for key in members)
    return one == other


@given(VALUES, VALUES)
@example([1, {"a": 1}], [{"a": 2}, 1, 3])
def test_applying_the_changes_gives_the_other_body(one: Any, other: Any) -> None:
    changes = differences(body(one), body(other))
    assert same(msgspec.json.decode(applied(body(one), changes)), msgspec.json.decode(body(other)))


@given(VALUES, VALUES)
def test_there_are_no_changes_exactly_where_both_say_the_same(one: Any, other: Any) -> None:
    assert (differences(body(one), body(other)) == ()) == same(one, other)


@given(VALUES, VALUES)
def test_there_are_as_many_changes_one_way_as_the_other(one: Any, other: Any) -> None:
    there, back = differences(body(one), body(other)), differences(body(other), body(one))
    assert len(there) == len(back)
    turn = {"added": "removed", "removed": "added"}
    assert sorted(each.kind for each in there) == sorted(turn.get(each.kind, each.kind) for each in back)


@given(st.lists(VALUES, min_size=1, max_size=6), st.data())
def test_one_inserted_item_is_one_change(items: list[Any], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(items)))
    item = "inserted"
    changes = differences(body(items), body([*items[:place], item, *items[place:]]))
    assert shown(changes) == [(f"/{place}", "added", None, item)]


@given(VALUES, VALUES)
def test_a_bound_on_size_costs_places_and_not_truth(one: Any, other: Any) -> None:
    changes = differences(body(one), body(other), nodes=2)
    assert (changes == ()) == same(one, other) or [each.pointer for each in changes] == [""]
    assert same(msgspec.json.decode(applied(body(one), changes)), msgspec.json.decode(body(other)))


def test_each_kind_of_change_names_its_place() -> None:
    before = b'{"gone":1,"limit":20,"on":true,"list":[1,2,3],"deep":[{"name":"x","v":[1]},{"name":"y"}]}'
    after = b'{"limit":50,"on":1,"list":[3,2,1],"deep":[{"name":"x","v":[2]},{"name":"y"}],"new":null}'
    assert shown(differences(before, after)) == [
        ("/deep/0/v/0", "value", 1, 2),
        ("/gone", "removed", 1, None),
        ("/limit", "value", 20, 50),
        ("/list", "order", [1, 2, 3], [3, 2, 1]),
        ("/new", "added", None, None),
        ("/on", "type", True, 1),
    ]


def test_a_null_that_was_added_is_not_nothing() -> None:
    (change,) = differences(b"{}", b'{"a":null}')
    assert change.before is None
    assert bytes(change.after or b"") == b"null"
    assert msgspec.json.encode(change) == b'{"pointer":"/a","kind":"added","after":null}'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":[1.0,2]}', b'{ "b" : [1,2.0e0],\t"a":1e0 }'),
        (b"-0", b"0.0"),
        (b'"\\u00fc"', '"ü"'.encode()),
        (b"10000000000000000000000", b"10000000000000000000000"),
    ],
)
def test_spelling_is_no_difference(one: bytes, other: bytes) -> None:
    assert differences(one, other) == ()


def test_an_integer_beyond_doubles_is_not_the_double_beside_it() -> None:
    assert len(differences(b"9007199254740993", b"9007199254740992.0")) == 1
    assert differences(b"9007199254740992", b"9007199254740992.0") == ()


def test_an_item_is_compared_with_the_one_that_it_was() -> None:
    before = body({"tools": [{"name": name, "v": [1, 2, 3], "w": name * 3} for name in "abcd"]})
    after = body(
        {"tools": [{"name": name, "v": [1, 2, 3 + (name == "c")], "w": name * 3} for name in "axcd"]}
    )
    assert [each[:2] for each in shown(differences(before, after))] == [
        ("/tools/1/name", "value"),
        ("/tools/1/w", "value"),
        ("/tools/2/v/2", "value"),
    ]
    (change, *rest) = differences(before, body({"tools": [{"name": "d", "v": [1, 2, 3], "w": "D"}]}))
    assert (change.pointer, change.kind) == ("/tools/0", "removed")
    assert [(each.pointer, each.kind) for each in rest] == [
        ("/tools/1", "removed"),
        ("/tools/2", "removed"),
        ("/tools/3/w", "value"),
    ]


def test_bodies_without_json_are_compared_as_a_whole() -> None:
    (change,) = differences(b"\xff\x00", b'{"a":1}')
    assert (change.pointer, change.kind, msgspec.json.decode(change.before or b"")) == (
        "",
        "value",
        "\\xff\x00",
    )
    (change,) = differences(b"", b"[1]")
    assert shown((change,)) == [("", "added", None, [1])]
    (change,) = differences(b"[1]", b"")
    assert shown((change,)) == [("", "removed", [1], None)]
    assert applied(b"[1]", (change,)) == b""


@pytest.mark.parametrize("depth", [200, 900, 100_000])
def test_depth_breaks_nothing(depth: int) -> None:
    one, other = b"[" * depth + b"1" + b"]" * depth, b"[" * depth + b"2" + b"]" * depth
    (change,) = differences(one, other)
    assert change.kind == "value"
    assert change.pointer in ("", "/0" * depth)
    assert depth > 500 or change.pointer


def test_the_work_grows_with_the_size_and_not_its_square() -> None:
    count = 40_000
    one = [{"n": n, "v": str(n)} for n in range(count)]
    other = [{"n": n, "v": "x" if n % 9_000 == 5 else str(n)} for n in range(count) if n != 20_000]
    changes = differences(body(one), body(other))
    assert len(changes) == math.ceil((count - 5) / 9_000) + 1
    assert ("/20000", "removed") in [(each.pointer, each.kind) for each in changes]


@given(st.lists(st.integers(0, 4), max_size=12), st.lists(st.integers(0, 4), max_size=12))
def test_pairs_rise_and_are_of_equal_items_also_where_the_table_has_no_room(
    one: list[int], other: list[int]
) -> None:
    longest = equal_pairs(one, other)
    for pairs in (longest, equal_pairs(one, other, cells=0)):
        assert all(one[i] == other[j] for i, j in pairs)
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))
        assert len(pairs) <= len(longest)
        missed = gaps(pairs, len(one), len(other))
        assert sum(high - low for low, high, _, _ in missed) == len(one) - len(pairs)
        assert sum(high - low for _, _, low, high in missed) == len(other) - len(pairs)


def test_items_that_occur_once_anchor_lists_too_long_for_a_table() -> None:
    one = list(range(3_000))
    other = [-1, *one[:1_000], -2, *one[1_001:], -3]
    assert len(equal_pairs(one, other)) == 2_999


@given(st.lists(st.one_of(NAMES, st.integers(0, 99)), max_size=5))
def test_a_pointer_says_the_path_that_it_was_made_of(path: list[str | int]) -> None:
    assert tokens_of(pointer_of(path)) == [str(token) for token in path]


def test_one_place_is_replaced_added_or_appended_to() -> None:
    before = b'{"a":{"b/c":[1,2]}}'
    cases: list[tuple[str, bytes, object]] = [
        ("/a/b~1c/1", b'"x"', {"a": {"b/c": [1, "x"]}}),
        ("/a/b~1c/-", b"3", {"a": {"b/c": [1, 2, 3]}}),
        ("/a/new", b"{}", {"a": {"b/c": [1, 2], "new": {}}}),
        ("", b"null", None),
    ]
    for pointer, value, expected in cases:
        after, change = replaced(before, pointer, value)
        assert msgspec.json.decode(after) == expected
        assert applied(before, (change,)) == after
    assert replaced(b"", "", b"1")[0] == b"1"


@pytest.mark.parametrize(
    ("pointer", "value", "why"),
    [
        ("/a/x/y", b"1", "there is nothing at /a/x"),
        ("/a/b/2", b"1", "there is nothing at /a/b/2: the list has 2 items"),
        ("/a/b/1/z", b"1", "there is nothing at /a/b/1/z: what holds it is no object or list"),
        ("a", b"1", "`a` is no JSON Pointer: it begins with `/`"),
        ("/a", b"x", "the value is no JSON"),
    ],
)
def test_a_place_that_does_not_exist_is_told(pointer: str, value: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        replaced(b'{"a":{"b":[1,2]}}', pointer, value)
    assert str(caught.value) == why
