"""Writing a recording: each frame at once, by one write, into a private directory with one writer.

Owns the files while they are open, the choice of durability, and the end of a recording and its sealing. How frames
get into it is in `appending` and `quick_appending`, what lies beside them in `beside`, what a line looks like in
`segment`; reading is `reader`'s.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from recordings import files
from recordings.appending import Redacts
from recordings.beside import Blobs, HeaderFile, Reserve
from recordings.errors import RecordingError, WriteRefusedError
from recordings.header import Header
from recordings.quick_appending import QuickAppending
from recordings.spelling import spelled
from recordings.syncing import Syncer

if TYPE_CHECKING:
    from pathlib import Path

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


class Recorder(QuickAppending):
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
        super().__init__(
            spelled(os.fspath(directory)), redactor=redactor, serve=on_write_error == "serve",
            on_incomplete=on_incomplete, gaps=gaps, write=write,
        )  # fmt: skip
        self.durability: Durability = durability
        self._looks = looks
        self._directory = files.make_directory(self._place)
        self._fd = -1
        self._reserve = Reserve(self._directory, reserve_bytes)
        try:
            # The header comes last: with it, the directory is a recording, and has to have all that one has.
            self._fd = files.create(self._directory, files.FRAMES, append=True)
            self._head = HeaderFile(self._directory, header or Header())
            self._blobs = Blobs(self._directory, write, stay_open=durability != "os")
            if not self._reserve.take():
                raise WriteRefusedError("the recording cannot be written: the disk is full")
        except OSError as error:
            self._release_all()
            raise WriteRefusedError(f"the recording cannot be written: {error.strerror}") from error
        except BaseException:
            self._release_all()
            raise
        self._syncer = Syncer(self._flush, self._sync, interval_s=group_s if durability != "os" else None)

    # Durability

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
        if self._head.waits:
            self._head.write()
        try:
            # Before the first frame: without it they are no recording. Nobody waits for it at a start.
            self._settle_head()
            with self._lock:
                # Only now: whoever has taken them has to let go of them.
                blobs = self._blobs.take_unsynced()
            self._blobs.sync(blobs)
            files.sync(self._fd)
        except OSError as error:
            # After a failed fsync the system forgets the pages: to try again would only look like success.
            with self._lock:
                self._broken = True
                self._blobs.close()
                raise self._refuse(error) from error

    def _settle_head(self) -> None:
        try:
            self._head.settle()
        except OSError as error:
            if error.errno not in files.NONE_LEFT:
                raise
            # It could not be opened, and nothing is forgotten: once there are descriptors again, it is as it was.
            with self._lock:
                raise self._refuse(error) from error

    # The header, and the end

    @property
    def header(self) -> Header:
        """What `recording.json` says at present."""
        return self._head.header

    def update_header(self, **changes: Any) -> None:
        """Change fields of the header, as peers become known. The file follows, written beside: it takes two fsyncs."""
        self._head.change(**changes)
        self._syncer.with_next()

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
            self._blobs.close()
        self._reserve.release()
        if self._head.header.incomplete or self._head.waits:
            self._head.write()
        with contextlib.suppress(OSError):
            self._head.settle()

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
