"""A generated session, its core played again in another order: every lane is given what it was given."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gateway.protocol import mcp
from tests.gateway.replay.reenact import Reenactment
from tests.gateway.replay.sessions import CALM, Acting, Plan, Step, plans

WILD = (*CALM, *CALM, "stray", "stderr", "peer junk", "orphan", "again", "carry", "renews")
"""What may happen in any order: a peer that goes or cannot be reached does so between two others' calls."""
UPSETS = (*CALM, "dies", "renews", "again", "orphan")
LEGACY_PEER: tuple[mcp.Era, bool, bool] = ("legacy", False, False)
MODERN_PEER: tuple[mcp.Era, bool, bool] = ("modern", False, False)


def is_crowded(plan: Plan) -> bool:
    """Whether a legacy peer may die while three calls of a modern core overlap at it, on connections of their own.

    A known difference: calls that come while the first connection is still being made may share it in a replay, and
    one that was elsewhere when it was recorded is then lost with it.
    """
    kinds = [kind for kind, _, _ in plan.steps]
    calls = next((number for number in range(len(kinds)) if kinds[:number].count("call") == 3), len(kinds))
    is_apart = plan.era == "modern" and any(era == "legacy" for era, _, _ in plan.peers)
    return is_apart and "dies" in kinds[calls:]


def assert_replayed(plan: Plan, seed: int, *, in_order: bool = False) -> None:
    """Replay a session in the strength that suits it, its core in an order drawn by lot, or in its own."""
    scene = Acting(plan).play()
    has_lanes = any(frame.lane for frame in scene.frames)
    strength = "causal" if has_lanes else "lockstep"
    again = Reenactment(scene, strength, seed=seed, in_order=in_order or not has_lanes)
    report = again.run()
    told = [
        f"{each.cls} {each.method} recorded {each.recorded}: {each.detail}" for each in report.divergences
    ]
    assert (told, again.odd, [turn.message for turn in again.left]) == ([], [], [])
    assert (report.verdict, report.unplayed) == ("same", {})


@pytest.mark.timeout(240)
@settings(max_examples=500, deadline=None)
@given(plans(WILD, most=20, lanes=st.integers(1, 3), greets=True), st.integers(0, 999))
def test_every_lane_gets_its_recorded_answers_in_whatever_order_the_lanes_go(plan: Plan, seed: int) -> None:
    assert_replayed(plan, seed)


@pytest.mark.timeout(240)
@settings(max_examples=500, deadline=None)
@given(plans(WILD, most=20, lanes=st.just(0), greets=True), st.integers(0, 999))
def test_without_lanes_a_core_that_does_the_same_again_gets_the_same_again(plan: Plan, seed: int) -> None:
    assert_replayed(plan, seed)


@pytest.mark.timeout(240)
@settings(max_examples=300, deadline=None)
@given(plans(UPSETS, most=15, lanes=st.just(0), greets=True), st.integers(0, 999))
def test_peers_that_die_do_so_again_where_they_did(plan: Plan, seed: int) -> None:
    assume(not is_crowded(plan))
    assert_replayed(plan, seed)


def test_a_peer_that_went_after_an_answer_goes_again_though_both_have_waited_for_its_greeting() -> None:
    """In a replay both requests come before it is there, and its end is looked at before the answer is given."""
    steps = (("call", 0, 0), ("list", 0, 0), ("dies", 0, 0))
    for http in (False, True):
        assert_replayed(Plan("modern", http, (("legacy", False, False),), 1, 0, True, steps), 0)


def test_a_peer_that_was_started_anew_for_its_silence_is_so_once_and_not_twice() -> None:
    silent = (("call", 0, 4), ("long", 0, 5))
    steps = (*silent, *silent, *silent, ("call", 0, 4), ("answer", 0, 0), ("call", 0, 4), ("answer", 0, 0))
    for lanes in (0, 1):
        plan = Plan("legacy", False, (("legacy", False, False),), 1, lanes, True, steps)
        assert any(frame.kind == "close" and frame.peer for frame in Acting(plan).play().frames)
        assert_replayed(plan, 0)


@pytest.mark.parametrize("wish", ["subscribe", "unsubscribe"])
def test_what_a_core_wished_of_a_modern_peer_that_was_gone_is_answered_again_whenever_that_is_back(
    wish: str,
) -> None:
    """In some orders the gateway listens twice, where it was once when it was recorded."""
    steps = (("dies", 0, 0), ("call", 0, 0), (wish, 0, 0), ("renews", 0, 0))
    for is_shared in (False, True):
        plan = Plan("legacy", False, (("modern", False, is_shared),), 1, 0, True, steps)
        for seed in range(12):
            assert_replayed(plan, seed)


def test_a_core_that_listened_in_vain_since_its_peer_was_gone_may_be_heard_in_a_replay() -> None:
    steps = (("call", 0, 0), ("dies", 0, 0), ("listen", 0, 0))
    for seed in range(8):
        assert_replayed(Plan("modern", True, (("modern", False, False),), 1, 0, True, steps), seed)


def test_of_several_connections_to_a_peer_the_one_that_died_does_so_again() -> None:
    calls = (("call", 0, 0), ("call", 0, 0))
    for number in range(2):
        plan = Plan("modern", True, (("legacy", False, False),), 1, 0, True, (*calls, ("dies", number, 0)))
        for seed in range(8):
            assert_replayed(plan, seed)


def test_a_core_hangs_up_again_only_once_it_has_heard_what_it_had() -> None:
    steps = (("call", 0, 0), ("listen", 0, 0), ("answer", 0, 0), ("cancel", 0, 0), ("call", 0, 0))
    for seed in range(8):
        plan = Plan("modern", True, (("legacy", False, False), ("legacy", False, False)), 1, 0, True, steps)
        assert_replayed(plan, seed)


def test_what_the_gateway_answered_for_want_of_a_peer_is_so_again_though_the_peer_is_back() -> None:
    calls = (("call", 0, 0), ("call", 0, 0))
    steps = (*calls, ("dies", 0, 0), ("call", 0, 0), ("level", 0, 0))
    for seed in range(12):
        assert_replayed(Plan("legacy", False, (("legacy", False, False),), 1, 0, True, steps), seed)


def test_a_change_is_told_under_the_listening_that_is_there_in_a_replay() -> None:
    steps = (("dies", 0, 0), ("unsubscribe", 0, 0), ("renews", 0, 0), ("updated", 0, 0))
    for seed in range(12):
        assert_replayed(Plan("legacy", True, (("modern", False, True),), 1, 0, True, steps), seed)


def test_of_two_equal_requests_the_older_comes_first_also_where_the_owner_of_one_was_not_found() -> None:
    steps = (("read", 3, 7), ("dies", 7, 1), ("read", 1, 7))
    for seed in range(8):
        plan = Plan("legacy", True, (("legacy", True, True), ("legacy", True, True)), 1, 0, True, steps)
        assert_replayed(plan, seed)


def assert_always_replayed(
    *steps: Step,
    era: mcp.Era = "modern",
    http: bool = False,
    lanes: int = 0,
    peers: tuple[tuple[mcp.Era, bool, bool], ...] = (LEGACY_PEER,),
    seeds: range = range(16),
) -> None:
    """Replay a session in many orders of what the gateway and its core do at a time."""
    plan = Plan(era, http, peers, 1, lanes, True, steps)
    for seed in seeds:
        assert_replayed(plan, seed, in_order=True)


@pytest.mark.parametrize("first", ["call", "prompt", "list"])
def test_a_core_that_left_while_the_owner_of_a_name_was_looked_for_does_so_again(first: str) -> None:
    """A peer that had died was not back yet; in a replay it is there at once, and has no lists."""
    steps: tuple[Step, ...] = ((first, 0, 0), ("dies", 0, 0), ("read", 0, 0))
    assert_always_replayed(*steps, http=True, peers=(LEGACY_PEER, LEGACY_PEER))
    more: tuple[Step, ...] = (*steps[:2], ("call", 0, 0), ("complete", 0, 0), ("read", 0, 0))
    assert_always_replayed(*more, http=True, peers=(LEGACY_PEER, LEGACY_PEER))


@pytest.mark.parametrize("lanes", [0, 1])
@pytest.mark.parametrize("what", ["list", "read", "unsubscribe", "listen"])
def test_a_peer_goes_again_only_once_what_was_done_before_is_done(what: str, lanes: int) -> None:
    """Also where the gateway has yet to find out whom that is for, or to answer it itself."""
    steps: tuple[Step, ...] = ((what, 0, 0), ("dies", 0, 0))
    era: mcp.Era = "legacy" if what == "unsubscribe" else "modern"
    for http in (False, True):
        for peer in (LEGACY_PEER, MODERN_PEER):
            assert_always_replayed(*steps, era=era, http=http, lanes=lanes, peers=(peer,))
    after: tuple[Step, ...] = (("call", 0, 1), (what, 0, 7), ("dies", 1, 0))
    assert_always_replayed(*after, era=era, lanes=lanes, peers=(LEGACY_PEER, LEGACY_PEER))


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_peer_goes_again_only_once_a_call_was_taken_back_that_was_so_before(era: mcp.Era) -> None:
    assert_always_replayed(("call", 0, 0), ("cancel", 0, 0), ("dies", 0, 0), era=era, lanes=1)


def test_who_listened_when_a_change_came_hears_of_it_again() -> None:
    """Changes are said to nobody: in which lane somebody listens does not matter."""
    steps: tuple[Step, ...] = (("read", 0, 0), ("answer", 0, 0), ("listen", 0, 0))
    assert_always_replayed(*steps, ("changed", 0, 0), lanes=1)
    assert_always_replayed(*steps, ("dies", 0, 0), lanes=1)
    assert_always_replayed(("call", 0, 0), *steps[2:], ("dies", 0, 0), peers=(LEGACY_PEER, LEGACY_PEER))


def test_a_listening_ends_again_after_what_was_told_under_it() -> None:
    steps: tuple[Step, ...] = (("list", 0, 0), ("listen", 0, 0), ("updated", 0, 0), ("orphan", 0, 4))
    assert_always_replayed(*steps, peers=(MODERN_PEER,))


def test_what_is_said_after_an_answer_of_the_core_comes_after_it_again() -> None:
    """A peer takes back a question that was answered by then: the core hears nothing of that."""
    steps: tuple[Step, ...] = (("call", 0, 0), ("ask", 0, 0), ("reply", 0, 0), ("take back", 0, 0))
    assert_always_replayed(*steps, era="legacy", lanes=1)


def test_a_core_that_leaves_a_listening_sooner_is_told_first_what_it_was_told_before() -> None:
    steps: tuple[Step, ...] = (("listen", 0, 0), ("updated", 0, 0), ("cancel", 0, 0))
    for seed in range(24):
        plan = Plan("modern", False, (MODERN_PEER, LEGACY_PEER), 1, 1, True, steps)
        assert_replayed(plan, seed)
