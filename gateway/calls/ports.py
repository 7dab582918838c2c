"""What the exchange asks of the shells around it: frames written, time told, peers connected.

Owns the interfaces only. Every call returns at once; a test implements them with lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import UNSET, UnsetType

from gateway.sessions.files import Beginning, Files, Loaded, StoreError
from transports.base import Hello, Id, Link, Origin, Stamp, TransportError

if TYPE_CHECKING:
    from gateway.calls.call import Call
    from gateway.calls.host_call import Hosted
    from gateway.calls.host_terminal import Shown
    from gateway.calls.peer_state import Peer
    from gateway.calls.session import Session
    from gateway.hooks.record import Form
    from gateway.policy.decide import Decision, Facts
    from gateway.policy.paths import Roots
    from gateway.policy.rules import Rules
    from gateway.protocol.jsonrpc import LongAnswer, LongCall
    from recordings.header import PeerFacts

__all__ = [
    "Authority", "Hello", "Host", "Id", "Keeper", "Link", "Origin", "Served", "Stamp", "Tap", "Terminal",
    "Timer", "TransportError",
]  # fmt: skip


AskingRow: TypeAlias = tuple[bytes, str, int, str, int, bytes]
"""A call's message, peer, id and tool, and the id and the message of the question about it."""
DecidingRow: TypeAlias = "tuple[bytes, int, int, bytes, int, Form, int]"
"""An answer's message and id, its question, the patch, the frame that was judged, the form, and when it was asked."""


class Tap(Protocol):
    """Numbers and records frames, before anything else happens to a message."""

    at: int
    """Monotonic nanoseconds since the session's start, of the frame recorded last."""
    accepting: bool
    """Whether a call may start at all: False where the recording could not even be begun."""
    must_keep: bool
    """Whether an answer is given to a core only once it is on disk."""
    keeps: bool
    """Whether anything becomes of a frame but its number: where nothing does, a tap need not be told of the answer to a
    plain call."""

    def now(self) -> int:
        """Return monotonic nanoseconds since the session's start."""
        ...

    def record(
        self,
        kind: str,
        way: str,
        body: bytes = b"",
        *,
        peer: str = "",
        life: int = 1,
        id: Id | UnsetType | None = UNSET,  # noqa: A002 - the field's name in the contract
        re: int | None = None,
        parent: int | None = None,
        after: int | None = None,
        op: int | None = None,
        method: str = "",
        name: str = "",
        lane: str = "",
        flags: tuple[str, ...] = (),
        x: dict[str, Any] | None = None,
    ) -> int:
        """Record one frame and return its `seq`, or -1 where it could not be written. Never raises."""
        ...

    def plain(
        self, kind: str, way: str, body: bytes, peer: str, id: Id | UnsetType | None, re: int | None,  # noqa: A002
        after: int | None, method: str, name: str, read: LongCall | LongAnswer | None = None,
    ) -> int:  # fmt: skip
        """As `record`, for a message of a first life of which nothing more is to be said. Takes no keywords: this is
        what every call pays for, twice. `read` is what was read of a long message, so that it is not read again."""
        ...

    def called(self, body: bytes, peer: str, id: Id, after: int | None, name: str) -> int:  # noqa: A002
        """As `plain`, for a `tools/call` that holds no newline and is no long message."""
        ...

    def answered(self, body: bytes, peer: str, id: Id, re: int, after: int | None) -> int:  # noqa: A002
        """As `called`, for the result of the call that the frame `re` records."""
        ...

    def together(
        self, kind: str, way: str, after: int | None, method: str,
        rows: Sequence[tuple[str, bytes, int, int | None, str]],
    ) -> int:  # fmt: skip
        """As `plain`, for messages that came together: peer, body, id, `re` and name of each. Returns the `seq` of the
        first one, the others follow on; or -1 where nothing was done, and each is to be recorded for itself."""
        ...

    def asking(
        self, body: bytes, peer: str, id: int, after: int | None, name: str,  # noqa: A002
        asked: str, question_id: int, event: str, question: bytes,
    ) -> int:  # fmt: skip
        """Record a plain call of the tool `name` of `peer`, and the question about it to the extension `asked`, by one
        write. Returns the `seq` of the call, the question's is the next; or -1 where nothing was done."""
        ...

    def deciding(
        self, body: bytes, peer: str, id: int, re: int, after: int | None, event: str,  # noqa: A002
        patch: bytes, judged: int, form: Form, since: int, then: tuple[str, int, bytes] | None = None,
    ) -> int:  # fmt: skip
        """Record an extension's answer to the question `re` about the frame `judged`, and the decision made of it, by
        one write; it was asked at `since`. `then` is the question about the same frame to the next extension: whose,
        its id and itself. Returns the `seq` of the answer, the others follow on; or -1 where nothing was done."""
        ...

    def asking_together(
        self, after: int | None, asked: str, event: str, rows: Sequence[AskingRow]
    ) -> int:  # fmt: skip
        """As `asking`, for calls that came together: all frames by one write. Returns the `seq` of the first one, the
        others follow on; or -1 where nothing was done."""
        ...

    def deciding_together(
        self, peer: str, after: int | None, event: str, rows: Sequence[DecidingRow]
    ) -> int:  # fmt: skip
        """As `deciding`, for answers that came together; as `asking_together`."""
        ...

    def met(self, peer: str, facts: PeerFacts) -> None:
        """Keep who a peer is and what it speaks, once it has shaken hands; called by the host. No name is the core."""
        ...

    def close(self) -> None:
        """Record nothing more: seal the recording."""
        ...


class Timer(Protocol):
    """A call that will be made later, unless cancelled."""

    def cancel(self) -> None:
        """Make sure that the call is not made. Idempotent."""
        ...


class Served(Protocol):
    """A host call that somebody works on. Whoever does gives it parts and its one end by `Hosted.gave` and `.ended`."""

    def credit(self, count: int) -> None:
        """Its extension takes so many more parts."""
        ...

    def hold(self, *, full: bool) -> None:
        """Its extension has stopped reading, or reads again."""
        ...

    def cancel(self) -> None:
        """Nobody wants it any more: end what was begun. Idempotent, also after its end."""
        ...


class Authority(Protocol):
    """What decisions about the host calls of one session are made of, besides the calls and what extensions declare."""

    @property
    def rules(self) -> Rules:
        """The policy."""
        ...

    @property
    def roots(self) -> Roots:
        """The folders that calls may be about."""
        ...

    def known(self, hosted: Hosted, facts: Facts) -> tuple[Facts, str]:
        """Return the facts with what is remembered and known about the extension, and the hash of the answers.

        May raise anything: the call is denied then.
        """
        ...

    def keep(self, decision: Decision) -> None:
        """Remember the answer that a decision holds, for as long as it says. May raise anything."""
        ...

    def joins(self, hosted: Hosted) -> bool:
        """Whether a call has the answer to the same question of an earlier call, though that is not open any more.

        Never but in a replay, where a person answers sooner than when they were asked.
        """
        ...

    def keeps_open(self, hosted: Hosted) -> bool:
        """Whether the question that a call has left stays open for another one, which is not there yet.

        Never but in a replay, where the other one was there already when it was recorded.
        """
        ...


class Keeper(Files, Protocol):
    """Where the session of one agent is kept."""

    @property
    def beginning(self) -> Beginning:
        """What it begins with."""
        ...

    def seen(self, line: bytes) -> bytes:
        """Return what of a line may be recorded, and so counts in hashes."""
        ...

    def load(self, target: str, then: Callable[[Loaded | StoreError], None]) -> None:
        """Read a session by its id, the name of its file or its path; it is the one that is written to from then on.

        `then` is called once, perhaps at once, and not after `close`.
        """
        ...

    def list(self, limit: int, then: Callable[[list[dict[str, Any]] | StoreError], None]) -> None:
        """Look which sessions of this working directory there are, the latest first. `then` as in `load`."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Terminal(Protocol):
    """A person at the gateway itself."""

    def show(self, shown: Shown) -> None:
        """Show a request; `shown.answered` follows, perhaps at once."""
        ...

    def take_back(self, shown: Shown) -> None:
        """Nobody needs the answer any more."""
        ...


class Host(Protocol):
    """The world outside of the pure core."""

    def now(self) -> int:
        """Return monotonic nanoseconds."""
        ...

    def later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Have `call` called on the loop after `delay_s` seconds."""
        ...

    def quietly(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """As `later`, for what leaves no frame: whoever drives a recording again has to go by the time alone."""
        ...

    def connect(self, peer: Peer) -> None:
        """Start or reach the peer; `peer.opened(link)` or `peer.unreachable(fault)` follows."""
        ...

    def disconnect(self, peer: Peer) -> None:
        """End the peer's process or connection gracefully; nothing more is heard of it, nor of its end."""
        ...

    def healthy(self, peer: Peer) -> None:
        """The peer has shaken hands: earlier failures are on the way to be forgotten."""
        ...

    def greeted(self, tap: Tap, hello: Hello, version: str, client: bytes) -> None:
        """A core has shown which version it speaks, and with `client` its `clientInfo`: once in each session."""
        ...

    def postpones(self, call: Call, take_back: Callable[[], None]) -> bool:
        """Whether a call is taken back too soon: `take_back` is then called when it is time. Only in a replay."""
        ...

    def last_words(self, peer: Peer) -> str:
        """Return the end of what the peer's process has said on stderr, without secrets; empty where it is none."""
        ...

    def mint(self) -> str:
        """Return a fresh unguessable token of 32 hex digits."""
        ...

    def tap(self, hello: Hello) -> Tap:
        """Return the recorder of a new agent session."""
        ...

    def secret_key(self) -> bytes:
        """Return the key that seals `requestState` handles; lives as long as the process."""
        ...

    def terminal(self, session: Session) -> Terminal | None:
        """Return where extensions' requests of a session are shown instead of by the core, if that is wanted."""
        ...

    def authority(self, session: Session) -> Authority:
        """Return what decisions about the host calls of a session are made of. Asked once, at the first call."""
        ...

    def serve(self, hosted: Hosted) -> Served:
        """Have a connector work on a host call that was allowed. It may have ended when this returns."""
        ...

    def keeper(self, session: Session, peer: Peer) -> Keeper | None:
        """Return where the session of an agent is kept that has met its first extension; None where what extensions
        are told of it is known from elsewhere. Asked until there is one."""
        ...
