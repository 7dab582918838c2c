"""Names of what several peers offer: stable, reversible, filtered, told where they are odd."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from gateway.calls.catalog import Catalog, Judge
from gateway.config.model import CatalogConfig
from gateway.config.peer import PeerConfig, ToolsConfig

Prefix = Literal["auto", "always", "never"]
TOOLS = "tools/list"


def raws(*items: str | dict[str, Any], key: str = "name") -> list[Raw]:
    return [Raw(json.dumps({key: item} if isinstance(item, str) else item).encode()) for item in items]


def catalog(
    peers: dict[str, PeerConfig] | str, *, prefix: Prefix = "auto", judge: Judge | None = None
) -> Catalog:
    table = {name: PeerConfig(command=["x"]) for name in peers} if isinstance(peers, str) else peers
    return Catalog(CatalogConfig(prefix=prefix), table, judge)


def peer(prefix: str | None = None, **tools: Any) -> PeerConfig:
    return PeerConfig(command=["x"], prefix=prefix, tools=ToolsConfig(**tools))


def names(subject: Catalog, method: str = TOOLS) -> list[str]:
    return [item.offered for item in subject.items(method)]


def test_names_stay_as_they_are_where_none_stands_twice() -> None:
    subject = catalog("ab")
    subject.put("b", TOOLS, raws("walk"))
    subject.put("a", TOOLS, raws("run", "jump"))

    assert names(subject) == ["run", "jump", "walk"]
    assert subject.find(TOOLS, "walk") == ("b", "walk")
    assert subject.notices == []


@pytest.mark.parametrize(
    ("prefix", "listed"),
    [
        ("auto", ["a__add", "run", "b__add"]),
        ("always", ["a__add", "a__run", "b__add"]),
        ("never", ["add", "run"]),
    ],
)
def test_a_name_of_two_peers_is_listed_by_the_rule_and_told(prefix: Prefix, listed: list[str]) -> None:
    subject = catalog("ab", prefix=prefix)
    subject.put("a", TOOLS, raws("add", "run"))
    subject.put("b", TOOLS, raws("add"))

    assert names(subject) == listed
    assert any("`add` is offered by a, b" in notice for notice in subject.notices)
    assert subject.find(TOOLS, "b__add") == ("b", "add")
    assert subject.find(TOOLS, "add") == (("a", "add") if prefix == "never" else None)


def test_a_name_that_was_listed_stays_its_owners_when_another_peer_begins_to_offer_it() -> None:
    for newcomer, owner in (("a", "b"), ("b", "a")):
        subject = catalog("ab")
        subject.put(owner, TOOLS, raws("add"))
        assert names(subject) == ["add"]
        subject.put(newcomer, TOOLS, raws("add", "run"))

        assert sorted(names(subject)) == sorted(["add", f"{newcomer}__add", "run"])
        assert subject.find(TOOLS, "add") == (owner, "add")
        assert subject.find(TOOLS, f"{newcomer}__add") == (newcomer, "add")
        (notice,) = [notice for notice in subject.notices if "offered by a, b" in notice]
        assert f"{owner} keeps it" in notice


def test_a_name_that_was_listed_with_its_peers_keeps_that_when_it_is_the_only_one_left() -> None:
    subject = catalog("ab")
    for peer_ in "ab":
        subject.put(peer_, TOOLS, raws("add"))
    assert names(subject) == ["a__add", "b__add"]
    subject.put("b", TOOLS, [])
    assert names(subject) == ["a__add"]


def test_a_name_whose_owner_is_away_never_means_another_ones_tool() -> None:
    subject = catalog("abc")
    subject.put("a", TOOLS, raws("add"))
    assert names(subject) == ["add"]
    subject.forget("a", TOOLS)
    subject.put("b", TOOLS, raws("add"))
    assert names(subject) == ["b__add"]
    assert subject.find(TOOLS, "add") is None
    subject.put("a", TOOLS, raws("add"))
    assert names(subject) == ["add", "b__add"]


def test_without_prefixes_the_name_stays_its_owners_too() -> None:
    subject = catalog("ab", prefix="never")
    subject.put("b", TOOLS, raws("add"))
    assert names(subject) == ["add"]
    subject.put("a", TOOLS, raws("add"))

    assert subject.find(TOOLS, "add") == ("b", "add")
    assert subject.find(TOOLS, "a__add") == ("a", "add")
    assert any("b keeps it" in notice and "not listed" in notice for notice in subject.notices)


def test_what_nobody_was_told_does_not_count() -> None:
    subject = catalog("ab")
    subject.put("a", TOOLS, raws("add"))
    subject.refresh(TOOLS)
    assert subject.find(TOOLS, "add") == ("a", "add")
    subject.put("b", TOOLS, raws("add"))

    assert names(subject) == ["a__add", "b__add"]


def test_names_outlive_a_reload_where_the_rules_for_them_are_the_same() -> None:
    before = catalog("ab")
    before.put("a", TOOLS, raws("add"))
    before.put("b", TOOLS, raws("run"))
    assert names(before) == ["add", "run"]
    after = catalog({"c": peer(), "a": PeerConfig(command=["other"]), "b": peer(prefix="own")})
    after.keep_names(before)
    for each in "abc":
        after.put(each, TOOLS, raws("add", "run"))

    assert sorted(names(after)) == sorted(["add", "a__run", "own__add", "own__run", "c__add", "c__run"])


def test_the_names_of_the_only_peer_stay_when_others_join_it() -> None:
    before = catalog("a")
    assert before.is_plain
    for again in range(2):
        after = catalog("ba")
        after.keep_names(before)
        after.put("a", TOOLS, raws("add"))
        after.put("b", TOOLS, raws("add"))
        assert names(after) == ["b__add", "add"], again
        before = after


def test_names_begin_anew_where_another_rule_holds() -> None:
    before = catalog("ab")
    before.put("a", TOOLS, raws("add"))
    names(before)
    after = catalog("ab", prefix="always")
    after.keep_names(before)
    after.put("a", TOOLS, raws("add"))

    assert names(after) == ["a__add"]


def test_a_list_that_changed_while_it_was_fetched_is_used_until_it_is_fetched_again() -> None:
    subject = catalog("ab")
    asked_at = subject.changes("a", TOOLS)
    subject.forget("a", TOOLS)
    subject.put("a", TOOLS, raws("add"), asked_at=asked_at)
    assert not subject.knows("a", TOOLS)
    assert names(subject) == ["add"]
    subject.put("a", TOOLS, raws("add"), asked_at=subject.changes("a", TOOLS))
    assert subject.knows("a", TOOLS)


def test_a_qualified_name_reaches_its_peer_whether_listed_or_not() -> None:
    subject = catalog("ab")

    assert subject.find(TOOLS, "b__hidden") == ("b", "hidden")
    assert subject.find(TOOLS, "hidden") is None


def test_a_prefix_of_its_own_is_put_before_every_name() -> None:
    subject = catalog({"a": peer("math"), "b": peer("")}, prefix="always")
    subject.put("a", TOOLS, raws("add"))
    subject.put("b", TOOLS, raws("walk"))

    assert names(subject) == ["math__add", "walk"]
    assert subject.find(TOOLS, "math__add") == ("a", "add")


def test_a_definition_under_another_name_is_otherwise_the_same() -> None:
    subject = catalog({"a": peer(rename={"add": "plus"}), "b": peer()})
    subject.put("a", TOOLS, [Raw(b'{"description":"x", "name":"add","later":{"n":1.0}}')])
    (item,) = subject.items(TOOLS)

    assert item.listed() == b'{"description":"x","name":"plus","later":{"n":1.0}}'
    assert subject.find(TOOLS, "plus") == ("a", "add")
    assert subject.find(TOOLS, "a__plus") == ("a", "add")


def test_names_may_be_swapped() -> None:
    subject = catalog({"a": peer(rename={"x": "y", "y": "x"})})
    subject.put("a", TOOLS, raws("x", "y"))

    assert names(subject) == ["y", "x"]
    assert (subject.find(TOOLS, "x"), subject.find(TOOLS, "y")) == (("a", "y"), ("a", "x"))


def test_what_is_filtered_out_is_neither_listed_nor_called_by_any_name() -> None:
    subject = catalog({"a": peer(allow=["r*"], deny=["rm*"]), "b": peer()})
    subject.put("a", TOOLS, raws("run", "rm_all", "jump"))

    assert names(subject) == ["run"]
    for name in ("rm_all", "jump", "a__rm_all", "a__jump"):
        assert subject.find(TOOLS, name) is None


def test_filters_are_about_tools_alone() -> None:
    subject = catalog({"a": peer(allow=["r*"]), "b": peer()})
    subject.put("a", "prompts/list", raws("jump"))

    assert names(subject, "prompts/list") == ["jump"]


def test_what_is_held_back_is_not_listed_and_known_to_be_held() -> None:
    subject = catalog("ab", judge=lambda owner, name, _: (owner, name) == ("a", "run"))
    subject.put("a", TOOLS, raws("run", "jump"))

    assert names(subject) == ["jump"]
    assert subject.is_held("a", "run")
    assert not subject.is_held("a", "jump")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", "without a name"),
        ("x" * 300, "300 characters"),
        ("a\x1b[2K", "control characters"),
        ("a\u200bdd", "control characters"),
    ],
)
def test_odd_names_are_told(name: str, told: str) -> None:
    subject = catalog("ab")
    subject.put("a", TOOLS, raws(name))
    subject.items(TOOLS)

    assert any(told in notice for notice in subject.notices)
    assert subject.find(TOOLS, name) == (("a", name) if name else None)


@pytest.mark.parametrize("pair", [("Add", "add"), ("\uff41dd", "add"), ("stra\u00dfe", "STRASSE")])
def test_names_that_look_alike_are_told_and_both_listed(pair: tuple[str, str]) -> None:
    subject = catalog("ab")
    subject.put("a", TOOLS, raws(pair[0]))
    subject.put("b", TOOLS, raws(pair[1]))

    assert sorted(names(subject)) == sorted(pair)
    assert any("look alike" in notice for notice in subject.notices)


def test_a_notice_is_told_once() -> None:
    subject = catalog("ab")
    for _ in range(2):
        subject.put("a", TOOLS, raws("add"))
        subject.put("b", TOOLS, raws("add"))
        subject.items(TOOLS)

    assert len(subject.notices) == 1


def test_a_bare_name_in_the_way_of_a_qualified_one_gets_its_own_qualified_name() -> None:
    subject = catalog("xyw")
    subject.put("x", TOOLS, raws("y__z"))
    subject.put("y", TOOLS, raws("z"))
    subject.put("w", TOOLS, raws("z"))

    assert names(subject) == ["x__y__z", "y__z", "w__z"]
    assert [subject.find(TOOLS, name) for name in names(subject)] == [("x", "y__z"), ("y", "z"), ("w", "z")]


def test_two_qualified_names_that_are_one_are_told() -> None:
    subject = catalog({"a": peer(), "a__b": peer()}, prefix="always")
    subject.put("a", TOOLS, raws("b__c"))
    subject.put("a__b", TOOLS, raws("c"))

    assert names(subject) == ["a__b__c"]
    assert any("is not listed" in notice for notice in subject.notices)


def test_a_name_that_one_peer_lists_twice_is_listed_once() -> None:
    subject = catalog("ab")
    subject.put("a", TOOLS, raws({"name": "add", "n": 1}, {"name": "add", "n": 2}))

    assert [json.loads(item.listed())["n"] for item in subject.items(TOOLS)] == [1]


@pytest.mark.parametrize("items", [[b"5"], [b"[]"], [b'{"name":7}'], [b"null"], [b'{"name":null}']])
def test_items_of_another_shape_are_passed_over(items: list[bytes]) -> None:
    subject = catalog("ab")
    subject.put("a", TOOLS, [Raw(item) for item in items] + raws("add"))

    assert names(subject) == ["add"]


def test_forgotten_lists_are_unknown_until_they_are_put_again() -> None:
    subject = catalog("ab")
    subject.put("a", TOOLS, raws("add"))
    assert subject.knows("a", TOOLS)
    subject.forget("a", TOOLS)

    assert not subject.knows("a", TOOLS)
    assert subject.find(TOOLS, "add") is None
    assert subject.find(TOOLS, "a__add") == ("a", "add")


@pytest.mark.parametrize(
    ("uri", "owner"),
    [
        ("file:///a", "a"),
        ("db:///t/1", "b"),
        ("db:///t/1/rows", "b"),
        ("db:///", None),
        ("x://a/b/c", "b"),
        ("x://a/c", None),
        ("", None),
    ],
)
def test_a_uri_belongs_to_who_lists_it_or_a_template_of_it(uri: str, owner: str | None) -> None:
    subject = catalog("ab")
    subject.put("a", "resources/list", raws("file:///a", "file:///b", key="uri"))
    templates = raws("db:///t/{id}", "x://{a}/b/{+c}", "db:///t/{id}/rows{?n}", key="uriTemplate")
    subject.put("b", "resources/templates/list", templates)

    assert subject.find_uri(uri) == owner


def test_one_peer_without_rules_passes_untouched() -> None:
    assert catalog("a").is_plain
    assert not catalog("ab").is_plain
    assert not catalog("a", prefix="always").is_plain
    assert not catalog({"a": peer("p")}).is_plain
    assert not catalog({"a": peer(deny=["x"])}).is_plain
    assert not catalog({"a": peer(pin={"x": "0"})}).is_plain
    assert not catalog("a", judge=lambda _, __, ___: False).is_plain


PEERS = ("a", "b", "a__b", "c")
WORDS = st.sampled_from(("x", "y", "b__x", "c__x", "a__b__x", "X", "", "b__c__x"))
OFFERS = st.fixed_dictionaries({name: st.lists(WORDS, max_size=4) for name in PEERS})
PREFIXES: st.SearchStrategy[Prefix] = st.sampled_from(("auto", "always", "never"))


def filled(offers: dict[str, list[str]], order: list[str], prefix: Prefix) -> Catalog:
    subject = catalog({name: peer() for name in PEERS}, prefix=prefix)
    for name in order:
        subject.put(name, TOOLS, raws(*offers[name]))
    return subject


@given(OFFERS, st.permutations(PEERS), st.lists(st.sampled_from(PEERS), max_size=4), PREFIXES)
def test_names_do_not_depend_on_the_order_in_which_peers_come_and_no_one_changes_when_others_go(
    offers: dict[str, list[str]], order: list[str], restarts: list[str], prefix: Prefix
) -> None:
    first, second = filled(offers, list(PEERS), prefix), filled(offers, order, prefix)
    told = {(i.peer, i.original): i.offered for i in first.items(TOOLS)}
    assert {(i.peer, i.original): i.offered for i in second.items(TOOLS)} == told
    for name in restarts:
        second.forget(name, TOOLS)
        for item in second.items(TOOLS):
            assert told.get((item.peer, item.original), item.offered) == item.offered
        second.put(name, TOOLS, raws(*offers[name]))

    after = {(i.peer, i.original): i.offered for i in second.items(TOOLS)}
    assert after | told == after


@given(OFFERS, PREFIXES)
def test_every_listed_name_is_one_name_and_leads_back_to_what_it_names(
    offers: dict[str, list[str]], prefix: Prefix
) -> None:
    subject = filled(offers, list(PEERS), prefix)
    items = subject.items(TOOLS)

    assert len({item.offered for item in items}) == len(items)
    for item in items:
        assert subject.find(TOOLS, item.offered) == (item.peer, item.original)
        assert json.loads(item.listed())["name"] == item.offered


@given(OFFERS, PREFIXES)
def test_nothing_vanishes_without_a_word(offers: dict[str, list[str]], prefix: Prefix) -> None:
    subject = filled(offers, list(PEERS), prefix)
    listed = {(item.peer, item.original) for item in subject.items(TOOLS)}
    told = " ".join(subject.notices)

    for owner, tools in offers.items():
        for tool in tools:
            assert (owner, tool) in listed or not tool or f"`{tool}`" in told


def test_ten_thousand_names_of_two_peers_are_named_in_one_pass() -> None:
    many = [f"tool{number}" for number in range(5000)]
    calls = 0

    def judge(*_: object) -> bool:
        nonlocal calls
        calls += 1
        return False

    subject = catalog("ab", judge=judge)
    subject.put("a", TOOLS, raws(*many, *["same"] * 5000))
    subject.put("b", TOOLS, raws(*many))

    assert len(subject.items(TOOLS)) == 10_001
    for name in many:
        assert subject.find(TOOLS, f"b__{name}") == ("b", name)
    assert calls == 15_000
