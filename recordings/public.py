"""A recording as it can be shown to others: without what tells secrets apart, and without whose machine it was.

Owns what is left out: marks of secrets lose their tails; wall times, process ids, programs, command lines and the
names of environment variables go; folders of people become those of `user`, in what was said and in the settings
that the header keeps. What a message says otherwise stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec import Raw

from recordings.frame import NO_BODY, Frame
from recordings.header import Header, PeerFacts
from recordings.marks import unmarked

T = TypeVar("T")

HOME = b"/home/user"
PROJECT = b"/home/user/project"
TEMPORARY = b"/tmp"
_PUBLIC_ROOTS = {"cwd": PROJECT, "home": HOME, "tmp": TEMPORARY}

_NAME = rb"(?:[A-Za-z0-9._+@-]|[\x80-\xff]|\\u[0-9A-Fa-f]{4})+"
_SLASH = rb"\\*/"
"""JSON may write a backslash before it, and JSON inside of a text of JSON several."""
_BACKSLASH = rb"(?:\\{1,4}|/)"
_BEFORE = rb"(?:(?<![A-Za-z0-9._-])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4}))"
"""Not inside of a name; what ends in `n` there may be the end of a line."""
_AFTER = rb"(?![A-Za-z0-9_-]|\.+[A-Za-z0-9_-])"
"""Not inside of a name; a full stop that no name goes on after ends a sentence."""
_HOMES = re.compile(_SLASH + rb"(?:home|Users)" + _SLASH + rb"(?!user(?:[^A-Za-z0-9._-]|$))" + _NAME)
_WINDOWS_HOMES = re.compile(
    rb"([A-Za-z]:(?:\\{1,4}|/)Users(?:\\{1,4}|/))(?:"
    + _NAME
    + rb"(?: "
    + _NAME
    + rb")*(?=\\\\)|"
    + _NAME
    + rb")"
)
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
            # What the body says of these is changed too, and the two are to agree.
            id=self._text(frame.id) if isinstance(frame.id, str) else frame.id,
            lane=self._text(frame.lane) if frame.lane is not None else None,
            method=self._text(frame.method) if frame.method is not None else None,
            name=self._text(frame.name) if frame.name is not None else None,
            params_hash=None,
            key=None,
            nth=None,
            body=Raw(self._clean(body)) if body else NO_BODY,
            x=self._facts(frame),
        )

    def _text(self, text: str) -> str:
        """As a body has it, in which it stands too."""
        cleaned: str = json.loads(self._clean(json.dumps(text).encode()))
        return cleaned

    def _facts(self, frame: Frame) -> dict[str, Any] | None:
        if not frame.x or frame.kind == "env":
            return None
        return (
            _cleaned({key: value for key, value in frame.x.items() if key not in _HOST}, self._clean) or None
        )


def public_view(recording: Shown, home: str, cwd: str) -> PublicView:
    """What others may see of a recording. `home` and `cwd` are folders that are known to be somebody's own.

    Those that the recording says to be its own are known too: it may have been made elsewhere.
    """
    header = recording.header
    roots: object = header.settings.get("roots")
    known = [(cwd, PROJECT), (home, HOME)]
    if isinstance(roots, dict):
        found = cast("dict[str, object]", roots)
        known = [
            (path, new) for name, new in _PUBLIC_ROOTS.items() if isinstance(path := found.get(name), str)
        ] + known
    clean = _cleaner(known)
    kept = Header(
        by=header.by,
        core=_facts(header.core) if header.core is not None else None,
        peers={name: _facts(facts) for name, facts in header.peers.items()},
        profiles=header.profiles,
        seed=header.seed,
        settings=header.settings,
        imported=header.imported,
        incomplete=header.incomplete,
    )
    return PublicView(msgspec.structs.replace(_cleaned(kept, clean), session="public"), recording, clean)


def _facts(facts: PeerFacts) -> PeerFacts:
    return msgspec.structs.replace(facts, command=[])


def _cleaned(value: T, clean: Callable[[bytes], bytes]) -> T:
    """Plain data with all of its texts cleaned."""
    return msgspec.json.decode(clean(msgspec.json.encode(value)), type=type(value))


def _cleaner(known: Iterable[tuple[str, bytes]]) -> Callable[[bytes], bytes]:
    """What takes folders out of texts. Of folders that are known by several names, the first one holds."""
    new: dict[str, bytes] = {}
    for path, name in known:
        path = path.rstrip("/\\")
        # The root of a drive is nobody's.
        if len(path.strip("/")) > 2:
            new.setdefault(path, name)
    paths = sorted(new, key=len, reverse=True)
    # At once, the longest first: what has been put in is not looked at again.
    spelt = b"|".join(b"(" + _spelling(path) + b")" for path in paths)
    pattern = re.compile(_BEFORE + b"(?:" + spelt + b")" + _AFTER) if paths else None

    def of_match(match: re.Match[bytes]) -> bytes:
        return new[paths[(match.lastindex or 1) - 1]]

    def clean(data: bytes) -> bytes:
        data = unmarked(data)
        if pattern is not None:
            data = pattern.sub(of_match, data)
        return _WINDOWS_HOMES.sub(rb"\1user", _HOMES.sub(HOME, data))

    return clean


def _spelling(path: str) -> bytes:
    """A pattern of a folder as it stands in a text, in a URI, and in JSON."""
    forms = dict.fromkeys((path, quote(path, safe="/:\\", errors="surrogatepass")))
    spelt = {form.encode("utf-8", "surrogatepass"): None for form in forms}
    spelt[json.dumps(path)[1:-1].replace("\\\\", "\\").encode()] = None
    return b"|".join(_separated(form) for form in spelt)


def _separated(form: bytes) -> bytes:
    pattern = b""
    for part in re.split(rb"(/|\\(?!u[0-9a-f]{4}))", form):
        pattern += _SLASH if part == b"/" else _BACKSLASH if part == b"\\" else re.escape(part)
    return pattern
