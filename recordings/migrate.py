"""Reading older formats: one step from each format to the next, applied in order, never in place.

Owns the steps and the refusal of newer formats. Format 1 is the first, so there is no step yet; a recording
of it is read as it stands.
"""

from __future__ import annotations

from collections.abc import Callable

from recordings.errors import NewerFormatError, NotARecordingError
from recordings.frame import FORMAT, Frame

STEPS: dict[int, Callable[[Frame], Frame]] = {}
"""For each older format, how one of its frames becomes a frame of the next."""


def check_format(found: object) -> int:
    """The format number of a header. Raises `NewerFormatError`; `NotARecordingError` where it is none."""
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise NotARecordingError(f"the header's format is {found!r}, not a positive integer")
    if found > FORMAT:
        raise NewerFormatError(found, FORMAT)
    return found


def migrated(frame: Frame, found: int) -> Frame:
    """The frame as this version means it, from format `found`."""
    for number in range(found, FORMAT):
        frame = STEPS[number](frame)
    return frame
