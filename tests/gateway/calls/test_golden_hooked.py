"""Calls that extensions are asked about, and host calls that are judged: what they leave is kept, to the byte.

One script goes through the whole exchange and through the Pi protocol on the side of the extensions. Frames, and what
was sent to everybody, are held against `golden_hooked.jsonl`, which was written before hooked calls were made fast.
Run this file as a program to write it anew, where something is meant to be different from now on.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from gateway.calls import straight_hooked
from gateway.calls.exchange import Exchange
from gateway.calls.pi.server import PiServer, Said
from gateway.config.extensions import ExtensionsConfig, HooksConfig
from gateway.config.model import Config
from gateway.config.peer import PeerConfig
from gateway.policy.model import Policy
from tests.gateway.calls.host_kit import TableKeeper
from tests.gateway.calls.kit import Client, Desk, Message, Service, Wire, text
from tests.gateway.calls.kit_world import Frame, Sent
from tests.gateway.calls.pi.kit import message

KEPT = Path(__file__).with_name("golden_hooked.jsonl")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
SILENT: Any = object()


class Guard(Service):
    """An extension that answers events by a list of answers, one each; it hears Pi, and everything that it hears is
    kept in the order of all else."""

    def __init__(self, *hooks: str) -> None:
        super().__init__()
        self.restarts = False
        self.register = {
            "name": "guard",
            "version": "1",
            "api_version": "1.0",
            "event_hooks": list(hooks),
            "capability_manifest": {
                "schema": "pi.ext.cap.v1",
                "capabilities": [
                    {"capability": "read", "scope": {"paths": ["src/**"]}},
                    {"capability": "http"},
                ],
            },
        }
        self.next: list[Any] = []
        """What it answers next: an object is the `data` of its answer, a string a whole line, of which `ID` is the id.
        """
        self.asked: list[str] = []
        self._to_answer: list[Message] = []

    def handle(self, wire: Wire, message: Message) -> bool:
        now = self.desk.host.ns
        if message.get("method") == "initialize":
            self.server = PiServer(self.name, now, context=wire.peer.context_of)
            self.says_pi("register", self.register, "r")
            # What a link to an extension has beside what other links have.
            wire.link.ask_hook = partial(self._ask_hook, wire)  # pyright: ignore[reportAttributeAccessIssue]
        self._carry(wire, self.server.from_gateway(msgspec.json.encode(message), now))
        return True

    def says_pi(self, type_: str, payload: Message, id_: str) -> None:
        self._hears(self.wires[-1], message(type_, payload, id_))

    def _hears(self, wire: Wire, data: bytes) -> None:
        shortly = self.server.hook_answered(data)
        if shortly is not None:
            wire.receiver.hook_answered(*shortly)
            return
        self._carry(wire, self.server.from_extension(data, self.desk.host.ns))

    def _carry(self, wire: Wire, said: Said) -> None:
        for line in said.to_extension:
            self._gets(line)
        for data in said.to_gateway:
            wire.receiver.message(data)

    def _gets(self, line: bytes) -> None:
        self.desk.host.log.append(Sent(f"{self.name} (pi)", line))
        heard = json.loads(line)
        if heard["type"] == "event_hook" and heard["payload"].get("data", {}).get("reply") is not False:
            self.asked.append(heard["id"])
            self._to_answer.append(heard)

    def _ask_hook(self, wire: Wire, id_: int, event: str, data: bytes, context: bytes) -> bool:
        del wire
        line = self.server.ask_hook(id_, event, data, context)
        if line is not None:
            self._gets(line)
        return line is not None

    def answers_hook(self) -> bool:
        """Answer what it was asked first, and say whether there was anything."""
        if not self._to_answer:
            return False
        self._answer(self.wires[-1], self._to_answer.pop(0))
        self.desk.settle()
        return True

    def answers_together(self, datas: list[Any]) -> None:
        """Answer what it was asked by lines of one piece, as `PiLink` takes those; `datas` are as those of `next`."""
        asked, self._to_answer = self._to_answer, self._to_answer[len(datas) :]
        lines = [
            data.replace("ID", heard["id"]).encode()
            if isinstance(data, str)
            else message("event_hook", {"event": heard["payload"]["event"], "data": data}, heard["id"])
            for data, heard in zip(datas, asked, strict=False)
        ]
        answers: list[tuple[int, bytes]] = []
        while lines and (shortly := self.server.hook_answered(lines[0])) is not None:
            answers.append(shortly)
            del lines[0]
        if answers:
            self.wires[-1].receiver.hooks_answered(answers)
        for line in lines:
            self._hears(self.wires[-1], line)
        self.desk.settle()

    def _answer(self, wire: Wire, heard: Message) -> None:
        payload = heard["payload"]
        answer: Any = self.next.pop(0) if self.next else {}
        if answer is SILENT:
            return
        if isinstance(answer, str):
            self._hears(wire, answer.replace("ID", heard["id"]).encode())
        else:
            self._hears(wire, message("event_hook", {"event": payload["event"], "data": answer}, heard["id"]))


class Script:
    """One session that everything happens in."""

    def __init__(self) -> None:
        self.calc = Service(
            tools=[{"name": "add", "inputSchema": SCHEMA}, {"name": "sub", "inputSchema": SCHEMA}]
        )
        self.guard, self.helper = Guard("tool_call", "turn_end"), Guard("tool_call", "tool_result")
        self.desk = desk = Desk({"calc": self.calc, "guard": self.guard, "helper": self.helper})
        pi = {name: PeerConfig(command=["x"], dialect="pi") for name in ("guard", "helper")}
        hooks = HooksConfig(priority={"guard": 10}, timeouts_ms={"helper": 2000})
        desk.config = Config(
            peers={"calc": PeerConfig(command=["x"]), **pi}, extensions=ExtensionsConfig(hooks=hooks)
        )
        desk.host.policy = Policy(mode="strict", default_caps=("read",))
        desk.host.keeps = TableKeeper()
        desk.exchange = Exchange(desk.config, desk.host, version="0")
        desk.exchange.on_notice = desk.notices.append
        self.core: Client = desk.core()
        self.number = 10

    def call(self, *guard: Any, helper: Any = None, name: str = "add", **meta: Any) -> None:
        """One call: what `guard` says to it, what `helper` says to the call and to the result, if anything."""
        self.guard.next, self.helper.next = list(guard), list(helper or [])
        self.number += 1
        self.desk.host.ns += 1_000_000
        self.core.calls(name, id=self.number, **meta)
        self.go_on()

    def go_on(self) -> None:
        """Have everybody answer what they are asked, until nobody is asked anything."""
        while self.guard.answers_hook() or self.helper.answers_hook():
            pass
        for asked in [one for one in self.calc.wire.link.inbox if one.get("method") == "tools/call"]:
            self.calc.wire.link.inbox.remove(asked)
            self.calc.answers(asked, {**text("done"), "structuredContent": {"n": 1}})
            self.go_on()

    def play(self) -> None:
        """Everything that is kept."""
        changed = {"result": {"input": {"a": 2, "b": "é\n"}, "reason": "two is better"}}
        self.core.asks("tools/list", id=5)
        self.call()
        self.call(changed)
        self.call(
            changed,
            helper=[
                {"result": {"input": {"a": 3}}},
                {"result": {"content": [{"type": "text", "text": "x"}]}},
            ],
        )
        self.call({}, helper=[{}, {"result": {"isError": True, "details": {"why": 1}}}])
        self.call({"result": {"block": True, "reason": "not on Fridays"}})
        self.call({"result": {"block": True, "terminate": True}})
        self.call({"result": {"implementation": "sub"}})
        self.call({"result": {"implementation": "nobody"}})
        self.call({"result": {"input": {"a": "no integer"}}})
        self.call({"result": {"block": "yes"}})
        self.call({"result": {"block": False, "unheard_of": 1}})
        self.call({"result": None})
        self.call({"result": {}}, name="sub")
        self.call('{"id":"ID","version":"1.0","type":"error","payload":{"code":"io","message":"broken"}}')
        self.call(answer_of('"tool_call","data":{"result":{"input":{"a":1,"a":2}}}'))
        self.call(
            answer_of(
                '"tool_call", "extra": [],"data":{"result": {"input" : {"a": 7}} } ', more='"more": 1, '
            )
        )
        self.call(answer_of('"turn_end","data":{}'))
        self.helper.next = []
        self.core.cancels(self.number)
        self.call(changed, **{"io.tieline/lane": "turn1/tool2"})
        self.call(changed, progressToken="t1")
        self.call(SILENT)
        self.desk.passes(0.6)
        late = self.guard.asked[-1]
        self.guard.says_pi("event_hook", {"event": "tool_call", "data": {}}, late)
        self.guard.says_pi("event_hook", {"event": "tool_call", "data": {}}, late)
        self.call({}, helper=[SILENT])
        self.core.cancels(self.number)
        self.desk.settle()
        self.policed()
        self.guard.dies()
        self.call()

    def policed(self) -> None:
        """Host calls that are allowed, denied, wrong, and one that is ended."""
        calls: list[tuple[str, str, Message]] = [
            ("read", "fs", {"op": "read", "path": "src/a.py"}),
            ("read", "fs", {"op": "read", "path": "etc/a.py"}),
            ("read", "tool", {"name": "read", "input": {"path": "src/a.py"}}),
            ("http", "http", {"url": "https://example.com/x"}),
            ("exec", "exec", {"cmd": "ls"}),
            ("read", "exec", {"cmd": "ls"}),
            ("read", "fs", {"op": "read", "path": "src/token=hunter2hunter2"}),
        ]
        for number, (capability, method, params) in enumerate(calls):
            payload = {"call_id": f"h{number}", "capability": capability, "method": method, "params": params}
            self.guard.says_pi("host_call", payload, f"e{number}")
            self.desk.settle()
            while self.desk.host.served:
                self.desk.host.served.pop().ends(content="x")

    def lines(self) -> list[bytes]:
        """All frames and all messages, in order; of what extensions are told, only what is said in Pi."""
        return [
            json.dumps(_frame(one) if isinstance(one, Frame) else {"to": one.to, "said": json.loads(one.data)}).encode()
            for one in self.desk.host.log
            if isinstance(one, Frame) or one.to not in ("guard", "helper")
        ]  # fmt: skip


def answer_of(payload: str, *, more: str = "") -> str:
    return f'{{"id":"ID","version":"1.0", {more}"type":"event_hook","payload":{{"event":{payload}}}}}'


def _frame(frame: Frame) -> dict[str, Any]:
    found = {
        name: value for name, value in frame._asdict().items() if value not in (UNSET, None, "", b"", ())
    }
    return {**found, "body": json.loads(frame.body or b"null")}


def played(*, is_straight: bool = True) -> list[bytes]:
    script = Script()
    script.desk.exchange.sessions[0].hooks.may_go_straight = is_straight
    script.play()
    return script.lines()


@pytest.mark.parametrize("is_straight", [True, False], ids=["the straight way", "the long way"])
def test_hooked_calls_and_judged_host_calls_leave_the_frames_and_the_bytes_that_they_always_left(
    is_straight: bool,
) -> None:
    now, kept = played(is_straight=is_straight), KEPT.read_bytes().splitlines()
    for number, (one, other) in enumerate(zip(now, kept, strict=False)):
        assert json.loads(one) == json.loads(other), f"line {number + 1}"
    assert len(now) == len(kept)


def test_calls_that_are_asked_about_do_go_the_straight_way(monkeypatch: pytest.MonkeyPatch) -> None:
    went: list[bool] = []
    true_way = straight_hooked.goes_by_hooks

    def watched(*arguments: Any) -> bool:
        went.append(true_way(*arguments))
        return went[-1]

    monkeypatch.setattr("gateway.calls.hooked.Hooked.goes_straight", watched)
    played()
    assert went.count(False) == 2, (
        "the first and one of a dead guard; one with a lane or progress does not get there"
    )
    assert went.count(True) > 15


if __name__ == "__main__":
    KEPT.write_bytes(b"\n".join(played()) + b"\n")
