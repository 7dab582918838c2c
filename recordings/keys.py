"""Which requests of a recording are the same: the key of each, and the how-manieth of its lane it is.

Owns the counting. What a key is made of is the business of `form`; no line holds one, it is made when it is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from recordings.form import former
from recordings.frame import Frame
from recordings.profile import Profile


class Keys:
    """Keys under one profile, counted in the order in which requests are shown."""

    def __init__(self, profile: Profile) -> None:
        self._former = former(profile)
        self._seen: Counter[tuple[str, str]] = Counter()

    def keyed(self, frame: Frame, body: bytes) -> Frame:
        """The frame with `key` (32 hex digits) and `nth` (from 1, of its lane) where it is a request with a body."""
        key = self.key_of(frame, body)
        if key is None:
            return frame
        which = frame.lane or "", key
        self._seen[which] += 1
        return replace(frame, key=key, nth=self._seen[which])

    def key_of(self, frame: Frame, body: bytes) -> str | None:
        """The key of a request; None where a frame is none."""
        if frame.kind != "request" or not body:
            return None
        try:
            params = bytes(msgspec.json.decode(body, type=dict[str, msgspec.Raw]).get("params", b""))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return self._former.form(frame.method or "", frame.name, params, peer=frame.peer).key.hex()


def with_keys(frames: Iterable[Frame], profile: Profile, body: Callable[[Frame], bytes]) -> Iterator[Frame]:
    """All frames of a recording in order, requests with `key` and `nth`."""
    keys = Keys(profile)
    for frame in frames:
        yield keys.keyed(frame, body(frame)) if frame.kind == "request" else frame
