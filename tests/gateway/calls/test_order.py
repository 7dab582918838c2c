"""Any interleaving of two cores and three peers: one answer for each request, never another's, nothing unrecorded."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.config.peer import PeerConfig
from gateway.protocol import mcp
from gateway.protocol.jsonrpc import Id
from tests.gateway.calls.kit import Client, Desk, Message, Service, text
from tests.gateway.calls.kit_world import Frame, Sent

PEERS = ("one", "two", "three")
IDS: st.SearchStrategy[Id] = st.sampled_from((1, "1", 2, "x"))
CORES = st.integers(0, 1)
NAMES = st.sampled_from(PEERS)


class Asked:
    """A request of a core, as the test remembers it."""

    def __init__(self, serial: int, peer: str, *, token: bool) -> None:
        self.serial = serial
        self.peer = peer
        self.token = f"t{serial}" if token else None
        self.progress = 0


def body_of(entry: Frame | Sent) -> bytes:
    return entry.body if isinstance(entry, Frame) else entry.data


def serial_of(message: Message) -> tuple[str, Any] | None:
    """Return what tells a call, or its answer, from all others; None for everything else."""
    if message.get("method") == "tools/call":
        return "call", message["params"]["arguments"]["serial"]
    content = message.get("result", {}).get("content")
    return ("answer", content[0]["text"]) if content else None


class Interleaving(RuleBasedStateMachine):
    """Peer `one` is shared by both sessions; each has a `two` and a `three` of its own."""

    def __init__(self) -> None:
        super().__init__()
        services = {"one": Service(), "two": Service(), "three": Service("modern")}
        peers = {
            "one": PeerConfig(command=["x"], scope="shared", prefix="one", call_timeout_s=30),
            "two": PeerConfig(command=["x"], prefix="two", call_timeout_s=30),
            "three": PeerConfig(command=["x"], prefix="three", call_timeout_s=30),
        }
        self.desk = Desk(services, peers=peers)
        eras: tuple[mcp.Era, mcp.Era] = ("legacy", "modern")
        self.cores: list[Client] = [self.desk.core(era) for era in eras]
        self.open: list[dict[Id, Asked]] = [{}, {}]
        self.serial = 0
        self.dispatched: set[int] = set()
        self.at_peer: dict[int, tuple[Any, Message]] = {}
        """Requests that a peer has and has not answered, by serial."""
        self.checked = 0
        self.recorded: set[tuple[str, Any] | None] = set()

    @rule(core=CORES, id_=IDS, peer=NAMES, token=st.booleans())
    def asks(self, core: int, id_: Id, peer: str, token: bool) -> None:
        if id_ in self.open[core]:
            return
        self.serial += 1
        asked = self.open[core][id_] = Asked(self.serial, peer, token=token)
        params: Message = {"name": f"{peer}__echo", "arguments": {"serial": self.serial}}
        if token:
            params["_meta"] = {"progressToken": asked.token}
        self.cores[core].asks("tools/call", params, id=id_)
        self.look()

    @rule(core=CORES, id_=IDS)
    def cancels(self, core: int, id_: Id) -> None:
        self.open[core].pop(id_, None)
        self.cores[core].cancels(id_)
        self.look()

    @precondition(lambda self: self.at_peer)
    @rule(data=st.data(), refuses=st.booleans(), twice=st.booleans())
    def answers(self, data: st.DataObject, refuses: bool, twice: bool) -> None:
        serial = data.draw(st.sampled_from(sorted(self.at_peer)))
        wire, message = self.at_peer.pop(serial)
        for _ in range(1 + twice):
            if refuses:
                wire.refuses(message, -32000, str(serial))
            else:
                wire.answers(message, text(str(serial)))
        self.look()

    @precondition(lambda self: self.at_peer)
    @rule(data=st.data())
    def progresses(self, data: st.DataObject) -> None:
        serial = data.draw(st.sampled_from(sorted(self.at_peer)))
        wire, message = self.at_peer[serial]
        wire.tells("notifications/progress", {"progressToken": message["id"], "progress": serial})
        self.look()

    @precondition(lambda self: self.at_peer)
    @rule(data=st.data())
    def asks_back(self, data: st.DataObject) -> None:
        serial = data.draw(st.sampled_from(sorted(self.at_peer)))
        wire, message = self.at_peer[serial]
        wire.says({"jsonrpc": "2.0", "id": message["id"], "method": "roots/list"}, about=message["id"])
        self.look()

    @rule(peer=NAMES, id_=st.integers(0, 12))
    def answers_what_was_not_asked(self, peer: str, id_: int) -> None:
        service = self.desk.services[peer]
        held = {message["id"] for wire, message in self.at_peer.values() if wire is service.wires[-1]} if (
            service.wires
        ) else set[Any]()  # fmt: skip
        if service.wires and id_ not in held:
            service.answers(id_, text("nobody's"))
        self.look()

    @rule(peer=NAMES)
    def dies(self, peer: str) -> None:
        service = self.desk.services[peer]
        if not service.wires or not service.wire.peer.is_ready:
            return
        wire = service.wire
        self.at_peer = {serial: held for serial, held in self.at_peer.items() if held[0] is not wire}
        service.dies()
        self.look()

    @rule(seconds=st.sampled_from((0.05, 0.2, 40.0)))
    def time_passes(self, seconds: float) -> None:
        self.desk.passes(seconds)
        self.look()

    def look(self) -> None:
        """Take what has come on every side, and hold it against what was asked."""
        for core, client in enumerate(self.cores):
            while not client.hears_nothing:
                self._core_got(core, client, client.link.inbox.pop(0))
        for service in self.desk.services.values():
            for wire in service.wires:
                for message in wire.got:
                    self._peer_got(wire, message)

    def _peer_got(self, wire: Any, message: Message) -> None:
        if message.get("method") == "tools/call":
            serial = message["params"]["arguments"]["serial"]
            assert serial not in self.dispatched, "a request was sent twice"
            self.dispatched.add(serial)
            self.at_peer[serial] = (wire, message)
        elif message.get("method") == "notifications/cancelled":
            gone = [
                s
                for s, (w, m) in self.at_peer.items()
                if w is wire and m["id"] == message["params"]["requestId"]
            ]
            for serial in gone:
                assert not any(asked.serial == serial for table in self.open for asked in table.values())

    def _core_got(self, core: int, client: Client, message: Message) -> None:
        if message.get("method") == "notifications/progress":
            asked = next(a for a in self.open[core].values() if a.token == message["params"]["progressToken"])
            assert message["params"]["progress"] == asked.serial, "progress of another call"
        elif message.get("method") == "roots/list":
            client.answers(message, {"roots": []})
        elif "method" not in message:
            asked = self.open[core].pop(message["id"])
            if message.get("result", {}).get("resultType") == "input_required":
                self._come_back(core, client, message, asked)
            elif "result" in message:
                assert message["result"]["content"] == text(str(asked.serial))["content"], "another's answer"
            elif "data" not in message["error"]:
                assert message["error"]["message"] == str(asked.serial), "another's error"

    def _come_back(self, core: int, client: Client, message: Message, asked: Asked) -> None:
        result = message["result"]
        params: Message = {
            "name": f"{asked.peer}__echo",
            "arguments": {"serial": asked.serial},
            "requestState": result["requestState"],
            "inputResponses": {key: {"roots": []} for key in result["inputRequests"]},
        }
        if asked.token:
            params["_meta"] = {"progressToken": asked.token}
        self.open[core][message["id"]] = asked
        client.asks("tools/call", params, id=message["id"])

    @invariant()
    def everything_that_leaves_was_recorded_before(self) -> None:
        log = self.desk.host.log
        for entry in log[self.checked :]:
            message = json.loads(body_of(entry) or b"{}")
            if isinstance(entry, Frame):
                if entry.way in ("core>", "peer>") and entry.body:
                    self.recorded.add(serial_of(message))
            elif serial_of(message):
                assert serial_of(message) in self.recorded
        self.checked = len(log)

    @invariant()
    def the_gateway_waits_for_what_the_cores_wait_for(self) -> None:
        for core, table in zip(self.cores, self.open, strict=True):
            assert set(core.receiver.open) == set(table)

    def teardown(self) -> None:
        for serial in sorted(self.at_peer):
            wire, message = self.at_peer.pop(serial, (None, {}))
            if wire is not None:
                wire.answers(message, text(str(serial)))
                self.look()
        self.desk.passes(700)
        self.look()
        self.desk.passes(700)
        self.look()
        assert self.open == [{}, {}], "a request was never answered"
        for core in self.cores:
            core.leaves()
        assert self.desk.exchange.sessions == []


TestInterleaving = Interleaving.TestCase
TestInterleaving.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
