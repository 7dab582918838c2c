"""The straight way of plain calls to the log against the long one: the same lines, whatever happens to the calls."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.bench.client import call_of
from gateway.bench.setup import Setup
from gateway.bench.sides import Sides
from gateway.protocol.bounds import MAX_DIGITS
from gateway.protocol.canonical import params_hash
from gateway.protocol.jsonrpc import LongAnswer, LongCall, scan
from gateway.protocol.log import line
from gateway.telemetry.facts import BIG_BYTES, Facts, Item
from gateway.telemetry.ledger import Ledger
from gateway.telemetry.operations import Tracker
from gateway.telemetry.plain import LONG_ANSWER_BYTES, PlainCalls, milliseconds
from gateway.telemetry.pump import Pump
from gateway.telemetry.verify import Told
from recordings.redaction import Redactor
from recordings.store import open_recording
from tests.gateway.protocol.test_log import VALIDATOR
from tests.gateway.telemetry.kit import PARENT, SCENE, WRITER

SECRET = "hunter2-hunter2"
TOOL = "query_all_orders"
CALL, ANSWER = ("call", TOOL, "plain"), ("answer", 0, "plain")
NAMES = [
    TOOL,
    "100% %d",
    "réponse",
    "api_key of it",
    "[REDACTED:a:1]",
    "blank-at",
    SECRET,
    "x" * 200,
    "",
]
MS = 1_000_000


class Log:
    """What is made of frames: as the hub has it where there is a log and nobody reads metrics."""

    def __init__(self, redactor: Redactor, *, is_straight: bool) -> None:
        self.lines: list[bytes] = []
        self.took: list[int] = []
        """Frames that have gone the straight way."""
        self.ledger = Ledger(SCENE, WRITER, lambda entry: self.lines.append(line(entry)))
        self.tracker = Tracker(SCENE, on_start=self.ledger.started, on_end=self.ledger.ended, has_parts=False)
        self._calls = PlainCalls(SCENE, WRITER, self.tracker, redactor.suspects, self._write)
        self.plain = self._plain if is_straight else None

    def _plain(self, items: deque[Item], most: int) -> int:
        before = [item[0] for item in items]
        size = self._calls.take(items, most)
        self.took += before[: len(before) - len(items)]
        return size

    def _write(self, lines: bytes) -> None:
        self.lines += lines.splitlines(keepends=True)

    def renewed(self) -> None:
        self._calls.forget()

    def take(self, facts: Facts) -> None:
        self.tracker.see(facts)
        self.ledger.happened(facts)

    def passed(self, kind: str) -> None: ...

    def finish(self, missed: int) -> None:
        self.tracker.finish()


class Session:
    """A session as its frames pass."""

    def __init__(self, *, is_straight: bool) -> None:
        self.redactor = Redactor(b"k" * 32)
        self.log = Log(self.redactor, is_straight=is_straight)
        self.pump = Pump(self.redactor, hashed=True, flush=lambda: None)
        self.stream = self.pump.stream(self.log)
        self.calls: list[tuple[int, Any]] = []
        self.seq = 0
        self.question: int | None = None

    def says(self, kind: str, way: str, body: bytes, **rest: Any) -> int:
        """A frame that is not plain."""
        self.seq += 1
        self.stream.put((self.seq, self._at(), kind, way, body, rest))
        return self.seq

    def says_plainly(
        self,
        kind: str,
        way: str,
        body: bytes,
        id_: Any,
        re: int | None,
        name: str,
        method: str = "tools/call",
        peer: str = "db",
    ) -> int:
        self.seq += 1
        # A recording has looked by what was known then: where that has become a secret since, it holds it.
        unsuspected = self.seq % 2 == 0 and SECRET.encode() not in body and not self.redactor.suspects(body)
        fields = peer, id_, re, method, name, unsuspected, self._read(body)
        self.stream.put((self.seq, self._at(), kind, way, body, *fields))
        return self.seq

    def _read(self, body: bytes) -> LongCall | LongAnswer | None:
        """What was read of a long message; not known of all, as of those that came together with others."""
        envelope = scan(body)[0] if len(body) > MAX_DIGITS and self.seq % 5 else None
        return envelope if isinstance(envelope, LongCall | LongAnswer) else None

    def _at(self) -> int:
        return self.seq * self.seq * 217 * MS + 1234


def perform(session: Session, step: tuple[str, Any, Any]) -> None:
    what, which, how = step
    if what == "call":
        calls(session, which, how)
    elif what == "answer":
        answers(session, which, how)
    elif what == "secret":
        session.redactor.know([which])
    elif what == "greet":
        body = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'
        session.says("request", "core>", body, id=0, method="initialize")
    elif what == "look":
        session.pump.drain(float("inf"))
    elif what == "notify":
        session.says_plainly(
            "notification", "peer>", b'{"method":"notifications/message"}', None, None, "", how
        )
    elif session.calls:
        follows(session, what, session.calls[int(which) % len(session.calls)][0], how)


def follows(session: Session, what: str, seq: int, how: str) -> None:
    """What is not plain, and is about a call."""
    if what == "end":
        session.says(how, "inside", b"", peer="db", re=seq)
    elif what == "cancel":
        body = b'{"method":"notifications/cancelled","params":{"requestId":1}}'
        session.says("notification", "core>", body, method="notifications/cancelled", re=seq)
    elif what == "ask":
        body = b'{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{}}'
        session.says("request", "peer>", body, peer="db", id=5, method="sampling/createMessage", parent=seq)
        session.says("request", ">core", body, id=6, method="sampling/createMessage", parent=seq)
    elif what == "question":
        asks_a_hook(session, seq, how)
    elif what == "opinion":
        answers_of_a_hook(session, how)
    elif what == "hook":
        decides(session, seq, how)


def asks_a_hook(session: Session, seq: int, how: str) -> None:
    data: dict[str, Any] = {"toolName": SECRET if how == "secret" else TOOL, "toolCallId": "1", "input": {}}
    params: dict[str, Any] = {"event": "tool_call", "data": data}
    if how == "meta":
        params["_meta"] = {"traceparent": PARENT}
    body = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "pi/event_hook", "params": params}).encode()
    session.question = session.says(
        "request", ">peer", body, peer=SECRET if how == "name" else "guard", life=2 if how == "life" else 1, id=9,
        parent=session.question if how == "other" else seq, method="pi/event_hook", name="tool_call",
        flags=("synthetic",),
    )  # fmt: skip


def answers_of_a_hook(session: Session, how: str) -> None:
    result: Any = {"result": {"block": True, "reason": SECRET if how == "secret" else "no"}}
    if how == "failed":
        result["isError"] = True
    body = json.dumps({"jsonrpc": "2.0", "id": 9, "result": result}).encode()
    if how == "error":
        body = b'{"jsonrpc":"2.0","id":9,"error":{"code":-32000,"message":"no"}}'
    kind, method = "error" if how == "error" else "response", "pi/event_hook"
    session.says_plainly(kind, "peer>", body, 9, session.question, "", method, peer="guard")


def decides(session: Session, seq: int, how: str) -> None:
    x: dict[str, Any] = {
        "schema": "tieline.hook.v1", "point": "tool_result" if how == "result" else "tool_call", "extension": "guard",
        "decision": "changed" if how == "changed" else "none", "took_ns": 12345 + session.seq, "deadline_ms": 500,
    }  # fmt: skip
    if how in ("reason", "fault"):
        x[how] = "timeout"
    if how == "point":
        x["point"] = "turn_end"
    session.says(
        "hook", "inside", b"[]", peer=SECRET if how == "name" else "guard", life=2 if how == "life" else 1,
        re=None if how == "unasked" else session.question, parent=seq, name="tool_call", x=x,
    )  # fmt: skip


def calls(session: Session, name: str, how: str) -> None:
    id_: Any = {"text": "a1", "again": 1}.get(how, session.seq)
    params: Any = {"name": name, "arguments": {"sql": "SELECT 1"}}
    if how == "secret":
        params["arguments"]["password"] = SECRET
    elif how == "traced":
        params["_meta"] = {"traceparent": PARENT}
    elif how in SIZES:
        params["arguments"]["sql"] = "x" * SIZES[how]
        params["arguments"] |= {"n": 0.5} if how == "big, with a fraction" else {}
        params["arguments"] |= {"sql": ('é"\n' + "x" * 40) * 800} if how == "big, escaped" else {}
        if how == "big, traced":
            params["_meta"] = {"traceparent": PARENT}
    separators = (",", ":") if how != "big, spaced" else None
    message = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}
    body = json.dumps(message, separators=separators, ensure_ascii=False).encode()
    if how == "odd":
        body = body.replace(b'"SELECT 1"', b'{"a": 1, "a": 1e400}')
    elif how == "none":
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'
    if how == "lane":
        seq = session.says(
            "request", "core>", body, peer="db", id=id_, method="tools/call", name=name, lane="turn1"
        )
    else:
        method = "prompts/get" if how == "prompt" else "tools/call"
        seq = session.says_plainly("request", "core>", body, id_, None, name, method)
    session.calls.append((seq, id_))


def answers(session: Session, which: int, how: str) -> None:
    if not session.calls:
        return
    seq, id_ = session.calls[int(which) % len(session.calls)]
    result: Any = {"content": [{"type": "text", "text": SECRET if how == "secret" else "x"}]}
    result |= {"failed": {"isError": True}, "more": {"resultType": "input_required"}}.get(how, {})
    result |= {"text": "x" * SIZES[how]} if how in SIZES else {}
    result |= {"isError": True} if how == "big, failed" else {}
    separators = None
    if how.startswith("whole"):
        separators = ",", ":"
        result["content"][0]["text"] = "é" * BIG_BYTES
        result |= {"whole, failed": {"isError": True}, "whole, not failed": {"isError": False}}.get(how, {})
        result |= {"resultType": "input_required"} if how == "whole, more" else {}
    message: Any = {"jsonrpc": "2.0", "id": id_, "result": [] if how == "list" else result}
    body = json.dumps(message, separators=separators).encode()
    if how == "error":
        body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}'
    kind = "error" if how == "error" else "response"
    if how == "flagged":
        session.says(kind, "peer>", body, peer="db", id=id_, re=seq, method="tools/call", flags=("edited",))
    elif how == "core":
        session.says_plainly(kind, ">core", body, id_, seq, "")
    else:
        session.says_plainly(kind, "peer>", body, id_, seq, "")


SIZES = dict.fromkeys(
    ("big", "big, spaced", "big, traced", "big, with a fraction", "big, failed", "big, escaped"), BIG_BYTES
) | {"bigger": LONG_ANSWER_BYTES}
HOW = {
    "call": [
        "plain",
        "text",
        "again",
        "secret",
        "traced",
        "big",
        "big, spaced",
        "big, traced",
        "big, with a fraction",
        "big, escaped",
        "bigger",
        "odd",
        "none",
        "lane",
        "prompt",
    ],
    "question": ["plain", "secret", "name", "meta", "life", "other"],
    "opinion": ["plain", "secret", "failed", "error"],
    "hook": ["plain", "changed", "result", "reason", "fault", "point", "name", "life", "unasked"],
    "answer": [
        "plain",
        "failed",
        "more",
        "secret",
        "list",
        "error",
        "flagged",
        "core",
        "big",
        "big, failed",
        "bigger",
        "whole",
        "whole, failed",
        "whole, not failed",
        "whole, more",
    ],
}
"""The ways of each thing that can go straight; nothing is odd about the first one."""
WHICH = {"call": TOOL}
ROUND = [(what, WHICH.get(what, -1), "plain") for what in HOW]
"""A call that hooks are asked about."""


def any_of(what: str, which: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, Any, Any]]:
    plain = st.just("plain")
    return st.tuples(st.just(what), which, st.one_of(plain, plain, st.sampled_from(HOW[what])))


step = st.one_of(
    any_of("call", st.sampled_from(NAMES)),
    any_of("call", st.just(TOOL)),
    *(any_of(what, st.integers(-2, 2)) for what in HOW if what != "call"),
    st.tuples(st.just("secret"), st.sampled_from([SECRET, TOOL]), st.just("")),
    st.tuples(st.sampled_from(["look", "greet"]), st.just(0), st.just("")),
    st.tuples(
        st.just("notify"), st.just(0), st.sampled_from(["notifications/message", "notifications/cancelled"])
    ),
    st.tuples(st.just("end"), st.integers(-2, 2), st.sampled_from(["timeout", "lost", "drop"])),
    st.tuples(st.sampled_from(["cancel", "ask"]), st.integers(-2, 2), st.just("")),
)


def play(steps: list[tuple[str, Any, Any]], *, is_straight: bool) -> Session:
    async def main() -> Session:
        session = Session(is_straight=is_straight)
        for each in steps:
            perform(session, each)
        session.stream.ended()
        await session.pump.close()
        assert session.pump.failures == 0
        assert session.pump.load.bytes == 0
        return session

    return asyncio.run(main())


@given(st.lists(step, min_size=1, max_size=14))
@settings(max_examples=80, deadline=None)
@example([CALL, ("ask", 0, ""), ANSWER])
@example([CALL, ("question", 0, "plain"), ("opinion", 0, "plain"), ANSWER])
@example([CALL, ("question", 0, "plain"), ANSWER, ("opinion", 0, "plain")])
@example([CALL, ("look", 0, ""), CALL, ("secret", TOOL, "")])
@example([("greet", 0, ""), CALL, ("answer", 0, "more"), ANSWER])
def test_both_ways_write_the_same_lines(steps: list[tuple[str, Any, Any]]) -> None:
    straight, long = play(steps, is_straight=True), play(steps, is_straight=False)
    assert straight.log.lines == long.log.lines
    assert straight.log.took or not long.log.took
    assert straight.log.tracker.kept.left() == long.log.tracker.kept.left() == []


@pytest.mark.parametrize("name", [TOOL, "100% %d", "réponse"])
def test_a_plain_call_goes_straight_and_its_lines_fit_the_schema(name: str) -> None:
    session = play([("call", name, "plain"), ("answer", 0, "plain")], is_straight=True)
    assert session.log.took == [1, 2]
    for each in session.log.lines:
        VALIDATOR.validate(json.loads(each))
    assert json.loads(session.log.lines[1])["data"]["duration_ms"] == 651.0


@pytest.mark.parametrize(("what", "how"), [(what, how) for what, ways in HOW.items() for how in ways])
def test_both_ways_are_the_same_where_one_thing_is_odd(what: str, how: str) -> None:
    odd = [(each, which, how if each == what else plain) for each, which, plain in ROUND]
    steps = [("greet", 0, ""), *ROUND, ("look", 0, ""), *odd, *odd]
    straight, long = play(steps, is_straight=True), play(steps, is_straight=False)
    assert straight.log.lines == long.log.lines


@given(
    st.one_of(
        st.integers(-10, 10**7),
        st.integers(-10, 10**18),
        st.integers(0, 10**12).map(lambda us: us * 500),
        st.integers(0, 10**9).map(lambda ms: ms * 10_000),
    )
)
@example(10**15 - 500)
@example(999_999_500)
def test_durations_are_written_as_the_ledger_has_them(took: int) -> None:
    assert milliseconds(took) == json.dumps(round(max(0, took) / 1e6, 3)) or took >= 10**15


params = st.sampled_from(
    ['{}', '{"id":1}', '{"id":12}', '{"name":"a","arguments":{"id":1,"text":"\\"id\\":12"}}', '{"a":[{"id":2}]}']
)  # fmt: skip
members = st.lists(
    st.sampled_from(['"jsonrpc":"2.0"', '"method":"tools/call"', '"x":"\\"id\\":1"', '"y":{"id":12}']), max_size=3
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from([1, 2, 12, 121]), params, members, st.booleans()), max_size=12))
def test_calls_that_are_known_by_what_stands_around_their_ids_have_the_hashes_of_their_params(
    calls: list[tuple[int, str, list[str], bool]],
) -> None:
    redactor = Redactor(b"k" * 32)
    lines: list[bytes] = []
    log = PlainCalls(
        SCENE, WRITER, Tracker(SCENE, on_start=print, on_end=print), redactor.suspects, lines.append
    )
    expected: list[str] = []
    for seq, (id_, told, others, is_last) in enumerate(calls, 1):
        parts = [f'"id":{id_}', f'"params":{told}']
        body = ",".join([*parts[:1], *others, *parts[1:]] if is_last else [*parts[1:], *others, *parts[:1]])
        item: Item = (
            seq,
            seq,
            "request",
            "core>",
            b"{%b}" % body.encode(),
            "p",
            id_,
            None,
            "tools/call",
            "t",
            True,
            None,
        )
        log.take(deque([item]), 9)
        expected.append(params_hash("tools/call", told.encode()))
    assert [json.loads(line)["data"]["params_hash"] for line in lines] == expected


@pytest.mark.parametrize("call", ["big", "big, escaped", "big, with a fraction"])
@pytest.mark.parametrize("answer", ["big", "whole", "whole, not failed"])
def test_a_long_call_goes_straight_too(call: str, answer: str) -> None:
    session = play([("call", TOOL, call), ("answer", 0, answer)], is_straight=True)
    assert session.log.took == [1, 2]


def test_what_hooks_were_asked_about_a_plain_call_goes_straight() -> None:
    session = play(ROUND, is_straight=True)
    assert session.log.took == [1, 2, 3, 4, 5]
    for each in session.log.lines:
        VALIDATOR.validate(json.loads(each))


@pytest.mark.parametrize(
    "steps",
    [
        [("call", SECRET, "plain")],
        [("call", TOOL, "secret")],
        [("call", TOOL, "traced")],
        [("call", TOOL, "text")],
        [("call", "api_key of it", "plain")],
        [("call", "blank-at", "plain")],
    ],
)
def test_what_is_not_plain_goes_the_long_way(steps: list[tuple[str, Any, Any]]) -> None:
    session = play([("secret", SECRET, ""), *steps], is_straight=True)
    assert session.log.took == []
    assert session.log.lines
    assert SECRET.encode() not in b"".join(session.log.lines)


@pytest.mark.parametrize("setup", [Setup(modifies=True, ledger=True), Setup(ledger=True, validation=True)])
def test_the_log_of_a_gateway_says_what_its_recording_says(setup: Setup, tmp_path: Path) -> None:
    with Sides(tmp_path) as sides:
        client = sides.gateway(setup).client
        client.time(client.prepare(call_of(300), 5))
        client.time(client.prepare(call_of(65536), 5))
        client.burst(client.prepare(call_of(300), 64), 16)
        (recording,) = sides.recordings()
    (log,) = tmp_path.glob("*/ledger.jsonl")
    told = Told(open_recording(recording))
    assert list(told.wrong(log.read_bytes().splitlines())) == []
    assert told.lines > 2 * 74
    assert told.left_out == 0
