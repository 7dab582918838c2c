"""Which recorded request a live one is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordings.form import Form, form_of
from recordings.matching import Live, Match, Matcher, Miss, Recorded
from recordings.profile import BUILT_IN, Consumption

ONE, TWO, THREE, FOUR = (f"{digit}b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed" for digit in "1234")


def form(arguments: Any, method: str = "tools/call", name: str = "read") -> Form:
    return form_of(BUILT_IN, method, name, msgspec.json.encode({"name": name, "arguments": arguments}))


class Desk:
    """A matcher over requests that a test writes down."""

    def __init__(self, *, strict: bool = True) -> None:
        self._requests: list[Recorded] = []
        self._forms: dict[int, Form] = {}
        self._outcomes: dict[int, bytes] = {}
        self._strict = strict
        self._matcher: Matcher | None = None

    def has(
        self, arguments: Any, lane: str = "", *, outcome: str = "", peer: str = "fs", name: str = "read", at: int = 0,
        takes: Consumption = "fifo", is_own: bool = False,
    ) -> int:  # fmt: skip
        """One recorded request; its outcome is another one each time unless given."""
        seq = len(self._requests)
        self._requests.append(
            Recorded(seq, at, peer, lane, "tools/call", name, consumption=takes, is_own=is_own)
        )
        self._forms[seq] = form(arguments, name=name)
        self._outcomes[seq] = outcome.encode() or b"%d" % seq
        return seq

    @property
    def matcher(self) -> Matcher:
        if self._matcher is None:
            self._matcher = Matcher(
                self._requests,
                form=self._forms.__getitem__,
                outcome=self._outcomes.__getitem__,
                strict=self._strict,
            )
        return self._matcher

    def gets(
        self, arguments: Any, lane: str = "", *, peer: str = "fs", name: str = "read", now: int = 0,
        eligible: Callable[[int], bool] | None = None, is_own: bool = False,
    ) -> Match | Miss:  # fmt: skip
        """One live request, bound if it matches."""
        live = Live(peer, lane, "tools/call", name, form(arguments, name=name), is_own)
        found = self.matcher.match(live, now=now, eligible=eligible)
        if isinstance(found, Match):
            self.matcher.bind(found.seq, live)
        return found


def seq_of(found: Match | Miss) -> int:
    assert isinstance(found, Match), found
    return found.seq


def why(found: Match | Miss) -> str:
    assert isinstance(found, Miss), found
    return found.why


def test_equal_requests_are_used_up_in_their_order() -> None:
    desk = Desk()
    seqs = [desk.has({"n": 1}, "a") for _ in range(3)]
    assert [seq_of(desk.gets({"n": 1}, "a")) for _ in seqs] == seqs
    assert desk.gets({"n": 1}, "a") == Miss("exhausted", tuple(seqs))


def test_each_lane_has_its_own_occurrences() -> None:
    desk = Desk()
    a, b = desk.has({"n": 1}, "a"), desk.has({"n": 1}, "b")
    again = desk.has({"n": 1}, "a")
    assert [seq_of(desk.gets({"n": 1}, lane)) for lane in "baa"] == [b, a, again]
    assert why(desk.gets({"n": 1}, "b")) == "exhausted"


@given(st.permutations([("a", 0), ("a", 1), ("b", 2), ("b", 3), ("c", 4)]))
def test_lanes_get_their_own_in_whatever_order_they_come(order: list[tuple[str, int]]) -> None:
    desk = Desk()
    for lane in "aabbc":
        desk.has({"n": 1}, lane)
    expected = {"a": [0, 1], "b": [2, 3], "c": [4]}
    for lane, _ in order:
        assert seq_of(desk.gets({"n": 1}, lane)) == expected[lane].pop(0)


def test_a_request_with_other_values_has_changed_and_one_of_another_kind_is_extra() -> None:
    desk = Desk()
    seq = desk.has({"n": 1}, "a")
    assert desk.gets({"n": 2}, "a") == Miss("changed-params", (seq,))
    assert why(desk.gets({"n": 1}, "a", name="write")) == "extra"
    assert why(desk.gets({"n": 1}, "a", peer="db")) == "extra"


def test_a_changed_request_is_extra_when_every_one_of_its_kind_is_used() -> None:
    desk = Desk()
    desk.has({"n": 1}, "a")
    desk.gets({"n": 1}, "a")
    assert why(desk.gets({"n": 2}, "a")) == "extra"


def test_values_that_differ_from_run_to_run_are_one_another_once_and_for_all_in_a_lane() -> None:
    desk = Desk()
    first, second = desk.has({"id": ONE}, "a"), desk.has({"id": TWO}, "a")
    again = desk.has({"id": ONE}, "a")
    assert seq_of(desk.gets({"id": THREE}, "a")) == first
    assert seq_of(desk.gets({"id": FOUR}, "a")) == second
    found = desk.gets({"id": THREE}, "a")
    assert found == Match(again)


def test_a_value_that_was_another_one_before_makes_a_match_relaxed() -> None:
    desk = Desk()
    desk.has({"id": ONE}, "a")
    again = desk.has({"id": ONE}, "a")
    desk.gets({"id": THREE}, "a")
    found = desk.gets({"id": FOUR}, "a")
    assert found == Match(again, relaxed=True)


def test_two_different_recorded_values_are_not_one_live_value() -> None:
    desk = Desk()
    desk.has({"id": ONE}, "a")
    other = desk.has({"id": TWO}, "a")
    desk.gets({"id": THREE}, "a")
    assert desk.gets({"id": THREE}, "a") == Match(other, relaxed=True)


def test_bindings_choose_among_requests_of_one_key_whatever_their_order() -> None:
    desk = Desk()
    create = [desk.has({"make": ONE}, "a"), desk.has({"make": TWO}, "a")]
    of_one, of_two = desk.has({"get": ONE}, "a"), desk.has({"get": TWO}, "a")
    assert [seq_of(desk.gets({"make": value}, "a")) for value in (THREE, FOUR)] == create
    assert seq_of(desk.gets({"get": FOUR}, "a")) == of_two
    assert seq_of(desk.gets({"get": THREE}, "a")) == of_one


def test_another_lane_may_call_the_same_things_otherwise() -> None:
    desk = Desk()
    a, b = desk.has({"id": ONE}, "a"), desk.has({"id": ONE}, "b")
    assert desk.gets({"id": THREE}, "a") == Match(a)
    assert desk.gets({"id": FOUR}, "b") == Match(b)


def test_equal_values_come_before_bound_ones() -> None:
    desk = Desk()
    desk.has({"id": ONE}, "a")
    exact = desk.has({"id": TWO}, "a")
    assert desk.gets({"id": TWO}, "a") == Match(exact)


@settings(max_examples=200)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.permutations(range(4)))
def test_renamed_throughout_a_lane_matches_itself_in_order(pattern: list[int], renamed: list[int]) -> None:
    names = (ONE, TWO, THREE, FOUR)
    fresh = [name.replace("b9d6bcd", "c9d6bcd") for name in names]
    desk = Desk()
    for number in pattern:
        desk.has({"id": names[number]}, "a")
    for place, number in enumerate(pattern):
        assert desk.gets({"id": fresh[renamed[number]]}, "a") == Match(place)


def test_lists_are_given_again_as_often_as_they_are_asked_for() -> None:
    desk = Desk()
    first, second = (desk.has({}, "a", takes="sticky") for _ in range(2))
    assert [seq_of(desk.gets({}, "a")) for _ in range(4)] == [first, second, second, second]
    assert desk.gets({}, "b") == Match(second, again=True)


def test_a_poll_gets_the_state_of_its_time_and_the_last_one_for_ever() -> None:
    desk = Desk()
    seqs = [desk.has({}, "a", takes="sampled", at=at) for at in (0, 10, 20, 30)]
    assert seq_of(desk.gets({}, "a", now=0)) == seqs[0]
    assert seq_of(desk.gets({}, "a", now=25)) == seqs[2]
    assert seq_of(desk.gets({}, "a", now=99)) == seqs[3]
    assert desk.gets({}, "a", now=99) == Match(seqs[3], again=True)


@pytest.mark.parametrize("takes", ["fifo", "once"])
def test_what_has_effects_is_never_given_again(takes: Consumption) -> None:
    desk = Desk()
    desk.has({}, "a", takes=takes)
    desk.gets({}, "a")
    assert why(desk.gets({}, "a")) == "exhausted"


def test_without_lanes_what_has_been_caused_comes_first() -> None:
    desk = Desk()
    early, open_now = desk.has({"n": 1}), desk.has({"n": 1})
    assert seq_of(desk.gets({"n": 1}, eligible=lambda seq: seq == open_now)) == open_now
    assert seq_of(desk.gets({"n": 1}, eligible=lambda seq: False)) == early


def test_several_that_fit_are_ambiguous_where_their_outcomes_differ() -> None:
    desk = Desk()
    seqs = [desk.has({"n": 1}), desk.has({"n": 1})]
    assert desk.gets({"n": 1}) == Miss("ambiguous", tuple(seqs))


def test_several_that_fit_are_one_where_their_outcomes_are_equal() -> None:
    desk = Desk()
    first, second = (desk.has({"n": 1}, outcome="same") for _ in range(2))
    assert [seq_of(desk.gets({"n": 1})) for _ in range(2)] == [first, second]


def test_the_oldest_is_taken_where_the_mode_is_lenient_and_the_match_says_so() -> None:
    desk = Desk(strict=False)
    first, second = desk.has({"n": 1}), desk.has({"n": 1})
    assert desk.gets({"n": 1}) == Match(first, ambiguous=True)
    assert desk.gets({"n": 1}) == Match(second)


def test_a_request_whose_owner_is_not_known_yet_is_the_one_that_went_to_him() -> None:
    desk = Desk()
    seq = desk.has({"n": 1}, "a", peer="fs")
    assert seq_of(desk.gets({"n": 1}, "a", peer="")) == seq
    other = Desk()
    seq = other.has({"n": 1}, "a", peer="")
    assert seq_of(other.gets({"n": 1}, "a", peer="fs")) == seq


def test_what_the_gateway_asks_by_itself_uses_up_none_of_the_cores() -> None:
    desk = Desk()
    own, cores = desk.has({"n": 1}, is_own=True), desk.has({"n": 1})
    assert seq_of(desk.gets({"n": 1})) == cores
    assert seq_of(desk.gets({"n": 1}, is_own=True)) == own
    assert why(desk.gets({"n": 1})) == "exhausted"


def test_contested_are_those_whose_lane_decides_what_comes_of_them() -> None:
    desk = Desk()
    desk.has({"n": 1}, outcome="same")
    desk.has({"n": 1}, outcome="same")
    contested = {desk.has({"n": 2}), desk.has({"n": 2})}
    assert desk.matcher.contested() == contested


def test_what_the_gateway_asks_by_itself_may_have_other_params_since_it_follows_from_the_order_of_others() -> (
    None
):
    desk = Desk()
    own, cores = desk.has({"uris": ["a", "b"]}, is_own=True), desk.has({"uris": ["a", "b"]})
    assert seq_of(desk.gets({"uris": ["a"]}, is_own=True)) == own
    assert why(desk.gets({"uris": ["a"]})) == "changed-params"
    assert why(desk.gets({"uris": ["b"]}, is_own=True)) == "extra"
    assert seq_of(desk.gets({"uris": ["a", "b"]})) == cores
