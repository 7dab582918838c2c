"""Where a replay reads a recording from: memory, or its files at random.

Owns the choice between the two, and nothing of either.
"""

from __future__ import annotations

from recordings.held import Held
from recordings.lookup import Lookup, open_lookup
from recordings.reader import Recording

SMALL_BYTES = 64 * 1024 * 1024
"""Up to so many bytes of lines a recording is held in memory, where a frame costs a tenth of what it costs on disk."""


def source_of(recording: Recording) -> Held | Lookup:
    """All of a small recording, read at once; of a large one, what is asked for, when it is.

    Raises:
        DamagedError: It is damaged.
    """
    if recording.index.bytes <= SMALL_BYTES:
        return Held(recording, recording.body)
    return open_lookup(recording)
