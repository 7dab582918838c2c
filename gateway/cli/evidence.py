"""What commands print of a request that no line holds: the hash of its params, its key, and its number.

The hash joins a recorded request to the extension log; the key says which requests a replay takes for the same. They
are made of what was recorded when somebody reads it: no call waits for them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gateway.cli.output import CliError, tell_warning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from recordings.frame import Frame
    from recordings.lookup import Lookup
    from recordings.profile import Profile
    from recordings.reader import Recording


def evidence(frame: Frame, body: bytes) -> str | None:
    """The `params_hash` of a request with this body, sha256 hex; None where there is none."""
    if frame.kind != "request" or not body:
        return None
    if frame.params_hash is not None:
        return frame.params_hash
    import msgspec

    from gateway.protocol.canonical import NotCanonicalError, params_hash

    try:
        params = msgspec.json.decode(body, type=dict[str, msgspec.Raw]).get("params", b"")
        return params_hash(frame.method or "", bytes(params))
    except (msgspec.DecodeError, UnicodeDecodeError, NotCanonicalError, RecursionError):
        return None


def keyed(recording: Recording, frames: Iterable[Frame], body: Callable[[Frame], bytes]) -> Iterable[Frame]:
    """All frames of a recording, requests with `key` and `nth`; without, and a warning, where its rules are none."""
    from recordings.keys import with_keys

    profile = _profile(recording)
    return frames if profile is None else with_keys(frames, profile, body)


def keyed_one(lookup: Lookup, frame: Frame, body: bytes) -> Frame:
    """One frame, with `key` and `nth` where it is a request: the requests before it that may be the same are read."""
    from recordings.errors import MissingBlobError
    from recordings.keys import Keys

    profile = _profile(lookup.recording) if frame.kind == "request" else None
    if profile is None:
        return frame
    keys = Keys(profile)
    for row in lookup.rows():
        if row.seq >= frame.seq:
            break
        if (row.kind, row.method, row.name, row.lane) == (frame.kind, frame.method, frame.name, frame.lane):
            with suppress(MissingBlobError):
                keys.keyed(lookup.frame(row.seq), lookup.body(row.seq))
    return keys.keyed(frame, body)


def _profile(recording: Recording) -> Profile | None:
    from gateway.cli.rule_files import profiles_for
    from recordings.errors import RecordingError
    from recordings.profile import ProfileError

    try:
        return profiles_for(recording)[0]
    except (CliError, RecordingError, ProfileError) as error:
        tell_warning(f"requests are shown without `key` and `nth`: {error}")
        return None
