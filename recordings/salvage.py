"""Checking a recording through, and keeping what is intact of a damaged one in a new one.

Owns the full examination that opening a recording leaves out (every blob, every mode) and the copying of
intact frames. The damaged recording is never written to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from recordings import files
from recordings.errors import DamagedError, MissingBlobError, NotARecordingError, RecordingError
from recordings.frame import Frame
from recordings.header import Header, decode_header
from recordings.lookup import replay_index_note
from recordings.reader import Recording, chunk_lines, open_recording, stored_index
from recordings.sealing import Index, chunks_of, lines_of
from recordings.segment import BadLineError, decode
from recordings.store import Recorder

Progress = Callable[[int, int], None]
"""Called now and then with how much is done, of how much."""


@dataclass(slots=True)
class Report:
    """What an examination found. `damage` makes a recording bad; `notes` are worth knowing."""

    path: Path
    state: str = ""
    frames: int = 0
    blobs: int = 0
    damage: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    @property
    def healthy(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damage


@dataclass(slots=True)
class Salvaged:
    """What was kept of a damaged recording, and what was not."""

    path: Path
    kept: int = 0
    bad_lines: int = 0
    holes: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    missing_blobs: list[int] = field(default_factory=list[int])
    """Frames whose body is gone."""


def examine(path: Path, progress: Progress | None = None) -> Report:
    """Read all of a recording: every line, the chain, every blob, the modes. Damage is reported.

    Raises `NotARecordingError` where it is none, `NewerFormatError` where it cannot be understood.
    """
    report = Report(path)
    try:
        recording = open_recording(path, progress)
    except DamagedError as error:
        report.damage.append(error.message)
        _modes(path, report)
        return report
    report.state = recording.state
    report.notes += recording.warnings
    note = replay_index_note(recording)
    if note is not None:
        report.notes.append(note)
    total = recording.frames
    try:
        for scanned in recording.scanned():
            if scanned.frame.kind == "block":
                continue
            report.frames += 1
            if scanned.frame.blob is not None:
                report.blobs += 1
                _blob(recording, scanned.frame, report)
            if progress is not None and report.frames % 1000 == 0:
                progress(report.frames, total)
    except DamagedError as error:
        report.damage.append(error.message)
    if progress is not None:
        progress(report.frames, total)
    if not report.damage and report.frames != total:
        report.damage.append(f"{report.frames} frames are there of {total}")
    _modes(path, report)
    return report


def _blob(recording: Recording, frame: Frame, report: Report) -> None:
    try:
        recording.body(frame)
    except MissingBlobError as error:
        report.damage.append(error.message)


def _modes(path: Path, report: Report) -> None:
    for each in (path, *path.rglob("*")):
        mode = stat.S_IMODE(each.lstat().st_mode)
        if mode & 0o077:
            report.notes.append(f"{each.name or each} is open to others (mode {mode:04o})")


def salvage(path: Path, out: Path, progress: Progress | None = None) -> Salvaged:
    """Copy every intact frame into a new, sealed recording; what is missing is stated there as holes.

    Raises `NotARecordingError`, `NewerFormatError`, or `RecordingError` where `out` cannot be written.
    """
    try:
        header = decode_header(files.read_small(path, files.HEADER))
    except NotARecordingError:
        header = Header()
    result = Salvaged(out)
    size = _size(path)
    done = 0
    with Recorder(out, header=header, durability="os", gaps="damaged") as recorder:
        for number, line in enumerate(_lines(path, result)):
            done += len(line)
            if progress is not None and number % 1000 == 0:
                progress(min(done, size), size)
            _keep(path, line, recorder, result)
        recorder.seal()
    if progress is not None:
        progress(size, size)
    return result


def _keep(path: Path, line: bytes, recorder: Recorder, result: Salvaged) -> None:
    try:
        frame = decode(line)
    except BadLineError:
        result.bad_lines += 1
        return
    if frame.kind == "block":
        return
    expected = 1 if recorder.last is None else recorder.last + 1
    if frame.seq < expected and not (recorder.last is None and frame.seq == 0):
        result.bad_lines += 1
        return
    if frame.seq > expected:
        result.holes.append((expected, frame.seq - 1))
    if frame.blob is not None:
        # Given back its body, the frame gets its blob anew, and none that is not what it says.
        try:
            reader = Recording(path=path, header=recorder.header, state="broken-off", index=Index())
            frame = msgspec.structs.replace(frame, body=msgspec.Raw(reader.body(frame)), blob=None)
        except MissingBlobError:
            result.missing_blobs.append(frame.seq)
    recorder.append(frame)
    result.kept += 1


def _size(path: Path) -> int:
    for name in (files.FRAMES, files.SEALED_FRAMES):
        if (path / name).exists():
            return (path / name).stat().st_size
    return 0


def _lines(path: Path, result: Salvaged) -> Iterator[bytes]:
    if (path / files.FRAMES).exists():
        fd = os.open(path / files.FRAMES, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            yield from lines_of(fd)
        finally:
            os.close(fd)
        return
    try:
        fd = os.open(path / files.SEALED_FRAMES, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise NotARecordingError(f"`{path}` holds no frames") from None
    try:
        yield from _chunked_lines(fd, path, result)
    finally:
        os.close(fd)


def _chunked_lines(fd: int, path: Path, result: Salvaged) -> Iterator[bytes]:
    index = stored_index(path)
    if index is not None:
        for chunk in index.chunks:
            try:
                yield from chunk_lines(fd, chunk)
            except DamagedError:
                result.bad_lines += 1
        return
    try:
        for _length, data in chunks_of(fd):
            yield from (line + b"\n" for line in data.split(b"\n")[:-1])
    except RecordingError:
        result.bad_lines += 1
