"""A tap that shows each frame to somebody else once it has been recorded.

Owns nothing but that. It exists only where telemetry is configured: without, a session's tap is not wrapped.
"""

from __future__ import annotations

from typing import Any, Protocol

from gateway.calls.ports import Tap


class Observer(Protocol):
    """Who is shown the frames of one session. Called on the path of messages: both calls return at once."""

    def put(self, item: tuple[int, int, str, str, bytes, dict[str, Any]]) -> None:
        """A frame has been recorded: seq, at, kind, way, body, and its other fields by name."""
        ...

    def ended(self) -> None:
        """No more frames will come."""
        ...


class Watch(Protocol):
    """Gives a new session its observer."""

    def __call__(self, *, session: str, seed: int | None, started: int, transport: str) -> Observer:
        """Return who is to be shown the frames of this session."""
        ...


class ObservedTap:
    """A tap and its observer. Implements `calls.ports.Tap`."""

    __slots__ = ("_put", "_tap", "accepting", "at", "met", "must_keep", "now")

    def __init__(self, tap: Tap, observer: Observer) -> None:
        self._tap = tap
        self._put = observer.put
        self.now = tap.now
        self.at = tap.at
        self.accepting = tap.accepting
        self.must_keep = tap.must_keep
        self.met = tap.met

    def record(self, kind: str, way: str, body: bytes = b"", **rest: Any) -> int:
        """Record a frame, then show it; what could not be recorded is not shown."""
        tap = self._tap
        seq = tap.record(kind, way, body, **rest)
        at = self.at = tap.at
        self.accepting = tap.accepting
        if seq >= 0:
            self._put((seq, at, kind, way, body, rest))
        return seq

    def plain(
        self, kind: str, way: str, body: bytes, peer: str, id: Any, re: int | None,  # noqa: A002
        after: int | None, method: str, name: str,
    ) -> int:  # fmt: skip
        """Record a plain frame, then show it."""
        return self.record(kind, way, body, peer=peer, id=id, re=re, after=after, method=method, name=name)

    def together(self, *_: Any, **__: Any) -> int:
        """Have frames recorded one by one, so that each is shown."""
        return -1

    def close(self) -> None:
        """Record nothing more."""
        self._tap.close()
