"""The exchange on a table: cores and peers that are lists, a clock that is wound by hand, frames as tuples.

A test reads: the core says, the peer gets, the peer says, the core gets. `Desk` holds one exchange; nothing in it
waits, and nothing happens that the test has not caused. Peers answer handshakes and lists by themselves.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.calls.catalog import Judge
from gateway.calls.core_state import Core
from gateway.calls.exchange import Exchange
from gateway.calls.peer_state import Peer
from gateway.config.model import CatalogConfig, Config, LimitsConfig
from gateway.config.peer import PeerConfig
from gateway.protocol import mcp
from gateway.protocol.errors import Fault
from tests.gateway.calls.kit_world import Frame, ListLink, ListTap, ManualHost, Message
from transports.base import Hello, Id, Origin, TransportError

LEGACY, MODERN = mcp.LATEST_LEGACY, mcp.LATEST_MODERN
EVERYTHING: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
ASKABLE: dict[str, Any] = {
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "roots": {"listChanged": True},
}


class Talker:
    """One end of a link, as a test sees it: says messages and gets them in order."""

    def __init__(self, desk: Desk, link: ListLink, receiver: Core | Peer) -> None:
        self.desk = desk
        self.link = link
        self.receiver = receiver

    def says(self, message: Message | bytes, *, about: Id | None = None) -> None:
        """Send one message to the gateway; `about` is the stream that it travels on, where there are several."""
        data = message if isinstance(message, bytes) else msgspec.json.encode(message)
        origin = Origin(about=about) if about is not None else None
        self.receiver.message(data, origin)
        self.desk.settle()

    def says_together(self, *messages: Message | bytes) -> None:
        """Send messages in one piece, as a link of lines hands them over."""
        many = [each if isinstance(each, bytes) else msgspec.json.encode(each) for each in messages]
        for data in many[self.receiver.together(many) :]:
            self.receiver.message(data)
        self.desk.settle()

    def answers(self, to: Message | Id, result: Any = None, *, about: Id | None = None) -> None:
        id_ = to["id"] if isinstance(to, dict) else to
        self.says({"jsonrpc": "2.0", "id": id_, "result": {} if result is None else result}, about=about)

    def refuses(self, to: Message | Id, code: int = -32000, message: str = "no", **more: Any) -> None:
        id_ = to["id"] if isinstance(to, dict) else to
        self.says({"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message, **more}})

    def tells(self, method: str, params: Message | None = None, *, about: Id | None = None) -> None:
        """Send a notification."""
        message: Message = {"jsonrpc": "2.0", "method": method}
        self.says(message | ({} if params is None else {"params": params}), about=about)

    def gets(self, method: str = "") -> Message:
        """Return the next message from the gateway; `method` says which one it must be."""
        assert self.link.inbox, f"nothing came, where {method or 'an answer'} was expected"
        message = self.link.inbox.pop(0)
        assert message.get("method", "") == method, message
        return message

    @property
    def got(self) -> list[Message]:
        """Take everything that has come."""
        taken = list(self.link.inbox)
        self.link.inbox.clear()
        return taken

    @property
    def hears_nothing(self) -> bool:
        return not self.link.inbox


class Client(Talker):
    """A scripted core."""

    receiver: Core

    def __init__(
        self, desk: Desk, link: ListLink, receiver: Core, era: mcp.Era, capabilities: Message
    ) -> None:
        super().__init__(desk, link, receiver)
        self.era: mcp.Era = era
        self.capabilities = capabilities

    def asks(self, method: str, params: Message | None = None, *, id: Id = 1, **meta: Any) -> None:  # noqa: A002
        """Make a request; `meta` are further members of `_meta`."""
        params = dict(params or {})
        own = {key.replace("__", "/"): value for key, value in meta.items()} | params.get("_meta", {})
        if self.era == "modern":
            own = {
                mcp.META_VERSION: MODERN,
                mcp.META_CAPABILITIES: self.capabilities,
                mcp.META_CLIENT: {"name": "core", "version": "1"},
            } | own
        if own:
            params["_meta"] = own
        self.says({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def calls(self, name: str = "add", *, id: Id = 1, **meta: Any) -> None:  # noqa: A002
        """Call a tool."""
        self.asks("tools/call", {"name": name, "arguments": {"a": 1}}, id=id, **meta)

    def cancels(self, id_: Id, reason: str = "changed my mind") -> None:
        self.tells("notifications/cancelled", {"requestId": id_, "reason": reason})

    def leaves(self) -> None:
        """The core's connection ends."""
        self.receiver.closed(None)
        self.desk.settle()

    def gets_error(self) -> Message:
        """Return the error object of the next message, which must be an error."""
        return self.gets()["error"]

    def gets_result(self) -> Message:
        return self.gets()["result"]


class Wire(Talker):
    """One connection of a scripted peer, over one life."""

    receiver: Peer

    def __init__(self, desk: Desk, service: Service, link: ListLink, peer: Peer) -> None:
        super().__init__(desk, link, peer)
        self.service = service
        self.peer = peer
        self.listening: list[Message] = []
        """Subscriptions that were opened here."""


class Service:
    """A scripted peer, by any number of connections. Answers handshakes and lists; the test does the rest."""

    def __init__(
        self,
        era: mcp.Era = "legacy",
        *,
        version: str = "",
        capabilities: Message | None = None,
        tools: list[str] | list[Message] | None = None,
        stamped: bool = False,
        instructions: str = "",
    ) -> None:
        self.desk: Desk
        self.name = ""
        self.era: mcp.Era = era
        self.version = version or (LEGACY if era == "legacy" else MODERN)
        self.capabilities = EVERYTHING if capabilities is None else capabilities
        self.lists: dict[str, list[list[Any]]] = {}
        """List method -> pages of items."""
        self.instructions = instructions
        self.stamped = stamped
        self.is_down = False
        self.is_silent = False
        """Whether it answers nothing by itself."""
        self.restarts = True
        self.acknowledges = True
        """Whether it opens subscriptions by itself."""
        self.wires: list[Wire] = []
        if tools is not None:
            self.lists["tools/list"] = [[{"name": t} if isinstance(t, str) else t for t in tools]]

    @property
    def wire(self) -> Wire:
        """The connection that was made last."""
        return self.wires[-1]

    def gets(self, method: str = "") -> Message:
        return self.wire.gets(method)

    def says(self, message: Message | bytes, *, about: Id | None = None) -> None:
        self.wire.says(message, about=about)

    def answers(self, to: Message | Id, result: Any = None) -> None:
        self.wire.answers(to, result)

    def refuses(self, to: Message | Id, code: int = -32000, message: str = "no", **more: Any) -> None:
        self.wire.refuses(to, code, message, **more)

    def tells(self, method: str, params: Message | None = None, *, about: Id | None = None) -> None:
        self.wire.tells(method, params, about=about)

    def asks(
        self,
        method: str,
        params: Message | None = None,
        *,
        id: Id = 1,  # noqa: A002
        about: Id | None = None,
    ) -> None:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}
        self.wire.says(message, about=about)

    @property
    def hears_nothing(self) -> bool:
        return self.wire.hears_nothing

    def dies(self, fault: TransportError | None = None) -> None:
        """The process ends; another one follows after 0.1 s if it restarts."""
        peer = self.wire.peer
        self.wire.link.is_closed = True
        was_ready = peer.is_ready
        peer.closed(fault or TransportError("exited", "the server has exited with code 1"))
        if self.restarts and was_ready and peer.state == "failed":
            peer.state = "starting"
            self.desk.host.later(0.1, lambda: self.desk.host.connects.append(peer))
        self.desk.settle()

    def handle(self, wire: Wire, message: Message) -> bool:
        """Answer what a peer answers by itself; return whether it did."""
        method = message.get("method", "")
        if method == "notifications/initialized":
            return True
        if self.is_silent or "id" not in message:
            return False
        if method == "subscriptions/listen" and self.era == "modern" and self.acknowledges:
            self.acknowledge(wire, message)
            return True
        result = self._result(method, message.get("params", {}))
        if result is None:
            return False
        wire.receiver.message(msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], **result}))
        return True

    def acknowledge(self, wire: Wire, listening: Message) -> None:
        """Open a subscription as it was asked for, and remember it."""
        wire.listening.append(listening)
        params = {
            "notifications": listening["params"]["notifications"],
            "_meta": {mcp.META_SUBSCRIPTION: listening["id"]},
        }
        wire.receiver.message(
            msgspec.json.encode(
                {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
            )
        )

    def _result(self, method: str, params: Message) -> Message | None:
        instructions = {"instructions": self.instructions} if self.instructions else {}
        info = {"name": self.name, "version": "1"}
        if method == "initialize":
            if self.era == "modern":
                return {"error": {"code": -32601, "message": "Method not found"}}
            facts = {"protocolVersion": self.version, "capabilities": self.capabilities, "serverInfo": info}
            return {"result": facts | instructions}
        if method == "server/discover":
            if self.era == "legacy":
                return {"error": {"code": -32601, "message": "Method not found"}}
            facts = {
                "resultType": "complete",
                "supportedVersions": [self.version],
                "capabilities": self.capabilities,
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": {mcp.META_SERVER: info},
            }
            return {"result": facts | instructions}
        if method in self.lists:
            return {"result": self._page(method, params.get("cursor"))}
        return None

    def _page(self, method: str, cursor: str | None) -> Message:
        pages = self.lists[method]
        at = int(cursor or "0")
        more = {"nextCursor": str(at + 1)} if at + 1 < len(pages) else {}
        era = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self.era == "modern" else {}
        return {mcp.LIST_METHODS[method]: pages[at], **more, **era}


class Desk:
    """One exchange with its peers and cores."""

    def __init__(
        self,
        services: dict[str, Service] | None = None,
        *,
        peers: dict[str, PeerConfig] | None = None,
        catalog: CatalogConfig | None = None,
        limits: LimitsConfig | None = None,
        judge: Judge | None = None,
    ) -> None:
        self.services = services if services is not None else {"calc": Service()}
        for name, service in self.services.items():
            service.desk, service.name = self, name
        self.config = Config(
            peers={name: PeerConfig(command=["x"]) for name in self.services} | (peers or {}),
            catalog=catalog or CatalogConfig(),
            limits=limits or LimitsConfig(),
        )
        self.host = ManualHost(self.services)
        self.exchange = Exchange(self.config, self.host, version="0", judge=judge)
        self.notices: list[str] = []
        self.exchange.on_notice = self.notices.append

    def connect(
        self,
        era: mcp.Era = "legacy",
        *,
        capabilities: Message | None = None,
        stamped: bool = False,
        principal: str | None = None,
        ephemeral: bool = False,
    ) -> Client:
        """Return a core that has connected and said nothing."""
        link = ListLink(self.host, "core", stamped=stamped)
        hello = Hello(transport="memory", remote="test", principal=principal, ephemeral=ephemeral)
        core = self.exchange.accept(link, hello)
        return Client(self, link, core, era, ASKABLE if capabilities is None else capabilities)

    def core(
        self,
        era: mcp.Era = "legacy",
        *,
        capabilities: Message | None = None,
        stamped: bool = False,
        principal: str | None = None,
        ephemeral: bool = False,
    ) -> Client:
        """Return a core that has shaken hands, as its era does."""
        client = self.connect(
            era, capabilities=capabilities, stamped=stamped, principal=principal, ephemeral=ephemeral
        )
        if era == "modern":
            client.asks("server/discover", id="discover")
        else:
            params = {
                "protocolVersion": LEGACY,
                "capabilities": client.capabilities,
                "clientInfo": {"name": "core", "version": "1"},
            }
            client.asks("initialize", params, id="initialize")
        if not any(service.is_silent for service in self.services.values()):
            assert "result" in client.gets()
        if era == "legacy":
            client.tells("notifications/initialized")
        return client

    def settle(self) -> None:
        """Make the connections that were asked for, and let peers answer what they answer by themselves."""
        busy = True
        while busy:
            busy = False
            connects, self.host.connects = self.host.connects, []
            for peer in connects:
                busy = True
                self._open(peer)
            for service in self.services.values():
                for wire in service.wires:
                    for message in list(wire.link.inbox):
                        if service.handle(wire, message):
                            wire.link.inbox.remove(message)
                            busy = True

    def _open(self, peer: Peer) -> None:
        service = self.services[peer.name]
        if peer.state != "starting":
            return
        if service.is_down:
            peer.unreachable(
                Fault(code="io", message=f"{peer.name}: no such program", reason="spawn", peer=peer.name)
            )
            return
        link = ListLink(self.host, peer.name, stamped=service.stamped)
        service.wires.append(Wire(self, service, link, peer))
        peer.opened(link)

    def passes(self, seconds: float) -> None:
        """Wind the clock on, ringing every timer on the way."""
        until = self.host.ns + int(seconds * 1e9)
        while (timer := self.host.pop_timer(until)) is not None:
            call, timer.call = timer.call, None
            if call is not None:
                call()
            self.settle()
        self.host.ns = until

    @property
    def tap(self) -> ListTap:
        """The recording of the session that was opened last."""
        return self.host.taps[-1]

    def frames(self, kind: str = "", **facts: Any) -> list[Frame]:
        """Return the frames of a kind whose fields are as given."""
        return [
            frame
            for frame in self.tap.frames
            if kind in ("", frame.kind) and all(getattr(frame, key) == value for key, value in facts.items())
        ]

    def mark(self) -> int:
        """Return how many frames there are, to look at those that follow."""
        return len(self.tap.frames)

    def since(self, mark: int) -> list[tuple[str, str, str]]:
        """Return (kind, way, method) of the frames since a mark."""
        return [(frame.kind, frame.way, frame.method) for frame in self.tap.frames[mark:]]


def text(value: str) -> Message:
    """Return a tool's result that holds one text."""
    return {"content": [{"type": "text", "text": value}]}
