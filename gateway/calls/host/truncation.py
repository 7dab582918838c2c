"""How much of a text a tool shows, and what it says about the rest: by lines and by bytes, from either end.

Owns the two limits and the record that `details.truncation` of a result holds, in the form that Pi gives it.
"""

from __future__ import annotations

import codecs
from typing import Any, Final, Literal, TypeAlias

import msgspec

MOST_LINES: Final = 2000
MOST_BYTES: Final = 50 * 1024
LONGEST_MATCH: Final = 500
"""Characters of a line that a search shows."""
NO_LIMIT: Final = 2**53 - 1
"""Of lines, where they are counted elsewhere. The largest number that JavaScript holds exactly."""

Reason: TypeAlias = Literal["lines", "bytes"]


class Truncation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is shown of a text, and what there is. Sizes are in bytes of UTF-8; a last newline begins no line."""

    content: str
    truncated: bool
    truncated_by: Reason | None
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    last_line_partial: bool = False
    first_line_exceeds_limit: bool = False
    max_lines: int
    max_bytes: int

    def as_details(self) -> dict[str, Any]:
        """Return it as a member of a result."""
        return msgspec.to_builtins(self)


def size(text: str) -> int:
    """Return the bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def shown_size(count: int) -> str:
    """Return a number of bytes as people read it: `812B`, `50.0KB`, `1.5MB`."""
    if count < 1024:
        return f"{count}B"
    return f"{count / 1024:.1f}KB" if count < 1024 * 1024 else f"{count / 1024 / 1024:.1f}MB"


def lines_of(text: str) -> list[str]:
    """Return the lines of a text; what follows a last newline is none."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def head(text: str, most_lines: int = MOST_LINES, most_bytes: int = MOST_BYTES) -> Truncation:
    """Return the whole lines at the beginning that fit. None do where the first alone is too long."""
    lines, total = lines_of(text), size(text)
    if len(lines) <= most_lines and total <= most_bytes:
        return _whole(text, len(lines), total, most_lines, most_bytes)
    kept, used, by = 0, 0, "lines"
    for line in lines[:most_lines]:
        wanted = size(line) + (kept > 0)
        if used + wanted > most_bytes:
            by = "bytes"
            break
        kept += 1
        used += wanted
    return Truncation(
        content="\n".join(lines[:kept]), truncated=True, truncated_by=by, total_lines=len(lines), total_bytes=total,
        output_lines=kept, output_bytes=used, first_line_exceeds_limit=size(lines[0]) > most_bytes,
        max_lines=most_lines, max_bytes=most_bytes,
    )  # fmt: skip


def tail(text: str, most_lines: int = MOST_LINES, most_bytes: int = MOST_BYTES) -> Truncation:
    """Return the whole lines at the end that fit; of a last line that alone is too long, its end."""
    lines, total = lines_of(text), size(text)
    if len(lines) <= most_lines and total <= most_bytes:
        return _whole(text, len(lines), total, most_lines, most_bytes)
    kept: list[str] = []
    used, by, is_part = 0, "lines", False
    for line in reversed(lines[-most_lines:]):
        wanted = size(line) + (len(kept) > 0)
        if used + wanted > most_bytes:
            by = "bytes"
            if not kept:
                kept, is_part = [_end_of(line, most_bytes)], True
                used = size(kept[0])
            break
        kept.append(line)
        used += wanted
    return Truncation(
        content="\n".join(reversed(kept)), truncated=True, truncated_by=by, total_lines=len(lines), total_bytes=total,
        output_lines=len(kept), output_bytes=used, last_line_partial=is_part,
        max_lines=most_lines, max_bytes=most_bytes,
    )  # fmt: skip


def short_line(line: str) -> tuple[str, bool]:
    """Return a line as a search shows it, and whether that is less than all of it."""
    if len(line) <= LONGEST_MATCH:
        return line, False
    return f"{line[:LONGEST_MATCH]}... [truncated]", True


class Rolling:
    """A text that comes in pieces, of which the end is kept, and of which everything is counted."""

    def __init__(self) -> None:
        self._decoder: Any = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._begins_inside = False
        """Whether what is kept begins in the middle of a line."""
        self.lines = 0
        """Whole ones."""
        self.bytes = 0
        self.open_bytes = 0
        """Of the line that has not ended."""

    def add(self, data: bytes, *, final: bool = False) -> None:
        """Take a piece."""
        text: str = self._decoder.decode(data, final)
        if not text:
            return
        self.bytes += size(text)
        ended, newline, rest = text.rpartition("\n")
        if newline:
            self.lines += ended.count("\n") + 1
            self.open_bytes = size(rest)
        else:
            self.open_bytes += size(text)
        self._text += text
        if len(self._text) > 8 * MOST_BYTES:
            cut = len(self._text) - 2 * MOST_BYTES
            self._begins_inside = self._text[cut - 1] != "\n"
            self._text = self._text[cut:]

    def shown(self) -> Truncation:
        """Return the end as a result shows it."""
        text = self._text
        if self._begins_inside:
            text = text.partition("\n")[2] or text
        found = tail(text)
        lines = self.lines + (self.open_bytes > 0)
        is_cut = lines > MOST_LINES or self.bytes > MOST_BYTES
        by = (found.truncated_by or ("bytes" if self.bytes > MOST_BYTES else "lines")) if is_cut else None
        return msgspec.structs.replace(
            found, truncated=is_cut, truncated_by=by, total_lines=lines, total_bytes=self.bytes
        )


class Ends:
    """Bytes of which the beginning and the end are kept, and how many there were in between."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.omitted = 0

    def add(self, data: bytes) -> None:
        """Take a piece."""
        free = self._half - len(self._head)
        if free > 0:
            self._head += data[:free]
            data = data[free:]
        self._tail += data
        if len(self._tail) > 4 * self._half:
            self._trim()

    def _trim(self) -> None:
        over = len(self._tail) - self._half
        if over > 0:
            self.omitted += over
            del self._tail[:over]

    def text(self) -> str:
        """Return both ends, and between them how many bytes are left out. Nothing may be added any more."""
        self._trim()
        if not self.omitted:
            return (self._head + self._tail).decode(errors="replace")
        first: str = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        last = self._tail
        while last and last[0] & 0xC0 == 0x80:
            del last[0]
        return f"{first}\n\n[... {self.omitted} bytes omitted ...]\n\n{last.decode(errors='replace')}"


def _whole(text: str, lines: int, total: int, most_lines: int, most_bytes: int) -> Truncation:
    return Truncation(
        content=text, truncated=False, truncated_by=None, total_lines=lines, total_bytes=total, output_lines=lines,
        output_bytes=total, max_lines=most_lines, max_bytes=most_bytes,
    )  # fmt: skip


def _end_of(line: str, most: int) -> str:
    data = line.encode(errors="replace")[-most:]
    start = 0
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode()
