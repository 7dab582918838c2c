"""A recording, driven whole: opened, played, compared, reported."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from gateway.config.recorded import config_of
from gateway.replay.drive import Drive
from recordings.divergence import Report, next_steps
from recordings.reader import Recording


def driven(recording: Recording, *, progress: Callable[[int], None] | None = None) -> Report:
    """Play a recorded session whole and report whether it came out the same.

    Raises:
        RecordingError: The recording is damaged, or a body of it is missing.
    """
    header = recording.header
    config, transparent = config_of(header.settings, list(header.peers))
    drive = Drive(config, header, body=recording.body, transparent=transparent)
    drive.pairing.is_cut = recording.state != "sealed"
    pairing = drive.run(recording, progress=progress)
    path = str(recording.path)
    return Report(
        path=path,
        session=header.session,
        mode="drive",
        served=pairing.paired,
        of=pairing.count,
        lanes=pairing.lanes,
        divergences=tuple(replace(each, next=next_steps(each, path)) for each in pairing.divergences),
        aborted="; ".join(f"the exchange failed: {fault}" for fault in pairing.faults),
    )
