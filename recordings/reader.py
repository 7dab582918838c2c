"""Reading a recording, live, broken off or sealed: lazily, in constant memory, and trusting nothing.

Owns the opening of a recording's files, the warnings about what is not there, and the errors that the
format's contract names. What a line means is `segment`'s business.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from zlib import crc32

import msgspec
import zstandard

from recordings import files
from recordings.blobs import read_body
from recordings.errors import DamagedError, NotARecordingError, RecordingError
from recordings.frame import Frame
from recordings.header import Header, decode_header
from recordings.migrate import migrated
from recordings.sealing import Chunk, Index, Seal, decode_index, gathered, lines_of, number_of, rebuilt_index
from recordings.segment import BadLineError, Scanned, Tally, decode, scan

State: TypeAlias = Literal["live", "broken-off", "sealed"]
"""Being written now; left unsealed by a writer that is gone; ended in order."""

PROGRESS_BYTES = 4 * 1024 * 1024
"""How much is read between two words on progress."""


@dataclass
class Recording:
    """One opened recording. Iterate it for its frames, in order; every pass reads the files anew.

    A pass raises `DamagedError` where it comes to damage; `frames` says how many there are.
    """

    path: Path
    header: Header
    state: State
    index: Index
    warnings: list[str] = field(default_factory=list[str])

    @property
    def frames(self) -> int:
        """How many frames are stored."""
        return self.index.frames

    @property
    def unanswered(self) -> list[int]:
        """Requests that nothing settled, by number."""
        return self.index.unanswered

    def __iter__(self) -> Iterator[Frame]:
        for scanned in self.scanned():
            if scanned.frame.kind != "block":
                yield migrated(scanned.frame, self.header.format)
        if self.state != "live":
            yield from self.lost()

    def lost(self) -> Iterator[Frame]:
        """A `lost` frame, not stored, for each request that was in flight when the recording ended."""
        for number, seq in enumerate(self.index.unanswered, self.index.last + 1):
            yield Frame(seq=number, kind="lost", way="inside", re=seq, flags=("synthetic",))

    def scanned(self) -> Iterator[Scanned]:
        """Every stored line with its place, block lines too. A torn tail is not among them."""
        yield from scan(self.lines(), Tally())

    def lines(self) -> Iterator[bytes]:
        """Every stored line, block lines too, judged by nobody. Raises `DamagedError` where none are had."""
        if self.state != "sealed":
            fd = files.open_to_read(self.path, files.FRAMES)
            try:
                left = self.index.bytes
                for line in lines_of(fd):
                    left -= len(line)
                    if left < 0:
                        return
                    yield line
            finally:
                os.close(fd)
            return
        fd = files.open_to_read(self.path, files.SEALED_FRAMES)
        try:
            for chunk in self.index.chunks:
                yield from chunk_lines(fd, chunk)
        finally:
            os.close(fd)

    def follow(self, wait: Callable[[], None]) -> Iterator[Frame]:
        """All frames, then each new one as it is written, to the end; `wait` is called in between.

        Raises `DamagedError` where a line is bad.
        """
        if self.state != "live":
            yield from self
            return
        with open(files.open_to_read(self.path, files.FRAMES), "rb") as file:
            rest = b""
            while True:
                ended = not files.is_locked(self.path)
                for line in iter(file.readline, b""):
                    rest += line
                    if not rest.endswith(b"\n"):
                        break
                    frame = decoded(rest, byte=file.tell() - len(rest))
                    rest = b""
                    if frame.kind != "block":
                        yield migrated(frame, self.header.format)
                if ended:
                    return
                wait()

    def frame(self, seq: int) -> Frame:
        """One frame by its number. Raises `RecordingError` where there is none, `DamagedError` if bad."""
        lines = self._lines_near(seq)
        for line in lines:
            frame = decoded(line, byte=0)
            if frame.seq == seq and frame.kind != "block":
                return migrated(frame, self.header.format)
        for frame in self.lost():
            if frame.seq == seq:
                return frame
        raise RecordingError(
            f"the recording has no frame {seq}", code="invalid_request", details={"seq": seq}
        )

    def _lines_near(self, seq: int) -> Iterator[bytes]:
        if self.state != "sealed":
            yield from (line for line in self.lines() if line.startswith(b'{"seq":%d,' % seq))
            return
        place = bisect_right(self.index.chunks, seq, key=lambda chunk: chunk.first) - 1
        if place < 0:
            return
        fd = files.open_to_read(self.path, files.SEALED_FRAMES)
        try:
            yield from (
                line
                for line in chunk_lines(fd, self.index.chunks[place])
                if line.startswith(b'{"seq":%d,' % seq)
            )
        finally:
            os.close(fd)

    def body(self, frame: Frame) -> bytes:
        """The bytes of a frame's body, from the line or from its blob; empty where it has none.

        Raises `MissingBlobError`, which concerns this frame alone.
        """
        return bytes(frame.body) if frame.blob is None else read_body(self.path, frame)


def open_recording(path: Path | str, progress: Callable[[int, int], None] | None = None) -> Recording:
    """Open a recording for reading, whatever state it is in.

    A sealed one is opened by its index, whatever its length; another is read through once, and `progress` called
    now and then with how many bytes are done, of how many. Raises
    `NotARecordingError`, `NewerFormatError`, `DamagedError` (which names the place); warns of a torn tail, of
    holes and of lost requests.
    """
    path = Path(path)
    if not path.is_dir():
        raise NotARecordingError(f"`{path}` is not a directory: a recording is one")
    head = files.read_small(path, files.HEADER)
    header = decode_header(head)
    warnings: list[str] = []
    if is_sealed(path):
        state: State = "sealed"
        seal = stored_seal(path)
        if seal is not None and seal.header not in (None, crc32(head)):
            warnings.append(f"{files.HEADER} is not the one that was sealed")
        index = _sealed_index(path, seal, warnings, progress)
    else:
        state = "live" if files.is_locked(path) else "broken-off"
        fd = files.open_to_read(path, files.FRAMES)
        try:
            builder = gathered(lambda _: lines_of(fd), _throttled(progress, os.fstat(fd).st_size))
        finally:
            os.close(fd)
        index = builder.index()
        _warn_of_tail(builder.tally, state, warnings)
    _warn(header, index, state, warnings)
    return Recording(path=path, header=header, state=state, index=index, warnings=warnings)


def _throttled(progress: Callable[[int, int], None] | None, size: int) -> Callable[[int], None]:
    """What is told how many bytes are done, and says so now and then."""
    due = PROGRESS_BYTES

    def told(done: int) -> None:
        nonlocal due
        if done >= due and progress is not None:
            due = done + PROGRESS_BYTES
            progress(min(done, size), size)

    return told


def _warn_of_tail(tally: Tally, state: State, warnings: list[str]) -> None:
    if tally.torn_lines and state != "live":
        warnings.append(
            f"the last {tally.torn_bytes} bytes ({tally.torn_lines} "
            f"{'line' if tally.torn_lines == 1 else 'lines'}) were torn and have been cut; "
            f"{tally.frames} frames are intact"
        )


def _warn(header: Header, index: Index, state: State, warnings: list[str]) -> None:
    for first, last, why in index.holes:
        warnings.append(f"frames {first} to {last} are not recorded: {why}")
    if index.unanswered and state != "live":
        count = len(index.unanswered)
        warnings.append(
            "1 request has no answer and counts as lost"
            if count == 1
            else f"{count} requests have no answer and count as lost"
        )
    if header.incomplete:
        warnings.append("the recording is incomplete: the session was served while it could not be written")


def _sealed_index(
    path: Path, seal: Seal | None, warnings: list[str], progress: Callable[[int, int], None] | None
) -> Index:
    if seal is None:
        index = index_anew(path, progress)
        warnings.append(
            f"`{files.SEALED}` is lost: every line has been read, and they are those that `{files.INDEX}` tells of; "
            "`tieline doctor DIR --reindex` makes it anew"
        )
        return index
    index = stored_index(path)
    if index is None or (index.frames, index.last, index.bytes, index.root) != (
        seal.frames,
        seal.last,
        seal.bytes,
        seal.root,
    ):
        warnings.append(
            "the index was missing or stale and has been rebuilt in memory; `tieline doctor DIR --reindex` keeps it"
        )
        index = index_anew(path, progress)
    return index


def stored_index(path: Path) -> Index | None:
    """What the file `index` holds; None where it is missing or not the one that was written."""
    try:
        return decode_index((path / files.INDEX).read_bytes())
    except OSError:
        return None


def index_anew(path: Path, progress: Callable[[int, int], None] | None = None) -> Index:
    """The index of a sealed recording out of its lines, each of them checked. Raises `DamagedError`.

    That they are all is known from the seal; where it is lost, from the index that was stored before it.
    """
    fd = files.open_to_read(path, files.SEALED_FRAMES)
    try:
        index = rebuilt_index(fd, progress)
    finally:
        os.close(fd)
    known = stored_seal(path) or stored_index(path)
    why = None
    if known is None:
        why = (
            f"`{files.SEALED}` and `{files.INDEX}` are lost, and nothing says whether more frames were there"
        )
    elif (index.frames, index.root) != (known.frames, known.root):
        why = f"{index.frames} frames are there of {known.frames} that were sealed"
    if why is not None:
        raise DamagedError(why, seq=index.last + 1, byte=index.bytes)
    return index


def is_sealed(path: Path) -> bool:
    """Whether a recording's lines are the compressed ones. So are those of one whose seal was lost: who seals
    removes the others last."""
    if (path / files.SEALED).exists():
        return True
    return (path / files.SEALED_FRAMES).exists() and not (path / files.FRAMES).exists()


def stored_seal(path: Path) -> Seal | None:
    """What the file `sealed` holds; None where it is missing or none. Raises `NotARecordingError`."""
    if not (path / files.SEALED).exists():
        return None
    try:
        return msgspec.json.decode(files.read_small(path, files.SEALED), type=Seal)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def decoded(line: bytes, byte: int) -> Frame:
    """The frame of a line that begins at a byte. Raises `DamagedError`."""
    try:
        return decode(line)
    except BadLineError as why:
        raise DamagedError(str(why), seq=number_of(line), byte=byte) from None


def chunk_text(fd: int, chunk: Chunk) -> bytes:
    """The unpacked lines of one chunk of an open file, in one piece. Raises `DamagedError`."""
    data = os.pread(fd, chunk.length, chunk.offset)
    try:
        # What it says of itself is looked at first: a few bytes may claim to unpack to any length.
        claimed = zstandard.get_frame_parameters(data).content_size
        text = zstandard.ZstdDecompressor().decompress(data) if claimed == chunk.bytes else b""
    except zstandard.ZstdError:
        text = b""
    if len(text) != chunk.bytes:
        raise DamagedError("the compressed lines do not unpack", seq=chunk.first, byte=chunk.byte)
    return text


def chunk_lines(fd: int, chunk: Chunk) -> list[bytes]:
    """The lines of one chunk of an open file. Raises `DamagedError`."""
    return [line + b"\n" for line in chunk_text(fd, chunk).split(b"\n")[:-1]]
