"""What is no message, or a damaged one: recorded, answered where it says for whom, and no end of anything else."""

from __future__ import annotations

import pytest

from tests.gateway.calls.kit import text
from tests.gateway.calls.test_calls import table
from tests.gateway.calls.test_faults import why
from transports.base import TransportError


def test_two_messages_in_one_line_are_two_messages() -> None:
    desk, core, calc = table("legacy", "legacy")
    for id_ in (1, 2):
        core.calls(id=id_)
    ids = [calc.gets("tools/call")["id"] for _ in range(2)]
    calc.says(b"".join(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % id_ for id_ in ids))

    assert [message["id"] for message in core.got] == [1, 2]
    assert len(desk.frames("raw")) == 1
    core.says(b'{"jsonrpc":"2.0","id":3,"method":"ping"} {"jsonrpc":"2.0","id":4,"method":"ping"}')
    assert [message["id"] for message in core.got] == [3, 4]


@pytest.mark.parametrize(
    "junk", [b"", b"DEBUG starting", b"{", b"\xff\xfe", b"[]", b"null", b'{"a":1}', b"\0"]
)
def test_junk_is_recorded_and_calls_go_on(junk: bytes) -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls()
    asked = calc.gets("tools/call")
    calc.says(junk)
    assert desk.frames("raw")[-1].body == junk
    calc.answers(asked, text("3"))

    assert core.gets_result() == text("3")


def test_a_damaged_answer_ends_its_call_and_a_damaged_question_none() -> None:
    _, core, calc = table("legacy", "legacy")
    core.calls()
    asked = calc.gets("tools/call")
    calc.says(b'{"jsonrpc":"2.0","id":%d,"method":"sampling/createMessage","params":{' % asked["id"])
    calc.says(b'{"jsonrpc":"2.0","result":{"id":%d,' % asked["id"])
    assert core.hears_nothing
    calc.says(b'{"jsonrpc":"2.0","id":%d,"result":{"content":' % asked["id"])

    assert why(core) == ("io", "peer_protocol", "unknown")


def test_an_answer_that_is_too_large_ends_its_call() -> None:
    _, core, calc = table("legacy", "legacy")
    core.calls()
    start = b'{"jsonrpc":"2.0","id":%d,"result":{"content":"xxx' % calc.gets("tools/call")["id"]
    calc.wire.receiver.stray(start, "too-large", size=10**9)

    assert why(core) == ("io", "frame_too_large", "unknown")


def test_what_a_core_sends_damaged_is_refused_under_its_id_unless_that_waits_for_something_else() -> None:
    _, core, calc = table("legacy", "legacy")
    core.calls(id=1)
    core.says(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{')
    core.says(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{')
    core.says(b"nonsense")
    core.receiver.stray(
        b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":"xx', "too-large", size=10**9
    )

    assert [(message["id"], "error" in message) for message in core.got] == [
        (2, True), (None, True), (None, True), (3, True),
    ]  # fmt: skip
    calc.answers(calc.gets("tools/call"), text("3"))
    assert core.gets()["id"] == 1


@pytest.mark.parametrize(("sent", "outcome"), [(False, "not_sent"), (True, "unknown")])
def test_a_request_that_could_not_be_carried_ends_alone(sent: bool, outcome: str) -> None:
    _, core, calc = table("legacy", "legacy")
    core.calls(id=1)
    core.calls(id=2)
    first, second = calc.gets("tools/call"), calc.gets("tools/call")
    fault = TransportError(
        "http-status", "answered 502", {"status": 502, "sent": sent}, request_id=first["id"]
    )
    calc.wire.receiver.failed(fault)

    assert why(core) == ("io", "http_status", outcome)
    calc.answers(second, text("3"))
    assert core.gets()["id"] == 2
