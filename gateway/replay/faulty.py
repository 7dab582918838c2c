"""Faults that are put into a replay: what a rule says of a recorded frame, done to the frame that is delivered.

Owns the doing. Which frames are struck is decided by `recordings.faultrules`. Every fault that is put in leaves a
`fault` frame, so that a replay with faults is itself a recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from gateway.protocol import jsonrpc
from gateway.protocol.errors import Fault, error_object
from recordings.faultrules import Action, corrupted, half
from transports.base import Id, TransportError

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Timer

STDERR_LINE = 4096
SIGKILL = 9


class Later(Protocol):
    """What has calls made later: a loop."""

    def call_later(self, delay: float, callback: Callable[..., object], /) -> Timer:
        """Have it called after so many seconds, unless cancelled."""
        ...


class Faults:
    """What is done to which recorded frames, in one replay."""

    def __init__(self, plan: Mapping[int, Sequence[Action]], loop: Later, *, seed: int | str | None) -> None:
        self._plan = plan
        self._loop = loop
        self._seed = seed
        self._behind: list[tuple[int, Callable[[], None]]] = []
        """What was put behind others, and how many of these are still to come."""
        self._timers: list[Timer] = []

    def strikes(self, seq: int) -> bool:
        """Whether something is done to a recorded frame."""
        return seq in self._plan

    def deliver(
        self, seq: int, peer: Peer, wire: Id | None, body: bytes, say: Callable[[bytes], None]
    ) -> None:
        """Deliver a struck frame as its faults have it. `wire` is the id of the request that it answers."""
        times = 1
        for action in self._plan[seq]:
            self._tell(peer, action)
            if self._settles(action, peer, wire, body, say):
                return
            if action.deed == "corrupt":
                body = corrupted(body, action.bytes, self._seed, seq)
            elif action.deed == "duplicate":
                times = 2
            elif action.deed == "stderr":
                self.flood(peer, action.bytes)
        for _ in range(times):
            say(body)

    def _settles(
        self, action: Action, peer: Peer, wire: Id | None, body: bytes, say: Callable[[bytes], None]
    ) -> bool:
        """Do what decides whether and when a frame comes; return whether that is so."""
        match action.deed:
            case "drop":
                pass
            case "error":
                if wire is not None and wire in peer.pending:
                    peer.message(jsonrpc.error(wire, _error(action, peer.name)))
            case "half-line":
                peer.stray(half(body), "partial", size=len(half(body)))
                self.end(peer, action)
            case "exit" | "kill" | "disconnect":
                if action.when == "after":
                    say(body)
                self.end(peer, action)
            case "delay":
                self._timers.append(self._loop.call_later(action.seconds, partial(say, body)))
            case "reorder":
                self._behind.append((action.behind, partial(say, body)))
            case _:
                return False
        return True

    def passed(self) -> None:
        """A delivery was made: what was put behind so many others may come now."""
        due = [say for left, say in self._behind if left <= 1]
        self._behind = [(left - 1, say) for left, say in self._behind if left > 1]
        for say in due:
            say()

    @property
    def is_holding(self) -> bool:
        """Whether something was put behind others that are still to come."""
        return bool(self._behind)

    def hurry(self) -> bool:
        """Nothing else comes: let come what was put behind it, and return whether there was anything."""
        due, self._behind = self._behind, []
        for _, say in due:
            say()
        return bool(due)

    def request(self, seq: int, peer: Peer, wire: Id) -> bool:
        """A struck request has been sent to its peer; return whether its recorded answers are still to come."""
        comes = True
        for action in self._plan[seq]:
            self._tell(peer, action)
            match action.deed:
                case "drop":
                    comes = False
                case "error":
                    peer.message(jsonrpc.error(wire, _error(action, peer.name)))
                    comes = False
                case "exit" | "kill" | "disconnect":
                    self.end(peer, action)
                    comes = False
                case "stderr":
                    self.flood(peer, action.bytes)
                case "slow":
                    peer.writable(False)  # noqa: FBT003 - the receiver's interface
                    timer = self._loop.call_later(1.0 / max(action.bytes, 1), lambda: peer.writable(True))  # noqa: FBT003
                    self._timers.append(timer)
                case _:
                    pass
        return comes

    def stop(self) -> None:
        """The session is over."""
        for timer in self._timers:
            timer.cancel()
        self._behind.clear()

    def end(self, peer: Peer, action: Action) -> None:
        """End a peer's life as the fault says."""
        if peer.link is None:
            return
        if action.deed == "exit":
            details: dict[str, object] = {"exit": {"code": action.status}}
            fault = TransportError("exited", f"the server exited with code {action.status}", details)
        elif action.deed == "kill":
            details = {"exit": {"signal": SIGKILL}}
            fault = TransportError("exited", "the server was killed by signal 9", details)
        else:
            fault = TransportError("closed", "The other side closed the connection.")
        peer.closed(fault)

    def flood(self, peer: Peer, size: int) -> None:
        """Let a peer say so many bytes on stderr."""
        for start in range(0, size, STDERR_LINE):
            line = b"x" * min(STDERR_LINE, size - start)
            peer.tap.record(
                "raw", "peer>", line, peer=peer.name, life=max(peer.life, 1), flags=("fault",), x={"stream": "stderr"}
            )  # fmt: skip

    def _tell(self, peer: Peer, action: Action) -> None:
        if peer.sessions:
            peer.tap.record(
                "fault", "inside", peer=peer.name, life=max(peer.life, 1), flags=("fault",), x=action.facts
            )


def _error(action: Action, peer: str) -> bytes:
    code = action.code or "internal"
    message = action.message or f"a fault was put in: `{code}`"
    return error_object(
        Fault(code=code, message=message, reason="injected", outcome="unknown", peer=peer, retryable=False)
    )
