"""Rules that are proposed from two recordings of one session, and rules that are tried on one."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from recordings.audit import audit
from recordings.formats import with_schemas
from recordings.frame import Frame
from recordings.profile import BUILT_IN, Profile, Rule, profile_of
from recordings.propose import Proposal, Proposed, propose, rules_toml
from tests.recordings.call_kit import Call, frames_of


class Frames:
    """Frames as a source."""

    def __init__(self, frames: Iterable[Frame]) -> None:
        self._frames = list(frames)

    def __iter__(self) -> Iterator[Frame]:
        return iter(self._frames)

    def body(self, frame: Frame) -> bytes:
        return bytes(frame.body)


def calls(*made: Call) -> Frames:
    """A recording of calls."""
    return Frames(frames_of(*made))


def query(result: object = None, **arguments: Any) -> Call:
    """A call, by default with an answer that says nothing."""
    return Call("query", arguments, {"ok": True} if result is None else result)


def proposed(one: Call | list[Call], other: Call | list[Call], profile: Profile = BUILT_IN) -> Proposed:
    """What is proposed from two recordings."""
    sides = [calls(*(side if isinstance(side, list) else [side])) for side in (one, other)]
    return propose(sides[0], sides[1], profile)


def rule_of(found: Proposed) -> tuple[str | None, str | None]:
    """The place and class of the only proposal."""
    assert len(found.proposals) == 1, found.proposals
    return found.proposals[0].rule.at, found.proposals[0].rule.kind


# Proposals


def test_equal_recordings_and_what_is_volatile_anyway_propose_nothing() -> None:
    one = query({"at": "2026-11-28T03:00:00Z"}, id="0af76519-16cd-43dd-8448-eb211c80319c", ts=1_700_000_000)
    other = query({"at": "2026-11-28T04:00:00Z"}, id="1bf76519-16cd-43dd-8448-eb211c80319c", ts=1_700_000_009)
    found = proposed(one, other)
    assert found.proposals == ()
    assert (found.calls, found.alone, found.outcomes) == (1, (0, 0), ())


@pytest.mark.parametrize(
    ("one", "other", "at", "kind"),
    [
        ({"order_id": 17}, {"order_id": 18}, "/params/arguments/order_id", "x-order-id"),
        ({"etag": "aa-1"}, {"etag": "bb-2"}, "/params/arguments/etag", "x-etag"),
        ({"x": "run-1234"}, {"x": "run-1235"}, "/params/arguments/x", "x-id"),
        ({"updated": "Monday"}, {"updated": "Friday"}, "/params/arguments/updated", "timestamp"),
        ({"port": 80}, {"port": 81}, "/params/arguments/port", "port"),
        ({"took": 1.5}, {"took": 2.5}, "/params/arguments/took", "ignore"),
        ({"text": "it is one"}, {"text": "it is two"}, "/params/arguments/text", "ignore"),
        ({"a": 1, "b": 1}, {"a": 1}, "/params/arguments/b", "ignore"),
        ({"a": 1}, {"a": "1"}, "/params/arguments/a", "ignore"),
        ({"l": [1, 2, 3]}, {"l": [3, 1, 2]}, "/params/arguments/l", "ignore"),
        ({"l": [1, 2]}, {"l": [1, 2, 3]}, "/params/arguments/l", "ignore"),
        ({"l": [{"no": 5}]}, {"l": [{"no": 6}]}, "/params/arguments/l/*/no", "ignore"),
        ({"a/b*": 5}, {"a/b*": 6}, "/params/arguments/a~1b~2", "ignore"),
    ],
)
def test_a_place_that_differs_is_proposed_with_a_class(
    one: dict[str, Any], other: dict[str, Any], at: str, kind: str
) -> None:
    assert rule_of(proposed(query(**one), query(**other))) == (at, kind)


def test_what_differs_in_an_answer_is_proposed_for_answers() -> None:
    found = proposed(query({"content": [{"text": "took 1 ms"}]}), query({"content": [{"text": "took 2 ms"}]}))
    assert rule_of(found) == ("/result/content/*/text", "ignore")
    failed = [
        query()._replace(result=None, error={"code": 1, "message": text})
        for text in ("after 1 s", "after 2 s")
    ]
    assert rule_of(proposed(failed[0], failed[1])) == ("/error/message", "ignore")


def test_the_proposed_rules_make_the_recordings_the_same() -> None:
    one = [
        query({"n": 1, "deep": {"x": [1, 2]}}, order_id=n, text=f"say {n}", l=[{"q": n}]) for n in range(3)
    ]
    other = [
        query({"n": 2, "deep": {"x": [1]}}, order_id=n + 9, text=f"say {n + 5}", l=[{"q": 4}])
        for n in range(3)
    ]
    found = proposed(one, other)
    assert found.proposals
    assert proposed(one, other, BUILT_IN.with_rules(each.rule for each in found.proposals)).proposals == ()


def test_calls_are_aligned_by_lane_and_occurrence() -> None:
    one = [query(a=1)._replace(lane="t1"), query(a=2)._replace(lane="t2"), query(a=3)._replace(lane="t1")]
    found = proposed(one, [one[1], one[0], one[2]])
    assert (found.proposals, found.calls) == ((), 3)
    assert proposed(one, one[:2]).alone == (1, 0)


def test_a_call_that_ends_otherwise_is_told_and_proposes_nothing() -> None:
    failed = query()._replace(result=None, error={"code": 1, "message": "no"})
    found = proposed(query(), failed)
    assert (found.proposals, found.outcomes) == ((), ((0, 0),))


def test_a_rule_speaks_of_the_peer_the_method_and_the_tool() -> None:
    rule = proposed(Call("get[x]*", {"a": 1}, {}), Call("get[x]*", {"a": 2}, {})).proposals[0].rule
    assert (rule.peer, rule.method, rule.tool) == ("db", "tools/call", "get[[]x][*]")
    assert rule.fits("db", "tools/call", "get[x]*")
    assert not rule.fits("db", "tools/call", "getx")


def test_many_places_of_one_name_become_one_rule_and_so_do_many_tools() -> None:
    places = proposed(query(a={"n": 1}, b={"n": 1}, c={"n": 1}), query(a={"n": 2}, b={"n": 2}, c={"n": 2}))
    assert rule_of(places) == ("/params/arguments/**/n", "ignore")
    assert places.proposals[0].places == 3
    tools = proposed(
        [Call(name, {"n": 1}, {}) for name in "abc"], [Call(name, {"n": 2}, {}) for name in "abc"]
    )
    assert rule_of(tools) == ("/params/arguments/n", "ignore")
    assert tools.proposals[0].rule.tool is None


def test_guesses_that_do_not_agree_become_none() -> None:
    found = proposed(
        [query(x="run-1234"), query(x="free text")], [query(x="run-1235"), query(x="other text")]
    )
    assert rule_of(found) == ("/params/arguments/x", "ignore")


def test_roots_may_lie_elsewhere() -> None:
    one, other = calls(query(p="/home/ann/x", n=1)), calls(query(p="/builds/7/x", n=2))
    mine, theirs = BUILT_IN.with_roots({"cwd": "/home/ann"}), BUILT_IN.with_roots({"cwd": "/builds/7"})
    assert rule_of(propose(one, other, mine, other_profile=theirs)) == ("/params/arguments/n", "ignore")


def test_rules_are_written_as_toml_that_is_read_again() -> None:
    found = proposed(query(**{'a"\x7f\n': 1, "order_id": 1}), query(**{'a"\x7f\n': 2, "order_id": 2}))
    text = rules_toml(found.proposals)
    assert profile_of(tomllib.loads(text)).rules == tuple(each.rule for each in found.proposals)
    assert all(line.isprintable() for line in text.splitlines() if line.startswith("#"))
    assert profile_of(tomllib.loads(rules_toml(found.proposals, table="replay.rule"))["replay"]).rules


def test_an_example_is_short_and_shows_what_is_renamed() -> None:
    one = query(text="see 0af76519-16cd-43dd-8448-eb211c80319c: " + "long " * 50)
    other = query(text="see 0af76519-16cd-43dd-8448-eb211c80319c: " + "longer " * 50)
    proposal: Proposal = proposed(one, other).proposals[0]
    assert proposal.before.startswith('"see <uuid#1>: long')
    assert len(proposal.before) == 80


# Audit


def test_a_rule_that_never_fires_is_told() -> None:
    profile = BUILT_IN.with_rules(
        [
            Rule(at="/params/arguments/a", kind="x-a"),
            Rule(at="/params/arguments/b", kind="ignore"),
            Rule(at="/result/ok", kind="ignore"),
            Rule(tool="drop", consume="once"),
            Rule(tool="que*", consume="once"),
            Rule(format="date-time", kind="timestamp"),
        ]
    )
    found = audit(profile, calls(query(a=1), query(a=1)))
    assert found.fired == (2, 0, 2, 0, 2, 0)
    assert found.silent == (1, 3, 5)
    assert not found.is_good


@pytest.mark.parametrize(
    ("rule", "values", "by_values"),
    [
        (Rule(at="/params/arguments/x", kind="ignore"), ("a", "b"), False),
        (Rule(at="/params/arguments/x", kind="x-x"), ("a", "b"), True),
        (Rule(at="/params/arguments/x", tolerance=1), (1, 1.5), False),
        (Rule(at="/params/arguments/x", tolerance=1), (1, 9), True),
    ],
)
def test_a_rule_that_hides_a_difference_is_told(rule: Rule, values: tuple[Any, Any], by_values: bool) -> None:
    found = audit(BUILT_IN.with_rules([rule]), calls(*(query(x=value) for value in values)))
    assert [(merge.seqs, merge.requests, merge.by_values) for merge in found.merges] == [
        ((0, 2), 2, by_values)
    ]
    assert found.is_good is by_values


def test_a_rule_that_hides_nothing_is_good() -> None:
    profile = BUILT_IN.with_rules([Rule(at="/params/arguments/x", kind="ignore")])
    assert audit(profile, calls(query(x=1, y=1), query(x=2, y=2), query(x=1, y=1))).is_good


# Schemas of a recording


def test_the_listings_of_a_recording_make_rules() -> None:
    tool = {
        "name": "query",
        "inputSchema": {"properties": {"when": {"format": "date-time"}, "u": {"format": "uri"}}},
    }
    listing = Call("", {}, {"tools": [tool, {"name": 3}, None]}, method="tools/list")
    source = calls(listing, query(when="now"))
    profile = BUILT_IN.with_rules([Rule(format="uri", kind="ignore")])
    made = with_schemas(profile, source).rules[1:]
    assert [(rule.at, rule.kind, rule.peer, rule.tool) for rule in made] == [
        ("/params/arguments/when", "timestamp", "db", "query"),
        ("/params/arguments/u", "ignore", "db", "query"),
    ]
    assert audit(profile, source).is_good
    assert with_schemas(profile, calls(listing._replace(result=[1]))) == profile
