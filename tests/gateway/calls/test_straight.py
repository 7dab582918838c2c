"""The straight way against the long one: the same frames, the same bytes, whatever happens to the calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.calls import core_state, peer_state, plain_params, straight
from gateway.calls.session import Session
from gateway.config.model import CatalogConfig
from gateway.protocol import short_messages
from tests.gateway.calls.hook_kit import Extension, HookDesk
from tests.gateway.calls.kit import Client, Desk, Service
from tests.gateway.calls.kit_world import ListTap
from tests.gateway.calls.test_results import SCHEMA
from transports.base import Origin

step = st.one_of(
    st.tuples(st.just("call"), st.sampled_from([1, 2, "1", ""]), st.sampled_from(["add", "no such", ""])),
    st.tuples(st.just("token"), st.sampled_from([1, 2, 3]), st.just("add")),
    st.tuples(st.just("params"), st.sampled_from([4, 5]), st.sampled_from(["none", "list", "name", "uri"])),
    st.tuples(
        st.just("crowd"),
        st.lists(st.sampled_from([1, 2, 3, 4, "1"]), min_size=1, max_size=5).map(tuple),
        st.sampled_from(["add", "no such", "token", "none"]),
    ),
    st.tuples(
        st.just("answers"),
        st.lists(st.sampled_from([0, 1, 2, 3, 7]), min_size=1, max_size=5).map(tuple),
        st.sampled_from(["result", "error", "task", "damaged", "notification"]),
    ),
    st.tuples(st.just("answer"), st.integers(0, 3), st.sampled_from(["result", "error", "task", "damaged"])),
    st.tuples(st.just("cancel"), st.sampled_from([1, 2, "1", 3]), st.just("")),
    st.tuples(st.just("die"), st.just(0), st.just("")),
    st.tuples(st.just("full"), st.just(0), st.sampled_from(["yes", "no"])),
    st.tuples(st.just("lose"), st.sampled_from(["core>", "peer>", ""]), st.sampled_from(["keep", "serve"])),
    st.tuples(st.just("answer again"), st.integers(0, 3), st.just("")),
)
MORE: dict[str, dict[str, Any]] = {
    "task": {"task": {"taskId": "t"}},
    "right": {"structuredContent": {"n": 1}},
    "wrong": {"structuredContent": {"n": "x"}},
    "failed": {"isError": True},
}
"""What results have beside their content."""
PARAMS: dict[str, Any] = {
    "none": None,
    "list": [1],
    "name": {"name": 7, "arguments": {}},
    "uri": {"name": "add", "uri": 7, "arguments": {}},
}


def play(
    steps: list[tuple[str, Any, str]], *, is_straight: bool, desk: Desk | None = None, stamped: bool = False
) -> tuple[Any, ...]:
    desk = desk or Desk()
    core = desk.core(stamped=stamped)
    session = desk.exchange.sessions[0]
    session.answers_straight = is_straight
    session.is_straight &= is_straight
    if not is_straight:
        keep_the_way(session)
    if session.hooked is not None or session.results is not None:
        core.asks("tools/list", id=90)
    if session.hooked is not None:
        session.answers_straight = session.hooked.may_go_straight = is_straight
    for what, which, how in steps:
        perform(desk, core, what, which, how)
    service = desk.services["calc"]
    ends = core.link.is_closed, [wire.link.is_closed for wire in service.wires]
    sent = core.link.raw, core.link.stamps
    return desk.tap.frames, sent, [wire.link.raw for wire in service.wires], ends


def keep_the_way(session: Session) -> None:
    """Have calls go the way that they go now, whatever becomes known of hooks."""
    vars(session)["choose_way"] = lambda: None


def perform(desk: Desk, core: Client, what: str, which: Any, how: str) -> None:
    if what == "call":
        core.calls(how, id=which)
    elif what == "token":
        core.calls(how, id=which, progressToken=f"t{which}")
    elif what == "params":
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": which, "method": "tools/call"}
        if PARAMS[how] is not None:
            message["params"] = PARAMS[how]
        core.says(message)
    elif what == "crowd":
        core.says_together(*(asked(id_, how if number else "add") for number, id_ in enumerate(which)))
    elif what == "cancel":
        core.cancels(which)
    elif what == "leave":
        core.receiver.sent_all()
    elif what == "lose":
        desk.tap.refuses = {which}
        desk.tap.must_keep = how == "keep"
    else:
        perform_at_peer(desk.services["calc"], what, which, how)


def asked(id_: int | str, how: str) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": id_, "method": "tools/call"}
    if how != "none":
        meta = {"_meta": {"progressToken": "t"}} if how == "token" else {}
        message["params"] = {"name": "add", "arguments": {"a": 1}, **meta}
    return message


def answered(id_: int, how: str) -> dict[str, Any] | bytes:
    if how == "damaged":
        return b'{"jsonrpc":"2.0","id":%d,"result":nonsense}' % id_
    if how == "notification":
        return {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": id_}}
    if how == "error":
        return {"jsonrpc": "2.0", "id": id_, "error": {"code": -32000, "message": "no"}}
    return {"jsonrpc": "2.0", "id": id_, "result": {"content": [], **MORE.get(how, {})}}


def perform_at_peer(service: Service, what: str, which: Any, how: str) -> None:
    if what == "die":
        service.dies()
    elif what == "full":
        service.wire.receiver.writable(how == "no")
    elif what == "answers":
        sent: list[dict[str, Any]] = service.wire.link.inbox
        calls = [message for message in sent if message.get("method") == "tools/call"]
        ids: list[int] = [calls[number]["id"] if number < len(calls) else number for number in which]
        messages = [answered(id_, how if number == 1 else "result") for number, id_ in enumerate(ids)]
        service.wire.says_together(*messages)
    elif what == "answer again":
        service.answers(which, {"content": []})
    else:
        inbox: list[dict[str, Any]] = service.wire.link.inbox
        asked = [message for message in inbox if message.get("method") == "tools/call"]
        if which < len(asked):
            message = asked[int(which)]
            inbox.remove(message)
            if how == "error":
                service.refuses(message)
            elif how == "damaged":
                service.says(b'{"jsonrpc":"2.0","id":%d,"result":nonsense}' % message["id"])
            else:
                service.answers(message, {"content": [], **MORE.get(how, {})})


@settings(max_examples=300, deadline=None)
@given(st.lists(step, max_size=14), st.booleans())
def test_both_ways_leave_the_same_frames_and_the_same_bytes(
    steps: list[tuple[str, Any, str]],
    stamped: bool,
) -> None:
    straight = play(steps, is_straight=True, stamped=stamped)
    assert straight == play(steps, is_straight=False, stamped=stamped)


@settings(max_examples=100, deadline=None)
@given(st.lists(step.filter(lambda one: one[0] != "lose"), max_size=14))
@example([("call", 1, "add"), ("answer", 0, "result"), ("call", 2, "add"), ("answer", 0, "failed")])
def test_where_nothing_becomes_of_frames_all_is_sent_as_where_they_are_kept(
    steps: list[tuple[str, Any, str]],
) -> None:
    told: list[Any] = []
    for keeps in (True, False):
        with mock.patch.object(ListTap, "keeps", keeps):
            frames, *sent = play(steps, is_straight=True)
        told.append((sent, [frame for frame in frames if frame.kind != "response"]))
    assert told[0][0] == told[1][0]
    assert len(told[0][1]) == len(told[1][1]), "only answers are left out"


CROWD = ("crowd", (1, 2, 3), "add")


def beside_an_extension(event: str) -> Desk:
    return HookDesk(x=Extension(event, tool_call={"input": {"a": 2}}))


@pytest.mark.parametrize("event", ["turn_end", "tool_call"])
@settings(max_examples=100, deadline=None)
@given(steps=st.lists(step, max_size=14), stamped=st.booleans())
@example(steps=[("call", 1, "add"), ("params", 4, "uri"), ("call", 5, "add")], stamped=False)
def test_both_ways_are_the_same_beside_an_extension_that_is_asked_or_not(
    event: str, steps: list[tuple[str, Any, str]], stamped: bool
) -> None:
    ways = [
        play(steps, is_straight=way, desk=beside_an_extension(event), stamped=stamped)
        for way in (True, False)
    ]
    assert ways[0] == ways[1]


def test_plain_calls_go_straight_beside_an_extension_once_nobody_is_left_to_be_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for event, way in (("turn_end", [False, True, True]), ("tool_call", [False] * 3)):
        desk = beside_an_extension(event)
        core = desk.core()
        core.asks("tools/list", id=90)
        all_went = calls_that_go(monkeypatch)
        went: list[bool] = []
        for number in range(2):
            all_went.clear()
            core.calls("add", id=number)
            went.append(True in all_went)
            perform(desk, core, "answer", 0, "result")
        before = len(desk.services["calc"].wire.link.raw)
        taken = core.receiver.together([msgspec.json.encode(asked(number, "add")) for number in (7, 8)])
        assert taken == 2
        # Where there is a hook for it, both wait for what that says.
        assert [*went, len(desk.services["calc"].wire.link.raw) == before + 2] == way, event
        monkeypatch.undo()


def with_promises(mode: Any) -> Desk:
    """A tool with an output schema, whose results are looked at."""
    service = Service(tools=[{"name": "add", "outputSchema": SCHEMA}])
    return Desk({"calc": service}, catalog=CatalogConfig(validate_results=mode))


kept = st.one_of(
    step,
    st.tuples(st.just("answer"), st.integers(0, 3), st.sampled_from(["right", "wrong", "failed"])),
    st.tuples(
        st.just("answers"),
        st.lists(st.sampled_from([0, 1, 2, 3]), min_size=1, max_size=5).map(tuple),
        st.sampled_from(["right", "wrong", "failed"]),
    ),
)


@pytest.mark.parametrize("mode", ["flag", "refuse"])
@settings(max_examples=80, deadline=None)
@given(steps=st.lists(kept, max_size=14))
@example(steps=[("call", 1, "add"), ("answer", 0, "wrong"), ("call", 2, "add"), ("answer", 0, "right")])
@example(steps=[CROWD, ("answers", (0, 1, 2), "wrong")])
def test_both_ways_are_the_same_where_results_are_held_against_their_schemas(
    mode: str, steps: list[tuple[str, Any, str]]
) -> None:
    ways = [play(steps, is_straight=way, desk=with_promises(mode)) for way in (True, False)]
    assert ways[0] == ways[1]


CALL, ANSWER = ("call", 1, "add"), ("answer", 0, "result")


@pytest.mark.parametrize(
    "steps",
    [
        [CALL, ("lose", "peer>", "keep"), ANSWER],
        [CALL, ("lose", "peer>", "serve"), ANSWER],
        [CALL, ("leave", 0, ""), ANSWER],
        [*([CALL, ("answer", 0, "damaged"), CALL, ANSWER] * 25), CALL, ANSWER],
        [CALL, ("cancel", 1, ""), CALL, ANSWER, ANSWER],
        [CALL, ("die", 0, ""), CALL, ANSWER],
        [CROWD, ("answers", (2, 0, 1), "result")],
        [CROWD, ("answers", (0, 0, 1), "result"), ANSWER],
        [CROWD, ("lose", "peer>", "keep"), ("answers", (0, 1, 2), "result")],
        [("lose", "core>", "keep"), CROWD, ("lose", "", "keep"), CROWD],
        [CROWD, CROWD, ("answers", (0, 1), "notification"), ("answers", (0, 1), "damaged")],
    ],
)
def test_both_ways_are_the_same_where_little_is_plain(steps: list[tuple[str, Any, str]]) -> None:
    for stamped in (False, True):
        straight = play(steps, is_straight=True, stamped=stamped)
        assert straight == play(steps, is_straight=False, stamped=stamped), stamped


NESTED = b"[" * 124 + b"]" * 124
MEMBERS = [
    b'"jsonrpc":"2.0"', b'"jsonrpc":"1.0"', b'"id":2', b'"id":3', b'"id":0', b'"id":"2"', b'"id":null', b'"id":2.0',
    b'"i\\u0064":2', b'"error":{"code":1,"message":"no"}', b'"extra":1', b'"result":{}', b'"result":{"content":[]}',
    b'"result":1', b'"result":{"text":"\xc3\xa9"}', b'"result":{"text":"\xff"}', b'"result":{"a":%b}' % NESTED,
    b'"result":{"a":[[[%b]]]}' % NESTED, b'"method":"tools/call"', b'"method":"tools\\/call"', b'"method":"ping"',
    b'"params":{"name":"add","arguments":{}}', b'"params":{"name":"\xc3\xa9","arguments":{}}', b'"params":[1]',
    b'"params":{"name":"add","arguments":{"a":%b}}' % NESTED, b'"params":{"name":"add","arguments":[[[%b]]]}' % NESTED,
    b'"params":{"name":"\xff"}', b'"params":{"name":"add","name":"no such"}',
]  # fmt: skip
TOO_DEEP = {
    "core": b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":[[[%b]]]}}'
    % NESTED,
    "peer": b'{"jsonrpc":"2.0","id":2,"result":{"a":[[[%b]]]}}' % NESTED,
}
USUAL = {
    "core": (
        b'"jsonrpc":"2.0"',
        b'"id":2',
        b'"method":"tools/call"',
        b'"params":{"name":"add","arguments":{}}',
    ),
    "peer": (b'"jsonrpc":"2.0"', b'"id":2', b'"result":{"content":[]}'),
}


CALL_WITH_A_BLANK = (
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add",%b"arguments":{}}}'
)
RESULT_WITH_A_BLANK = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],%b"a":1}}'


@st.composite
def said(draw: st.DrawFn) -> tuple[str, bytes]:
    """A short message to one side: what is usual there, with some of it left out, said twice, or something else."""
    side = draw(st.sampled_from(["core", "peer"]))
    usual = list(draw(st.permutations(USUAL[side])))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(usual)))
        usual[at : at + draw(st.integers(0, 1))] = [draw(st.sampled_from(MEMBERS))]
    comma = draw(st.sampled_from([b",", b",", b", ", b",  "]))
    return side, b"{" + comma.join(usual) + b"}"


def hear(messages: list[tuple[str, bytes]]) -> tuple[Any, ...]:
    desk = Desk()
    core = desk.core()
    service = desk.services["calc"]
    for number in (8, 9):
        core.calls(id=number)
    for side, message in messages:
        (core.receiver if side == "core" else service.wire.receiver).message(message)
    return desk.tap.frames, core.link.raw, [wire.link.raw for wire in service.wires]


@settings(max_examples=250, deadline=None)
@given(st.lists(said(), min_size=1, max_size=4))
@example([("core", b'{"jsonrpc":"2.0","id":2,"method":"tools/call","jsonrpc":"2.0"}')])
@example([("peer", b'{"jsonrpc":"2.0","id":2,"id":3}'), ("peer", b'{"id":2,"result":{},"id":3}')])
@example([("core", TOO_DEEP["core"])])
@example([("peer", TOO_DEEP["peer"])])
@example([("peer", b'{"jsonrpc":"2.0","id":2,"result":{"text":"\xff"}}')])
def test_a_short_message_is_taken_for_what_it_is_when_it_is_read_at_length(
    messages: list[tuple[str, bytes]],
) -> None:
    at_once = hear(messages)

    def reads_nothing(_data: bytes, _most_depth: int) -> None:
        return None

    ways: list[tuple[Callable[[bytes, int], Any], Callable[[bytes, int], Any]]] = [
        (plain_params.read_call, short_messages.read_answer),
        (reads_nothing, reads_nothing),
    ]
    for reads_call, reads_answer in ways:
        with (
            mock.patch.object(core_state, "reads_call", reads_call),
            mock.patch.object(peer_state, "read_answer", reads_answer),
        ):
            assert hear(messages) == at_once


@pytest.mark.parametrize("of_core", [True, False])
@pytest.mark.parametrize("of_peer", [True, False])
def test_only_what_came_as_a_line_goes_on_as_one_without_being_looked_through_for_newlines(
    of_core: bool, of_peer: bool
) -> None:
    desk = Desk()
    core, service = desk.core(), desk.services["calc"]
    lines: list[bytes] = []
    core.receiver.send_line = lines.append if of_core else None
    service.wire.peer.send_line = lines.append if of_peer else None
    sent: list[bytes] = []
    for came_as_line, receiver, message, link in (
        (of_core, core.receiver, CALL_WITH_A_BLANK, service.wire.link),
        (of_peer, service.wire.receiver, RESULT_WITH_A_BLANK, core.link),
    ):
        before = len(link.raw)
        receiver.message(message % (service.wire.peer.last_id, b" " if came_as_line else b"\n"))
        sent += link.raw[before:]

    as_lines, others = (2, 0) if of_core and of_peer else (0, 2)
    assert (len(lines), len(sent)) == (as_lines, others)
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)


def watched(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each result from now on comes straight, as it comes."""
    came: list[bool] = []
    true_way = straight.comes_straight

    def watch(*arguments: Any) -> bool:
        came.append(true_way(*arguments))
        return came[-1]

    monkeypatch.setattr("gateway.calls.peer_state.comes_straight", watch)
    return came


@pytest.mark.parametrize("stamped", [False, True])
def test_a_plain_result_does_come_straight(monkeypatch: pytest.MonkeyPatch, *, stamped: bool) -> None:
    desk = Desk()
    core = desk.core(stamped=stamped)
    came = watched(monkeypatch)
    service = desk.services["calc"]
    results: list[dict[str, Any]] = [{"content": []}, {"task": {"taskId": "t"}}]
    for number, result in enumerate(results):
        core.calls(id=number)
        service.answers(service.gets("tools/call"), result)
        assert core.gets_result() == result
    assert came == [True, True]


def test_a_result_that_keeps_its_promise_comes_straight_and_one_that_does_not_goes_the_long_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = with_promises("flag")
    core = desk.core()
    core.asks("tools/list", id=90)
    came = watched(monkeypatch)
    for number, how in enumerate(["right", "wrong", "failed"]):
        perform(desk, core, "call", number, "add")
        perform(desk, core, "answer", 0, how)
    assert came == [True, False, True]


def calls_that_go(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call from now on goes straight, as it is made."""
    went: list[bool] = []
    for place, true_way in (
        ("core_state.goes_straight", straight.goes_straight),
        ("session.goes_as", straight.goes_as),
    ):

        def watch(*arguments: Any, true_way: Callable[..., bool] = true_way) -> bool:
            went.append(true_way(*arguments))
            return went[-1]

        monkeypatch.setattr(f"gateway.calls.{place}", watch)
    return went


def test_a_plain_call_does_go_straight(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    core = desk.core()
    core.calls(id=1)
    went = calls_that_go(monkeypatch)
    core.calls(id=2)
    core.calls(id=3, progressToken="t")
    assert went == [True, False]
    assert len([1 for _ in range(3) if desk.services["calc"].gets("tools/call")]) == 3
    # The quick look is one at what is compact.
    for id_, spaces in ((4, None), (6, (",", ":"))):
        went.clear()
        plain = json.dumps(asked(id_, "add"), separators=spaces).encode()
        core.receiver.message(plain, Origin(headers=(("accept", "*/*"),), is_plain=True))
        assert went == [True]
        traced = json.dumps(asked(id_ + 1, "add"), separators=spaces).encode()
        core.receiver.message(traced, Origin(headers=(("traceparent", "00-1-2-00"),)))
        assert went == [True], "the trace goes with the call"


def test_results_that_came_together_reach_the_core_though_what_follows_an_answer_fails() -> None:
    desk = Desk()
    core = desk.core()
    faults: list[Exception] = []
    desk.exchange.on_fault = faults.append
    perform(desk, core, *CROWD)
    service = desk.services["calc"]

    def left(*_: Any) -> None:
        raise RuntimeError("a mistake of ours")

    # As where there are other connections.
    service.wire.peer.is_alone = False
    service.wire.peer.on_left = left
    perform_at_peer(service, "answers", (0, 1, 2), "result")
    assert [message["id"] for message in core.got[-3:]] == [1, 2, 3]
    assert [str(fault) for fault in faults] == ["a mistake of ours"] * 3
    responses = [frame for frame in desk.tap.frames if frame.way == "peer>" and frame.method == "tools/call"]
    assert [frame.flags for frame in responses] == [()] * 3
