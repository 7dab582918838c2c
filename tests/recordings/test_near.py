"""Which recorded requests a live one resembles most."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from recordings.near import MOST_CANDIDATES, MOST_VALUES, Nearest, Request, values_of
from recordings.profile import BUILT_IN, Profile, Rule


def call(name: str, **arguments: Any) -> bytes:
    """Params of a tool call."""
    return msgspec.json.encode({"name": name, "arguments": arguments})


class Recorded:
    """Recorded requests, numbered from 1, and how often their params were asked for."""

    def __init__(self, profile: Profile = BUILT_IN) -> None:
        self._profile = profile
        self._requests: list[Request] = []
        self._params: dict[int, bytes] = {}
        self.asked = 0

    def add(self, params: bytes, name: str = "query", method: str = "tools/call", peer: str = "db") -> None:
        self._requests.append(Request(len(self._requests) + 1, peer, method, name))
        self._params[len(self._requests)] = params

    def index(self) -> Nearest:
        return Nearest(self._profile, self._requests, self._look)

    def _look(self, seq: int) -> bytes:
        self.asked += 1
        return self._params[seq]


def test_the_nearest_is_the_one_with_most_equal_values() -> None:
    recorded = Recorded()
    recorded.add(call("query", sql="select 1", limit=10, db="sales"))
    recorded.add(call("query", sql="select 2", limit=50, db="sales"))
    recorded.add(call("query", sql="select 3", limit=10, db="stock"))
    recorded.add(call("query", sql="select 4", limit=99, db="other"))
    found = recorded.index().of(
        "db", "tools/call", "query", call("query", sql="select 2", limit=51, db="sales")
    )
    assert [each.seq for each in found] == [2, 1, 3]
    assert (found[0].equal, found[0].of) == (3, 5)
    assert found[0].distance == "2 of 5 values"


def test_peer_method_and_name_come_before_values() -> None:
    recorded = Recorded()
    wanted = call("query", a=1, b=2)
    recorded.add(wanted, peer="other")
    recorded.add(wanted, method="prompts/get")
    recorded.add(wanted, name="search")
    recorded.add(call("query", x=3))
    found = recorded.index().of("db", "tools/call", "query", wanted, most=4)
    assert [each.seq for each in found] == [4, 3, 2, 1]
    assert [each.distance for each in found][1:] == ["another name", "another method", "another peer"]


def test_of_equally_near_ones_the_oldest_comes_first() -> None:
    recorded = Recorded()
    for _ in range(5):
        recorded.add(call("query", a=1))
    assert [each.seq for each in recorded.index().of("db", "tools/call", "query", call("query", a=2))] == [
        1,
        2,
        3,
    ]


def test_values_that_may_differ_are_equal() -> None:
    recorded = Recorded(BUILT_IN.with_rules([Rule(at="/params/arguments/noise", kind="ignore")]))
    recorded.add(call("query", id="0af76519-16cd-43dd-8448-eb211c80319c", noise=1, a=1))
    live = call("query", id="1bf76519-16cd-43dd-8448-eb211c80319c", noise=2, a=1)
    assert recorded.index().of("db", "tools/call", "query", live)[0].distance == "0 of 3 values"


def test_the_folders_of_the_run_that_asks_may_lie_elsewhere() -> None:
    params = {1: call("read", path="/home/ann/shop/a.py", n=1)}
    index = Nearest(
        BUILT_IN.with_roots({"cwd": "/home/ann/shop"}),
        [Request(1, "fs", "tools/call", "read")],
        params.__getitem__,
        live=BUILT_IN.with_roots({"cwd": "/builds/7"}),
    )
    found = index.of("fs", "tools/call", "read", call("read", path="/builds/7/a.py", n=2))
    assert found[0].distance == "2 of 4 values"


def test_nothing_is_indexed_before_somebody_asks_and_nothing_twice() -> None:
    recorded = Recorded()
    for number in range(50):
        recorded.add(call("query", n=number))
        recorded.add(call("search", n=number), name="search")
    index = recorded.index()
    assert recorded.asked == 0
    index.of("db", "tools/call", "query", call("query", n=7))
    index.of("db", "tools/call", "query", call("query", n=8))
    assert recorded.asked == 50


def test_a_rare_value_is_found_among_many_requests_that_share_the_others() -> None:
    recorded = Recorded()
    for number in range(3 * MOST_CANDIDATES):
        recorded.add(call("query", sql=f"select {number}", db="sales"))
    live = call("query", sql=f"select {3 * MOST_CANDIDATES - 1}", db="stock")
    assert recorded.index().of("db", "tools/call", "query", live)[0].seq == 3 * MOST_CANDIDATES


def test_no_request_has_no_neighbour_and_no_params_are_compared_too() -> None:
    recorded = Recorded()
    assert recorded.index().of("db", "ping", None, b"") == []
    recorded.add(b"", method="ping")
    recorded.add(b"{", method="ping")
    found = recorded.index().of("db", "ping", "query", b"")
    assert [(each.seq, each.share) for each in found] == [(1, 1.0), (2, 0.0)]


def test_a_large_document_is_looked_at_as_far_as_is_allowed() -> None:
    wide = {"x" * 1000 + str(number): [number] * 1000 for number in range(1000)}
    assert len(values_of(wide)) == MOST_VALUES
    deep: Any = 1
    for _ in range(400):
        deep = {"a" * 100: deep}
    assert len(values_of(deep)) == 1


@given(
    st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3)), min_size=1, max_size=12), st.data()
)
@settings(deadline=None, max_examples=60)
def test_the_index_finds_what_looking_at_all_would_find(
    sets: list[dict[str, int]], data: st.DataObject
) -> None:
    recorded = Recorded()
    for each in sets:
        recorded.add(msgspec.json.encode(each))
    live = data.draw(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3)))
    found = recorded.index().of("db", "tools/call", "query", msgspec.json.encode(live))

    def share(other: dict[str, int]) -> float:
        both = live.items() & other.items()
        either = live.items() | other.items()
        return len(both) / len(either) if either else 1.0

    ranked = sorted(range(len(sets)), key=lambda at: (-share(sets[at]), at))
    assert [each.seq for each in found] == [at + 1 for at in ranked[:3]]
