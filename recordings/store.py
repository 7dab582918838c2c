"""Writing a recording: each frame at once, by one write, into a private directory with one writer.

Owns the descriptor, the reserve for a full disk, the choice of durability and the sealing of a finished
recording. What a line looks like is `segment`'s business, what must not be written is the redactor's, what lies beside
the frames is in `beside`, reading is `reader`'s.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec

from recordings import files
from recordings.beside import Blobs, HeaderFile, Reserve
from recordings.errors import RecordingError, WriteRefusedError
from recordings.frame import BLOB_BYTES, Frame
from recordings.header import Header
from recordings.segment import (
    Chain,
    beside,
    crc32c,
    digest_of,
    frame_of,
    hole,
    line_of,
    part,
    settle,
    through,
)
from recordings.syncing import Syncer

if TYPE_CHECKING:
    from recordings.looks import Looks
    from recordings.reader import Recording, open_recording

__all__ = ["Durability", "Header", "Recorder", "Recording", "Redacts", "open_recording"]


def __getattr__(name: str) -> object:
    """Give `Recording` and `open_recording`: whoever only writes does not wait for what reads."""
    if name not in ("Recording", "open_recording"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from recordings import reader

    return getattr(reader, name)


Durability: TypeAlias = Literal["os", "group", "barrier"]
"""What survives power loss: whatever the system wrote; all but 50 ms; all that `barrier` returned for."""

RESERVE_BYTES = 8 * 1024 * 1024
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


class Recorder:
    """The one writer of a recording. `append` from one thread; `seal` and `close` end it.

    A frame is redacted, encoded and given to the system before `append` returns, so that the process may be
    killed at any point and loses none. A body of blob size is written before the line that names it, in the
    same call: from a worker it could be missing after a kill.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        header: Header | None = None,
        redactor: Redacts | None = None,
        durability: Durability = "group",
        on_write_error: Literal["refuse", "serve"] = "refuse",
        reserve_bytes: int = RESERVE_BYTES,
        on_incomplete: Callable[[WriteRefusedError], None] | None = None,
        gaps: str = "not recorded",
        group_s: float = 0.05,
        write: Callable[[int, bytes], int] = os.write,
        looks: Looks | None = None,
    ) -> None:
        """Make `directory` and the files in it. Raises `RecordingError`.

        `on_incomplete` is called once, when the first frame is missing under `on_write_error="serve"`. `gaps` is
        what is said of numbers that are left out. `write` stands in for the system's in tests. `looks` may know of
        long bodies already what is to be found out of them; they are of the same redactor.
        """
        self.path = Path(directory)
        self.durability: Durability = durability
        self.redactor = redactor
        self._suspects = redactor.suspects if redactor is not None else None
        self._quickened = -1
        self._serve = on_write_error == "serve"
        self._on_incomplete = on_incomplete
        self._write = write
        self._looks = looks
        self._chain = Chain()
        self._last: int | None = None
        self._at = self._size = 0
        self._lock = threading.Lock()
        self._refusal: WriteRefusedError | None = None
        self._why = gaps
        self._broken = False
        self._retry_at = 0
        self._closed = False
        self._directory = files.make_directory(self.path)
        self._fd = -1
        self._reserve = Reserve(self._directory, reserve_bytes)
        try:
            # The header comes last: with it, the directory is a recording, and has to have all that one has.
            self._fd = files.create(self._directory, files.FRAMES, append=True)
            self._head = HeaderFile(self._directory, header or Header())
            self._blobs = Blobs(self._directory, write)
            if not self._reserve.take():
                raise WriteRefusedError("the recording cannot be written: the disk is full")
            os.fsync(self._directory)
        except OSError as error:
            self._release_all()
            raise WriteRefusedError(f"the recording cannot be written: {error.strerror}") from error
        except BaseException:
            self._release_all()
            raise
        self._syncer = Syncer(self._flush, self._sync, interval_s=group_s if durability != "os" else None)

    # Appending

    def append(self, frame: Frame, *, is_known: bool = False) -> None:
        """Redact, encode and write one frame. Numbers rise; one that is left out is recorded as a hole.

        `is_known`: its body is known to be JSON.

        Raises `WriteRefusedError` where the recording cannot be written: at once for a new request, and for
        what is in flight once the reserve is used up too. Never raises it under `on_write_error="serve"`.
        """
        frame = settle(frame, is_known=is_known)
        line, frame, blob = self._encode(frame)
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

    def _mark_incomplete(self, refusal: WriteRefusedError) -> None:
        if self._head.header.incomplete:
            return
        self._head.header.incomplete = True
        self._head.write()
        if self._on_incomplete is not None:
            self._on_incomplete(refusal)

    def append_encoded(self, payload: bytes, seen: bytes, seq: int, at: int) -> bool:
        """As `append`, for a frame that is JSON already: `payload` is what `json_of` gives for it. Returns whether the
        redactor has looked at what is `seen` and suspects nothing.

        The body in it is known to be JSON without newlines, and shorter than a blob; only what is `seen` of it can be
        a secret. What is out of the ordinary (a suspicion, a block that is due, a disk that does not take it) goes
        the long way.
        """
        redactor = self.redactor
        # The hints are asked here, since most bytes give none and a call less is a call less for each of them.
        if self._refusal is None and (
            redactor is None or not redactor.hints(seen) or not redactor.suspects(seen)
        ):
            line = b'%b,"crc":%d}\n' % (payload[:-1], crc32c(payload))
            lock = self._lock  # without `with`, which would cost twice as much, twice for each call
            lock.acquire()
            try:
                chain = self._chain
                if (
                    at < chain.due_at
                    and (seq - 1 == self._last or (not seq and self._last is None))
                    and not self._closed
                ):
                    write = self._write
                    try:
                        done = write(self._fd, line)
                    except OSError:
                        done = -1
                    if done == len(line):
                        self._size += done
                        chain.add(line, seq, at)
                        self._last = seq
                        self._at = at
                        if not self._syncer.is_dirty:
                            self._syncer.dirty()
                        return redactor is not None
                    with contextlib.suppress(OSError):
                        os.ftruncate(self._fd, self._size)
            finally:
                lock.release()
        self.append(frame_of(payload))
        return False

    def append_beside(self, start: bytes, body: bytes, seq: int, at: int, *, is_harmless: bool) -> bool:
        """As `append_encoded`, for a frame whose body is a blob: `start` is the frame's JSON up to where that is named,
        and `is_harmless` says that nothing in it can be a secret.

        What is out of the ordinary goes the long way here too.
        """
        redactor = self.redactor
        seen = self._looks.seen(body) if self._looks is not None else None
        if self._refusal is None and (
            redactor is None
            or not (
                (seen.is_suspected if seen is not None else redactor.suspects(body))
                or (not is_harmless and redactor.suspects(start + b"}"))
            )
        ):
            digest = seen.digest if seen is not None else digest_of(body)
            if self._put_beside(beside(start, digest, len(body)), digest, body, seq, at):
                return redactor is not None
        self.append(msgspec.structs.replace(frame_of(start + b"}"), body=msgspec.Raw(body)), is_known=True)
        return False

    def _put_beside(self, line: bytes, digest: str, body: bytes, seq: int, at: int) -> bool:
        """Write a body and the line that names it; say whether that was possible, and leave no line where not."""
        with self._lock:
            chain = self._chain
            if self._last is None or seq - 1 != self._last or self._closed:
                return False
            try:
                self._blobs.put(digest, body)
            except OSError:
                return False
            before: Chain | None = None
            data = line
            if chain.due(at):
                before = chain.copy()
                data = chain.close(self._last, self._at) + line
            if not self._put_whole(data):
                self._chain = before or chain
                return False
            self._quicken()
            chain.add(line, seq, at)
            self._last = seq
            self._at = at
            self._syncer.dirty()
        return True

    def append_together(self, payloads: list[bytes], seen: bytes, seq: int, at: int) -> bool:
        """As `append_encoded`, for frames numbered from `seq` on, by one write; say whether that was done.

        Where not, nothing was: they are to be appended one by one, and what is out of the ordinary shows then.
        """
        redactor = self.redactor
        if self._refusal is not None or (
            redactor is not None and redactor.hints(seen) and redactor.suspects(seen)
        ):
            return False
        lines = [b'%b,"crc":%d}\n' % (payload[:-1], crc32c(payload)) for payload in payloads]
        data = b"".join(lines)
        size = len(data)
        with self._lock:
            chain = self._chain
            if self._last is None or seq - 1 != self._last or self._closed:
                return False
            before: Chain | None = None
            if chain.due(at):
                before = chain.copy()
                data = chain.close(self._last, self._at) + data
                self._quicken()
            if not self._put_whole(data):
                self._chain = before or chain
                return False
            chain.add_all(lines, size, seq, at)
            self._last = seq + len(lines) - 1
            self._at = at
            self._syncer.dirty()
        return True

    def append_both(self, first: bytes, second: bytes, seen: bytes, seq: int, at: int) -> bool:
        """As `append_together`, for two frames."""
        if at >= self._chain.due_at:
            return self.append_together([first, second], seen, seq, at)
        redactor = self.redactor
        if self._refusal is not None or (
            redactor is not None and redactor.hints(seen) and redactor.suspects(seen)
        ):
            return False
        one = b'%b,"crc":%d}\n' % (first[:-1], crc32c(first))
        other = b'%b,"crc":%d}\n' % (second[:-1], crc32c(second))
        data = one + other
        lock = self._lock  # without `with`, as in `append_encoded`
        lock.acquire()
        try:
            chain = self._chain
            if at >= chain.due_at or seq - 1 != self._last or self._closed:
                return False
            write = self._write
            try:
                done = write(self._fd, data)
            except OSError:
                done = -1
            if done == len(data):
                self._size += done
                chain.add_both(one, other, done, seq, at)
                self._last = seq + 1
                self._at = at
                if not self._syncer.is_dirty:
                    self._syncer.dirty()
                return True
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
        finally:
            lock.release()
        return False

    def _put_whole(self, data: bytes) -> bool:
        """Write lines by one write, and say whether that was possible; where not, none of them is there."""
        try:
            done = self._write(self._fd, data)
        except OSError:
            done = -1
        if done == len(data):
            self._size += done
            return True
        # Half a line would read as damage as soon as another one follows.
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, self._size)
        return False

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
        self._refusal = WriteRefusedError(self._why, details={"errno": error.errno, "path": str(self.path)})
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

    # Durability

    @property
    def serves(self) -> bool:
        """Whether calls are served also while nothing can be written."""
        return self._serve

    def barrier(self) -> None:
        """Return once every frame appended so far is on disk.

        Raises `WriteRefusedError`, except under `on_write_error="serve"`, which marks the recording instead.
        """
        try:
            self._syncer.now()
            if self._broken and self._refusal is not None:
                raise self._refusal
        except WriteRefusedError as refusal:
            if not self._serve:
                raise
            self._mark_incomplete(refusal)

    def _flush(self) -> None:
        """Close the block, so that the chain covers what is about to be on disk."""
        with self._lock:
            if not self._chain.frames or self._broken:
                return
            before = self._chain.copy()
            try:
                self._put(self._chain.close(self._last or 0, self._at))
            except OSError:
                self._chain = before

    def _sync(self) -> None:
        with self._lock:
            if self._closed:
                return
            blobs = self._blobs.take_unsynced()
        if self._head.waits:
            self._head.write()
        try:
            self._blobs.sync(blobs)
            files.sync(self._fd)
        except OSError as error:
            # After a failed fsync the system forgets the pages: to try again would only look like success.
            with self._lock:
                self._broken = True
                raise self._refuse(error) from error

    # The header, and the end

    @property
    def header(self) -> Header:
        """What `recording.json` says at present."""
        return self._head.header

    def update_header(self, **changes: Any) -> None:
        """Change fields of the header, as peers become known. The file follows, written beside: it takes two fsyncs."""
        self._head.change(**changes)
        self._syncer.soon()

    def seal(self) -> None:
        """End the recording, compress and index it. Takes about 10 ms a MiB; may be called in a thread.

        Raises `WriteRefusedError` where there is no room; the unsealed recording is then left as it is, and
        whole.
        """
        from recordings.sealing import seal_directory

        if self._closed:
            raise RecordingError("the recording is closed", code="internal")
        self._end()
        try:
            seal_directory(self._directory, self.path)
        except OSError as error:
            raise WriteRefusedError(f"the recording cannot be sealed: {error.strerror}") from error
        finally:
            self._release_all()

    def close(self) -> None:
        """End the recording without sealing it. Does nothing the second time."""
        self._end()
        self._release_all()

    def _end(self) -> None:
        if self._closed:
            return
        self._syncer.stop()
        self._flush()
        with contextlib.suppress(WriteRefusedError):
            if self.durability != "os":
                self._sync()
        with self._lock:
            self._closed = True
        self._reserve.release()
        if self._head.header.incomplete or self._head.waits:
            self._head.write()

    def _release_all(self) -> None:
        self._reserve.release()
        for fd in (self._fd, self._directory):
            if fd >= 0:
                os.close(fd)
        self._fd = self._directory = -1

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _quicken(redactor: Redacts) -> None:
    # In the thread, since it loads what a recorder does not need otherwise.
    from recordings.scanning import compiled

    redactor.quicken(compiled)
