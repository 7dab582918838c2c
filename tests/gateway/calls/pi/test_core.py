"""A core that speaks Pi before the real exchange. The host's side of its connection is `Extension`."""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import Any, TypeVar

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.pi.core import REGISTER_NS, PiCore, Said
from gateway.calls.pi.effects import Effect, Ended, Logged, Registered, Send, Updated
from gateway.calls.pi.extension import Extension
from gateway.protocol.errors import Fault
from gateway.protocol.pi_schema import schema
from tests.gateway.calls.kit import Desk, Message, Service, text
from tests.gateway.calls.pi.kit import S, host_call, message, obj
from tests.gateway.calls.pi.test_server import Helper
from transports.base import Hello, Id, Stamp

FOREVER = 1 << 62
TOOL = {"name": "add", "title": "Add", "inputSchema": {"type": "object"}}
PROMPT = {"name": "review", "arguments": [{"name": "file"}, {"name": "how"}]}
_schema = jsonschema_rs.Draft202012Validator(schema())
_Kind = TypeVar("_Kind")


class Host:
    """A Pi core, and what stands between it and an exchange on a table. It is the exchange's link too."""

    stamped = False
    queued_bytes = 0

    def __init__(self, desk: Desk, *, start: bool = True) -> None:
        self.desk = desk
        self.core = PiCore(desk.host.ns, stamp=lambda: "t")
        self.extension = Extension("tieline", desk.host.ns)
        self.effects: list[Effect] = []
        self.heard: list[Message] = []
        """Every message that came, as it came."""
        self.is_closed = False
        self._waiting: deque[bytes] = deque()
        self.receiver = desk.exchange.accept(self, Hello(transport="memory", remote="test", dialect="pi"))
        self._carry(self.core.start())
        self._flush()
        if start:
            self.has(Registered)
            self.does(self.extension.start())

    # As the exchange's link.

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        self._carry(self.core.from_gateway(message))

    def cancel(self, request_id: Id) -> bool:
        return False

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self, code: int = 1000, reason: str = "") -> None:
        self._carry(self.core.shut_down())
        self.is_closed = True

    # What the host does.

    def does(self, effects: list[Effect] | Fault) -> str:
        """Send what the host's state machine wants to send; return the key of what it asks."""
        assert isinstance(effects, list), effects
        key = ""
        for effect in effects:
            if isinstance(effect, Send):
                key = effect.id
                self.says(effect.message)
        return key

    def says(self, data: bytes) -> None:
        self._carry(self.core.from_core(data))
        self._flush()

    def calls(self, name: str, **given: Any) -> str:
        return self.does(self.extension.call_tool(name, obj(**given), FOREVER))

    def commands(self, name: str, *args: str) -> str:
        return self.does(self.extension.run_command(name, list(args), FOREVER))

    def passes(self, seconds: float) -> None:
        self.desk.passes(seconds)
        self._carry(self.core.expired(self.desk.host.ns))
        self._flush()

    def has(self, kind: type[_Kind]) -> _Kind:
        """Return the next effect of what came, which must be of this kind."""
        self._flush()
        assert self.effects, f"nothing came, where {kind.__name__} was expected"
        found = self.effects.pop(0)
        assert isinstance(found, kind), found
        return found

    def ends(self, key: str) -> tuple[Message, bool]:
        """Return the output of the question that ends now, and whether it is an error."""
        ended = self.has(Ended)
        assert (ended.key, ended.fault) == (key, None)
        return json.loads(bytes(ended.output)), ended.is_error

    def fails(self, key: str) -> Message:
        """Return the error of the question that ends now."""
        output, is_error = self.ends(key)
        assert is_error
        return output["error"]

    def settles(self) -> None:
        self._flush()

    def _carry(self, said: Said) -> None:
        for data in said.to_core:
            heard = json.loads(data)
            _schema.validate(heard)
            self.heard.append(heard)
            self.effects += self.extension.received(data, self.desk.host.ns)
        self._waiting += said.to_gateway

    def _flush(self) -> None:
        self.desk.settle()
        while self._waiting:
            self.receiver.message(self._waiting.popleft())
            self.desk.settle()


def calc() -> Service:
    service = Service(tools=[TOOL])
    service.lists["prompts/list"] = [[PROMPT]]
    return service


def session() -> tuple[Service, Host]:
    service = calc()
    host = Host(Desk({"calc": service}))
    while not service.hears_nothing:
        service.answers(service.gets("logging/setLevel"))
    return service, host


def test_all_peers_are_one_extension() -> None:
    more = Service(tools=["add", "sub"])
    more.lists["prompts/list"] = [[{"name": "plan"}], [{"name": "do"}]]
    host = Host(Desk({"calc": calc(), "more": more}))

    offer = host.extension.offer
    assert offer is not None
    assert list(offer.tools) == ["calc__add", "more__add", "sub"]
    assert list(offer.commands) == ["review", "plan", "do"]
    declared = json.loads(bytes(offer.tools["calc__add"].declared))
    assert (declared["label"], declared["parameters"]) == ("Add", {"type": "object"})


def test_a_tool_is_called_and_gives_its_one_result() -> None:
    service, host = session()
    context = obj(lane="a/1", _meta={"x": 1})

    key = host.does(host.extension.call_tool("add", obj(a=1), FOREVER, context))
    asked = service.gets("tools/call")
    assert (asked["params"]["name"], asked["params"]["arguments"]) == ("add", {"a": 1})
    assert asked["params"]["_meta"]["x"] == 1
    service.answers(asked, text("2") | {"_meta": {"io.tieline/details": {"n": 1}}})

    assert host.ends(key) == ({"content": [{"type": "text", "text": "2"}], "details": {"n": 1}}, False)
    assert [frame.lane for frame in host.desk.frames("request", way="core>", method="tools/call")] == ["a/1"]


def test_a_peer_that_refuses_and_one_that_is_gone_are_errors_with_a_code() -> None:
    service, host = session()

    key = host.calls("add")
    service.refuses(service.gets("tools/call"), -32602, "no such number")
    error = host.fails(key)
    assert (error["code"], error["message"]) == ("invalid_request", "no such number")

    key = host.calls("add")
    service.restarts = False
    service.dies()
    error = host.fails(key)
    assert (error["code"], error["details"]["outcome"]) == ("io", "unknown")


def test_progress_is_an_update_of_the_call() -> None:
    service, host = session()
    key = host.calls("add")
    asked = service.gets("tools/call")

    token = asked["params"]["_meta"]["progressToken"]
    service.tells("notifications/progress", {"progressToken": token, "progress": 1, "message": "half"})
    updated = host.has(Updated)
    assert (updated.key, updated.log.message) == (key, "half")

    service.answers(asked, text("done"))
    host.ends(key)
    service.tells("notifications/progress", {"progressToken": token, "progress": 2})
    assert host.effects == []


def test_a_cancelled_call_ends_at_once_and_what_its_peer_still_says_goes_nowhere() -> None:
    service, host = session()
    key = host.calls("add")
    asked = service.gets("tools/call")

    host.does(host.extension.cancel(key, host.desk.host.ns))
    assert host.fails(key)["details"]["reason"] == "cancelled"
    assert service.gets("notifications/cancelled")["params"]["requestId"] == asked["id"]
    service.answers(asked, text("late"))
    host.says(message("event_hook", {"event": "cancel", "data": {"call_id": key}}, "again"))
    assert host.effects == []


def test_a_prompt_is_a_command() -> None:
    service, host = session()

    key = host.commands("review", "a.py", "with", "care")
    asked = service.gets("prompts/get")
    assert asked["params"] == {"name": "review", "arguments": {"file": "a.py", "how": "with care"}}
    said = {"role": "user", "content": {"type": "text", "text": "look"}}
    service.answers(asked, {"messages": [said]})
    assert host.ends(key) == ({"content": [said["content"]]}, False)

    key = host.does(host.extension.run_command("review", ["well"], FOREVER, obj(file="b.py")))
    asked = service.gets("prompts/get")
    assert asked["params"]["arguments"] == {"file": "b.py", "how": "well"}
    answer = {"role": "assistant", "content": {"type": "text", "text": "yes"}}
    service.answers(asked, {"messages": [said, answer]})
    output, _ = host.ends(key)
    assert output["content"] == [said["content"], answer["content"]]
    assert output["details"] == {"messages": [said, answer]}

    key = host.commands("review")
    service.refuses(service.gets("prompts/get"), -32602, "no file")
    assert host.fails(key)["code"] == "invalid_request"


def test_words_that_no_argument_takes_are_refused() -> None:
    service = Service(tools=[])
    service.lists["prompts/list"] = [[{"name": "plan"}]]
    host = Host(Desk({"calc": service}))

    key = host.commands("plan", "this")

    assert host.fails(key)["details"]["reason"] == "too_many_arguments"


def test_a_changed_list_is_registered_again_and_an_equal_one_is_not() -> None:
    service, host = session()

    service.tells("notifications/tools/list_changed")
    host.settles()
    assert host.effects == []

    service.lists["tools/list"] = [[TOOL, {"name": "sub", "inputSchema": {"type": "object"}}]]
    service.tells("notifications/tools/list_changed")
    registered = host.has(Registered)
    assert registered.again
    assert list(registered.offer.tools) == ["add", "sub"]


def test_nothing_is_called_before_the_session_and_after_it() -> None:
    host = Host(Desk({"calc": calc()}), start=False)
    call: Message = {"call_id": "c", "name": "add", "input": {}}

    host.says(message("tool_call", call, "m"))
    assert host.heard[-1]["payload"]["output"]["error"]["details"]["reason"] == "loading"

    host.says(message("event_hook", {"event": "session_start", "data": {"reply": False}}))
    host.says(message("event_hook", {"event": "session_shutdown", "data": {"reply": False}}))
    host.says(message("tool_call", call, "m"))
    last = host.heard[-1]
    assert (last["id"], last["type"]) == ("m", "tool_result")
    assert last["payload"]["output"]["error"]["details"]["reason"] == "shutting_down"


def test_logs_of_peers_reach_a_core_once_its_session_runs() -> None:
    service = calc()
    host = Host(Desk({"calc": service}), start=False)
    host.has(Registered)
    service.answers(service.gets("logging/setLevel"))
    params = {"level": "warning", "logger": "calc", "data": "too early"}
    service.tells("notifications/message", params)
    assert host.effects == []

    host.does(host.extension.start())
    service.tells("notifications/message", params | {"data": {"why": "hot"}})
    told = host.has(Logged).log
    assert (told.level, told.event, told.message) == ("warn", "mcp.log", '{"why":"hot"}')
    assert told.correlation.extension_id == "calc"


def test_a_call_id_that_is_in_use_is_refused_and_the_first_call_goes_on() -> None:
    service, host = session()
    host.says(message("tool_call", {"call_id": "c", "name": "add", "input": {}}, "m1"))
    asked = service.gets("tools/call")

    host.says(message("tool_call", {"call_id": "c", "name": "add", "input": {}}, "m2"))
    assert (host.heard[-1]["id"], host.heard[-1]["type"]) == ("m2", "error")
    host.says(message("tool_call", {"call_id": "d", "name": "add", "input": {}}, "m1"))
    assert host.heard[-1]["payload"]["event"] == "pi.dropped"

    service.answers(asked, text("2"))
    assert (host.heard[-1]["id"], host.heard[-1]["payload"]["call_id"]) == ("m1", "c")
    assert service.hears_nothing


@pytest.mark.parametrize(
    ("data", "type_", "reason"),
    [
        (b'{"id":"m","version":"1.0","type":"tool_call"', "error", "not_json"),
        (message("tool_call", {"name": "add"}, "m"), "error", "shape"),
        (message("register", {"name": "x", "version": "1", "api_version": "1.0"}, "m"), "error", "wrong_direction"),
        (message("host_call", host_call(), "m"), "error", "wrong_direction"),
        (message("tool_result", {"call_id": "c", "output": {}, "is_error": False}, "m"), "log", "no_open_call"),
        (b"\xff", "log", "not_utf8"),
    ],
)  # fmt: skip
def test_what_a_host_may_not_say_is_refused_by_its_id_or_told(data: bytes, type_: str, reason: str) -> None:
    _, host = session()

    host.says(data)

    last = host.heard[-1]
    assert last["type"] == type_
    found = last["payload"]["details"] if type_ == "error" else last["payload"]["data"]
    assert found["reason"] == reason
    assert last["id"] == "m" or type_ == "log"


def test_a_message_that_is_too_long_is_refused_by_its_id() -> None:
    _, host = session()
    host.core.most_bytes = 1000

    host.says(message("tool_call", {"call_id": "c", "name": "add", "input": {"x": "y" * 1000}}, "m"))

    assert (host.heard[-1]["id"], host.heard[-1]["payload"]["details"]["reason"]) == (
        "m",
        "message_too_large",
    )


def test_an_event_that_asks_for_an_opinion_gets_none_and_one_that_does_not_gets_nothing() -> None:
    _, host = session()

    host.says(message("event_hook", {"event": "turn_end", "data": {"reply": False}}, "m"))
    assert host.effects == []
    host.says(message("event_hook", {"event": "input", "data": {}}, "m"))
    assert host.heard[-1] == {
        "id": "m",
        "version": "1.0",
        "type": "event_hook",
        "payload": {"event": "input", "data": {}},
    }


def test_a_peer_that_is_slow_to_come_does_not_hold_up_the_registration() -> None:
    slow = Service(tools=["late"])
    slow.is_silent = True
    desk = Desk({"calc": calc(), "slow": slow})
    host = Host(desk, start=False)
    assert host.effects == []

    host.passes(REGISTER_NS / S)
    registered = host.has(Registered)
    assert (registered.again, list(registered.offer.tools)) == (False, [])
    host.does(host.extension.start())

    host.passes(10)
    registered = host.has(Registered)
    assert (registered.again, list(registered.offer.tools)) == (True, ["add"])
    assert host.core.next_deadline is None


def test_whoever_waits_when_the_gateway_closes_still_gets_the_one_result() -> None:
    service, host = session()
    key = host.calls("add")
    asked = service.gets("tools/call")

    host.close()
    assert host.fails(key)["code"] == "io"
    service.answers(asked, text("2"))
    assert host.effects == []


def test_a_host_that_takes_no_such_extension_is_left() -> None:
    host = Host(Desk({"calc": calc()}), start=False)
    id_ = host.heard[-1]["id"]
    error = message("error", {"code": "invalid_request", "message": "spoken here: 2.0"}, id_)

    assert host.core.from_core(error).is_over


def test_an_extension_behind_the_gateway_and_a_core_before_it_hear_what_they_would_without_it() -> None:
    helper = Helper()
    host = Host(Desk({"helper": helper}))
    assert helper.hears("event_hook")["payload"]["event"] == "session_start"
    asked = helper.heard.pop(0) if helper.heard else None
    assert asked is None

    key = host.calls("search", q="x")
    call = helper.hears("tool_call")
    assert (call["payload"]["name"], call["payload"]["input"]) == ("search", {"q": "x"})
    correlation = {"extension_id": "helper", "scenario_id": "s"}
    log = {"schema": "pi.ext.log.v1", "ts": "t", "level": "info", "message": "m", "data": {"k": 1}}
    update = {"event": "tool_call.update", "correlation": {**correlation, "tool_call_id": call["id"]}}
    helper.pi("log", {**log, **update, "message": "half", "data": {}})
    assert host.has(Updated).log.message == "half"
    helper.pi("log", {**log, "event": "found", "correlation": correlation})
    told = host.has(Logged).log
    assert (told.event, told.message, told.correlation.extension_id) == ("found", "m", "helper")
    assert json.loads(bytes(told.data or b"")) == {"k": 1}
    output = {"content": [{"type": "text", "text": "found"}], "details": {"n": 1}}
    helper.pi("tool_result", {"call_id": call["id"], "output": output, "is_error": True}, call["id"])
    assert host.ends(key) == (output, True)

    key = host.commands("deploy", "to", "prod")
    command = helper.hears("slash_command")
    assert command["payload"] == {"name": "deploy", "args": ["to", "prod"]}
    blocks = {"content": [{"type": "text", "text": "done"}]}
    helper.pi("slash_result", {"output": blocks, "is_error": False}, command["id"])
    assert host.ends(key) == (blocks, False)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "command", "cancel", "answer", "refuse", "junk", "change"]),
        st.integers(0, 5),
    ),
    max_size=25,
)


@given(STEPS)
def test_whatever_happens_each_question_has_exactly_one_answer(steps: list[tuple[str, int]]) -> None:
    service, host = session()
    wanted: Counter[str] = Counter()
    asked: list[Message] = []
    for number, (step, at) in enumerate(steps):
        id_ = f"m{number}"
        if step == "call":
            wanted[id_] += 1
            host.says(message("tool_call", {"call_id": f"c{number % 7}", "name": "add", "input": {}}, id_))
        elif step == "command":
            wanted[id_] += 1
            host.says(message("slash_command", {"name": "review"}, id_))
        elif step == "cancel":
            host.says(message("event_hook", {"event": "cancel", "data": {"call_id": f"c{at}"}}, id_))
        elif step == "junk":
            host.says(message("tool_call", {"call_id": f"c{at}"}, f"m{at}")[: 40 + at])
        elif step == "change":
            service.tells("notifications/tools/list_changed")
        elif asked:
            one = asked.pop(at % len(asked))
            if step == "answer":
                result: Message = {"messages": []} if one["method"] == "prompts/get" else text("x")
                service.answers(one, result)
            else:
                service.refuses(one)
        asked += [each for each in service.wire.got if each.get("method") in ("tools/call", "prompts/get")]
    host.close()

    types = ("tool_result", "slash_result", "error")
    answered = Counter(each["id"] for each in host.heard if each["type"] in types and each["id"] in wanted)
    junk = {f"m{at}" for step, at in steps if step == "junk"}
    assert {id_: count for id_, count in answered.items() if id_ not in junk} == {
        id_: count for id_, count in wanted.items() if id_ not in junk
    }
