"""Requests that the gateway answers itself or in several legs: handshakes, lists of several peers, log levels, and
the asking of a legacy core on behalf of a modern peer.

Owns those answers. Each flow is a generator of steps that reads top to bottom; it never waits by itself.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from gateway.calls import translate
from gateway.calls.call import Call, Reply
from gateway.calls.fetches import Fetches
from gateway.calls.request import Request
from gateway.calls.steps import Ask, AskCore, Flow, Settle, run
from gateway.calls.wants import level_of
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import METHOD_NOT_FOUND, Fault

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer
    from gateway.calls.session import Session

MOST_ROUNDS = 32
"""Times that a modern peer may answer `input_required` to one call."""

ANY_CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
"""What is declared on behalf of a peer that has not been started yet."""


class Flows:
    """The flows of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.fetch = Fetches(session).fetch

    def initialize(self, request: Request) -> None:
        """Answer `initialize`: one peer's own words, or what several can do together."""
        try:
            request.core.become_legacy(bytes(request.envelope.params))
        except msgspec.DecodeError as fault:
            why = f"`initialize` is malformed: {fault}"
            self._session.deny(request, Fault(code="invalid_request", message=why, reason="bad_params"))
            return
        call = self._session.open_call(request)
        if call is not None:
            run(
                self._session,
                self._initialize(request),
                lambda result: self._greeted(request, call, result),
                partial(self._session.failed, request),
            )

    def _greeted(self, request: Request, call: Call, result: Reply | bytes) -> None:
        client = request.core.client
        if isinstance(result, bytes) and client is not None:
            self._session.know_core(request.core, _agreed(result), client.info)
        self._told(request, call, result)

    def discover(self, request: Request) -> None:
        """Answer `server/discover`: the one modern peer's own words, or what the peers can do together."""
        call = self._session.open_call(request)
        if call is not None:
            run(
                self._session,
                self._discover(request, call),
                lambda result: self._told(request, call, result),
                partial(self._session.failed, request),
            )

    def _told(self, request: Request, call: Call, result: Reply | bytes) -> None:
        if isinstance(result, bytes):
            self._session.give(request, result)
        elif result.error:
            self._session.give_error(request, result.error)
        else:
            self._session.finish(call, result)

    def _initialize(self, request: Request) -> Flow:
        peers = yield from self._settle(request)
        if not peers and self._session.exchange.is_transparent:
            return Reply(fault=self._absent())
        version = mcp.version_of_legacy(request.core.version)
        if len(self._session.seats) == 1 and peers:
            [peer] = peers
            if peer.is_modern:
                return translate.initialize_result(peer.facts, version)
            if peer.config.scope == "shared" and peer.version != version:
                # It was asked in another's name: what it speaks is not what this core has asked for.
                return translate.with_members(peer.facts, {"protocolVersion": version})
            return peer.facts
        result: dict[str, Any] = {
            "protocolVersion": version,
            "capabilities": translate.legacy_capabilities(jsonrpc.encode(self._capabilities(peers))),
            "serverInfo": self._session.exchange.identity,
        }
        instructions = _instructions(peers)
        if instructions:
            result["instructions"] = instructions
        return jsonrpc.encode(result)

    def _discover(self, request: Request, call: Call) -> Flow:
        peers = yield from self._settle(request)
        if not peers and self._session.exchange.is_transparent:
            return Reply(fault=self._absent())
        if len(self._session.seats) == 1 and peers:
            if not peers[0].is_modern:
                return translate.discover_result(peers[0].facts, mcp.MODERN_VERSIONS)
            [reply] = yield Ask(
                [(peers[0], "server/discover", bytes(call.params))], core=call.core, parent=call
            )
            # The peer has answered a request of the gateway's: the core's own is settled by a frame of its own.
            return bytes(reply.result) if reply.result else reply
        result: dict[str, Any] = {
            "resultType": "complete",
            "supportedVersions": list(mcp.MODERN_VERSIONS),
            "capabilities": self._capabilities(peers),
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {mcp.META_SERVER: self._session.exchange.identity},
        }
        instructions = _instructions(peers)
        if instructions:
            result["instructions"] = instructions
        return jsonrpc.encode(result)

    def _absent(self) -> Fault:
        """Return why the one peer is not there."""
        fault = next((peer.fault for peer in self._session.peers() if peer.fault is not None), None)
        if fault is None:
            return Fault(code="io", message="The server is not there", reason="peer_closed")
        return msgspec.structs.replace(fault, outcome="not_sent")

    def _settle(self, request: Request) -> Flow:
        """Start the peers that a session starts with and return those that are ready."""
        seats = self._session.seats.values()
        first = [seat for seat in seats if seat.config.is_greeted(len(seats))]
        peers = [seat.peer(self._session, request) for seat in first]
        for seat in seats:
            if seat.is_pi and seat not in first:
                # An extension is told of a session when it begins. Whoever needs its hooks waits for it then.
                seat.lister(self._session, request).start()
        yield Settle(peers)
        return [peer for peer in peers if peer.is_ready]

    def _capabilities(self, ready: list[Peer]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        sources = [peer.capabilities for peer in ready]
        if len(ready) < len(self._session.seats):
            sources.append(ANY_CAPABILITIES)
        for capabilities in sources:
            _merge(found, capabilities)
        return found

    def list(self, request: Request) -> None:
        """Answer a list: one peer's pages as they are, or one page with everything that the peers offer."""
        session = self._session
        if session.plain:
            seat = next(iter(session.seats.values()))
            peer = seat.peer(session, request)
            call = session.open_call(request, peer=seat.name)
            if call is not None:
                if request.method == "tools/list":
                    call.then = partial(self._passed_list, call, seat.name)
                session.submit(call, peer)
            return
        call = session.open_call(request)
        if call is not None:
            run(
                session,
                self._list(request),
                lambda result: session.give(request, result),
                partial(session.failed, request),
            )

    def _passed_list(self, call: Call, peer: str, reply: Reply) -> None:
        if reply.result:
            self._session.catalog.observe(peer, reply.result)
        self._session.finish(call, reply)

    def _list(self, request: Request) -> Flow:
        session = self._session
        method = request.method
        peers = [seat.peer(session, request) for seat in session.seats.values()]
        yield from self.fetch(method, peers, is_fresh=True)
        items = b",".join(item.listed() for item in session.catalog.items(method))
        result = b'{"%b":[%b]}' % (mcp.LIST_METHODS[method].encode(), items)
        if request.core.era != "modern":
            return result
        return translate.result_to_modern(method, result, jsonrpc.encode(session.exchange.identity))

    def notice(self, sentence: str) -> None:
        """Tell people about the catalogue, in the recording and on the gateway's own log."""
        self._session.tap.record("route", "inside", x={"notice": sentence})
        self._session.exchange.tell(sentence)

    def set_level(self, request: Request) -> None:
        """Remember the level of a core and tell the legacy peers; modern ones are told with every request."""
        session = self._session
        level = _level(request)
        if level not in mcp.LOG_LEVELS:
            why = f"{level!r} is no log level; levels are {', '.join(mcp.LOG_LEVELS)}"
            session.deny(request, Fault(code="invalid_request", message=why, reason="bad_params"))
            return
        request.core.level = level
        peers = [p for p in session.peers() if p.is_ready and not p.is_modern and "logging" in p.capabilities]
        if session.plain and len(peers) == 1 and peers[0].config.scope != "shared":
            session.forward(request, next(iter(session.seats.values())))
            return
        if session.plain and not peers and any(p.is_ready and not p.is_modern for p in session.peers()):
            session.forward(request, next(iter(session.seats.values())))
            return
        call = session.open_call(request)
        if call is not None:
            run(
                session,
                _set_levels(peers),
                lambda _: session.give(request, b"{}"),
                partial(session.failed, request),
            )

    def core_initialized(self) -> None:
        """One more core is there: what another one has muted at a shared peer is to be heard again."""
        for peer in self._session.peers():
            if peer.is_ready and not peer.is_modern and peer.level:
                self.lower_level(peer, level_of(peer))

    def lower_level(self, peer: Peer, level: str) -> None:
        """Have a legacy peer log at least what one modern request wants."""
        if "logging" not in peer.capabilities or level not in mcp.LOG_LEVELS:
            return
        if peer.level and mcp.wants_level(peer.level, level):
            return
        peer.level = level
        call = Call(self._session, "logging/setLevel", jsonrpc.encode({"level": level}), then=lambda _: None)
        self._session.submit(call, peer)

    def peer_ready(self, peer: Peer) -> None:
        """A peer is there, perhaps again: set the level that a legacy core has asked for."""
        if not peer.is_modern:
            self.lower_level(peer, level_of(peer))

    def ask_and_retry(self, call: Call, asked: translate.InputRequired, reply: Reply) -> None:
        """Put the questions of an `input_required` result to a legacy core and retry the call with its answers."""
        run(
            self._session,
            self._ask_and_retry(call, asked, reply),
            lambda last: self._session.conclude(call, last),
            partial(self._session.call_failed, call),
        )

    def _ask_and_retry(self, call: Call, asked: translate.InputRequired | None, reply: Reply) -> Flow:
        core, peer = call.core, call.peer
        if core is None or peer is None:
            return reply
        for _ in range(MOST_ROUNDS):
            if asked is None:
                return reply
            requests = [(str(ask.get("method")), jsonrpc.encode(ask.get("params", {}))) for ask in asked.requests.values()]  # fmt: skip  # noqa: E501
            refused = [method for method, params in requests if not core.can(method, params)]
            if refused:
                return Reply(fault=_cannot(peer, refused[0]))
            answers = yield AskCore(core, requests, call=call, parent=reply.seq)
            bad = next((answer for answer in answers if not answer.ok), None)
            if bad is not None:
                return bad
            more: dict[str, Any] = {
                "inputResponses": {
                    key: Raw(answer.result) for key, answer in zip(asked.requests, answers, strict=True)
                }
            }
            if asked.state is not None:
                more["requestState"] = asked.state
            params = translate.with_members(bytes(call.params), more)
            [reply] = yield Ask([(peer, call.method, params)], core=core, parent=call, cause=reply.seq)
            asked = translate.input_required(reply.result) if reply.result else None
        why = f"{peer.name} has asked {MOST_ROUNDS} times about one call"
        return Reply(
            fault=Fault(code="io", message=why, reason="peer_protocol", outcome="unknown", peer=peer.name)
        )


def _set_levels(peers: list[Peer]) -> Flow:
    """Have legacy peers log what the cores want: at a shared one, the lowest level of them all."""
    requests: list[tuple[Peer, str, bytes]] = []
    for peer in peers:
        level = level_of(peer)
        if level != peer.level:
            peer.level = level
            requests.append((peer, "logging/setLevel", jsonrpc.encode({"level": level})))
    yield Ask(requests)


def _cannot(peer: Peer, method: str) -> Fault:
    return Fault(
        code="denied",
        message=f"{peer.name} asks `{method}`, which this client has not declared",
        reason="no_ui",
        outcome="unknown",
        peer=peer.name,
        jsonrpc=METHOD_NOT_FOUND,
    )


def _level(request: Request) -> str:
    try:
        return str(msgspec.json.decode(request.envelope.params or b"{}", type=dict[str, Any]).get("level"))
    except msgspec.DecodeError:
        return ""


def _agreed(result: bytes) -> str:
    """Return the version in the result of `initialize`; empty where a server has put something else there."""
    try:
        version = msgspec.json.decode(result, type=dict[str, Any]).get("protocolVersion")
    except msgspec.DecodeError:
        return ""
    return version if isinstance(version, str) else ""


def _instructions(peers: list[Peer]) -> str:
    parts: list[str] = []
    for peer in peers:
        text = msgspec.json.decode(peer.facts).get("instructions")
        if isinstance(text, str) and text:
            parts.append(f"[{peer.name}]\n{text}")
    return "\n\n".join(parts)


def _merge(into: dict[str, Any], capabilities: dict[str, Any]) -> None:
    for key, value in capabilities.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, dict):
            into[key] = {}
            _merge(into[key], value)  # pyright: ignore[reportUnknownArgumentType]
        else:
            into[key] = into.get(key) or value
