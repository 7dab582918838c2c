"""The recorded core towards live services: when its messages go out, and what it answers."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from gateway.protocol import jsonrpc
from gateway.replay.recorded_core import RecordedCore
from recordings.frame import Frame
from recordings.held import Held


class FakeCore:
    """One connection: keeps what the recorded core says."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def message(self, data: bytes) -> None:
        self.said.append(msgspec.json.decode(data))


class FakeSeats:
    """Seats with one core for everything."""

    def __init__(self) -> None:
        self.core = FakeCore()

    def core_for(self, frame: Frame, body: bytes, *, of_call: object = None) -> FakeCore:
        del frame, body, of_call
        return self.core


class Session:
    """A recording written message by message, and its core played."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.seats = FakeSeats()

    def frame(self, kind: str, way: str, body: dict[str, Any], **fields: Any) -> int:
        seq = len(self.frames)
        data = msgspec.Raw(msgspec.json.encode({"jsonrpc": "2.0", **body}))
        self.frames.append(Frame(seq=seq, kind=cast("Any", kind), way=cast("Any", way), body=data, **fields))
        return seq

    def asks(self, id_: int, name: str, **arguments: Any) -> int:
        params = {"name": name, "arguments": arguments}
        body = {"id": id_, "method": "tools/call", "params": params}
        return self.frame("request", "core>", body, id=id_, method="tools/call", name=name)

    def answers(self, request: int, id_: int, **result: Any) -> int:
        return self.frame("response", "peer>", {"id": id_, "result": result}, re=request)

    def start(self) -> RecordedCore:
        core = RecordedCore(Held(self.frames))
        core.start(cast("Any", self.seats))
        return core

    def advance(self, core: RecordedCore) -> list[Any]:
        """Send all that may be sent; the ids, or methods of what has none."""
        before = len(self.seats.core.said)
        while core.advance():
            pass
        return [one.get("id", one.get("method")) for one in self.seats.core.said[before:]]

    def give(self, core: RecordedCore, **message: Any) -> None:
        core.given(cast("Any", self.seats.core), msgspec.json.encode({"jsonrpc": "2.0", **message}))


def test_a_request_goes_out_when_what_the_core_had_been_given_before_it_is_there_again() -> None:
    session = Session()
    first, second = session.asks(1, "a"), session.asks(2, "b")
    session.answers(second, 2)
    third = session.asks(3, "c")
    session.answers(first, 1)
    session.answers(third, 3)
    core = session.start()

    assert session.advance(core) == [1, 2]
    session.give(core, id=1, result={})
    assert session.advance(core) == []
    session.give(core, id=2, result={})
    assert session.advance(core) == [3]
    assert not core.is_done
    session.give(core, id=3, error={"code": 1, "message": "no"})
    assert core.is_done


def test_who_never_answers_is_given_up_and_told_of() -> None:
    session = Session()
    request = session.asks(1, "a")
    session.answers(request, 1)
    session.asks(2, "b")
    core = session.start()

    assert session.advance(core) == [1]
    assert core.give_up() == [request]
    assert session.advance(core) == [2]


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_cancel_goes_out_only_while_its_request_is_open(is_answered: bool) -> None:
    session = Session()
    request = session.asks(1, "a")
    params = {"requestId": 1}
    body = {"method": "notifications/cancelled", "params": params}
    session.frame("notification", "core>", body, re=request, method="notifications/cancelled")
    core = session.start()

    assert core.advance()
    if is_answered:
        session.give(core, id=1, result={})
    assert session.advance(core) == ([] if is_answered else ["notifications/cancelled"])
    assert core.is_done


def test_questions_of_a_method_are_answered_in_the_recorded_order_and_others_are_refused() -> None:
    session = Session()
    call = session.asks(1, "a")
    for number, word in enumerate(("one", "two")):
        body: dict[str, Any] = {"id": f"q{number}", "method": "elicitation/create", "params": {}}
        asked = session.frame("request", "peer>", body, parent=call, method="elicitation/create")
        session.frame("response", "core>", {"id": f"q{number}", "result": {"said": word}}, re=asked)
    session.answers(call, 1)
    core = session.start()
    session.advance(core)

    for id_ in ("x", "y", "z"):
        session.give(core, id=id_, method="elicitation/create", params={})
    session.give(core, id=9, method="sampling/createMessage", params={})
    replies = [jsonrpc.read(message) for _, message in core.replies()]
    assert [(one.id, bytes(one.result)) for one in replies[:2]] == [
        ("x", b'{"said":"one"}'),
        ("y", b'{"said":"two"}'),
    ]
    assert all(b"was not asked" in bytes(one.error) for one in replies[2:])
    assert core.unexpected == ["elicitation/create", "sampling/createMessage"]
    assert list(core.replies()) == []


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_questions_that_are_open_at_once_each_gets_its_own_answer(turned: bool) -> None:
    """When it was recorded, the second one was answered first."""
    session = Session()
    for number in (1, 2):
        session.asks(number, "a")
    asked = [
        session.frame(
            "request", "peer>", {"id": word, "method": "roots/list", "params": {"of": word}},
            parent=number, method="roots/list",
        )
        for number, word in enumerate(("one", "two"))
    ]  # fmt: skip
    for seq, word in reversed(list(zip(asked, ("one", "two"), strict=True))):
        session.frame("response", "core>", {"id": word, "result": {"of": word}}, re=seq)
    core = session.start()
    session.advance(core)

    for word in ("two", "one") if turned else ("one", "two"):
        session.give(core, id=word, method="roots/list", params={"of": word, "_meta": {"n": 9}})
    replies = [jsonrpc.read(message) for _, message in core.replies()]
    assert {one.id: bytes(one.result) for one in replies} == {
        "one": b'{"of":"one"}', "two": b'{"of":"two"}',
    }  # fmt: skip


def test_a_question_that_was_never_answered_is_not_answered_with_what_another_one_got() -> None:
    session = Session()
    call = session.asks(1, "a")
    asked = [
        session.frame(
            "request", "peer>", {"id": number, "method": "roots/list"}, parent=call, method="roots/list"
        )
        for number in range(2)
    ]
    session.frame("response", "core>", {"id": 1, "result": {"roots": []}}, re=asked[1])
    core = session.start()
    session.advance(core)
    for id_ in ("x", "y"):
        session.give(core, id=id_, method="roots/list", params={})
    assert [jsonrpc.read(message).id for _, message in core.replies()] == ["y"]
    assert core.unexpected == []


def cancelled_after_a_question() -> Session:
    """A core is asked something in the course of a call, answers, and takes the call back two seconds after it."""
    session = Session()
    call = session.asks(1, "a")
    hook = session.frame("request", ">peer", {"id": 7, "method": "pi/event_hook"}, parent=call)
    hosted = session.frame("request", "peer>", {"id": "h", "method": "pi/host_call"}, parent=hook)
    asked = session.frame(
        "request", ">core", {"id": 1, "method": "roots/list"}, parent=hosted, method="roots/list"
    )
    session.frame("response", "core>", {"id": 1, "result": {"roots": []}}, re=asked)
    body = {"method": "notifications/cancelled", "params": {"requestId": 1}}
    session.frame("notification", "core>", body, re=call, method="notifications/cancelled", at=2_000_000_000)
    return session


def test_a_cancel_waits_for_the_question_that_the_core_had_answered_before_it() -> None:
    session = cancelled_after_a_question()
    core = session.start()
    assert session.advance(core) == [1]
    assert core.rest == (0, 2.0)
    assert not core.is_done
    session.give(core, id="q", method="roots/list", params={})
    assert [jsonrpc.read(message).id for _, message in core.replies()] == ["q"]
    assert session.advance(core) == ["notifications/cancelled"]
    assert (core.rest, core.is_done) == (None, True)


def test_a_question_that_does_not_come_is_not_waited_for_for_ever() -> None:
    session = cancelled_after_a_question()
    core = session.start()
    assert session.advance(core) == [1]
    assert core.give_up() == []
    assert session.advance(core) == ["notifications/cancelled"]


def test_a_question_is_not_waited_for_once_its_call_is_answered() -> None:
    session = cancelled_after_a_question()
    core = session.start()
    assert session.advance(core) == [1]
    session.give(core, id=1, result={})
    assert session.advance(core) == []
    assert core.is_done


def test_nobody_waits_for_a_result_that_its_core_was_never_given() -> None:
    """The hook of an extension still had it when the core left."""
    session = Session()
    call = session.asks(1, "a")
    session.answers(call, 1)
    session.frame("drop", "inside", {}, re=call)
    core = session.start()
    assert session.advance(core) == [1]
    assert (core.awaited, core.is_done) == ([], True)


def test_a_handle_of_this_run_stands_in_the_place_of_the_recorded_one() -> None:
    session = Session()
    request = session.asks(1, "open")
    session.answers(request, 1, handle="0123456789abcdef-recorded", nextCursor="7")
    session.asks(2, "use", handle="0123456789abcdef-recorded", cursor="7", text="7 of 7")
    core = session.start()
    session.advance(core)
    session.give(core, id=1, result={"handle": "0123456789abcdef-live", "nextCursor": "9"})
    session.advance(core)

    assert session.seats.core.said[-1]["params"]["arguments"] == {
        "handle": "0123456789abcdef-live",
        "cursor": "9",
        "text": "7 of 7",
    }
