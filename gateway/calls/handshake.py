"""How the gateway and a peer find out in which era they can talk.

Owns the probe: the core's own era is tried first, the other one where the peer does not know it. Never concludes
from one error code, since legacy servers differ in how they refuse an unknown method. Source: MCP 2026-07-28,
lifecycle, backward compatibility.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from gateway.calls import translate
from gateway.calls.call import Call, Reply
from gateway.calls.faults import slow_start_advice
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import Fault

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer

PROBE_S = 3.0
"""How long a peer may be silent to `server/discover` before it is taken for a legacy one."""


class _DiscoverResult(msgspec.Struct):
    versions: list[str] = msgspec.field(name="supportedVersions", default_factory=list[str])
    capabilities: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class _Error(msgspec.Struct):
    code: int
    message: str


class Handshake:
    """One handshake with one peer. `prefer` is the era of the core that it is for."""

    def __init__(self, peer: Peer, prefer: mcp.Era) -> None:
        self._peer = peer
        self._life = peer.life
        era = era_of(peer)
        self._pinned = era is not None
        self._until = peer.host.now() + int(peer.config.start_timeout_s * 1e9)
        self._tried: set[mcp.Era] = set()
        self._unheard: set[mcp.Era] = set()
        """Eras that were tried while the peer said nothing, perhaps because it was still starting."""
        self._next: mcp.Era = era or prefer

    def start(self) -> None:
        """Send the first request; `peer.ready` or `peer.unreachable` follows."""
        self._tried.add(self._next)
        if self._next == "modern":
            self._discover()
        else:
            self._initialize()

    def _ask(self, method: str, params: bytes, then: Any, *, limit_s: float) -> None:
        peer = self._peer
        if not peer.sessions:
            why = f"{peer.name} is shared, and no session is left that needs it"
            self._fail(Fault(code="io", message=why, reason="draining", peer=peer.name))
            return
        session = peer.sessions[0]
        call = Call(session, method, params, then=then)
        left = max(1, self._until - peer.host.now())
        call.deadline = session.tap.now() + min(left, int(limit_s * 1e9))
        peer.send_call(call, params)
        session.exchange.watch()

    def _discover(self) -> None:
        client = self._peer.client
        version = self._peer.config.version or mcp.LATEST_MODERN
        self._peer.version = version
        stamp = translate.client_stamp(version, client.info, client.capabilities, "")
        params = translate.stamp_meta(b"{}", stamp)
        limit = self._peer.config.start_timeout_s
        self._ask(
            "server/discover",
            params,
            self._discovered,
            limit_s=limit if self._pinned else min(PROBE_S, limit),
        )

    def _discovered(self, reply: Reply) -> None:
        if self._is_over(reply):
            return
        if not reply.ok:
            self._other(reply, "server/discover")
            return
        try:
            view = msgspec.json.decode(reply.result, type=_DiscoverResult)
        except msgspec.DecodeError:
            self._other(reply, "server/discover")
            return
        known = [version for version in view.versions if version in mcp.MODERN_VERSIONS]
        if not known:
            self._other(reply, "server/discover")
            return
        wanted = self._peer.config.version
        if wanted and wanted not in known:
            self._insist(wanted, view.versions)
            return
        self._peer.ready("modern", wanted or known[-1], reply.result, view.capabilities)

    def _initialize(self) -> None:
        client = self._peer.client
        version = self._peer.config.version or client.version
        version = version if version in mcp.LEGACY_VERSIONS else mcp.LATEST_LEGACY
        if client.extra:
            params = client.extra
            if client.version != version:
                params = translate.with_members(params, {"protocolVersion": version})
        else:
            params = jsonrpc.encode(
                {
                    "protocolVersion": version,
                    "capabilities": Raw(client.capabilities or b"{}"),
                    "clientInfo": Raw(client.info or b'{"name":"tieline","version":"0"}'),
                }
            )
        # There is no version in the transport's headers until the answer has named one.
        self._peer.version = ""
        self._ask("initialize", params, self._initialized, limit_s=self._peer.config.start_timeout_s)

    def _initialized(self, reply: Reply) -> None:
        if self._is_over(reply):
            return
        if not reply.ok:
            self._other(reply, "initialize")
            return
        try:
            view = mcp.read_initialized.decode(reply.result)
        except msgspec.DecodeError:
            self._other(reply, "initialize")
            return
        peer = self._peer
        if view.version not in mcp.LEGACY_VERSIONS:
            why = (
                f"{peer.name} speaks protocol version {view.version!r}; "
                f"Tieline speaks {', '.join((*mcp.LEGACY_VERSIONS, *mcp.MODERN_VERSIONS))}"
            )
            self._fail(Fault(code="invalid_request", message=why, reason="version", peer=peer.name))
            return
        if peer.config.version and view.version != peer.config.version:
            self._insist(peer.config.version, [view.version])
            return
        peer.version = view.version
        method = "notifications/initialized"
        message = jsonrpc.notification(method)
        if peer.sessions:
            peer.tap.record(
                "notification", ">peer", message, peer=peer.name, life=peer.life, method=method, flags=("synthetic",)
            )  # fmt: skip
        peer.notify(message, method)
        peer.ready("legacy", view.version, reply.result, view.capabilities)

    def _other(self, reply: Reply, method: str) -> None:
        """Try the other era; else say why neither works.

        Each is tried once, but for one that was met with silence when the other is then refused: a server that
        has only now started may have been opened by the first request, and be of that era for good.
        """
        other: mcp.Era = "legacy" if self._next == "modern" else "modern"
        again = other in self._unheard and reply.fault is None
        if reply.fault is not None:
            self._unheard.add(self._next)
        if not self._pinned and (other not in self._tried or again) and self._peer.host.now() < self._until:
            self._unheard.discard(other)
            self._next = other
            self.start()
            return
        name = self._peer.name
        if reply.fault is not None:
            self._fail(self._in_time(reply.fault, method))
            return
        why = f"{name} has refused `{method}`: {_said(reply.error)[:500]}"
        self._fail(Fault(code="invalid_request", message=why, reason="handshake", peer=name))

    def _in_time(self, fault: Fault, method: str) -> Fault:
        """Say of a handshake that was not answered which time is over: it is not that of calls."""
        if fault.reason != "deadline":
            return msgspec.structs.replace(fault, outcome="not_sent")
        config = self._peer.config
        why = f"{self._peer.name} has not answered `{method}` within {config.start_timeout_s:g} s"
        advice = slow_start_advice(config.command)
        return msgspec.structs.replace(fault, message=why, advice=advice, outcome="not_sent")

    def _insist(self, wanted: str, offered: list[str]) -> None:
        name = self._peer.name
        why = f"{name} offers protocol version {', '.join(offered)}, and its `version` insists on {wanted}"
        self._fail(Fault(code="invalid_request", message=why, reason="version", peer=name))

    def _is_over(self, reply: Reply) -> bool:
        """Whether the connection under this handshake has gone: then `closed` has said all."""
        peer = self._peer
        gone = peer.life != self._life or peer.state != "handshake"
        return gone or (reply.fault is not None and peer.link is None)

    def _fail(self, fault: Fault) -> None:
        words = self._peer.host.last_words(self._peer)
        if words and "stderr" not in fault.details:
            fault = msgspec.structs.replace(fault, details={**fault.details, "stderr": words})
        self._peer.unreachable(fault)
        self._peer.host.disconnect(self._peer)


def _said(error: bytes) -> str:
    """What an error object says, in its own words where it has some."""
    if not error:
        return "an answer of another shape"
    try:
        found = msgspec.json.decode(error, type=_Error)
    except msgspec.DecodeError:
        return error.decode(errors="replace")
    return f"{found.message} ({found.code})"


def era_of(peer: Peer) -> mcp.Era | None:
    """Return the era that the configuration names, by itself or by a version; None where it is to be found out."""
    config = peer.config
    if config.era != "auto":
        return config.era
    if config.version:
        return "modern" if config.version in mcp.MODERN_VERSIONS else "legacy"
    return None
