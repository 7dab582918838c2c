"""Appending frames that somebody has encoded already: by one write each or for several, and without a `Frame`.

Owns the tests of whether that can be done, which cost a plain call little. Whatever is out of the ordinary goes the
long way, `appending`, as if it had come by it.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from recordings.appending import Appending
from recordings.segment import BLOCK_BYTES, Chain, beside, digest_of, frame_in, line_from

if TYPE_CHECKING:
    from recordings.looks import Looks


class QuickAppending(Appending):
    """The quick ways of a recorder. None of them writes what the long way would not have."""

    _looks: Looks | None
    """Who may know of long bodies already what is to be found out of them."""

    def append_encoded(self, line: bytes, seen: bytes, seq: int, at: int) -> bool:
        """As `append`, for a frame that is a line already: `line` is what `line_of` gives for it. Returns whether the
        redactor has looked at what is `seen` and suspects nothing.

        The body in it is known to be JSON without newlines, and shorter than a blob; only what is `seen` of it can be
        a secret. What is out of the ordinary (a suspicion, a disk that does not take it) goes the long way.
        """
        redactor = self.redactor
        if redactor is not None:
            # Asked here, since most bytes give no hint and a call less is a call less for each of them; and looked up
            # for themselves, since `redactor.hints(…)` looks for a method first.
            hints = redactor.hints
            if hints(seen) and redactor.suspects(seen):
                return self._append_as_frame(line)
        if self._refusal is not None:
            return self._append_as_frame(line)
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
                    size = chain.size
                    done += size
                    if size and done < BLOCK_BYTES:
                        # As `add`, without the call.
                        chain.lines.append(line)
                        chain.size = done
                    else:
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
        if at >= self._chain.due_at and self.append_together([line], seen, seq, at):
            # As it is: a frame that is read and written anew is not spelt as it was.
            return redactor is not None
        return self._append_as_frame(line)

    def _append_as_frame(self, line: bytes) -> bool:
        """Go the long way, which sees to whatever is out of the ordinary; nothing is known of it then."""
        self.append(frame_in(line))
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
        self.append(
            msgspec.structs.replace(frame_in(line_from(start + b"}")), body=msgspec.Raw(body)), is_known=True
        )
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

    def append_together(self, lines: list[bytes], seen: bytes, seq: int, at: int) -> bool:
        """As `append_encoded`, for frames numbered from `seq` on, by one write; say whether that was done.

        Where not, nothing was: they are to be appended one by one, and what is out of the ordinary shows then.
        """
        redactor = self.redactor
        if self._refusal is not None or (
            redactor is not None and redactor.hints(seen) and redactor.suspects(seen)
        ):
            return False
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
        redactor = self.redactor
        if redactor is not None:
            hints = redactor.hints  # as in `append_encoded`
            if hints(seen) and redactor.suspects(seen):
                return False
        if self._refusal is not None:
            return False
        data = first + second
        lock = self._lock  # without `with`, as in `append_encoded`
        lock.acquire()
        try:
            chain = self._chain
            if at < chain.due_at:
                if seq - 1 != self._last or self._closed:
                    return False
                write = self._write
                try:
                    done = write(self._fd, data)
                except OSError:
                    done = -1
                if done == len(data):
                    self._size += done
                    size = chain.size
                    done += size
                    if size and done < BLOCK_BYTES:
                        # As `add_both`, without the call.
                        chain.lines += (data, b"")
                        chain.size = done
                    else:
                        chain.add_both(data, seq, at)
                    self._last = seq + 1
                    self._at = at
                    if not self._syncer.is_dirty:
                        self._syncer.dirty()
                    return True
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, self._size)
                return False
        finally:
            lock.release()
        return self.append_together([first, second], seen, seq, at)

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
