"""A recording, driven whole: opened, played, compared, reported."""

from __future__ import annotations

from collections.abc import Callable

from gateway.config.recorded import config_of
from gateway.replay.drive import Drive
from recordings.divergence import Report
from recordings.reader import Recording


def driven(recording: Recording, *, progress: Callable[[int], None] | None = None) -> Report:
    """Play a recorded session whole and report whether it came out the same.

    Raises:
        RecordingError: The recording is damaged, or a body of it is missing.
    """
    header = recording.header
    config, transparent = config_of(header.settings, list(header.peers))
    drive = Drive(config, header, body=recording.body, transparent=transparent)
    pairing = drive.run(recording, progress=progress)
    return Report(
        path=str(recording.path),
        session=header.session,
        mode="drive",
        served=pairing.paired,
        of=pairing.count,
        lanes=pairing.lanes,
        divergences=tuple(pairing.divergences),
        aborted="; ".join(f"the exchange failed: {fault}" for fault in pairing.faults),
    )
