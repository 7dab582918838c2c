"""Writing a recording of frames that come from elsewhere: an import, a text form, a public copy.

Owns the new directory's being whole or not there. What the frames are is their source's business.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from recordings.frame import Frame
from recordings.header import Header
from recordings.reader import Recording, open_recording
from recordings.store import Recorder, Redacts


def write_recording(
    directory: Path, header: Header, frames: Iterable[Frame], *, redactor: Redacts | None = None
) -> Recording:
    """Write frames into a new, sealed recording and open it; where that fails, nothing is left.

    Raises `RecordingError`, and whatever the frames raise.
    """
    recorder = Recorder(directory, header=header, redactor=redactor, durability="os", reserve_bytes=0)
    try:
        for frame in frames:
            recorder.append(frame)
        recorder.seal()
    except BaseException:
        recorder.close()
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return open_recording(directory)
