"""Server-sent events: an incremental parser and an encoder over bytes.

Owns the `text/event-stream` format. Lines end in LF, CR LF or CR and in nothing else: U+2028 and its kin are
data. Holds no I/O and never decodes an event's data. Source: WHATWG HTML, "Server-sent events".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_EOL = re.compile(rb"\r\n|\n|\r")
_HEAD_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Event:
    """One dispatched event.

    `id` is the last event id so far, also where this event did not set it; `retry` the reconnection time in
    milliseconds where this event named one. An event over the size limit has `size`, its true length, and
    only the first 4 KiB of its data.
    """

    data: bytes
    event: str = "message"
    id: str | None = None
    retry: int | None = None
    size: int | None = None


class SseParser:
    """Feed it chunks as they come; it returns the events that they complete, in bounded memory."""

    __slots__ = (
        "_data",
        "_fresh",
        "_head",
        "_kind",
        "_max",
        "_named",
        "_overflow",
        "_parts",
        "_retry",
        "_size",
        "_skip_lf",
        "last_id",
    )

    def __init__(self, max_event: int, last_id: str | None = None) -> None:
        self.last_id = last_id
        """What `Last-Event-ID` would be after what was read so far; None where no event had an id."""
        self._max = max_event
        self._parts: list[bytes] = []
        self._skip_lf = False
        self._fresh = True
        self._overflow = False
        self._reset()

    def _reset(self) -> None:
        self._data: list[bytes] = []
        self._kind = ""
        self._retry: int | None = None
        self._named = False
        self._size = 0
        self._head = b""

    @property
    def overflowing(self) -> bool:
        """Whether the event that has begun is over the limit already."""
        return self._overflow

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that are complete with `chunk`, in order."""
        events: list[Event] = []
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[0] == 0x0A:
                chunk = chunk[1:]
        if not chunk:
            return events
        if chunk[-1] == 0x0D:
            self._skip_lf = True
        lines = _EOL.split(chunk)
        rest = lines.pop()
        for line in lines:
            self._hold(line, whole=True)
            if self._parts:
                line = b"".join(self._parts) if len(self._parts) > 1 else self._parts[0]
                self._parts.clear()
            self._line(line, events)
        if rest:
            self._hold(rest, whole=False)
        return events

    def _hold(self, piece: bytes, *, whole: bool) -> None:
        self._size += len(piece) + whole
        if self._size > self._max and not self._overflow:
            self._overflow = True
            self._head = b"\n".join([*self._data, b"".join(self._parts) + piece])[:_HEAD_BYTES]
            self._data.clear()
            self._parts = [b"~"] if self._parts else []
        if self._overflow:
            # Only whether the line is blank still matters, so that one byte stands for all of it.
            if piece and not self._parts:
                self._parts.append(b"~")
        elif piece:
            self._parts.append(piece)

    def _line(self, line: bytes, events: list[Event]) -> None:
        if self._fresh:
            self._fresh = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            self._dispatch(events)
            return
        if self._overflow:
            return
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._kind = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self.last_id = value.decode("utf-8", "replace")
                self._named = True
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self._retry = int(value)

    def _dispatch(self, events: list[Event]) -> None:
        kind = self._kind or "message"
        if self._overflow:
            head = self._head.removeprefix(b"data:").removeprefix(b" ")
            events.append(Event(head, kind, self.last_id, self._retry, self._size))
            self._overflow = False
        elif self._data or self._named or self._retry is not None:
            # An event without a data line is not dispatched by the format's own rules; it is told here with
            # empty data, because its id and its retry time matter to whoever reconnects.
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(Event(data, kind, self.last_id, self._retry))
        self._reset()


def encode(
    data: bytes,
    *,
    event: str = "message",
    id: str | None = None,  # noqa: A002
    retry: int | None = None,
) -> bytes:
    """Return one event. Line ends inside `data` become further `data` lines: JSON stays the same JSON."""
    if b"\n" in data or b"\r" in data:
        data = _EOL.sub(b"\ndata: ", data)
    head = b"" if id is None else b"id: %b\n" % id.encode()
    if retry is not None:
        head += b"retry: %d\n" % retry
    return b"%bevent: %b\ndata: %b\n\n" % (head, event.encode(), data)


def comment(text: bytes = b"") -> bytes:
    """Return a comment: bytes that keep a connection in use and mean nothing."""
    return b": %b\n\n" % text
