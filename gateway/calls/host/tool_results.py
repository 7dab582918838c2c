"""What the built-in tools answer: a text for the model, and in `details` what was left out of it.

Owns the forms, which are Pi's, and the words of what is left out. Reads nothing: it is given bytes, lines and names.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gateway.calls.host.truncation import (
    LONGEST_MATCH,
    MOST_BYTES,
    NO_LIMIT,
    Rolling,
    Truncation,
    head,
    short_line,
    shown_size,
    size,
)

IMAGE_BYTES: Final = 3 * 1024 * 1024
"""The longest image that is given: as base64, twice in one message, it stays below what a message may hold."""
SNIFF_BYTES: Final = 4096
_KEPT: Final = 4 * MOST_BYTES


def result(text: str, details: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return the result of a tool; without details there is no such member, as in JSON that Pi writes."""
    content: list[dict[str, Any]] = [{"type": "text", "text": text}]
    return {"content": content, **({"details": details} if details else {}), **more}


def image_type(data: bytes) -> str | None:
    """Return the MIME type of an image by its first bytes; None for everything that is none, or moves."""
    if data[:3] == b"\xff\xd8\xff":
        return None if data[3:4] == b"\xf7" else "image/jpeg"
    if data[:8] == b"\x89PNG\r\n\x1a\n" and data[8:16] == b"\0\0\0\rIHDR":
        before_pixels = data.partition(b"IDAT")[0]
        return None if b"acTL" in before_pixels else "image/png"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def image_result(kind: str, data: bytes | None) -> dict[str, Any]:
    """Return an image that was read; None for one that is too long to be given."""
    note = f"Read image file [{kind}]"
    if data is None:
        note += f"\n[Image omitted: it is longer than {shown_size(IMAGE_BYTES)}.]"
        return result(note, structuredContent=note)
    image = {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": kind}
    found = result(note, structuredContent={**image, "note": note})
    found["content"].append(image)
    return found


class Window:
    """Lines of a file that comes in pieces, from one on and up to a number of them. Counts the others."""

    def __init__(self, first: int, most: int | None) -> None:
        self._first = first
        self._end = None if most is None else first + most
        self._line = 0
        self._kept = bytearray()
        self._bytes = 0
        self._newlines = 0
        self._first_bytes: int | None = None

    def add(self, data: bytes) -> None:
        """Take a piece."""
        newlines = data.count(b"\n")
        begin = self._place(data, newlines, self._first)
        end = len(data) if self._end is None else self._place(data, newlines, self._end)
        self._line += newlines
        selected = data[begin:end]
        if not selected:
            return
        if self._first_bytes is None and (at := selected.find(b"\n")) >= 0:
            self._first_bytes = self._bytes + at
        self._bytes += len(selected)
        self._newlines += selected.count(b"\n")
        if len(self._kept) <= _KEPT:
            self._kept += selected

    def _place(self, data: bytes, newlines: int, line: int) -> int:
        """Where a line begins in a piece: 0 if before it, its length if behind it."""
        wanted = line - self._line
        if wanted <= 0:
            return 0
        if wanted > newlines:
            return len(data)
        at = -1
        for _ in range(wanted):
            at = data.index(b"\n", at + 1)
        return at + 1

    @property
    def total(self) -> int:
        """Lines of the file, as often as one ends, and one."""
        return self._line + 1

    def text(self, path: str, *, is_all: bool) -> dict[str, Any]:
        """Return the result for a file that was read to its end, or, without `is_all`, up to a bound.

        Raises:
            ValueError: If the file has no line where it should begin.
        """
        if self._first >= self.total:
            raise ValueError(
                f"line {self._first + 1} is beyond the end of the file, which has {self.total} lines"
            )
        stop = self.total if self._end is None else min(self._end, self.total)
        kept, count = bytes(self._kept), self._bytes
        if self._end is not None and stop < self.total and kept.endswith(b"\n"):
            kept, count = kept[:-1], count - 1  # the end of the last line is not one of its letters
        cut = head(kept.decode(errors="replace"))
        if self._bytes > len(self._kept):
            cut = msgspec.structs.replace(cut, total_lines=self._newlines + 1, total_bytes=count)
        text, details = self._said(path, cut, stop)
        if not is_all:
            text += "\n\n[The file goes on: reading has stopped at its bound.]"
        return result(text, details, structuredContent=text)

    def _said(self, path: str, cut: Truncation, stop: int) -> tuple[str, dict[str, Any] | None]:
        first = self._first + 1
        if cut.first_line_exceeds_limit:
            length = self._bytes if self._first_bytes is None else self._first_bytes
            return (
                f"[Line {first} is {shown_size(length)}, exceeds {shown_size(MOST_BYTES)} limit. "
                f"Use bash: sed -n '{first}p' {path} | head -c {MOST_BYTES}]"
            ), {"truncation": cut.as_details()}
        if cut.truncated:
            last = self._first + cut.output_lines
            limit = "" if cut.truncated_by == "lines" else f" ({shown_size(MOST_BYTES)} limit)"
            return (
                f"{cut.content}\n\n[Showing lines {first}-{last} of {self.total}{limit}. "
                f"Use offset={last + 1} to continue.]"
            ), {"truncation": cut.as_details()}
        if stop < self.total:
            more = self.total - stop
            return f"{cut.content}\n\n[{more} more lines in file. Use offset={stop + 1} to continue.]", None
        return cut.content, None


def rows(
    lines: Sequence[str],
    empty: str,
    limit: tuple[str, str, int] | None = None,
    *,
    stopped: str = "",
    are_short: bool = False,
) -> dict[str, Any]:
    """Return the result of a search: its rows, and what was left out of them.

    Args:
        lines: The rows.
        empty: What is said where there are none.
        limit: Where there are more than wanted: what rows are called, the member of `details`, how many were wanted.
        stopped: Why the search has not looked everywhere.
        are_short: Whether some rows are not whole.
    """
    if not lines:
        return result(
            f"{empty}\n\n[{stopped}]" if stopped else empty, {"searchStopped": stopped} if stopped else None
        )
    cut = head("\n".join(lines), most_lines=NO_LIMIT)
    details: dict[str, Any] = {}
    notes: list[str] = []
    if limit is not None:
        name, member, most = limit
        refine = ", or refine pattern" if name != "entries" else ""
        notes.append(f"{most} {name} limit reached. Use limit={most * 2} for more{refine}")
        details[member] = most
    if cut.truncated:
        notes.append(f"{shown_size(MOST_BYTES)} limit reached")
        details["truncation"] = cut.as_details()
    if are_short:
        notes.append(f"Some lines truncated to {LONGEST_MATCH} chars. Use read tool to see full lines")
        details["linesTruncated"] = True
    if stopped:
        notes.append(stopped)
        details["searchStopped"] = stopped
    note = f"\n\n[{'. '.join(notes)}]" if notes else ""
    return result(cut.content + note, details)


class Matches:
    """The rows of a search for lines, up to a number of matches, with what surrounds them."""

    def __init__(self, most: int, context: int) -> None:
        self._most = most
        self._context = context
        self.found = 0
        self.is_more = False
        """Whether there are more matches than wanted."""
        self.are_short = False
        self.rows: list[str] = []
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more needs to be looked for."""
        return self.is_more or self._bytes > 4 * MOST_BYTES

    @property
    def room(self) -> int:
        """How many matches are of use: those that are wanted, and one that tells of more."""
        return self._most - self.found + 1

    def add(self, name: str, lines: Sequence[str], matches: Sequence[int]) -> None:
        """Take the matches of one file: its lines, and which of them match, in order.

        A match beyond those that are wanted is shown where it surrounds one of them.
        """
        wanted = self._most - self.found
        hits = set(matches[:wanted])
        self.found += len(hits)
        self.is_more = len(matches) > wanted
        around = {
            row
            for at in hits
            for row in range(at - self._context, at + self._context + 1)
            if 0 <= row < len(lines)
        }
        for row in sorted(around):
            self._put(name, row, lines[row], is_match=row in hits)

    def _put(self, name: str, row: int, line: str, *, is_match: bool) -> None:
        text, is_short = short_line(line.removesuffix("\r"))
        self.are_short = self.are_short or is_short
        said = f"{name}:{row + 1}: {text}" if is_match else f"{name}-{row + 1}- {text}"
        self.rows.append(said)
        self._bytes += size(said) + 1


def shell_text(output: Rolling) -> tuple[str, dict[str, Any] | None]:
    """Return the end of what a command has said, and the details of what is left out."""
    cut = output.shown()
    if not cut.truncated:
        return cut.content, None
    last = cut.total_lines
    if cut.last_line_partial:
        which = (
            f"last {shown_size(cut.output_bytes)} of line {last} (line is {shown_size(output.open_bytes)})"
        )
    else:
        limit = "" if cut.truncated_by == "lines" else f" ({shown_size(MOST_BYTES)} limit)"
        which = f"lines {last - cut.output_lines + 1}-{last} of {last}{limit}"
    return f"{cut.content}\n\n[Showing {which}]", {"truncation": cut.as_details()}
