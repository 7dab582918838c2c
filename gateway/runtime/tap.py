"""Numbers every frame where it passes, before anything else happens to it, and hands it to the recorder.

Owns the sequence and the session's clock. Decides nothing; a recording that cannot be written is told by -1.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from recordings.errors import RecordingError
from recordings.frame import BLOB_BYTES, LIFECYCLE, NO_BODY, Frame
from recordings.store import Recorder
from transports.base import Id

PLAIN_KINDS = frozenset(("request", "response", "error", "notification"))
MOST_WORDS = 4096
"""Encoded names that are kept; a peer that makes up more than that pays for each."""

encode = msgspec.json.Encoder().encode


class Words(dict[tuple[str, str, str, str, str], tuple[bytes, bytes]]):
    """What is alike in many frames, encoded once: the fields before those that differ, and those behind."""

    def __missing__(self, alike: tuple[str, str, str, str, str]) -> tuple[bytes, bytes]:
        kind, peer, way, method, name = alike
        head = b'"kind":%b%b,"way":%b' % (
            encode(kind),
            b',"peer":' + encode(peer) if peer else b"",
            encode(way),
        )
        tail = b',"method":' + encode(method) if method else b""
        if name:
            tail += b',"name":' + encode(name)
        encoded = head, tail + b',"body":'
        if len(self) < MOST_WORDS:
            self[alike] = encoded
        return encoded


class NullTap:
    """A tap of a session that is not recorded: numbers frames, and that is all."""

    accepting = True

    def __init__(self, *, on_close: Callable[[], None] | None = None) -> None:
        self.at = 0
        self._seq = 0
        self._on_close = on_close
        self._start = time.monotonic_ns()

    def now(self) -> int:
        """Return monotonic nanoseconds since the session's start."""
        return time.monotonic_ns() - self._start

    def record(self, kind: str, way: str, body: bytes = b"", **_: Any) -> int:
        """Number a frame."""
        self.at = time.monotonic_ns() - self._start
        self._seq += 1
        return self._seq - 1

    def close(self) -> None:
        """Nothing is written any more than before."""
        if self._on_close is not None:
            self._on_close()


class RecordingTap:
    """A tap that writes every frame at once."""

    accepting = True

    def __init__(
        self,
        recorder: Recorder,
        *,
        on_refusal: Callable[[RecordingError], None],
        on_close: Callable[[RecordingTap], None],
        began: int | None = None,
    ) -> None:
        """`began` is the monotonic clock at the moment that the recording's header gives; now, without it."""
        self._recorder = recorder
        self._on_refusal = on_refusal
        self._on_close = on_close
        self._start = time.monotonic_ns() if began is None else began
        self._next = 0
        self._ended = False
        self._words = Words()
        self._append = recorder.append_encoded
        self._barrier = recorder.durability == "barrier"
        self.at = 0

    def now(self) -> int:
        """Return monotonic nanoseconds since the session's start."""
        return time.monotonic_ns() - self._start

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
        """Record one frame and return its number, or -1 where it could not be written."""
        if self._ended:
            return -1
        seq = self._next
        self._next = seq + 1
        self.at = time.monotonic_ns() - self._start
        at = self.at
        try:
            if (
                body
                and not (flags or x or parent or op or lane)
                and life == 1
                and len(body) < BLOB_BYTES
                and kind in PLAIN_KINDS
                and b"\n" not in body
            ):
                head, tail = self._words[kind, peer, way, method, name]
                middle = (
                    b""
                    if id is UNSET
                    else b',"id":%d' % id
                    if id.__class__ is int
                    else b',"id":' + encode(id)
                )
                if re is not None:
                    middle += b',"re":%d' % re
                if after is not None:
                    middle += b',"after":%d' % after
                self._append(
                    b'{"seq":%d,"at":%d,%b%b%b%b}' % (seq, at, head, middle, tail, body), seq=seq, at=at
                )
            else:
                self._recorder.append(
                    Frame(
                        seq=seq,
                        at=at,
                        wall=time.time_ns() if kind in LIFECYCLE else None,
                        kind=kind,  # pyright: ignore[reportArgumentType] - the exchange uses the contract's words
                        peer=peer or None,
                        life=life,
                        way=way,  # pyright: ignore[reportArgumentType]
                        lane=lane or None,
                        id=id,
                        re=re,
                        parent=parent,
                        after=after,
                        op=op,
                        method=method or None,
                        name=name or None,
                        flags=flags,  # pyright: ignore[reportArgumentType]
                        body=Raw(body) if body else NO_BODY,
                        x=x,
                    )
                )
            # An answer is on disk before the core sees it.
            if self._barrier and way == "peer>" and kind in ("response", "error"):
                self._recorder.barrier()
        except RecordingError as fault:
            self._on_refusal(fault)
            return -1
        return seq

    def close(self) -> None:
        """The session has ended; what its peers still do is recorded until `end`."""
        self._on_close(self)

    def end(self) -> Recorder:
        """Record nothing more, and return the recorder to be sealed."""
        self._ended = True
        return self._recorder
