"""What a hook may answer: pi's spellings and pi_agent_rust's are taken, and nothing else is believed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.hooks.answers import Answer, BadAnswerError, JudgeAnswer, read
from gateway.hooks.points import POINTS

ASKED = sorted(event for event, point in POINTS.items() if point.is_asked)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        *(
            "action",
            "text",
            "images",
            "content",
            "message",
            "messages",
            "systemPrompt",
            "system_prompt",
            "block",
        ),
        *(
            "reason",
            "input",
            "implementation",
            "cancel",
            "cancelled",
            "compaction",
            "summary",
            "advise",
            "decide",
        ),
        *("skillPaths", "skill_paths", "operations", "result", "isError", "artifacts"),
    ]
)


def takes(event: str, answer: Any) -> Answer | None:
    return read(POINTS[event], msgspec.json.encode(answer))[0]


def as_json(answer: Answer | None) -> Any:
    return {
        name: value
        for name, value in msgspec.json.decode(msgspec.json.encode(answer)).items()
        if value not in ("", False)
    }


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        ("tool_call", {"block": "yes", "reason": 42}),
        ("tool_call", {"block": True, "reason": 42}),
        ("tool_call", {"block": 1}),
        ("tool_call", {"input": "rm -rf /"}),
        ("tool_call", {"input": None}),
        ("tool_call", {"implementation": ""}),
        ("tool_call", {"blok": True}),
        ("tool_call", "no"),
        ("tool_call", True),
        ("tool_call", [{"block": True}]),
        ("tool_result", {"content": "str"}),
        ("tool_result", {"content": [{"type": "text"}]}),
        ("tool_result", {"content": [{"type": "video", "data": ""}]}),
        ("tool_result", {"isError": "no"}),
        ("tool_result", {"structuredContent": []}),
        ("tool_result", {"artifacts": [1]}),
        ("tool_result", {"isError": True, "is_error": False}),
        ("input", {"action": "transform"}),
        ("input", {"action": "delete"}),
        ("input", {"text": 7}),
        ("input", {"images": [{"type": "image", "data": "x"}]}),
        ("input", {"block": "true"}),
        ("input", {"weather": "fine"}),
        ("before_agent_start", {"message": "hello"}),
        ("before_agent_start", {"message": {"customType": "x"}}),
        ("before_agent_start", {"systemPrompt": ["a"]}),
        ("context", {"messages": {"role": "user"}}),
        ("context", {"messages": [{"content": "no role"}]}),
        ("session_before_compact", {"compaction": {"summary": "s"}}),
        ("session_before_tree", {"summary": "s"}),
        ("session_before_fork", {"cancel": "maybe"}),
        ("model_route", {"advise": {"model": "a"}, "decide": {"model": "b"}}),
        ("model_route", {"decide": "gpt"}),
        ("resources_discover", {"skillPaths": [1]}),
        ("user_bash", {"operations": {}, "result": {"output": ""}}),
        ("user_bash", {"result": {"exitCode": 0}}),
    ],
)  # fmt: skip
def test_an_answer_of_the_wrong_shape_is_refused(event: str, answer: Any) -> None:
    with pytest.raises(BadAnswerError):
        takes(event, answer)


@pytest.mark.parametrize("event", ASKED)
@pytest.mark.parametrize("answer", [b"", b"null", b"{}", b"{ }", b"{\n}"])
def test_no_answer_is_no_opinion(event: str, answer: bytes) -> None:
    assert read(POINTS[event], answer) == (None, ())


@pytest.mark.parametrize(
    ("event", "answer", "read_as"),
    [
        ("input", "just words", {"action": "transform", "text": "just words"}),
        ("input", {"block": True, "message": "no"}, {"action": "handled", "reason": "no"}),
        ("input", {"action": "blocked"}, {"action": "handled"}),
        ("input", {"content": "new"}, {"action": "transform", "text": "new"}),
        ("input", {"attachments": []}, {"action": "transform", "images": []}),
        ("session_before_switch", False, {"cancel": True}),
        ("session_before_switch", {"cancelled": True}, {"cancel": True}),
        ("resources_discover", {"skill_paths": "a"}, {"skillPaths": "a"}),
        ("tool_result", {"is_error": True}, {"isError": True}),
        ("tool_call", {"block": True, "reason": None}, {"block": True}),
    ],
)
def test_other_spellings_mean_the_same(event: str, answer: Any, read_as: dict[str, Any]) -> None:
    assert as_json(takes(event, answer)) == read_as


def test_members_that_mean_nothing_here_are_named() -> None:
    answer, ignored = read(POINTS["tool_call"], b'{"block":true,"mood":"bad","text":"x"}')
    assert answer == JudgeAnswer(block=True)
    assert ignored == ("mood", "text")


@given(st.sampled_from(ASKED), JSON | st.dictionaries(NAMES, JSON, max_size=4))
def test_whatever_is_answered_it_is_an_answer_or_refused(event: str, answer: Any) -> None:
    try:
        found, _ = read(POINTS[event], msgspec.json.encode(answer))
    except BadAnswerError:
        return
    assert found is None or msgspec.json.encode(found)
