"""Reading a table of columns where it lies, without decoding what is not asked for.

Owns walking its rows, and finding one by number, by key or by what it names. Opens no file: the bytes are handed
in, and may well be those of a mapped one. Trusts no byte before its checksum.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, NamedTuple, cast
from zlib import crc32

import msgspec

from recordings.columns import (
    COLUMNS,
    KEY_BYTES,
    LAYOUT,
    MAGIC,
    OPTIONAL,
    PLAIN,
    TRAILER,
    Directory,
    Row,
    Stamp,
)
from recordings.errors import RecordingError
from recordings.frame import FORMAT

_SEQ = 0
_RE, _PARENT = COLUMNS.index("re"), COLUMNS.index("parent")
_decode_directory = msgspec.json.Decoder(Directory).decode


class TableError(RecordingError):
    """Bytes are no table, not the one that was written, or of a layout or machine that is not this one."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the replay index cannot be used: {what}; `tieline doctor DIR --reindex` makes it anew",
            details={"what": what},
        )
        self.what = what


class _Texts(dict[int, str | None]):
    """Texts by number, each decoded when it is first asked for."""

    def __init__(self, data: memoryview, count: int) -> None:
        super().__init__({0: None})
        self._ends = data[: (count + 1) * 8].cast("Q")
        self._data = data[(count + 1) * 8 :]

    def __missing__(self, number: int) -> str:
        try:
            start, end = self._ends[number - 1], self._ends[number]
        except IndexError:
            raise TableError("a text is not there") from None
        text = self[number] = str(self._data[start:end], "utf-8", "surrogatepass")
        return text


class _FlagSets(dict[int, tuple[str, ...]]):
    def __init__(self, texts: _Texts) -> None:
        super().__init__({0: ()})
        self._texts = texts

    def __missing__(self, number: int) -> tuple[str, ...]:
        flags = self[number] = tuple((self._texts[number] or "").split(" "))
        return flags


class _Columns(NamedTuple):
    """One group, looked at where it lies."""

    numbers: list[memoryview]
    rows_by_key: memoryview
    keys: memoryview


class Table:
    """A table in bytes that stay where they are. Raises `TableError` where they are none.

    The directory is checked here, a group when something of it is first read.
    """

    def __init__(self, data: memoryview) -> None:
        self._data = data
        directory = _directory(data)
        self.stamp: Stamp = directory.stamp
        self.profile = directory.profile
        """Which keys the rows have; empty where they have none."""
        self._rows = directory.rows
        self._groups = directory.groups
        self._firsts = [group.first for group in directory.groups]
        offset, count, length, crc = directory.texts
        self._texts = _Texts(_part(data, offset, length, crc), count)
        self._flag_sets = _FlagSets(self._texts)
        self._seen: dict[int, _Columns] = {}

    def __len__(self) -> int:
        return self._rows

    def check(self) -> None:
        """Look at every byte. Raises `TableError`."""
        for place in range(len(self._groups)):
            self._columns(place)

    def rows(self) -> Iterator[Row]:
        """All rows, in order."""
        for place in range(len(self._groups)):
            yield from self._rows_of(place)

    def row(self, seq: int) -> Row | None:
        """The row of a frame; None where there is none."""
        place = bisect_right(self._firsts, seq) - 1
        if place < 0:
            return None
        seqs = self._columns(place).numbers[_SEQ]
        # Numbers have no gaps but for what a full disk has left out.
        number = seq - self._firsts[place]
        if number >= len(seqs) or seqs[number] != seq:
            number = bisect_left(seqs, seq)
            if number == len(seqs) or seqs[number] != seq:
                return None
        return self._row(place, number)

    def find(self, key: bytes) -> list[Row]:
        """The rows with a key, in order."""
        return [
            self._row(place, number)
            for place in range(len(self._groups))
            for number in self._numbers_with(place, key)
        ]

    def naming(self, seq: int) -> Iterator[Row]:
        """The rows whose `re` or `parent` is a frame, in order: what belongs to it."""
        for place in range(max(0, bisect_right(self._firsts, seq) - 1), len(self._groups)):
            columns = self._columns(place).numbers
            found: set[int] = set()
            for column in (_RE, _PARENT):
                found.update(_places(columns[column], seq + 1))
            yield from (self._row(place, number) for number in sorted(found))

    def _columns(self, place: int) -> _Columns:
        seen = self._seen.get(place)
        if seen is not None:
            return seen
        group = self._groups[place]
        data = _part(self._data, group.offset, group.length, group.crc)
        numbers: list[memoryview] = []
        at = 0
        for code in group.codes:
            size = struct.calcsize(code) * group.rows
            numbers.append(cast("memoryview", data[at : at + size].cast(cast("Any", code))))
            at += size + -size % 8
        size = 2 * group.keys
        rows = data[at : at + size].cast("H")
        columns = self._seen[place] = _Columns(numbers, rows, data[at + size + -size % 8 :])
        return columns

    def _rows_of(self, place: int) -> Iterator[Row]:
        columns = self._columns(place)
        values: list[Iterable[object]] = []
        for name, column in zip(COLUMNS, columns.numbers, strict=True):
            numbers = column.tolist()
            if name in PLAIN:
                values.append(numbers)
            elif name in OPTIONAL:
                values.append([number - 1 if number else None for number in numbers])
            else:
                values.append(map(self._of(name).__getitem__, numbers))
        keys = [b""] * self._groups[place].rows
        for at, number in enumerate(columns.rows_by_key):
            keys[number] = _key(columns, at)
        # As `Row._make`, without a call in Python for each.
        new: Any = tuple
        make = cast("Callable[[type[Row], tuple[object, ...]], Row]", new.__new__)
        return map(make, repeat(Row), zip(*values, keys, strict=True))

    def _row(self, place: int, number: int) -> Row:
        columns = self._columns(place)
        values: list[Any] = []
        for name, column in zip(COLUMNS, columns.numbers, strict=True):
            value: int = column[number]
            if name in PLAIN:
                values.append(value)
            elif name in OPTIONAL:
                values.append(value - 1 if value else None)
            else:
                values.append(self._of(name)[value])
        at = next(iter(_places(columns.rows_by_key, number)), None)
        return Row._make((*values, b"" if at is None else _key(columns, at)))

    def _of(self, name: str) -> _Texts | _FlagSets:
        return self._flag_sets if name == "flags" else self._texts

    def _numbers_with(self, place: int, key: bytes) -> Iterator[int]:
        columns = self._columns(place)
        count = self._groups[place].keys
        at = bisect_left(range(count), key, key=lambda at: _key(columns, at))
        while at < count and _key(columns, at) == key:
            yield columns.rows_by_key[at]
            at += 1


def _directory(data: memoryview) -> Directory:
    if len(data) < TRAILER.size:
        raise TableError("the table ends early")
    place, length, crc, magic = TRAILER.unpack(data[-TRAILER.size :])
    if magic != MAGIC:
        raise TableError("this is no table")
    try:
        directory = _decode_directory(_part(data, place, length, crc))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise TableError("the directory is none") from None
    if (directory.layout, directory.order, directory.format, directory.columns) != (
        LAYOUT,
        sys.byteorder,
        FORMAT,
        COLUMNS,
    ):
        raise TableError("the table is of another layout, format or machine")
    return directory


def _part(data: memoryview, offset: int, length: int, crc: int) -> memoryview:
    part = data[offset : offset + length]
    if len(part) != length or crc32(part) != crc:
        raise TableError("bytes are not those that were written")
    return part


def _key(columns: _Columns, at: int) -> bytes:
    return bytes(columns.keys[at * KEY_BYTES : (at + 1) * KEY_BYTES])


def _places(column: memoryview, number: int) -> Iterator[int]:
    """Where a number stands in a column."""
    numbers: array[int] = array(column.format)
    numbers.frombytes(column.cast("B"))
    at = -1
    while True:
        try:
            at = numbers.index(number, at + 1)
        except ValueError:
            return
        yield at
