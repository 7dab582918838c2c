"""The recorded core towards live services: when its messages go out, and what it answers."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from gateway.protocol import jsonrpc
from gateway.replay.recorded_core import RecordedCore
from recordings.frame import Frame
from recordings.script import Held


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
