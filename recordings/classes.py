"""Telling by a value's form, or by the name that it stands under, that it differs from run to run.

Owns what a uuid, an id in hex digits, a time, a process's id, a port, a session's id, a redacted secret and a path
under a root look like, and a prefilter over whole bodies. Everything is linear in what it looks at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

from recordings.linear import Match, any_of, compiled, escaped
from recordings.names import set_of, words_of
from recordings.profile import Profile, Root

LITERAL = "\x1a"
"""What stands before and after a class in a renamed value; doubled where it is meant itself."""

Number: TypeAlias = int | float

_NAME = re.compile(r"[A-Za-z0-9_.\- $]{1,64}")
_TIMES = set_of(
    "ts time timestamp stamp date datetime epoch now at created updated modified accessed expires expiry expiration "
    "since until mtime ctime atime birthtime started finished ended deadline"
)
_UNITS = set_of("s sec secs seconds ms msec millis milliseconds us micros ns nanos utc unix iso")
_PORTS = frozenset(("port",))
_PIDS = set_of("pid ppid pgid")
_IDS_OF = set_of(
    "session run thread conversation request trace span correlation call invocation execution turn event rpc task "
    "process message operation job"
)
_ID_WORDS = frozenset(("id", "uuid", "guid"))

_SECONDS = (1_000_000_000, 4_102_444_800)
"""From 2001 to 2099: below and above, numbers under such names are sizes, counts and durations."""
_SCALES = (1, 1_000, 1_000_000, 1_000_000_000)
_PORT = (1024, 65_535)
"""Lower ports belong to known services, which do not change from run to run."""
_PID = (1, 1 << 22)

_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DECIMAL = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,9})?")

_SHORTEST_MARK = len("[REDACTED]")
_MARK = rb"\[REDACTED(?::[a-z]+:[0-9a-f]{8})?\]"
_UUID = rb"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
_HEX = rb"(?:\b|_)[0-9a-fA-F]{16,}\b"
_HEX_LETTER = re.compile(rb"[a-fA-F]")
_UNDERSCORE, _DASH = b"_-"
_INSIDE_NAME = re.compile(rb"[A-Za-z0-9_-]|\.[A-Za-z0-9_-]")
_TEMP_NAME = re.compile(
    rb"[/\\]((?:pytest-of-[A-Za-z0-9_.-]{1,64}[/\\])?pytest-[0-9]{1,9}|tmp[a-z0-9_]{8}|tmp\.[A-Za-z0-9]{6,12})"
    rb"(?![A-Za-z0-9_.-])"
)


class Found(NamedTuple):
    """A class value within a string's UTF-8: its place, its class and what it says."""

    start: int
    end: int
    kind: str
    value: str


class Detector:
    """Finds the class values of one profile: its classes, but for those that must be exact, and its roots."""

    def __init__(self, profile: Profile) -> None:
        self._exact = frozenset(profile.exact)
        self.roots = frozenset(root.name for root in profile.roots) - self._exact
        """The classes of paths."""
        self._forms = _forms(root for root in profile.roots if root.name in self.roots)
        patterns = [_MARK, _UUID, _HEX]
        telling = [_MARK, _UUID, _HEX, rb"[0-9]{4}-[0-9]{2}-[0-9]{2}", rb"\\u001a", _names_pattern()]
        if self._forms:
            roots = b"|".join(escaped(form) for form, _root in self._forms)
            patterns.append(rb"(?:^|[^A-Za-z0-9._/\\-]|file://(?:localhost)?/?)(" + roots + b")")
            # In a body, a backslash of a path stands twice.
            telling += [escaped(form.replace(b"\\", b"\\\\")) for form, _root in self._forms]
        self.shortest = min((_SHORTEST_MARK, *(len(form) for form, _root in self._forms)))
        """No class value inside of a text has fewer bytes."""
        self._inside = compiled(b"|".join(patterns))
        self.telling = any_of(telling)
        """Whether canonical JSON may hold a class value; never falsy where it does."""

    def by_name(self, name: str, value: str | Number) -> str | None:
        """The class of a whole value by the name that it stands under."""
        kind = class_of_name(name)
        if kind is None or kind in self._exact:
            return None
        return kind if _FITS[kind](value) else None

    def by_form(self, text: str) -> str | None:
        """The class of a whole text that is only found as a whole: a time."""
        if (
            16 <= len(text) <= 40
            and text[4] == "-"
            and _RFC_3339.fullmatch(text)
            and "timestamp" not in self._exact
        ):
            return "timestamp"
        return None

    def inside(self, data: bytes) -> list[Found]:
        """The class values inside of a text (its UTF-8), in order; they do not overlap."""
        found: list[Found] = []
        end = 0
        for match in self._inside.finditer(data):
            for each in self._found(data, match):
                if each.start >= end:
                    found.append(each)
                    end = each.end
        return found

    def _found(self, data: bytes, match: Match) -> list[Found]:
        start, end = match.span()
        if data.startswith(b"[REDACTED", start):
            return [] if "secret" in self._exact else [Found(start, end, "secret", data[start:end].decode())]
        if self._forms and (root := match.start(1)) >= 0:
            return self._root(data, root)
        if data[start] == _UNDERSCORE:
            start += 1
        kind = "uuid" if data[start + 8] == _DASH else "hex"
        value = data[start:end]
        if kind in self._exact or (kind == "hex" and not _HEX_LETTER.search(value)):
            return []
        return [Found(start, end, kind, value.decode())]

    def _root(self, data: bytes, start: int) -> list[Found]:
        for form, root in self._forms:
            end = start + len(form)
            if data.startswith(form, start) and not _INSIDE_NAME.match(data, end):
                found = [Found(start, end, root.name, root.path)]
                temporary = _TEMP_NAME.match(data, end) if root.name == "tmp" else None
                if temporary is not None and "tempname" not in self._exact:
                    found.append(Found(*temporary.span(1), "tempname", temporary.group(1).decode("ascii")))
                return found
        return []


def is_class_value(detector: Detector, text: str) -> bool:
    """Whether all of a text is one class value."""
    if detector.by_form(text):
        return True
    data = text.encode()
    found = detector.inside(data)
    return len(found) == 1 and (found[0].start, found[0].end) == (0, len(data))


@lru_cache(maxsize=4096)
def class_of_name(name: str) -> str | None:
    """The class that a member's name gives to its value: `createdAt`, `start_ts`, `sessionId`, `pid`, `http-port`."""
    if not _NAME.fullmatch(name):
        return None
    words = words_of(name)
    if len(words) > 1 and words[-1] in _UNITS:
        words = words[:-1]
    last = words[-1] if words else ""
    if last in _TIMES:
        return "timestamp"
    if last in _PIDS or words[-2:] == ["process", "id"]:
        return "pid"
    if last in _PORTS:
        return "port"
    if last == "session" or (last in _ID_WORDS and len(words) > 1 and words[-2] in _IDS_OF):
        return "session"
    return "session" if last.removesuffix("id") in _IDS_OF and last.endswith("id") else None


def is_time(value: str | Number) -> bool:
    """Whether this is a moment: RFC 3339, a day, or seconds to nanoseconds since 1970 in a plausible range."""
    if isinstance(value, str):
        if _DECIMAL.fullmatch(value):
            return is_time(float(value))
        return _RFC_3339.fullmatch(value) is not None or _DATE.fullmatch(value) is not None
    return any(_SECONDS[0] * scale <= value < _SECONDS[1] * scale for scale in _SCALES)


def _within(bounds: tuple[int, int], value: str | Number) -> bool:
    if isinstance(value, str):
        return value.isascii() and value.isdigit() and len(value) < 8 and bounds[0] <= int(value) <= bounds[1]
    return isinstance(value, int) and bounds[0] <= value <= bounds[1]


def _is_id(value: str | Number) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= 256 and not any(map(str.isspace, value))
    return isinstance(value, int)


_FITS: Mapping[str, Callable[[str | Number], bool]] = {
    "timestamp": is_time,
    "pid": lambda value: _within(_PID, value),
    "port": lambda value: _within(_PORT, value),
    "session": _is_id,
}


def _forms(roots: Iterable[Root]) -> list[tuple[bytes, Root]]:
    """How roots are written in texts, the longest first: as they are, with slashes, and as part of a URI."""
    forms: dict[bytes, Root] = {}
    for root in roots:
        for path in (root.path, root.path.replace("\\", "/")):
            for form in (path, quote(path, safe="/:\\")):
                forms.setdefault(form.encode("utf-8", "surrogatepass"), root)
    return sorted(forms.items(), key=lambda item: -len(item[0]))


def _names_pattern() -> bytes:
    """Canonical JSON with a member whose name `class_of_name` gives a class, and with some others."""
    words = sorted(_TIMES | _PORTS | _PIDS | _IDS_OF | {"session"}, key=len, reverse=True)
    ids = rb"(?:[^A-Za-z\"]{0,3}(?i:id|uuid|guid))?"
    units = rb"(?:[^A-Za-z\"]{0,3}(?i:" + "|".join(sorted(_UNITS)).encode() + rb"))?"
    lower = "|".join(words).encode()
    camel = "|".join(f"{word[0].upper()}(?i:{word[1:]})" for word in words).encode()
    return rb"(?:[^A-Za-z](?i:" + lower + b")|(?:" + camel + b"))" + ids + units + rb"[^A-Za-z\"]{0,64}\":"
