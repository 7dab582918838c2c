"""Frames that are held in memory, where a script is read from, and what it asks of wherever they lie.

Owns nothing but them. What reads them from files at random is `lookup`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from recordings.columns import Told
from recordings.frame import Frame
from recordings.views import inline_body


class Source(Protocol):
    """Where frames are had from: a `Lookup`, which keeps none of them in memory."""

    def rows(self) -> Iterable[Told]:
        """What is known of every frame, in order."""
        ...

    def frame(self, seq: int) -> Frame:
        """One frame."""
        ...

    def body(self, seq: int) -> bytes:
        """The bytes of a frame's body."""
        ...


class Held:
    """Frames that are held in memory, as a source."""

    def __init__(self, frames: Iterable[Frame], body: Callable[[Frame], bytes] = inline_body) -> None:
        self._frames = {frame.seq: frame for frame in frames if frame.kind != "block"}
        self._body = body

    def rows(self) -> Iterable[Frame]:
        """The frames, in order."""
        return self._frames.values()

    def frame(self, seq: int) -> Frame:
        """One frame."""
        return self._frames[seq]

    def body(self, seq: int) -> bytes:
        """The bytes of a frame's body."""
        frame = self._frames[seq]
        return bytes(frame.body) if frame.blob is None else self._body(frame)
