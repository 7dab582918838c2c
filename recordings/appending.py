"""Appending frames to a recording: each is redacted, encoded and given to the system before `append` returns.

Owns what was written last, the block that is being filled, and what happens where the disk takes no more. Frames that
somebody has encoded already go by `quick_appending`; who opens, syncs and ends a recording is `store`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from recordings import files
from recordings.errors import RecordingError, WriteRefusedError
from recordings.frame import BLOB_BYTES, Frame
from recordings.segment import Chain, hole, line_of, part, settle, through

if TYPE_CHECKING:
    from pathlib import Path

    from recordings.beside import Blobs, HeaderFile, Reserve
    from recordings.syncing import Syncer

QUICK_FROM_BYTES = 128 * 1024
"""After so much it pays to have the redactor made quick, which takes a process half a second, and here 2 MiB."""
RETRY_NS = 1_000_000_000
"""How long, on the session's clock, a recorder that was refused waits before it asks for room again."""


class Redacts(Protocol):
    """What a recorder asks of a redactor."""

    @property
    def generation(self) -> int:
        """Changes whenever there is more that is a secret."""
        ...

    @property
    def hints(self) -> Callable[[bytes], object]:
        """Tells whether `suspects` need be asked about bytes. Another one in each generation."""
        ...

    def suspects(self, data: bytes) -> bool:
        """Whether these bytes may hold a secret; cheap, and never wrong the other way."""
        ...

    def frame(self, frame: Frame) -> Frame:
        """The frame without its secrets, flagged `redacted` where there were any."""
        ...

    def quicken(self, compiled: Callable[[Sequence[bytes]], bytes | None]) -> None:
        """Make `hints` quicker for as long as the generation lasts; takes a while, and may be called in a thread."""
        ...


class Appending:
    """What is being written of a recording. Whoever opens it sets what is only declared here."""

    _fd: int
    """Of the file of frames."""
    _reserve: Reserve
    _head: HeaderFile
    _blobs: Blobs
    _syncer: Syncer

    def __init__(
        self,
        path: str,
        *,
        redactor: Redacts | None,
        serve: bool,
        on_incomplete: Callable[[WriteRefusedError], None] | None,
        gaps: str,
        write: Callable[[int, bytes], int],
    ) -> None:
        """As `Recorder` has them; `serve` is whether calls are served also while nothing can be written."""
        self._place = path
        self.redactor = redactor
        self._suspects = redactor.suspects if redactor is not None else None
        self._quickened = -1
        self._serve = serve
        self._on_incomplete = on_incomplete
        self._write = write
        self._chain = Chain()
        self._last: int | None = None
        self._at = self._size = 0
        self._lock = threading.Lock()
        self._refusal: WriteRefusedError | None = None
        self._why = gaps
        self._broken = False
        self._retry_at = 0
        self._closed = False

    @property
    def path(self) -> Path:
        """Its directory."""
        # A start does not load what this is.
        from pathlib import Path

        return Path(self._place)

    def append(self, frame: Frame, *, is_known: bool = False) -> None:
        """Redact, encode and write one frame. Numbers rise; one that is left out is recorded as a hole.

        `is_known`: its body is known to be JSON.

        Raises `WriteRefusedError` where the recording cannot be written: at once for a new request, and for
        what is in flight once the reserve is used up too. Never raises it under `on_write_error="serve"`.
        """
        frame = settle(frame, is_known=is_known)
        try:
            line, frame, blob = self._encode(frame)
        except (ImportError, OSError) as error:
            self._unread(error)
            return
        with self._lock:
            if self._closed:
                raise RecordingError("the recording is closed", code="internal")
            if self._last is not None and frame.seq <= self._last:
                raise RecordingError(f"frame {frame.seq} comes after frame {self._last}", code="internal")
            try:
                self._append(frame, line, blob)
            except WriteRefusedError as refusal:
                if not self._serve:
                    raise
                self._mark_incomplete(refusal)
                return
            self._syncer.dirty()

    def _unread(self, error: Exception) -> None:
        """What looks for secrets could not be loaded, for want of descriptors, say: nothing is written unseen."""
        self._why = "the recording cannot be written: what looks for secrets cannot be loaded"
        refusal = WriteRefusedError(self._why, details={"why": str(error), "path": self._place})
        if not self._serve:
            raise refusal from error
        self._mark_incomplete(refusal)

    def _mark_incomplete(self, refusal: WriteRefusedError) -> None:
        if self._head.header.incomplete:
            return
        self._head.header.incomplete = True
        self._head.write()
        if self._on_incomplete is not None:
            self._on_incomplete(refusal)

    def suspects(self, data: bytes) -> bool:
        """Whether the redactor would look closer at these bytes."""
        return self._suspects is not None and self._suspects(data)

    def _encode(self, frame: Frame) -> tuple[bytes, Frame, bytes | None]:
        redactor = self.redactor
        if frame.kind != "raw" and memoryview(frame.body).nbytes < BLOB_BYTES:
            line = line_of(frame)
            if redactor is None or not redactor.suspects(line):
                return line, frame, None
        # The line does not show a body that lies in a blob or in base64: the redactor looks at the frame.
        if redactor is not None:
            frame = redactor.frame(frame)
        frame, blob = part(frame)
        return line_of(frame), frame, blob

    def _append(self, frame: Frame, line: bytes, blob: bytes | None) -> None:
        if self._refusal is not None and (self._broken or frame.kind == "request"):
            self._recover(frame.at)
        if blob is not None and frame.blob is not None:
            name = frame.blob.hash
            try:
                self._blobs.put(name, blob)
            except OSError as error:
                self._stuck(error, frame, lambda: self._blobs.put(name, blob))
            self._quicken()
        before: Chain | None = None
        out = line
        expected = 1 if self._last is None else self._last + 1
        if frame.seq > expected or self._chain.due(frame.at):
            before = self._chain.copy()
            out = self._lead_in(frame, expected) + line
        try:
            self._put(out)
        except OSError as error:
            try:
                self._stuck(error, frame, lambda: self._put(out))
            except WriteRefusedError:
                if before is not None:
                    self._chain = before
                raise
        self._chain.add(line, frame.seq, frame.at)
        self._last = through(frame) or frame.seq
        self._at = frame.at

    def _lead_in(self, frame: Frame, expected: int) -> bytes:
        """What must stand before a frame: the block that is due, and a word on numbers that are not there."""
        out = b""
        if self._chain.due(frame.at):
            out = self._chain.close(self._last or 0, self._at)
            self._quicken()
        if frame.seq > expected:
            line = line_of(hole(expected, frame.seq - 1, frame.at, self._why))
            self._chain.add(line, expected, frame.at)
            out += line
        return out

    def _put(self, data: bytes) -> None:
        start = self._size
        try:
            done = self._write(self._fd, data)
            while done < len(data):
                done += self._write(self._fd, data[done:])
        except OSError:
            # Half a line would read as damage as soon as another one follows.
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, start)
            raise
        self._size = start + len(data)

    def _quicken(self) -> None:
        """See now and then whether it pays to have the redactor made quick, and have that done beside."""
        redactor = self.redactor
        if redactor is None or self._quickened == redactor.generation:
            return
        if self._size + self._blobs.written_bytes >= QUICK_FROM_BYTES:
            self._quickened = redactor.generation
            with contextlib.suppress(RuntimeError):  # no more threads: it stays as it is
                threading.Thread(
                    target=_quicken, args=(redactor,), name="tieline-quicken", daemon=True
                ).start()

    # Trouble

    @property
    def refusal(self) -> WriteRefusedError | None:
        """Why new requests are refused at present; None while all is well."""
        return self._refusal

    @property
    def last(self) -> int | None:
        """The number of the last frame that was written."""
        return self._last

    @property
    def serves(self) -> bool:
        """Whether calls are served also while nothing can be written."""
        return self._serve

    def _stuck(self, error: OSError, frame: Frame, again: Callable[[], None]) -> None:
        """A write failed: refuse a request, and end what is in flight into the room that was set aside."""
        refusal = self._refuse(error)
        released = error.errno in files.FULL and self._reserve.release()
        if frame.kind == "request" or not released:
            raise refusal from error
        try:
            again()
        except OSError as once_more:
            raise self._refuse(once_more) from once_more

    def _refuse(self, error: OSError) -> WriteRefusedError:
        self._why = f"the recording cannot be written: {error.strerror}"
        self._refusal = WriteRefusedError(self._why, details={"errno": error.errno, "path": self._place})
        self._retry_at = self._at + RETRY_NS
        return self._refusal

    def _recover(self, at: int) -> None:
        if self._refusal is None:
            return
        if self._broken or at < self._retry_at:
            raise self._refusal
        self._retry_at = at + RETRY_NS
        is_room = False
        with contextlib.suppress(OSError):
            is_room = self._reserve.take()
        if not is_room:
            raise self._refusal
        self._refusal = None


def _quicken(redactor: Redacts) -> None:
    # In the thread, since it loads what a recorder does not need otherwise.
    from recordings.scanning import compiled

    redactor.quicken(compiled)
