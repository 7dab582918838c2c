"""What a peer sends that is no message, and what it does not send: junk, damaged answers, silence.

Owns the counting, what is kept of junk, and when a peer is started anew because of it. A call whose answer is
damaged is ended here; everything else about calls is the peer's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.calls.call import Call, Reply
from gateway.protocol.errors import Fault
from gateway.protocol.jsonrpc import BadMessage
from gateway.protocol.salvage import MOST_BYTES, NOTHING, Salvaged, salvage, split

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer

MOST_DAMAGE = 20
"""Damaged answers in a row, with no good one between, after which a peer is started anew."""
MOST_SILENCE = 3
"""Calls that a peer has left unanswered, one after the other and without a word, before it is started anew."""
MOST_JUNK = 1000
"""Pieces of junk that are recorded of one peer."""


class Damage:
    """The record of one peer's failings."""

    __slots__ = ("_junk", "_peer", "_silent_until", "in_a_row", "silence")

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._junk = 0
        self.in_a_row = 0
        """Damaged answers since the last good one."""
        self.silence = 0
        """Calls left unanswered since the peer said something."""
        self._silent_until = 0

    def renewed(self) -> None:
        """The peer starts anew, with nothing held against it."""
        self.in_a_row = self.silence = 0

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """Bytes that are no message: kept, counted, and answered for where their id can be read."""
        is_end = why in ("too-large", "unfinished", "not-utf8", "partial")
        salvaged = salvage(data) if is_end else NOTHING
        self._record(data, why, size, self._belongs_to(salvaged))
        if is_end:
            reason = "frame_too_large" if why in ("too-large", "unfinished") else "peer_protocol"
            self._end(salvaged, reason, why, size)

    def bad(self, data: bytes, bad: BadMessage) -> None:
        """A line that is no message: several in one are taken apart, the answer in it is given up where it shows."""
        parts = split(data) if bad.reason in ("not-json", "batch") else []
        is_split = bool(parts) and parts[0] != data
        self._record(
            data[:MOST_BYTES], bad.reason, len(data), None if is_split else self._belongs_to(bad.salvaged)
        )
        if is_split:
            for part in parts:
                self._peer.message(part)
            return
        reason = "frame_too_large" if bad.reason in ("number", "too-deep") else "peer_protocol"
        self._end(bad.salvaged, reason, bad.message, len(data))

    def _call_of(self, salvaged: Salvaged) -> Call | None:
        """The call in flight that a damaged answer belongs to; a request of the peer has ids of its own."""
        id_ = salvaged.id if salvaged.kind != "request" else None
        return self._peer.pending.get(id_) if id_ is not None else None

    def _end(self, salvaged: Salvaged, reason: str, why: str, size: int) -> None:
        """End the call that a damaged answer belongs to."""
        call = self._call_of(salvaged)
        if call is not None:
            del self._peer.pending[salvaged.id]  # pyright: ignore[reportArgumentType] - it was found by that
        if reason == "frame_too_large":
            self._too_large(call, why, size)
        if call is None:
            return
        message = "message too large" if reason == "frame_too_large" else "the answer is damaged"
        fault = Fault(
            code="io",
            message=f"{self._peer.name}: {message} ({why})",
            reason=reason,
            outcome="unknown",
            peer=self._peer.name,
        )
        call.session.answered(call, Reply(fault=fault))
        self.in_a_row += 1
        if self.in_a_row == MOST_DAMAGE:
            self._peer.renew("peer_protocol", f"it has given {MOST_DAMAGE} damaged answers in a row")

    def _too_large(self, call: Call | None, why: str, size: int) -> None:
        """Record that a message was over a limit, and whose answer it was where that can be read."""
        peer = self._peer
        if self._junk > MOST_JUNK or (call is None and not peer.sessions):
            return
        tap = call.session.tap if call is not None else peer.tap
        facts = {"reason": "frame_too_large", "message": why, "bytes": size}
        re = call.seq if call is not None else None
        tap.record("fault", "inside", peer=peer.name, life=max(peer.life, 1), re=re, x=facts)

    def was_silent(self, call: Call) -> None:
        """A call that was sent has met its deadline. Where that is all that happens, the peer is started anew.

        Calls that were in flight together count as one.
        """
        peer = self._peer
        id_ = call.peer_id
        if not isinstance(id_, int) or id_ <= self._silent_until:
            return
        self._silent_until = peer.last_id
        self.silence += 1
        if self.silence == MOST_SILENCE and peer.is_ready and peer.link is not None and not peer.link.stamped:
            self._peer.renew("silent", f"it has left {MOST_SILENCE} calls unanswered and said nothing else")

    def _belongs_to(self, salvaged: Salvaged) -> int | None:
        """The frame of the request that damaged bytes answer, though nobody may wait for that any more."""
        call = self._call_of(salvaged)
        if call is not None:
            return call.seq
        return self._peer.early(salvaged.id) if salvaged.kind != "request" else None

    def _record(self, data: bytes, why: str, size: int, parent: int | None) -> None:
        peer = self._peer
        self._junk += 1
        if self._junk == 1 and peer.sessions:
            peer.sessions[0].flows.notice(
                f"{self._peer.name} sends what is no message ({why}); it is recorded and passed over"
            )
        if self._junk <= MOST_JUNK:
            peer.record("raw", data, parent=parent, x={"why": why, "bytes": size})
