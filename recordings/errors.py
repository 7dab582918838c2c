"""What can be wrong with a recording, as a small tree of errors that name the place and the way out.

Owns the error types of this package alone. Every one has a taxonomy code, a sentence for a person and
structured details; none of them ever holds a body or a secret.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Code: TypeAlias = Literal["timeout", "denied", "io", "invalid_request", "internal"]


class RecordingError(Exception):
    """A recording cannot be written or read. `code` is one of the taxonomy's five."""

    code: Code = "io"

    def __init__(
        self, message: str, *, code: Code | None = None, details: dict[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, object] = details or {}
        if code is not None:
            self.code = code


class WriteRefusedError(RecordingError):
    """The recording cannot be written: disk full, write error, fsync error. New calls get `io`."""


class LockedError(RecordingError):
    """Another process writes this recording."""

    code: Code = "denied"


class TakenError(RecordingError):
    """The directory that a recording is to be written to holds something."""

    code: Code = "invalid_request"


class NotARecordingError(RecordingError):
    """The path holds no recording, or its header cannot be read."""

    code: Code = "invalid_request"


class NewerFormatError(RecordingError):
    """The recording is of a format that this version does not know; names both."""

    code: Code = "invalid_request"

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the recording is of format {found}, this version of Tieline knows formats up to {known}: "
            "read it with a newer Tieline",
            details={"found": found, "known": known},
        )
        self.found = found
        self.known = known


class DamagedError(RecordingError):
    """Bytes in the middle of a recording are not what was written. Names the sequence number and the byte."""

    def __init__(self, what: str, *, seq: int, byte: int) -> None:
        super().__init__(
            f"the recording is damaged at seq {seq}, byte {byte}: {what}; "
            "`tieline doctor DIR --salvage OUT` keeps what is intact",
            details={"seq": seq, "byte": byte, "what": what},
        )
        self.what = what
        self.seq = seq
        self.byte = byte


class MissingBlobError(RecordingError):
    """A frame names a body in `blobs/` that is not there or is not the one that was written."""

    def __init__(self, what: str, *, seq: int, digest: str) -> None:
        super().__init__(
            f"the body of frame {seq} is {what} (blob {digest})",
            details={"seq": seq, "hash": digest, "what": what},
        )
        self.seq = seq
        self.digest = digest
