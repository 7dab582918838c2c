"""The world of an exchange on a table: a clock that is wound by hand, timers, links and recordings that are lists."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import UNSET, UnsetType

from gateway.calls.call import Call
from gateway.calls.host_call import Hosted
from gateway.calls.peer_state import Peer
from gateway.calls.ports import Served
from gateway.policy.model import Policy
from tests.gateway.calls.host_kit import ByHand, TableAuthority, TableKeeper
from transports.base import Hello, Id, Stamp

if TYPE_CHECKING:
    from tests.gateway.calls.kit import Service

Message: TypeAlias = dict[str, Any]


class Frame(NamedTuple):
    """One recorded frame."""

    seq: int
    kind: str
    way: str
    body: bytes
    peer: str = ""
    life: int = 1
    id: Id | UnsetType | None = UNSET
    re: int | None = None
    parent: int | None = None
    after: int | None = None
    op: int | None = None
    method: str = ""
    name: str = ""
    lane: str = ""
    flags: tuple[str, ...] = ()
    x: dict[str, Any] | None = None

    @property
    def message(self) -> Message:
        """The body, decoded."""
        return json.loads(self.body)


class Sent(NamedTuple):
    """One message that left the gateway, in the order of all frames and messages."""

    to: str
    data: bytes


class ListTap:
    """A recorder that keeps frames in a list. `breaks` makes it unable to write."""

    keeps = True

    def __init__(self, host: ManualHost) -> None:
        self._host = host
        self._start = host.ns
        self.at = 0
        self.accepting = True
        self.must_keep = False
        self.is_broken = False
        self.refuses: set[str] = set()
        """Ways whose frames cannot be written."""
        self.is_closed = False
        self.frames: list[Frame] = []

    def now(self) -> int:
        return self._host.ns - self._start

    def record(self, kind: str, way: str, body: bytes = b"", **facts: Any) -> int:
        self.at = self.now()
        if self.is_broken or way in self.refuses:
            return -1
        frame = Frame(len(self.frames), kind, way, body, **facts)
        self.frames.append(frame)
        self._host.log.append(frame)
        return frame.seq

    def plain(
        self, kind: str, way: str, body: bytes, peer: str, id: Any, re: int | None,  # noqa: A002
        after: int | None, method: str, name: str, read: Any = None,
    ) -> int:  # fmt: skip
        return self.record(kind, way, body, peer=peer, id=id, re=re, after=after, method=method, name=name)

    def called(self, body: bytes, peer: str, id: Any, after: int | None, name: str) -> int:  # noqa: A002
        return self.plain("request", "core>", body, peer, id, None, after, "tools/call", name)

    def answered(self, body: bytes, peer: str, id: Any, re: int, after: int | None) -> int:  # noqa: A002
        return self.plain("response", "peer>", body, peer, id, re, after, "tools/call", "")

    def together(
        self, kind: str, way: str, after: int | None, method: str,
        rows: Sequence[tuple[str, bytes, int, int | None, str]],
    ) -> int:  # fmt: skip
        if self.is_broken or way in self.refuses:
            return -1
        seqs = [
            self.plain(kind, way, body, peer, id_, re, after, method, name)
            for peer, body, id_, re, name in rows
        ]
        return seqs[0]

    def asking(
        self, body: bytes, peer: str, id: int, after: int | None, name: str,  # noqa: A002
        asked: str, question_id: int, event: str, question: bytes,
    ) -> int:  # fmt: skip
        if self.is_broken or self.refuses & {"core>", ">peer"}:
            return -1
        seq = self.plain("request", "core>", body, peer, id, None, after, "tools/call", name)
        self.record(
            "request", ">peer", question, peer=asked, life=1, id=question_id, parent=seq, method="pi/event_hook",
            name=event, flags=("synthetic",),
        )  # fmt: skip
        return seq

    def deciding(
        self, body: bytes, peer: str, id: int, re: int, after: int | None, event: str,  # noqa: A002
        patch: bytes, judged: int, form: Any, since: int, then: tuple[str, int, bytes] | None = None,
    ) -> int:  # fmt: skip
        if self.is_broken or self.refuses & {"peer>", "inside", ">peer" if then else "inside"}:
            return -1
        seq = self.plain("response", "peer>", body, peer, id, re, after, "pi/event_hook", "")
        x = form.x(self.at - since)
        self.record("hook", "inside", patch, peer=peer, life=1, re=re, parent=judged, name=event, x=x)
        if then is not None:
            asked, question_id, question = then
            self.record(
                "request", ">peer", question, peer=asked, life=1, id=question_id, parent=judged, method="pi/event_hook",
                name=event, flags=("synthetic",),
            )  # fmt: skip
        return seq

    def asking_together(self, after: int | None, asked: str, event: str, rows: Sequence[Any]) -> int:
        if self.is_broken or self.refuses & {"core>", ">peer"}:
            return -1
        seqs = [
            self.asking(body, peer, id_, after, name, asked, question_id, event, question)
            for body, peer, id_, name, question_id, question in rows
        ]
        return seqs[0]

    def deciding_together(self, peer: str, after: int | None, event: str, rows: Sequence[Any]) -> int:
        if self.is_broken or self.refuses & {"peer>", "inside"}:
            return -1
        seqs = [
            self.deciding(body, peer, id_, re, after, event, patch, judged, form, since)
            for body, id_, re, patch, judged, form, since in rows
        ]
        return seqs[0]

    def met(self, peer: str, facts: Any) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    def breaks(self) -> None:
        self.is_broken, self.accepting = True, False


class ManualTimer:
    """A call that is made when the clock is wound past it."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class ManualHost:
    """The world: a clock, timers, services that can be reached."""

    def __init__(self, services: dict[str, Service]) -> None:
        self.ns = 1_000_000_000
        self.log: list[Frame | Sent] = []
        self.taps: list[ListTap] = []
        self.services = services
        self.connects: list[Peer] = []
        self.healthy_peers: list[Peer] = []
        self.greetings: list[tuple[str, bytes]] = []
        """Version and `clientInfo` of the cores that have shown themselves."""
        self.words = ""
        """What every peer has said on stderr."""
        self.screen: Any = None
        """A terminal, where the test puts one."""
        self.policy = Policy()
        self.authorities: list[TableAuthority] = []
        self.keeps: TableKeeper | None = None
        """Where sessions of extensions are kept; None where a test has nothing to do with them."""
        self.served: list[ByHand] = []
        """Host calls that were given to connectors."""
        self._timers: list[tuple[int, int, ManualTimer]] = []
        self._count = 0

    def now(self) -> int:
        return self.ns

    def later(self, delay_s: float, call: Callable[[], None]) -> ManualTimer:
        self._count += 1
        timer = ManualTimer(call)
        heapq.heappush(self._timers, (self.ns + int(delay_s * 1e9), self._count, timer))
        return timer

    quietly = later

    def connect(self, peer: Peer) -> None:
        self.connects.append(peer)

    def disconnect(self, peer: Peer) -> None:
        for wire in self.services[peer.name].wires:
            if wire.peer is peer:
                wire.link.is_closed = True

    def healthy(self, peer: Peer) -> None:
        self.healthy_peers.append(peer)

    def greeted(self, tap: Any, hello: Hello, version: str, client: bytes) -> None:
        self.greetings.append((version, client))

    def postpones(self, call: Call, take_back: Callable[[], None]) -> bool:
        return False

    def last_words(self, peer: Peer) -> str:
        return self.words

    def mint(self) -> str:
        self._count += 1
        return f"{self._count:032x}"

    def tap(self, hello: Hello) -> ListTap:
        self.taps.append(ListTap(self))
        return self.taps[-1]

    def terminal(self, session: Any) -> Any:
        return self.screen

    def authority(self, session: Any) -> TableAuthority:
        self.authorities.append(TableAuthority(self.policy))
        return self.authorities[-1]

    def serve(self, hosted: Hosted) -> Served:
        about = hosted.session.host_session
        if hosted.verb == "session" and about is not None:
            return about.serve(hosted)
        if hosted.verb == "events":
            return hosted.bus.serve(hosted)
        [desk] = {service.desk for service in self.services.values()}
        self.served.append(ByHand(hosted, desk.settle))
        return self.served[-1]

    def keeper(self, session: Any, peer: Peer) -> TableKeeper | None:
        return self.keeps

    def secret_key(self) -> bytes:
        return b"a key for tests only"

    def pop_timer(self, until: int) -> ManualTimer | None:
        """Take the next timer that is due at `until`, with the clock wound to it."""
        while self._timers and self._timers[0][0] <= until:
            at, _, timer = heapq.heappop(self._timers)
            if timer.call is not None:
                self.ns = max(self.ns, at)
                return timer
        return None

    @property
    def timers(self) -> int:
        """How many timers would still ring."""
        return sum(timer.call is not None for _, _, timer in self._timers)


class ListLink:
    """A link that keeps what is sent. A stamped one is like HTTP: it cancels by ending a request's stream."""

    def __init__(self, host: ManualHost, to: str, *, stamped: bool = False) -> None:
        self._host = host
        self._to = to
        self._stamped = stamped
        self.inbox: list[Message] = []
        self.raw: list[bytes] = []
        self.stamps: list[Stamp | None] = []
        self.cancelled: list[Id] = []
        self.is_paused = False
        self.is_closed = False

    @property
    def stamped(self) -> bool:
        return self._stamped

    @property
    def queued_bytes(self) -> int:
        return 0

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        assert (stamp is not None) == self._stamped, "a stamp where none is wanted, or none where it is"
        decoded = json.loads(message)
        if self.is_closed:
            return
        self._host.log.append(Sent(self._to, message))
        self.inbox.append(decoded)
        self.raw.append(message)
        self.stamps.append(stamp)

    def cancel(self, request_id: Id) -> bool:
        self.cancelled.append(request_id)
        return self._stamped

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def close(self, code: int = 1000, reason: str = "") -> None:
        self.is_closed = True
