"""What the extensions of one session tell each other: the host call `events`.

Owns who wants to hear of what, and what waits for whom. Events are told to whoever has subscribed before; nothing of
them reaches an agent, another session, or an extension that has gone.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from gateway.calls.call import Reply
from gateway.calls.faults import bad_host_call

if TYPE_CHECKING:
    from gateway.calls.host_call import Hosted
    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Timer

ALL: Final = "*"
"""Subscribes to every event."""
MOST_NAMES: Final = 256
"""Names of events that one extension may subscribe to."""
MOST_WAITING: Final = 256
"""Events that wait for one extension; beyond that the oldest are dropped and counted."""
MOST_BYTES: Final = 1024 * 1024
"""Bytes of what waits for one extension."""

_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
_encode = msgspec.json.Encoder().encode


class Emit(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="emit"):
    """Tell everybody who has subscribed, also oneself."""

    event: _Name
    data: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))


class Subscribe(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="subscribe"):
    """Hear of these from now on, besides those that were named before."""

    events: Annotated[list[_Name], Meta(min_length=1, max_length=MOST_NAMES)]


class Unsubscribe(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="unsubscribe"):
    """Hear of these no more; of nothing, where none are named."""

    events: Annotated[list[_Name], Meta(max_length=MOST_NAMES)] | None = None


class Receive(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="receive"):
    """Get what has come, at once; where nothing has, wait for the first."""

    most: Annotated[int, Meta(ge=1)] = 64
    wait_ms: Annotated[float, Meta(ge=0)] = 0


_asked: msgspec.json.Decoder[Emit | Subscribe | Unsubscribe | Receive] = msgspec.json.Decoder(
    Emit | Subscribe | Unsubscribe | Receive
)


class _Inbox:
    """What waits for one extension."""

    def __init__(self, life: int) -> None:
        self.life = life
        self.names: set[str] = set()
        self.waiting: deque[bytes] = deque()
        self.dropped = 0
        self._bytes = 0
        self.receiving: Receiving | None = None

    def put(self, event: bytes) -> None:
        self.waiting.append(event)
        self._bytes += len(event)
        while len(self.waiting) > MOST_WAITING or self._bytes > MOST_BYTES:
            self._bytes -= len(self.waiting.popleft())
            self.dropped += 1

    def take(self, most: int) -> bytes:
        """The output of `receive`."""
        found = [self.waiting.popleft() for _ in range(min(most, len(self.waiting)))]
        self._bytes -= sum(map(len, found))
        dropped, self.dropped = self.dropped, 0
        return b'{"events":[%b],"dropped":%d}' % (b",".join(found), dropped)


class Bus:
    """The events of one session."""

    def __init__(self) -> None:
        self._inboxes: dict[str, _Inbox] = {}

    def serve(self, hosted: Hosted) -> Receiving:
        """Serve a call: at once, but for one that waits."""
        served = Receiving(hosted)
        try:
            asked: Emit | Subscribe | Unsubscribe | Receive = _asked.decode(hosted.raw)
        except msgspec.DecodeError as error:
            served.fail("bad_params", f"the params of `events` cannot be read: {error}")
            return served
        peer = hosted.peer
        match asked:
            case Emit():
                served.end(_encode({"delivered": self._emit(peer.name, asked)}))
            case Subscribe():
                self._subscribe(served, peer, asked)
            case Unsubscribe():
                names = self._inbox(peer).names
                names -= names if asked.events is None else set(asked.events)
                served.end(_encode({"events": sorted(names)}))
            case Receive():
                self._receive(served, peer, asked)
        return served

    def forget(self, peer: Peer) -> None:
        """An extension has gone, and with it what waited for it."""
        self._inboxes.pop(peer.name, None)

    def _inbox(self, peer: Peer) -> _Inbox:
        found = self._inboxes.get(peer.name)
        if found is None or found.life != peer.life:
            found = self._inboxes[peer.name] = _Inbox(peer.life)
        return found

    def _emit(self, sender: str, asked: Emit) -> int:
        event = _encode({"event": asked.event, "data": asked.data, "from": sender})
        delivered = 0
        for inbox in list(self._inboxes.values()):
            if asked.event in inbox.names or ALL in inbox.names:
                delivered += 1
                inbox.put(event)
                if inbox.receiving is not None:
                    inbox.receiving.wake()
        return delivered

    def _subscribe(self, served: Receiving, peer: Peer, asked: Subscribe) -> None:
        inbox = self._inbox(peer)
        names = inbox.names | set(asked.events)
        if len(names) > MOST_NAMES:
            served.fail("too_many", f"an extension may subscribe to {MOST_NAMES} events, or to `{ALL}`")
            return
        inbox.names = names
        served.end(_encode({"events": sorted(names)}))

    def _receive(self, served: Receiving, peer: Peer, asked: Receive) -> None:
        inbox = self._inbox(peer)
        if inbox.receiving is not None:
            served.fail("receiving", "another `receive` of this extension waits already")
            return
        served.wait(inbox, asked)


class Receiving:
    """One call of `events`, which ends at once or waits for an event. Implements `calls.ports.Served`."""

    def __init__(self, hosted: Hosted) -> None:
        self._hosted = hosted
        self._inbox: _Inbox | None = None
        self._most = 0
        self._timer: Timer | None = None

    def credit(self, count: int) -> None:
        """Nothing: the output is one whole."""

    def hold(self, *, full: bool) -> None:
        """Nothing, as well."""

    def cancel(self) -> None:
        """Wait no more. What has come stays for the next `receive`."""
        inbox, self._inbox = self._inbox, None
        if inbox is not None:
            inbox.receiving = None
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def wait(self, inbox: _Inbox, asked: Receive) -> None:
        """Give what has come, or wait for it."""
        self._inbox, self._most = inbox, asked.most
        if inbox.waiting or not asked.wait_ms:
            self.wake()
            return
        inbox.receiving = self
        # An answer that nothing has come is one: it must be given before the call's own time is over.
        wait_s = min(asked.wait_ms / 1000, self._hosted.time_s * 0.9)
        self._timer = self._hosted.session.exchange.host.later(wait_s, self.wake)

    def wake(self) -> None:
        """Give what has come by now."""
        inbox, most = self._inbox, self._most
        self.cancel()
        if inbox is not None:
            self.end(inbox.take(most))

    def end(self, output: bytes) -> None:
        """Give the output."""
        self._hosted.ended(Reply(result=output))

    def fail(self, reason: str, why: str) -> None:
        """Refuse."""
        self._hosted.ended(Reply(fault=bad_host_call(reason, why)))
