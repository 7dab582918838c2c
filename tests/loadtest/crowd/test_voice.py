"""What an agent of a crowd says anew: ids, cancels, answers to questions, and what a live service has made up."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from loadtest.crowd.plan import plan_of
from loadtest.crowd.voice import Voice, alone
from recordings.frame import Frame
from recordings.views import inline_body


def told(*parts: tuple[Any, Any, dict[str, Any], int | None]) -> Voice:
    """The voice of an agent whose session was this: kind, way, body, and which frame it answers or takes back."""
    frames = [
        Frame(
            seq=seq, at=seq, kind=kind, way=way, re=re, method=body.get("method"), body=Raw(msgspec.json.encode(body))
        )
        for seq, (kind, way, body, re) in enumerate(parts)
    ]  # fmt: skip
    return Voice(plan_of(frames, inline_body))


def call(**arguments: Any) -> tuple[str, str, dict[str, Any], int | None]:
    body = {
        "jsonrpc": "2.0",
        "id": 5,
        "method": "tools/call",
        "params": {"name": "t", "arguments": arguments},
    }
    return "request", "core>", body, None


def result(re: int, **result: Any) -> tuple[str, str, dict[str, Any], int | None]:
    return "response", "peer>", {"jsonrpc": "2.0", "id": 5, "result": result}, re


def answer(**result: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 9, "result": result})


def arguments(message: bytes) -> dict[str, Any]:
    return msgspec.json.decode(message)["params"]["arguments"]


def test_a_cursor_that_is_another_in_this_run_is_brought_back() -> None:
    voice = told(call(), result(0, nextCursor="a1"), call(cursor="a1"), result(2))

    assert voice.hears(0, answer(nextCursor="b7")) is None

    assert arguments(voice.asks(2, 10)) == {"cursor": "b7"}


def test_a_long_handle_is_brought_back_inside_of_text_too() -> None:
    one, other = "a" * 20, "b" * 20
    voice = told(call(), result(0, task=one), call(text=f"how is {one}?"), result(2))

    voice.hears(0, answer(task=other))

    assert arguments(voice.asks(2, 10)) == {"text": f"how is {other}?"}


def test_answers_that_nothing_is_said_of_again_are_not_kept() -> None:
    frames = [call(key="x"), result(0, content=["a text that is quite long"]), call(key="x"), result(2)]
    voice = told(*frames)

    assert voice._plan.said[0].given == b""  # pyright: ignore[reportPrivateUsage]


def test_requests_have_ids_of_this_run_and_cancels_name_them() -> None:
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    voice = told(call(), ("notification", "core>", cancel, 0))

    assert msgspec.json.decode(voice.asks(0, 77))["id"] == 77
    assert msgspec.json.decode(voice.tells(1))["params"] == {"requestId": 77}


def test_errors_are_faults_where_none_was_recorded_and_results_where_one_was() -> None:
    error = {"jsonrpc": "2.0", "id": 5, "error": {"code": -32000, "message": "no"}}
    voice = told(call(), result(0), call(), ("error", "peer>", error, 2))

    live = msgspec.json.encode(error)
    assert voice.hears(0, live) == "error -32000: no; a result was recorded"
    assert voice.hears(2, live) is None
    assert voice.hears(0, answer()) is None
    assert voice.hears(2, answer()) == "a result; an error was recorded"


def test_of_two_questions_that_were_open_at_once_the_first_gets_its_own_answer_though_it_came_second() -> (
    None
):
    first, second = ({"jsonrpc": "2.0", "id": number, "method": "roots/list"} for number in (1, 2))
    said = [{"jsonrpc": "2.0", "id": number, "result": {"roots": [number]}} for number in (1, 2)]
    voice = told(
        call(),
        ("request", "peer>", first, None),
        ("request", "peer>", second, None),
        ("response", "core>", said[1], 2),
        ("response", "core>", said[0], 1),
    )

    assert [msgspec.json.decode(voice.answers("roots/list") or b"") for _ in said] == said


def test_questions_are_answered_as_they_were_and_in_their_order() -> None:
    question = {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
    said = [{"jsonrpc": "2.0", "id": 1, "result": {"roots": [number]}} for number in (1, 2)]
    voice = told(
        call(),
        ("request", "peer>", question, None),
        ("response", "core>", said[0], 1),
        ("request", "peer>", question, None),
        ("response", "core>", said[1], 3),
    )

    assert [msgspec.json.decode(voice.answers("roots/list") or b"") for _ in said] == said
    assert voice.answers("roots/list") is None
    assert voice.answers("sampling/createMessage") is None


def test_a_message_that_stands_alone_is_repeated_in_its_headers() -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}

    def headers(method: str, **params: Any) -> dict[str, str]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        return alone(msgspec.json.encode(body))

    known = {"mcp-protocol-version": "2026-07-28"}
    assert headers("tools/list") == {**known, "mcp-method": "tools/list"}
    assert headers("tools/call", name="é") == {
        **known,
        "mcp-method": "tools/call",
        "mcp-name": "=?base64?w6k=?=",
    }
    assert headers("resources/read", uri="a:b")["mcp-name"] == "a:b"
