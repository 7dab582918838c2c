"""What every importer takes and gives: a file's text in, an imported recording out, and the error between them.

Owns the error that names file, line and what to do, and the reading of JSON and of times as they stand in files.
Knows no format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from recordings.errors import Code, RecordingError
from recordings.frame import Frame
from recordings.header import Header

T = TypeVar("T")

_PLACE = re.compile(r"\(byte (\d+)\)")


class ForeignFormatError(RecordingError):
    """A file is not what it should be. Names the file, the line where it is known, and what to do."""

    code: Code = "invalid_request"

    def __init__(self, what: str, *, file: str, line: int | None = None, advice: str = "") -> None:
        where = f"{file}, line {line}" if line is not None else file
        super().__init__(
            f"{where}: {what}" + (f"; {advice}" if advice else ""),
            details={"file": file, "line": line, "what": what, "advice": advice},
        )
        self.file = file
        self.line = line


@dataclass(frozen=True, slots=True)
class Source:
    """A file to import: what it is called in errors, and its bytes."""

    name: str
    data: bytes

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Lines that hold something, with their numbers from 1."""
        for number, line in enumerate(self.data.splitlines(), 1):
            if line.strip():
                yield number, line

    def line_at(self, byte: int) -> int:
        """The number of the line that holds a byte."""
        return self.data.count(b"\n", 0, byte) + 1

    def bad(self, what: str, *, line: int | None = None, advice: str = "") -> ForeignFormatError:
        """The error for this file."""
        return ForeignFormatError(what, file=self.name, line=line, advice=advice)


@dataclass(slots=True)
class Imported:
    """What came of a file: the header and frames of a recording, and in sentences what is not in it."""

    header: Header
    frames: list[Frame]
    lacks: list[str] = field(default_factory=list[str])


class Finder:
    """Tells in which line of a source its values stand, if they are asked for in their order."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._byte = 0
        self._line = 1

    def line(self, value: Raw) -> int | None:
        """The line in which a value begins; None where it is not found after the one before."""
        data = self._source.data
        at = data.find(bytes(value), self._byte)
        if at < 0:
            return None
        self._line += data.count(b"\n", self._byte, at)
        self._byte = at
        return self._line


def decoded(source: Source, type_: type[T], *, data: bytes | None = None, line: int | None = None) -> T:
    """A JSON document, or one line of it, as a type. Raises `ForeignFormatError`."""
    text = source.data if data is None else data
    try:
        return msgspec.json.decode(text, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        place = _PLACE.search(str(why))
        if line is None and place is not None:
            line = source.line_at(int(place.group(1)))
        raise source.bad(
            _sentence(why),
            line=line,
            advice="a file that was cut off can be imported up to the last whole line, if it has one a message"
            if "truncated" in str(why)
            else "",
        ) from None


def _sentence(why: Exception) -> str:
    if isinstance(why, RecursionError):
        return "it is nested too deep"
    text = _PLACE.sub("", str(why)).strip()
    return text[:1].lower() + text[1:]


def compact(value: Raw | bytes) -> bytes:
    """JSON without white space; numbers, escapes and the order of members stay as they are."""
    return msgspec.json.format(bytes(value), indent=-1)


def encoded(value: object) -> bytes:
    """The JSON of what YAML has given. Raises `TypeError` or `ValueError` for what JSON has no word for."""
    return msgspec.json.encode(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite")
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [_finite(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def moment(text: object) -> int | None:
    """Nanoseconds since 1970 of a time as files have it: RFC 3339, or seconds; None where it is neither.

    A time without an offset is taken as UTC.
    """
    if isinstance(text, int | float) and not isinstance(text, bool):
        return int(text * 1_000_000) * 1000 if math.isfinite(text) else None
    if not isinstance(text, str):
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    since = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000


def text_member(table: Mapping[str, Any], name: str) -> str:
    """A member that is a text; empty where it is not there or something else."""
    value = table.get(name)
    return value if isinstance(value, str) else ""
