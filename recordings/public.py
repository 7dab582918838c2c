"""A recording as it can be shown to others: without what tells secrets apart, and without whose machine it was.

Owns what is left out: marks of secrets lose their tails; wall times, process ids, programs, command lines and the
names of environment variables go; folders of people become those of `user`. What a message says otherwise stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

import msgspec
from msgspec import Raw

from recordings.frame import NO_BODY, Frame
from recordings.header import Header, PeerFacts
from recordings.marks import unmarked

HOME = b"/home/user"
PROJECT = b"/home/user/project"

_HOMES = re.compile(rb"(?:/home|/Users)/(?!user(?:[^A-Za-z0-9._-]|$))[A-Za-z0-9._-]+")
_WINDOWS_HOMES = re.compile(rb"([A-Za-z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/))[A-Za-z0-9._-]+")
_HOST = frozenset(("pid", "program", "cwd", "host", "hostname", "user", "command", "env"))


class Shown(Protocol):
    """What of a recording a view needs."""

    @property
    def header(self) -> Header:
        """What is said of the whole."""
        ...

    def __iter__(self) -> Iterator[Frame]: ...

    def body(self, frame: Frame) -> bytes:
        """The bytes of a frame's body, wherever they lie."""
        ...


@dataclass(frozen=True)
class PublicView:
    """A recording as others may see it."""

    header: Header
    _recording: Shown
    _clean: Callable[[bytes], bytes]

    def __iter__(self) -> Iterator[Frame]:
        """The frames; bodies that lie in blobs are to be had from `body`."""
        for frame in self._recording:
            yield self._shown(frame)

    def body(self, frame: Frame) -> bytes:
        """The bytes of a body."""
        return self._clean(self._recording.body(frame))

    def whole(self) -> Iterator[Frame]:
        """The frames with their bodies in them, for a recording of its own; what was not stored is not among them."""
        for frame in self:
            if frame.kind == "lost" and "synthetic" in frame.flags:
                continue
            if frame.blob is not None:
                frame = msgspec.structs.replace(frame, body=Raw(self.body(frame)), blob=None)
            yield frame

    def _shown(self, frame: Frame) -> Frame:
        body = bytes(frame.body)
        return msgspec.structs.replace(
            frame,
            wall=None,
            name=self._text(frame.name) if frame.name is not None else None,
            params_hash=None,
            key=None,
            nth=None,
            body=Raw(self._clean(body)) if body else NO_BODY,
            x=self._facts(frame),
        )

    def _text(self, text: str) -> str:
        return self._clean(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def _facts(self, frame: Frame) -> dict[str, Any] | None:
        if not frame.x or frame.kind == "env":
            return None
        kept = {key: value for key, value in frame.x.items() if key not in _HOST}
        return cast("dict[str, Any]", msgspec.json.decode(self._clean(msgspec.json.encode(kept)))) or None


def public_view(recording: Shown, home: str, cwd: str) -> PublicView:
    """What others may see of a recording. `home` and `cwd` are folders that are known to be somebody's own."""
    clean = _cleaner(home, cwd)
    header = recording.header
    shown = Header(
        session="public",
        by=header.by,
        core=_facts(header.core) if header.core is not None else None,
        peers={name: _facts(facts) for name, facts in header.peers.items()},
        profiles=header.profiles,
        seed=header.seed,
        settings=header.settings,
        imported=header.imported,
        incomplete=header.incomplete,
    )
    return PublicView(shown, recording, clean)


def _facts(facts: PeerFacts) -> PeerFacts:
    return msgspec.structs.replace(facts, command=[])


def _cleaner(home: str, cwd: str) -> Callable[[bytes], bytes]:
    known = [
        (_spelling(path), new)
        for path, new in sorted(((cwd, PROJECT), (home, HOME)), key=lambda pair: -len(pair[0]))
        if len(path.strip("/")) > 1
    ]

    def clean(data: bytes) -> bytes:
        data = unmarked(data)
        for pattern, new in known:
            data = pattern.sub(new, data)
        return _WINDOWS_HOMES.sub(rb"\1user", _HOMES.sub(HOME, data))

    return clean


def _spelling(path: str) -> re.Pattern[bytes]:
    """A folder as it stands in a text or in JSON, and not as the beginning of another name."""
    plain = path.encode("utf-8", "surrogatepass")
    escaped = plain.replace(b"\\", b"\\\\")
    spelt = b"|".join(re.escape(each) for each in dict.fromkeys((escaped, plain)))
    return re.compile(rb"(?<![A-Za-z0-9._-])(?:" + spelt + rb")(?![A-Za-z0-9._-])")
