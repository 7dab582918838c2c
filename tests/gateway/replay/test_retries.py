"""Which request goes on after which question, where the recorded core and the live one are of two eras."""

from __future__ import annotations

import msgspec

from gateway.replay.recollection import Recollection
from gateway.replay.retries import Retries
from tests.recordings.tape_kit import Message, Tape


def asks_back(tape: Tape, request: int, state: str | None) -> int:
    """The peer answers with a question."""
    result: Message = {
        "resultType": "input_required",
        "inputRequests": {"who": {"method": "elicitation/create"}},
    }
    if state is not None:
        result["requestState"] = state
    return tape.add("response", "peer>", {"id": request, "result": result}, peer="fs", id=request, re=request)


def comes_back(
    tape: Tape, state: str | None, name: str = "Ada", *, way: str = "core>", parent: int | None = None
) -> int:
    """The core makes its request again, or the gateway does, with an answer."""
    params: Message = {
        "name": "read",
        "arguments": {},
        "inputResponses": {"who": {"content": {"name": name}}},
    }
    if state is not None:
        params["requestState"] = state
    seq = len(tape.frames)
    body = {"id": seq, "method": "tools/call", "params": params}
    return tape.add("request", way, body, id=seq, peer="fs", method="tools/call", name="read", parent=parent)


def retries(tape: Tape) -> Retries:
    return Recollection(tape.script).retries


def test_a_core_of_before_came_back_with_the_state_that_it_was_given_round_after_round() -> None:
    tape = Tape()
    first, second = (tape.asks() for _ in range(2))
    asked, other = asks_back(tape, first, "one"), asks_back(tape, second, "two")
    to_other, to_asked = comes_back(tape, "two"), comes_back(tape, "one")
    again = asks_back(tape, to_asked, "three")
    last = comes_back(tape, "three")
    found = retries(tape)
    none: set[int] = set()
    for question, request in ((asked, to_asked), (other, to_other), (again, last)):
        assert found.by_core(question, none.__contains__) == request
    assert found.by_core(again, {last}.__contains__) is None


def test_a_state_that_was_taken_out_leaves_the_first_that_is_not_used() -> None:
    tape = Tape()
    asked = asks_back(tape, tape.asks(), "[REDACTED]")
    tape.asks()
    one, two = comes_back(tape, "other"), comes_back(tape, None)
    found = retries(tape)
    assert found.by_core(asked, set[int]().__contains__) == one
    assert found.by_core(asked, {one}.__contains__) == two


def test_what_the_gateway_made_is_found_by_the_state_that_a_live_core_comes_back_with() -> None:
    tape = Tape()
    asked = asks_back(tape, tape.asks(), "one")
    leg = comes_back(tape, "one", way=">peer", parent=asked)
    found = retries(tape)
    which = ("fs", "tools/call", "read")
    live = msgspec.json.encode(
        {"inputResponses": {"who": {"content": {"name": "Eve"}}}, "requestState": "one"}
    )
    assert found.asked_before(which, live, {asked}.__contains__) == asked
    assert found.asked_before(which, live, set[int]().__contains__) is None
    assert found.asked_before(which, live.replace(b'"one"', b'"two"'), {asked}.__contains__) is None
    assert found.by_gateway(asked) == leg
    [told] = found.answers(asked, leg, live)
    assert (told.key, told.method) == ("who", "elicitation/create")
    assert (b"Ada" in told.recorded, b"Eve" in told.live) == (True, True)
