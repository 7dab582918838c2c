"""Peers of a scene that are Pi extensions behind `PiServer`, and plans that have such peers.

Steps say what a peer does in MCP's words; here that becomes what an extension would say in its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec
from hypothesis import strategies as st

from gateway.calls.peer_state import Peer
from gateway.calls.pi.server import PiServer, Said
from gateway.protocol import mcp
from gateway.protocol.errors import Fault
from tests.gateway.replay.scene import Asked, Message, Scene, Service, Wire
from tests.gateway.replay.sessions import Acting, Plan, Step, plans
from transports.base import Id

USUAL = ("call", "call", "prompt", "answer", "answer", "answer", "progress", "changed") * 4
HOSTED = (
    "host",
    "host",
    "host",
    "host",
    "serve",
    "serve",
    "serve",
    "serve",
    "unhost",
    "reply",
    "reply",
    "retry",
) * 8
HOST_CALLS: list[Message] = [
    {"capability": "read", "method": "fs", "params": {"op": "read", "path": "a.txt"}},
    {"capability": "write", "method": "fs", "params": {"op": "mkdir", "path": "sub"}, "timeout_ms": 900},
    {"capability": "ui", "method": "ui", "params": {"kind": "select", "title": "?", "options": ["a", "b"]}},
    {"capability": "tool", "method": "tool", "params": {"name": "p1__t0", "input": {"n": 1}}},
    {"capability": "write", "method": "fs", "params": {"op": "delete", "path": "a.txt"}},
    {"capability": "read", "method": "exec", "params": {"cmd": "ls"}},
    {"capability": "env", "method": "env", "params": {"name": "HOME"}},
    {"capability": "ui", "method": "ui", "params": {"kind": "notify", "message": "so"}},
]
CONVERSED = ("converse", "converse", "converse", "read", "read", "full") * 10
OPS: list[Message] = [
    {"op": "append_entry", "custom_type": "x", "data": {"n": 1}},
    {"op": "get_branch"},
    {"op": "navigate", "target_id": "?", "summary": "left"},
    {"op": "fork", "entry_id": "?", "position": "at"},
    {"op": "new", "name": "n"},
    {"op": "switch", "target": "jsonl"},
    {"op": "list"},
    {"op": "reload"},
]
METHODS = {"tool_call": "tools/call", "slash_command": "prompts/get"}
LEVELS = {"debug": "debug", "info": "info", "error": "error"}


class PiWire(Wire):
    """One life of an extension: what stands between it and the gateway is `PiServer`."""

    service: PiService

    def __init__(self, service: PiService, peer: Peer) -> None:
        super().__init__(service, peer)
        self.server = PiServer(service.name, service.now())
        self.types: dict[str, str] = {}
        """What was asked under each id."""
        self.is_registered = False
        self._hooks = 0
        self._heard: list[Message] = []
        self._waiting: list[bytes] = []

    def take(self, data: bytes) -> None:
        self._carry(self.server.from_gateway(data, self.service.now()))

    def says(self, message: Message | bytes, about: Id | None = None) -> None:
        """Say in Pi what an MCP server would say. Bytes are said as they are."""
        if isinstance(message, bytes):
            self._says_raw(message)
        elif "method" not in message:
            self._answers(message)
        else:
            self._tells(message["method"], message.get("params", {}), message.get("id"))

    def pump(self) -> bool:
        """Let the extension and the gateway hear what was said to them; return whether anything was."""
        if not self.is_up:
            return False
        if not self.is_registered and not self.service.is_silent:
            self.is_registered = True
            self.register()
        self._carry(self.server.expired(self.service.now()))
        heard, self._heard = self._heard, []
        for message in heard:
            if message["type"] == "event_hook" and message["payload"]["event"].startswith("session_before_"):
                self._minds(message)
            elif message["type"] in METHODS:
                self.types[message["id"]] = message["type"]
                meta = {"progressToken": message["id"]}
                asked = {"id": message["id"], "method": METHODS[message["type"]], "params": {"_meta": meta}}
                self.service.asked.append(Asked(self, asked))
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            if self.is_up:
                self.peer.message(data)
        return bool(heard or waiting)

    def register(self) -> None:
        pages, extra = range(self.service.pages), self.service.extra
        tools = [f"t{at}" for at in pages] + [f"more{at}" for at in range(extra)]
        offer = {
            "name": self.service.name,
            "version": "1",
            "api_version": "1.0",
            "capabilities": ["read", "write", "ui", "env", "tool", "session"],
            "tools": [{"name": name, "parameters": {"type": "object"}} for name in tools],
            "slash_commands": [{"name": f"p{at}"} for at in pages],
            "event_hooks": [
                "session_before_switch",
                "session_before_tree",
                "session_before_fork",
                "session_fork",
            ],
        }
        self._says("register", offer, "r")

    def _minds(self, message: Message) -> None:
        """Answer a hook: with no opinion, with a no, or never."""
        self._hooks += 1
        if self._hooks % 5 != 3:
            data = {"result": {"cancel": True}} if self._hooks % 5 == 4 else {}
            event: str = message["payload"]["event"]
            self._says("event_hook", {"event": event, "data": data}, message["id"])

    def _answers(self, message: Message) -> None:
        id_ = str(message["id"])
        if "error" in message:
            self._says("error", {"code": "io", "message": message["error"]["message"]}, id_)
            return
        result: Any = message["result"]
        output = result
        if isinstance(result, dict) and "messages" in result:
            output = {"content": [one["content"] for one in cast("Message", result)["messages"]]}
        if self.types.get(id_) == "slash_command":
            self._says("slash_result", {"output": output, "is_error": False}, id_)
        else:
            self._says("tool_result", {"call_id": id_, "output": output, "is_error": False}, id_)

    def _tells(self, method: str, params: Message, id_: Id | None) -> None:
        if id_ is not None:
            asked = {"capability": "ui", "method": "ui", "params": {"kind": "input"}}
            self._says("host_call", {"call_id": str(id_), **asked}, str(id_))
        elif method == "notifications/progress":
            self._logs("tool_call.update", "info", {"progress": params["progress"]}, params["progressToken"])
        elif method == "notifications/message":
            self._logs("said", params["level"], {"text": params["data"]})
        elif method == "notifications/cancelled":
            self._says("event_hook", {"event": "cancel", "data": {"call_id": str(params["requestId"])}}, "x")
        else:
            self.service.extra += method == "notifications/tools/list_changed"
            self.register()

    def asks_host(self, number: int, what: Message, about: str | None) -> None:
        """Make a host call."""
        call_id = f"h{number}"
        context = {"context": {"tool_call_id": about}} if about is not None else {}
        self._says("host_call", {"call_id": call_id, **what, **context}, call_id)

    def takes_back(self, call_id: str) -> None:
        """Cancel a host call."""
        self._says("event_hook", {"event": "cancel", "data": {"call_id": call_id}}, "x")

    def _logs(self, event: str, level: str, data: Message, call: str | None = None) -> None:
        of_call = {"tool_call_id": call} if call is not None else {}
        correlation = {"extension_id": self.service.name, "scenario_id": "s", **of_call}
        log = {"schema": "pi.ext.log.v1", "ts": "t", "level": LEVELS[level], "event": event, "message": "m"}
        self._says("log", {**log, "correlation": correlation, "data": data}, "l")

    def _says(self, type_: str, payload: Message, id_: str) -> None:
        self._says_raw(json.dumps({"id": id_, "version": "1.0", "type": type_, "payload": payload}).encode())

    def _says_raw(self, data: bytes) -> None:
        self._carry(self.server.from_extension(data, self.service.now()))

    def _carry(self, said: Said) -> None:
        self._heard += [msgspec.json.decode(data) for data in said.to_extension]
        self._waiting += said.to_gateway


class PiService(Service):
    """An extension by any number of connections."""

    dialect = "pi"

    def __init__(self, name: str, *, pages: int, now: Callable[[], int]) -> None:
        super().__init__(name, "legacy", stamped=False, pages=pages)
        self.now = now
        self.extra = 0
        """How many tools it has registered later."""

    def wire_to(self, peer: Peer) -> Wire:
        return PiWire(self, peer)

    def hear(self) -> bool:
        busy = False
        for wire in self.wires:
            busy = (isinstance(wire, PiWire) and wire.pump()) or busy
        return busy


@dataclass(frozen=True)
class PiPlan:
    """A plan, and which of its peers are extensions."""

    plan: Plan
    extensions: tuple[bool, ...]


class PiActing(Acting):
    """A plan some of whose peers are extensions."""

    scene: Scene

    def __init__(self, plan: PiPlan) -> None:
        self._extensions = iter(plan.extensions)
        self._hosted = 0
        super().__init__(plan.plan)

    def service(self, name: str, era: mcp.Era, *, stamped: bool) -> Service:
        if next(self._extensions):
            return PiService(name, pages=self.plan.pages, now=lambda: self.scene.clock.now)
        return super().service(name, era, stamped=stamped)

    def do_host(self, a: int, b: int) -> None:
        """An extension asks something of its host."""
        wires = [wire for wire in self._pi_wires() if wire.is_registered]
        if not wires:
            return
        wire = wires[a % len(wires)]
        self._hosted += 1
        open_ = [one.message["id"] for one in wire.service.asked if one.wire is wire]
        about = open_[a % len(open_)] if open_ and b % 2 else None
        wire.asks_host(self._hosted, HOST_CALLS[b % len(HOST_CALLS)], about)
        self.scene.settle()

    def do_converse(self, a: int, b: int) -> None:
        """An extension does something with the session, perhaps with one that it was in before."""
        wires = [wire for wire in self._pi_wires() if wire.is_registered]
        about = wires[a % len(wires)].peer.sessions[0].host_session if wires else None
        if about is None:
            return
        wire, tree = wires[a % len(wires)], about.conversation.tree
        self._hosted += 1
        there = tree.entries[a % len(tree.entries)].id if tree.entries else "none"
        params = {name: there if value == "?" else value for name, value in OPS[b % len(OPS)].items()}
        what: Message = {"capability": "session", "method": "session", "params": params}
        open_ = [one.message["id"] for one in wire.service.asked if one.wire is wire]
        if a % 3 == 0:
            what["context"] = {"session": {"id": tree.header.id, "generation": 1}}
        wire.asks_host(self._hosted, what, open_[a % len(open_)] if open_ and a % 3 == 1 else None)
        self.scene.settle()

    def do_read(self, a: int, b: int) -> None:
        """A file of a session has been read."""
        if self.scene.stage.keeps.waiting:
            self.scene.stage.keeps.reads()
            self.scene.settle()

    def do_full(self, a: int, b: int) -> None:
        """The disk is full, or not any more."""
        self.scene.stage.keeps.is_full = b == 0

    def do_serve(self, a: int, b: int) -> None:
        """A connector gives a part of its output, or ends."""
        served = self.scene.stage.served
        if not served:
            return
        one = served[a % len(served)]
        if b < 3:
            one.gives(part=b)
        elif b == 3:
            one.fails(Fault(code="io", message="no such file", reason="enoent", outcome="unknown"))
        else:
            one.ends(content=f"served {b}")
        if b >= 3:
            served.remove(one)
        self.scene.settle()

    def do_unhost(self, a: int, b: int) -> None:
        """An extension takes a host call back."""
        wires = self._pi_wires()
        if wires and self._hosted:
            wires[a % len(wires)].takes_back(f"h{1 + b % self._hosted}")
            self.scene.settle()

    def _pi_wires(self) -> list[PiWire]:
        return [
            wire
            for service in self.scene.services.values()
            for wire in service.wires
            if isinstance(wire, PiWire) and wire.is_up
        ]


def pi_plans(
    kinds: tuple[str, ...], *, least: int, most: int, more: tuple[str, ...] = ()
) -> st.SearchStrategy[PiPlan]:
    """Plans of so many such steps, and more calls than others, in which at least one peer is an extension."""

    def with_extensions(plan: Plan, which: list[bool], steps: list[Step]) -> PiPlan:
        extensions = (True, *which)[: len(plan.peers)]
        peers: list[tuple[mcp.Era, bool, bool]] = [
            ("legacy", False, peer[2]) if is_extension else peer
            for peer, is_extension in zip(plan.peers, extensions, strict=True)
        ]
        return PiPlan(replace(plan, peers=tuple(peers), steps=tuple(steps)), extensions)

    small = st.integers(0, 7)
    steps = st.lists(
        st.tuples(st.sampled_from((*kinds, *USUAL, *more)), small, small), min_size=least, max_size=most
    )
    others = st.lists(st.booleans(), min_size=2, max_size=2)
    return st.builds(with_extensions, plans(kinds, most=0, greets=True), others, steps)
