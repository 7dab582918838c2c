"""The columns of a recording: what a replay must know of each frame, beside the bodies, as arrays of numbers.

Owns the layout of that table (rows in groups, each column of a group as narrow as its numbers allow, texts once)
and its writing in constant memory; `table` reads it. A table is a copy of what the lines say, and can always be
made anew.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, cast
from zlib import crc32

import msgspec

from recordings.errors import RecordingError
from recordings.frame import FORMAT, Flag, Frame, Kind, Way

LAYOUT = 1
"""The layout that is written, and the only one that is read: another is made anew."""
GROUP_ROWS = 32 * 1024
"""Rows of one group: what is in memory while a table is written, and while its rows are walked."""
KEY_BYTES = 16

Stamp: TypeAlias = tuple[int, int, int, str]
"""What a table was made of: number of frames, last number, bytes of the lines, hash of the last block."""

Form: TypeAlias = Callable[[Frame], bytes | None]
"""The key, of 16 bytes, of a request that is given with its body; None where it is to have none."""

TRAILER = struct.Struct("<QQI8s")
"""What a table ends with: offset, length and checksum of its directory, and a word that says what it is."""
MAGIC = b"TLcolumn"
PLAIN = ("seq", "at", "place", "size", "life")
OPTIONAL = ("re", "parent", "after", "op")
_TEXT = ("kind", "way", "peer", "lane", "method", "name", "flags")
COLUMNS = (*PLAIN, *OPTIONAL, *_TEXT)


class Row(NamedTuple):
    """What is known of a stored frame without its line; the fields are those of `Frame`, but for three."""

    seq: int
    at: int
    place: int
    """Where its line begins among the lines, uncompressed."""
    size: int
    """Bytes of its line."""
    life: int
    re: int | None
    parent: int | None
    after: int | None
    op: int | None
    kind: Kind
    way: Way | None
    peer: str | None
    lane: str | None
    method: str | None
    name: str | None
    flags: tuple[Flag, ...]
    key: bytes = b""
    """16 bytes that equal requests share, if the table was made with a `form`; else empty."""


class Told(Protocol):
    """What a writer reads of a frame: a `Frame`, or less of one."""

    @property
    def seq(self) -> int: ...
    @property
    def at(self) -> int: ...
    @property
    def life(self) -> int: ...
    @property
    def re(self) -> int | None: ...
    @property
    def parent(self) -> int | None: ...
    @property
    def after(self) -> int | None: ...
    @property
    def op(self) -> int | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def way(self) -> str | None: ...
    @property
    def peer(self) -> str | None: ...
    @property
    def lane(self) -> str | None: ...
    @property
    def method(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def flags(self) -> Sequence[str]: ...


class Group(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """Where some rows lie: one column after the other, then the rows that have keys, then the keys in order."""

    offset: int
    length: int
    crc: int
    rows: int
    first: int
    """The number of its first frame."""
    codes: str
    """The type of each column's numbers, as `array` names them."""
    keys: int
    """How many rows have a key."""


class Directory(msgspec.Struct, kw_only=True):
    """What a table is of, and where its parts lie."""

    layout: int
    order: str
    format: int
    stamp: Stamp
    profile: str
    columns: tuple[str, ...]
    rows: int
    groups: list[Group]
    texts: tuple[int, int, int, int]
    """Offset, number of texts, length, checksum."""


class _Numbers(dict[Any, int]):
    """Numbers texts as they first appear; none is 0."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


class _FlagNumbers(dict[Sequence[str], int]):
    def __init__(self, texts: _Numbers) -> None:
        super().__init__({(): 0})
        self._texts = texts

    def __missing__(self, flags: Sequence[str]) -> int:
        number = self[flags] = self._texts[" ".join(flags)]
        return number


class TableWriter:
    """Writes a table while frames go by in order; `write` takes its bytes, one after the other."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._offset = 0
        self._pending: list[tuple[object, ...]] = []
        self._keys: list[tuple[bytes, int]] = []
        self._groups: list[Group] = []
        self._texts = _Numbers({None: 0})
        self._flags = _FlagNumbers(self._texts)

    def see(self, frame: Told, place: int, size: int, key: bytes = b"") -> None:
        """Take the next frame, where its line begins, how long that is, and the frame's key if it has one."""
        pending = self._pending
        if key:
            if len(key) != KEY_BYTES:
                raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
            self._keys.append((key, len(pending)))
        pending.append(
            (
                frame.seq,
                frame.at,
                place,
                size,
                frame.life,
                frame.re,
                frame.parent,
                frame.after,
                frame.op,
                frame.kind,
                frame.way,
                frame.peer,
                frame.lane,
                frame.method,
                frame.name,
                frame.flags,
            )
        )
        if len(pending) == GROUP_ROWS:
            self._flush()

    def finish(self, stamp: Stamp, profile: str = "") -> None:
        """Write what is left, and the directory. `profile` says which keys these are; empty where there are none."""
        if self._pending:
            self._flush()
        texts = [cast("str", text).encode("utf-8", "surrogatepass") for text in list(self._texts)[1:]]
        ends = array("Q", [0])
        for text in texts:
            ends.append(ends[-1] + len(text))
        data = b"".join((ends.tobytes(), *texts))
        place = self._put(data)
        directory = msgspec.json.encode(
            Directory(
                layout=LAYOUT,
                order=sys.byteorder,
                format=FORMAT,
                stamp=stamp,
                profile=profile,
                columns=COLUMNS,
                rows=sum(group.rows for group in self._groups),
                groups=self._groups,
                texts=(place, len(texts), len(data), crc32(data)),
            )
        )
        place = self._put(directory)
        self._write(TRAILER.pack(place, len(directory), crc32(directory), MAGIC))

    def _flush(self) -> None:
        parts: list[bytes] = []
        codes = ""
        columns = list(zip(*self._pending, strict=True))
        for name, column in zip(COLUMNS, columns, strict=True):
            packed = self._packed(name, column)
            codes += packed.typecode
            parts += (packed.tobytes(), _padding(packed.itemsize * len(packed)))
        self._keys.sort()
        rows = array("H", [row for _, row in self._keys]).tobytes()
        parts += (rows, _padding(len(rows)), *(key for key, _ in self._keys))
        data = b"".join(parts)
        first = cast("int", columns[0][0])
        count = len(self._pending)
        self._groups.append(
            Group(self._put(data), len(data), crc32(data), count, first, codes, len(self._keys))
        )
        self._pending = []
        self._keys = []

    def _packed(self, name: str, column: Sequence[Any]) -> array[int]:
        if name in PLAIN:
            return _narrow(column, max(column))
        if name in OPTIONAL:
            numbers = [0 if number is None else number + 1 for number in column]
            return _narrow(numbers, max(numbers))
        # Few texts, many rows: what they are is asked of each text once.
        of = self._flags if name == "flags" else self._texts
        known = {text: of[text] for text in dict.fromkeys(column)}
        return _narrow(list(map(known.__getitem__, column)), max(known.values()))

    def _put(self, data: bytes) -> int:
        place = self._offset
        padding = _padding(len(data))
        self._write(data)
        if padding:
            self._write(padding)
        self._offset += len(data) + len(padding)
        return place


def _narrow(numbers: Sequence[int], most: int) -> array[int]:
    """Numbers in the narrowest type that holds them. Raises `RecordingError` where none does."""
    code = next((code for code, bits in (("B", 8), ("H", 16), ("I", 32)) if most >> bits <= 0), "Q")
    try:
        return array(code, numbers)
    except OverflowError:
        pass
    try:
        return array("q", numbers)
    except OverflowError:
        raise RecordingError("a frame holds a number of more than 64 bits") from None


def _padding(size: int) -> bytes:
    return bytes(-size % 8)
