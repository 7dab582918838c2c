"""A recording as causes and effects."""

from __future__ import annotations

from tests.recordings.tape_kit import Tape


def test_an_answer_and_what_came_before_it_are_caused_by_their_request() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    told = tape.tells("notifications/progress", re=asked)
    question = tape.questions(asked)
    answer = tape.answers(asked)
    script = tape.script
    assert list(script.caused_by(asked)) == [told, question, answer]
    assert {script.deliveries[seq].lane for seq in (told, question, answer)} == {"a"}
    assert script.arrivals[asked].answered


def test_an_answer_of_the_core_belongs_to_the_lane_that_was_asked_about() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    reply = tape.replies(tape.questions(asked), {"roots": []})
    assert tape.script.arrivals[reply].lane == "a"


def test_questions_that_an_answer_holds_are_known_by_that_answer() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    answer = tape.answers(asked)
    put = tape.add(
        "request",
        ">core",
        {"id": 1, "method": "roots/list"},
        parent=answer,
        method="roots/list",
        flags=("synthetic",),
    )
    reply = tape.replies(put, {"roots": []})
    script = tape.script
    assert script.passed_on == {answer: [put]}
    delivery, method = script.question(put)
    assert (delivery.seq, method) == (answer, "roots/list")
    assert script.arrivals[reply].lane == "a"


def test_what_the_gateway_asks_by_itself_is_waited_for_by_nobody() -> None:
    tape = Tape()
    own = tape.add("request", ">peer", {"id": 1, "method": "tools/list"}, peer="fs", method="tools/list")
    tape.answers(own)
    script = tape.script
    assert script.arrivals[own].is_loose
    assert list(script.awaited) == []


def test_a_list_of_the_core_is_waited_for_by_nobody_since_it_may_be_cached() -> None:
    tape = Tape()
    tape.asks(method="tools/list")
    call = tape.asks()
    assert [arrival.seq for arrival in tape.script.awaited] == [call]


def test_a_change_that_is_told_on_a_subscription_has_causes_of_its_own_and_its_beginning_has_not() -> None:
    tape = Tape()
    own = tape.add(
        "request",
        ">peer",
        {"id": 1, "method": "subscriptions/listen"},
        peer="fs",
        method="subscriptions/listen",
    )
    begins = tape.tells("notifications/subscriptions/acknowledged", about=own)
    changed = tape.tells("notifications/tools/list_changed", about=own)
    script = tape.script
    assert script.deliveries[begins].is_loose
    assert not script.deliveries[changed].is_loose
    assert script.deliveries[changed].cause == own


def test_a_request_whose_owner_was_looked_up_is_one_to_whoever_answered_it() -> None:
    tape = Tape()
    asked = tape.asks(peer=None)
    tape.answers(asked)
    dropped = tape.asks(peer=None)
    tape.cancels(dropped)
    script = tape.script
    assert (script.arrivals[asked].peer, script.arrivals[dropped].peer) == ("fs", "fs")


def test_a_connection_that_carries_one_request_takes_it_back_by_ending() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    end = tape.add("close", "core>", re=asked, x={"reason": "closed", "in_flight": 1})
    script = tape.script
    assert script.cancel_of(asked) == end
    assert script.is_taken_back(asked)


def test_words_of_a_process_on_its_stderr_are_not_played() -> None:
    tape = Tape()
    tape.add("raw", "peer>", b"words", peer="fs", x={"stream": "stderr"})
    stray = tape.add("raw", "peer>", b"junk", peer="fs", x={"why": "not-json"})
    assert list(tape.script.deliveries) == [stray]


def test_a_peer_that_could_not_be_reached_is_met_in_vain_and_one_that_refused_is_met() -> None:
    tape = Tape()
    fault = {"event": "unreachable", "reason": "spawn", "message": "no such program"}
    tape.add("fault", "inside", peer="fs", x=fault)
    tape.add("open", "inside", peer="fs", x={"life": 1})
    tape.add("fault", "inside", peer="fs", x=fault)
    assert [meeting.life for meeting in tape.script.meetings["fs"]] == [0, 1]


def test_an_end_that_was_asked_for_is_the_gateways_and_not_played() -> None:
    tape = Tape()
    tape.opens()
    tape.add("close", "inside", peer="fs", x={"asked": True})
    assert not tape.script.deliveries
    ended = tape.ends()
    assert [delivery.kind for delivery in tape.script.deliveries.values()] == ["ended"]
    assert tape.script.ends == {"fs": ended}
