"""Reading a recording at random: what a replay must know of every frame at once, and any body by one read.

    lookup = open_lookup(open_recording(path))
    for row in lookup.rows():       # no body is read: seq, kind, way, peer, lane, re, parent, after, method, …
        ...
    lookup.row(7)                   # the row of frame 7
    lookup.frame(7)                 # the frame itself, checked and migrated
    lookup.body(7)                  # its body, also where that lies in a blob
    lookup.find(key)                # rows by the key that `form` gave when the index was made
    lookup.naming(7)                # rows whose `re` or `parent` is 7

Owns the choice between the replay index that sealing has left (`index.replay`, for recordings of some size) and
rows gathered anew, in constant memory; and the chunks that are kept unpacked. The layout of rows is `columns`'
business. Rows are the stored frames; `Recording.lost` gives what is not stored. For one thread.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec

from recordings import files
from recordings.blobs import with_body
from recordings.columns import Form, Row, Stamp, TableWriter, Told
from recordings.errors import DamagedError, NotARecordingError, RecordingError
from recordings.frame import FORMAT, Frame, Kind, Way
from recordings.header import decode_header
from recordings.migrate import migrated
from recordings.reader import (
    Recording,
    chunk_text,
    decoded,
    index_anew,
    is_sealed,
    open_recording,
    stored_seal,
)
from recordings.sealing import TABLE_BYTES, encode_index, seal_directory, write_seal
from recordings.table import Table, TableError

__all__ = ["Form", "Lookup", "Progress", "Row", "open_lookup", "reindex", "replay_index_note"]

Progress: TypeAlias = Callable[[int, int], None]
"""Called now and then with how many frames are done, of how many."""

CHUNKS = 8
"""How many chunks of a sealed recording are kept unpacked, a little over 1 MiB each."""
STEP = 8192
"""Frames between two calls of a `Progress`."""


class _Slim(msgspec.Struct, gc=False):
    """What a row needs of a line, read without the rest."""

    seq: int
    kind: Kind
    at: int = 0
    life: int = 1
    re: int | None = None
    parent: int | None = None
    after: int | None = None
    op: int | None = None
    way: Way | None = None
    peer: str | None = None
    lane: str | None = None
    method: str | None = None
    name: str | None = None
    flags: tuple[str, ...] = ()


_slim = msgspec.json.Decoder(_Slim).decode


class Lookup:
    """An opened recording by rows and numbers. `len` is the number of its stored frames.

    A method raises `TableError` where the replay index turns out to be damaged.
    """

    def __init__(self, recording: Recording, table: Table, warnings: list[str]) -> None:
        self.recording = recording
        self.warnings = warnings
        """What is to be said of the replay index, beside the recording's own warnings."""
        self._table = table
        self._chunks: OrderedDict[int, bytes] = OrderedDict()
        name = files.SEALED_FRAMES if recording.state == "sealed" else files.FRAMES
        self._fd = files.open_to_read(recording.path, name)
        self._close = weakref.finalize(self, os.close, self._fd)

    def close(self) -> None:
        """Let go of the file. Happens by itself when nobody holds the lookup any more."""
        self._close()

    def __enter__(self) -> Lookup:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, seq: int) -> bool:
        """Whether a frame of this number is stored."""
        return self._table.row(seq) is not None

    @property
    def profile(self) -> str:
        """The profile, and its version, that the rows' keys were made by; empty where they have none."""
        return self._table.profile

    def rows(self) -> Iterator[Row]:
        """The rows of all stored frames, in order."""
        return self._table.rows()

    def row(self, seq: int) -> Row:
        """The row of a stored frame. Raises `RecordingError` where there is none."""
        row = self._table.row(seq)
        if row is None:
            raise _no_frame(seq)
        return row

    def find(self, key: bytes) -> list[Row]:
        """The rows that have a key, in order."""
        return self._table.find(key)

    def naming(self, seq: int) -> Iterator[Row]:
        """The rows whose `re` or `parent` is this frame, in order. Reads two columns to the end."""
        return self._table.naming(seq)

    def frame(self, seq: int) -> Frame:
        """A frame by its number, also a lost one, which is not stored.

        Raises `RecordingError` where there is none, `DamagedError` where its line is not the one that was
        written.
        """
        row = self._table.row(seq)
        if row is not None:
            return self.frame_of(row)
        if self.recording.state != "live":
            for lost in self.recording.lost():
                if lost.seq == seq:
                    return lost
        raise _no_frame(seq)

    def frame_of(self, row: Row) -> Frame:
        """The frame of a row. Raises `DamagedError`."""
        frame = decoded(self._line(row), row.place)
        if frame.seq != row.seq:
            raise DamagedError("another frame is there", seq=row.seq, byte=row.place)
        return migrated(frame, self.recording.header.format)

    def body(self, seq: int) -> bytes:
        """The bytes of a frame's body; empty where it has none. Raises as `frame`, and `MissingBlobError`."""
        return self.recording.body(self.frame(seq))

    def _line(self, row: Row) -> bytes:
        if self.recording.state != "sealed":
            return os.pread(self._fd, row.size, row.place)
        chunks = self.recording.index.chunks
        number = bisect_right(chunks, row.place, key=lambda chunk: chunk.byte) - 1
        if number < 0:
            raise DamagedError("no chunk holds it", seq=row.seq, byte=row.place)
        text = self._chunks.get(number)
        if text is None:
            text = self._chunks[number] = chunk_text(self._fd, chunks[number])
            if len(self._chunks) > CHUNKS:
                self._chunks.popitem(last=False)
        else:
            self._chunks.move_to_end(number)
        start = row.place - chunks[number].byte
        return text[start : start + row.size]


def open_lookup(
    recording: Recording, *, form: Form | None = None, profile: str = "", progress: Progress | None = None
) -> Lookup:
    """Open a recording at random: at once by its replay index, else by reading its lines through.

    With a `form`, requests have its keys; `profile` names it with its version, and keys of another are made
    anew. Nothing is ever written beside the recording. Raises `DamagedError`, `NotARecordingError`.
    """
    warnings: list[str] = []
    wanted = profile if form is not None else None
    if _wants_index(recording):
        try:
            return Lookup(recording, _stored_table(recording, profile=wanted), warnings)
        except TableError as error:
            warnings.append(
                f"the replay index is not used ({error.what}) and has been made anew in memory; "
                "`tieline doctor DIR --reindex` keeps it"
            )
    return Lookup(recording, _built(recording, form, profile, progress), warnings)


def _stored_table(recording: Recording, *, profile: str | None = None) -> Table:
    """The replay index that lies beside a sealed recording. Raises `TableError` where it cannot be used."""
    try:
        fd = files.open_to_read(recording.path, files.REPLAY_INDEX)
    except NotARecordingError:
        raise TableError("it is missing") from None
    try:
        data = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise TableError("it is empty") from None
    finally:
        os.close(fd)
    table = Table(memoryview(data))
    if table.stamp != _stamp(recording):
        raise TableError("it is of other frames")
    if profile is not None and table.profile != profile:
        raise TableError(f"its keys are those of {table.profile or 'no profile'}, not of {profile}")
    return table


def replay_index_note(recording: Recording) -> str | None:
    """What is wrong with a recording's replay index, every byte of it read; None where it is well or not needed."""
    if not _wants_index(recording):
        return None
    try:
        _stored_table(recording).check()
    except TableError as error:
        return error.message
    return None


def reindex(
    path: Path, *, form: Form | None = None, profile: str = "", progress: Progress | None = None
) -> Recording:
    """Make the indexes of a sealed recording anew, as sealing would have, and seal one that was broken off.

    No frame is changed; a torn tail goes when a recording is sealed. Raises `LockedError` where somebody writes
    it, `DamagedError`, `NotARecordingError`, `RecordingError` where there is no room.
    """
    try:
        directory = files.open_directory(path)
    except OSError:
        raise NotARecordingError(f"`{path}` is not a directory: a recording is one") from None
    try:
        files.lock(directory, path)
        header = decode_header(files.read_small(path, files.HEADER))
        if not is_sealed(path):
            os.close(files.open_to_read(path, files.FRAMES))
            seal_directory(directory, path, progress)
            return open_recording(path)
        recording = Recording(path=path, header=header, state="sealed", index=index_anew(path, progress))
        files.replace(directory, files.INDEX, encode_index(recording.index))
        if stored_seal(path) is None:
            write_seal(directory, path, recording.index)
        if _wants_index(recording):
            with files.replacing(directory, files.REPLAY_INDEX) as fd:
                writer = TableWriter(partial(files.write_whole, fd))
                _write_table(recording, writer, form=form, profile=profile, progress=progress)
    except OSError as error:
        raise RecordingError(f"the indexes cannot be written: {error.strerror}") from error
    finally:
        os.close(directory)
    return open_recording(path)


def _write_table(
    recording: Recording,
    writer: TableWriter,
    *,
    form: Form | None = None,
    profile: str = "",
    progress: Progress | None = None,
) -> None:
    """Write the rows of all stored frames. Raises `DamagedError` where they are not there."""
    done = place = 0
    for line in recording.lines():
        frame = _read(recording, line, place)
        if frame.kind != "block":
            key = b""
            if form is not None and frame.kind == "request":
                whole = migrated(decoded(line, place), recording.header.format)
                key = form(with_body(recording.path, whole)) or b""
            writer.see(frame, place, len(line), key)
            done += 1
            if progress is not None and done % STEP == 0:
                progress(done, recording.frames)
        place += len(line)
    if done != recording.frames:
        raise DamagedError(
            f"{done} frames are there of {recording.frames}", seq=recording.index.last, byte=place
        )
    writer.finish(_stamp(recording), profile if form is not None else "")
    if progress is not None:
        progress(done, recording.frames)


def _read(recording: Recording, line: bytes, place: int) -> Told:
    """Lines are not checked again: opening has checked those of an open recording, unpacking those of a sealed one."""
    if recording.header.format == FORMAT:
        try:
            return _slim(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return decoded(line, place)
    return migrated(decoded(line, place), recording.header.format)


def _built(recording: Recording, form: Form | None, profile: str, progress: Progress | None) -> Table:
    if recording.index.bytes < TABLE_BYTES:
        parts: list[bytes] = []
        _write_table(recording, TableWriter(parts.append), form=form, profile=profile, progress=progress)
        return Table(memoryview(b"".join(parts)))
    # A file without a name: however large the recording, its rows take no more memory than is looked at.
    try:
        with tempfile.TemporaryFile() as file:
            _write_table(recording, TableWriter(file.write), form=form, profile=profile, progress=progress)
            file.flush()
            return Table(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    except OSError as error:
        raise RecordingError(f"there is no room for the rows of the recording: {error.strerror}") from error


def _wants_index(recording: Recording) -> bool:
    return recording.state == "sealed" and recording.index.bytes >= TABLE_BYTES


def _stamp(recording: Recording) -> Stamp:
    index = recording.index
    return index.frames, index.last, index.bytes, index.root


def _no_frame(seq: int) -> RecordingError:
    return RecordingError(f"the recording has no frame {seq}", code="invalid_request", details={"seq": seq})
