"""Hooks that are asked at once hear and answer what they would by the longer way."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls.pi.effects import Effect, Ended
from gateway.calls.pi.extension import Extension
from gateway.calls.pi.to_mcp import hook_result
from gateway.protocol import pi
from gateway.protocol.errors import Fault
from tests.gateway.calls.pi.kit import HOOKED, message, new, obj, running
from tests.gateway.calls.pi.test_extension import call

RESULTS = [
    "",
    ',"data":{}',
    ',"data":{"result":{"block":true}}',
    ',"data":{"result":{"id":"g1"}}',
    ',"data":{"a":1,"a":2}',
]
said = st.tuples(
    st.sampled_from(["g1", "g2", "g3", "g9", "g\\u0031", "g1\\", "g1\\" + '"', "G", "é", "g1\x01", "n1", ""]),
    st.sampled_from(RESULTS),
    st.sampled_from([
        '{"id":"%s","version"', ' {"id":"%s","version"', '{"version":"1.0","id":"%s","v"',
        '{"id":"%s","id":"g2","version"',
    ]),
    st.sampled_from(["tool_call", "turn_end"]),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(said, max_size=6))
def test_an_answer_is_read_as_if_no_answer_like_it_had_been_read_before(
    lines: list[tuple[str, str, str, str]],
) -> None:
    knows, forgets = running(), running()
    for extension in (knows, forgets):
        for id_ in range(3):
            assert extension.at_once.ask(id_, "tool_call", b"{}", b"") is not None
    for id_, result, head, event in lines:
        payload = f'{{"event":"{event}"{result}}}'
        line = f'{head.replace("%s", id_)}:"1.0","type":"event_hook","payload":{payload}}}'.encode()
        forgets.at_once._last = b"nothing ends so", 0, "", b""  # pyright: ignore[reportPrivateUsage] - what is to make no difference
        assert ends_of(knows, line) == ends_of(forgets, line)
        assert knows.questions.open.keys() == forgets.questions.open.keys()


def ends_of(extension: Extension, line: bytes) -> tuple[int | None, bytes] | list[Effect]:
    """What an answer leads to: whose it is and the result of that, by whatever way."""
    answered = extension.at_once.answered(line)
    if answered is not None:
        return answered
    effects = extension.received(line, 2)
    if len(effects) == 1 and isinstance(effects[0], Ended):
        return effects[0].by, hook_result(bytes(effects[0].output))
    return effects


def test_an_answer_like_the_last_one_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    extension = running()
    read: list[bytes] = []
    true_way = pi.read_answer

    def watched(data: bytes, depth: int) -> pi.Answered | None:
        read.append(data)
        return true_way(data, depth)

    monkeypatch.setattr(pi, "read_answer", watched)
    for number, result in enumerate([b"{}", b"{}", b'{"result":{"block":true}}', b"{}", b"{}"], 1):
        extension.at_once.ask(number, "tool_call", b"{}", b"")
        payload = b'{"event":"tool_call","data":%b}' % result
        line = b'{"id":"g%d","version":"1.0","type":"event_hook","payload":%b}' % (number, payload)
        assert extension.at_once.answered(line) is not None
    assert len(read) == 3


def test_an_event_that_it_has_registered_no_hook_for_any_more_is_not_asked_about_at_once() -> None:
    extension = running()
    assert extension.at_once.ask(1, "tool_call", b"{}", b"") is not None
    extension.received(message("register", {**HOOKED, "event_hooks": ["turn_end"]}), 2)

    assert extension.at_once.ask(2, "tool_call", b"{}", b"") is None
    assert extension.at_once.ask(3, "turn_end", b"{}", b"") is not None


def test_an_extension_is_asked_at_once_from_its_start_to_its_shutdown() -> None:
    extension = new()
    extension.received(message("register", HOOKED), 1)
    assert extension.at_once.ask(1, "tool_call", b"{}", b"") is None, "it has not been started"
    extension.start()
    assert extension.at_once.ask(2, "tool_call", b"{}", b"") is not None
    extension.shut_down(2)
    assert extension.at_once.ask(3, "tool_call", b"{}", b"") is None
    assert extension.at_once.answered(answer("g1")) is None, "what is still answered goes the longer way"
    assert [question.by for question in extension.questions.open.values()] == [2]
    other = running()
    other.closed()
    assert other.at_once.ask(4, "tool_call", b"{}", b"") is None


def test_a_question_that_is_longer_than_a_message_may_be_is_not_put_at_once_and_takes_no_number() -> None:
    extension = running(most_bytes=4000)
    line = extension.at_once.ask(1, "tool_call", b"{}", b"")
    assert line is not None
    fits = b"{" + b" " * (4000 - len(line)) + b"}"
    assert len(extension.at_once.ask(2, "tool_call", fits, b"") or b"") == 4000
    assert extension.at_once.ask(3, "tool_call", fits[:-1] + b" }", b"") is None
    assert extension.questions.last == 2
    assert [question.by for question in extension.questions.open.values()] == [1, 2]


def answer(id_: str, event: str = "tool_call", *, size: int = 0) -> bytes:
    """An answer without an opinion, with so many bytes in it that say nothing."""
    payload = f'{{"event":"{event}","data":{{{" " * size}}}}}'
    return f'{{"id":"{id_}","version":"1.0","type":"event_hook","payload":{payload}}}'.encode()


def test_an_answer_that_is_too_long_is_not_taken_at_once_whether_or_not_one_like_it_was() -> None:
    extension = running(most_bytes=4000)
    extension.at_once.ask(1, "tool_call", b"{}", b"")
    padded = 4000 - len(answer("g1"))
    assert extension.at_once.answered(answer("g1", size=padded + 1)) is None
    assert extension.at_once.answered(answer("g1", size=padded)) == (1, b"{}")
    extension.questions.last = 999
    extension.at_once.ask(2, "tool_call", b"{}", b"")
    assert extension.at_once.answered(answer("g1000", size=padded)) is None
    assert [question.by for question in extension.questions.open.values()] == [2]


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_answer_about_another_event_answers_nothing_at_once(is_kept: bool) -> None:
    extension = running()
    extension.at_once.ask(1, "tool_call", b"{}", b"")
    if is_kept:
        call(extension)
    assert extension.at_once.answered(answer("g1", "turn_end")) is None
    assert extension.at_once.answered(answer("g1")) == (1, b"{}")
    assert extension.at_once.answered(answer("g1")) is None


def test_an_answer_to_a_question_that_was_not_put_at_once_is_not_taken_at_once() -> None:
    extension = running()
    assert not isinstance(extension.ask_hook("tool_call", obj(), 9), Fault)
    assert extension.at_once.answered(answer("g1")) is None
    assert list(extension.questions.open) == ["g1"]


def test_questions_that_were_put_at_once_end_among_the_others_in_the_order_of_all() -> None:
    extension = running()
    asked = [extension.at_once.ask(1, "tool_call", b"{}", b""), call(extension)]
    asked.append(extension.at_once.ask(2, "tool_call", b"{}", b""))

    ended = [effect for effect in extension.closed() if isinstance(effect, Ended)]

    assert [(effect.key, effect.by) for effect in ended] == [("g1", 1), ("g2", None), ("g3", 2)]
    assert len(asked) == 3


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_questions_that_are_put_at_once_have_as_much_room_as_all_have(calls: int) -> None:
    extension = running()
    for _ in range(calls):
        call(extension)
    for number in range(extension.limits.questions - calls):
        assert extension.at_once.ask(number, "tool_call", b"{}", b"") is not None

    assert extension.at_once.ask(999, "tool_call", b"{}", b"") is None
    assert isinstance(extension.ask_hook("tool_call", obj(), 9), Fault)
