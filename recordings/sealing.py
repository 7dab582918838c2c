"""Sealing a finished recording: its lines in compressed chunks, an index, and a mark that it is whole.

Owns the sealed files and their index, which can be rebuilt from the compressed lines at any time. `zstd -dc`
reads these; each chunk is a frame of its own, so that one can be read without the others. Leaves a replay index beside
a recording of some size, whose layout is `columns`' business.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from zlib import crc32

import msgspec
import zstandard

from recordings import files
from recordings.blobs import with_body
from recordings.columns import Form, TableWriter
from recordings.errors import DamagedError
from recordings.frame import FORMAT, SETTLES, Frame
from recordings.segment import Scanned, Tally, line_from, scan
from recordings.survey import IrregularError, Known, survey

CHUNK_BYTES = 1024 * 1024
"""Lines are compressed together up to about this length: enough to compress well and to be read quickly."""
LINE_LIMIT = 64 * 1024 * 1024
TABLE_BYTES = 2 * 1024 * 1024
"""From this length of lines on, a replay index is left beside the others: shorter ones are read as quickly."""
_LEVEL = 3


class Chunk(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """Where one compressed run of lines lies, and which frames are in it."""

    offset: int
    length: int
    byte: int
    """Where its first line begins in the uncompressed lines."""
    bytes: int
    first: int
    """The number of its first frame."""


class Index(msgspec.Struct, kw_only=True):
    """What `index` holds: enough to open a recording of any length without reading it."""

    format: int = FORMAT
    frames: int = 0
    last: int = 0
    bytes: int = 0
    root: str = ""
    """The hash of the last block."""
    unanswered: list[int] = []
    holes: list[tuple[int, int, str]] = []
    chunks: list[Chunk] = []


class Seal(msgspec.Struct, kw_only=True):
    """What `sealed` holds: the recording was ended in order, and has this much in it."""

    format: int = FORMAT
    frames: int = 0
    last: int = 0
    bytes: int = 0
    root: str = ""
    header: int | None = None
    """The checksum (CRC-32) of `recording.json`; None where an earlier version has sealed it."""


def encode_index(index: Index) -> bytes:
    """The file `index`, with a checksum as lines have it."""
    return line_from(msgspec.json.encode(index))


def decode_index(data: bytes) -> Index | None:
    """Read `index`; None where it is none, or not the one that was written. The earliest have no checksum."""
    cut = data.rfind(b',"crc":')
    if cut >= 0 and line_from(data[:cut] + b"}") != data:
        return None
    try:
        return msgspec.json.decode(data, type=Index)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class Unanswered:
    """Follows requests and what settles them."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[int, None] = {}

    def see(self, frame: Frame | Known) -> None:
        """Take the next frame."""
        if frame.kind == "request":
            self._open[frame.seq] = None
        elif frame.re is not None and (
            frame.kind in SETTLES
            or (frame.kind == "notification" and (frame.method or "").endswith("cancelled"))
        ):
            self._open.pop(frame.re, None)

    def numbers(self) -> list[int]:
        """The requests that nothing has settled, in order."""
        return list(self._open)


def lines_of(fd: int) -> Iterator[bytes]:
    """The lines of an open file from its beginning, in constant memory. The descriptor is not closed."""
    with open(os.dup(fd), "rb") as file:
        file.seek(0)
        while line := file.readline(LINE_LIMIT):
            yield line


def seal_directory(
    directory: int,
    path: Path,
    progress: Callable[[int, int], None] | None = None,
    *,
    form: Form | None = None,
    profile: str = "",
) -> Index:
    """Seal the recording in a directory that the caller has locked: also one whose writer was killed.

    `progress` is called now and then with how many bytes are done, of how many. A `form` gives the requests of a
    replay index their keys, under the name and version of its `profile`.

    A torn tail is cut. Raises `DamagedError` where it is damaged in the middle, `OSError` where there is no
    room; either way the recording stays as it was.
    """
    fd = os.open(files.FRAMES, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, fd)
        out = stack.enter_context(files.replacing(directory, files.SEALED_FRAMES))
        table = see = None
        size = os.fstat(fd).st_size
        if size >= TABLE_BYTES:
            beside = stack.enter_context(files.replacing(directory, files.REPLAY_INDEX))
            table = TableWriter(partial(files.write_whole, beside))
            see = _seeing(table, path, form)

        def told(done: int) -> None:
            if progress is not None:
                progress(done, size)

        index = _compress(lines_of(fd), out, see, told)
        if table is not None:
            stamp = (index.frames, index.last, index.bytes, index.root)
            table.finish(stamp, profile if form is not None else "")
    _compress_blobs(directory)
    files.replace(directory, files.INDEX, encode_index(index))
    write_seal(directory, path, index)
    os.unlink(files.FRAMES, dir_fd=directory)
    os.fsync(directory)
    return index


def write_seal(directory: int, path: Path, index: Index) -> None:
    """Say of a recording's compressed lines, by their index, that they are all. Raises `OSError`."""
    header = crc32(files.read_small(path, files.HEADER))
    seal = Seal(frames=index.frames, last=index.last, bytes=index.bytes, root=index.root, header=header)
    files.replace(directory, files.SEALED, msgspec.json.encode(seal) + b"\n")


def _seeing(table: TableWriter, path: Path, form: Form | None) -> Callable[[Scanned], None]:
    """What puts a frame that is sealed into the table."""

    def see(scanned: Scanned) -> None:
        frame = scanned.frame
        key = None
        if form is not None and frame.kind == "request":
            key = form(with_body(path, frame))
        table.see(frame, scanned.byte, len(scanned.line), key or b"")

    return see


def _compress(
    lines: Iterable[bytes], out: int, see: Callable[[Scanned], None] | None, told: Callable[[int], None]
) -> Index:
    builder = IndexBuilder()
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    pending: list[bytes] = []
    size = first = 0
    for scanned in scan(lines, builder.tally):
        frame = scanned.frame
        if frame.kind != "block":
            if size >= CHUNK_BYTES:
                builder.chunk(_write(out, compressor, pending), size, first)
                pending, size = [], 0
                told(scanned.byte)
            if not pending:
                first = frame.seq
            if see is not None:
                see(scanned)
        builder.see(scanned)
        pending.append(scanned.line)
        size += len(scanned.line)
    if pending:
        builder.chunk(_write(out, compressor, pending), size, first)
    return builder.index()


def _write(out: int, compressor: zstandard.ZstdCompressor, lines: list[bytes]) -> int:
    data = compressor.compress(b"".join(lines))
    files.write_whole(out, data)
    return len(data)


class IndexBuilder:
    """Gathers an index while frames go by, when sealing and when an index is lost."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.unanswered = Unanswered()
        self._chunks: list[Chunk] = []
        self._offset = 0
        self._byte = 0

    def see(self, scanned: Scanned) -> None:
        """Take the next intact line."""
        self.unanswered.see(scanned.frame)

    def chunk(self, length: int, size: int, first: int) -> None:
        """Take the next compressed chunk: its length, that of its lines, and its first frame."""
        self._chunks.append(Chunk(self._offset, length, self._byte, size, first))
        self._offset += length
        self._byte += size

    def index(self) -> Index:
        """What was gathered."""
        tally = self.tally
        return Index(
            frames=tally.frames,
            last=tally.last or 0,
            bytes=tally.intact_bytes,
            root=tally.root,
            unanswered=self.unanswered.numbers(),
            holes=tally.holes,
            chunks=self._chunks,
        )


def chunks_of(fd: int) -> Iterator[tuple[int, bytes]]:
    """The compressed length and the lines of each chunk of an open file, for when the index is lost.

    Raises `DamagedError`, which cannot name a frame better than by the byte of the compressed file.
    """
    with open(os.dup(fd), "rb") as file:
        file.seek(0)
        offset = 0
        rest = b""
        while rest or (rest := file.read(CHUNK_BYTES)):
            single = zstandard.ZstdDecompressor().decompressobj()
            parts: list[bytes] = []
            length = 0
            data = rest
            try:
                while True:
                    parts.append(single.decompress(data))
                    if single.eof:
                        break
                    length += len(data)
                    data = file.read(CHUNK_BYTES)
                    if not data:
                        raise DamagedError("the compressed lines end early", seq=0, byte=offset)
            except zstandard.ZstdError:
                raise DamagedError("the compressed lines do not unpack", seq=0, byte=offset) from None
            rest = single.unused_data
            length += len(data) - len(rest)
            offset += length
            yield length, b"".join(parts)


def gathered(lines: Callable[[IndexBuilder], Iterable[bytes]], told: Callable[[int], None]) -> IndexBuilder:
    """An index of lines that are read from their beginning, a second time where not all is regular about them.

    `told` is called now and then with how many bytes are done. Raises `DamagedError`.
    """
    builder = IndexBuilder()
    try:
        survey(lines(builder), builder.tally, builder.unanswered.see, told)
    except IrregularError:
        builder = IndexBuilder()
        for scanned in scan(lines(builder), builder.tally):
            builder.see(scanned)
            if scanned.frame.kind == "block":
                told(scanned.byte)
    return builder


def rebuilt_index(fd: int, progress: Callable[[int, int], None] | None = None) -> Index:
    """The index over the open `frames.jsonl.zst`, made anew; `progress` in compressed bytes. Raises `DamagedError`."""
    size = os.fstat(fd).st_size

    def lines(builder: IndexBuilder) -> Iterator[bytes]:
        done = 0
        for length, data in chunks_of(fd):
            done += length
            if progress is not None:
                progress(done, size)
            # Not by `splitlines`, which would also split at a carriage return inside a body.
            *whole, rest = data.split(b"\n")
            pieces = [line + b"\n" for line in whole] + ([rest] if rest else [])
            builder.chunk(length, len(data), number_of(data))
            yield from pieces

    return gathered(lines, lambda _: None).index()


def number_of(line: bytes) -> int:
    """The sequence number that a line begins with; 0 where it does not."""
    digits = line[7 : line.find(b",", 7)]
    return int(digits) if line.startswith(b'{"seq":') and digits.isdigit() else 0


def _compress_blobs(directory: int) -> None:
    """Replace each blob by its compressed form where that is shorter. Either form is read."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    try:
        blobs = os.open(files.BLOBS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    except FileNotFoundError:
        # Whatever carries files from here to there may leave out directories that are empty.
        return
    try:
        for shelf in sorted(os.listdir(blobs)):
            inside = os.open(shelf, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=blobs)
            try:
                for name in sorted(os.listdir(inside)):
                    if len(name) == 64:
                        _compress_blob(inside, name, compressor)
            finally:
                os.close(inside)
    finally:
        os.close(blobs)


def _compress_blob(shelf: int, name: str, compressor: zstandard.ZstdCompressor) -> None:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=shelf)
    with open(fd, "rb") as file:
        data = file.read()
    packed = compressor.compress(data)
    if len(packed) < len(data):
        files.replace(shelf, f"{name}.zst", packed)
        os.unlink(name, dir_fd=shelf)
