"""A session file as bytes: read leniently, with a note for everything that is not as it should be.

Owns lines, versions 1 to 3 and the way up from the older ones, which is Pi's own. A line that cannot be read is told
and left out, never a reason to lose the others. What the entries mean together is `tree.py`'s.
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from gateway.sessions.entries import (
    COMPACTION,
    MESSAGE,
    VERSION,
    Entry,
    Header,
    encode,
    entry_of,
    read_header,
)
from gateway.sessions.ids import Ids

Reason: TypeAlias = Literal[
    "malformed", "torn", "not_an_object", "no_id", "not_text", "duplicate_id", "no_parent", "second_header",
    "newer_version", "bad_version",
]  # fmt: skip
"""What is not as it should be: no JSON; no JSON at the very end, where a writer died; JSON that is no object; an entry
without id; bytes or escapes that are no text; an id that stands twice, of which the last counts; a parent that is
not there before its child; another header; a version above ours, or one that is no number."""

_BLANK: Final = b" \t\r"
_decode = msgspec.json.Decoder().decode


class SessionError(ValueError):
    """Bytes that are no session file."""


class Note(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something about one line, counted from 1."""

    line: int
    reason: Reason
    message: str


class SessionFile(msgspec.Struct, kw_only=True):
    """What a session file holds."""

    header: Header
    entries: list[Entry]
    notes: list[Note]
    lines: list[bytes]
    """Every line that could be read, the header first, as this version writes it."""
    version: int
    """The version that was found."""
    kept: int
    """How many bytes, from the start, are to stay before something is appended. What follows them is torn."""
    is_terminated: bool
    """Whether those bytes end with an end of line."""

    @property
    def is_old(self) -> bool:
        """Whether the lines differ from the file's, which is of an older version."""
        return self.version < VERSION


def read(data: bytes) -> SessionFile:
    """Return what the bytes of a session file hold.

    Raises:
        SessionError: The first line that can be read is no header with an id.
    """
    notes: list[Note] = []
    found: list[tuple[int, dict[str, Any], bytes]] = []
    raw = data.split(b"\n")
    kept = len(data)
    for number, line in enumerate(raw, 1):
        if not line.strip(_BLANK):
            continue
        value = _read_line(line, number, notes)
        if value is None and number == len(raw):
            notes[-1] = Note(line=number, reason="torn", message="the last line was not written whole")
            kept = len(data) - len(line)
        elif value is not None:
            found.append((number, value, line.strip(_BLANK)))
    if not found or found[0][1].get("type") != "session" or not isinstance(found[0][1].get("id"), str):
        raise SessionError("no session file: it does not begin with a header")
    version = _version(found[0][1], notes)
    if version < VERSION:
        found = _migrated(found, version)
    header = read_header(found[0][1], found[0][2])
    return SessionFile(
        header=header,
        entries=_entries(found, notes),
        notes=notes,
        lines=[line for _, _, line in found],
        version=version,
        kept=kept,
        is_terminated=data[:kept].endswith(b"\n"),
    )


def _read_line(line: bytes, number: int, notes: list[Note]) -> dict[str, Any] | None:
    """Return the object that a line holds. None: it has been told why not."""
    try:
        value: Any = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _read_odd(line, number, notes)
        if value is None:
            return None
    if isinstance(value, dict):
        return cast(dict[str, Any], value)
    notes.append(Note(line=number, reason="not_an_object", message="a line that is no object, left out"))
    return None


def _read_odd(line: bytes, number: int, notes: list[Note]) -> Any:
    """Return what Pi would read in a line that is not strictly text: both replace what is none."""
    try:
        value: Any = json.loads(line.decode(errors="replace"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        notes.append(Note(line=number, reason="malformed", message="a line that is no JSON, left out"))
        return None
    notes.append(Note(line=number, reason="not_text", message="a line with letters that are none, replaced"))
    return _mended(value)


def _mended(value: Any) -> Any:
    """Return a value without halves of surrogate pairs, which JSON may spell and nothing else can say."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_mended(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {_mended(name): _mended(item) for name, item in cast(dict[str, Any], value).items()}
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _version(header: dict[str, Any], notes: list[Note]) -> int:
    version: Any = header.get("version", 1)
    if version is None:
        return 1
    if isinstance(version, bool) or not isinstance(version, int | float):
        notes.append(Note(line=1, reason="bad_version", message="a version that is no number, read as 3"))
        return VERSION
    if version > VERSION:
        notes.append(
            Note(line=1, reason="newer_version", message=f"version {version}, read as far as 3 goes")
        )
    return int(version)


def _migrated(
    found: list[tuple[int, dict[str, Any], bytes]], version: int
) -> list[tuple[int, dict[str, Any], bytes]]:
    """Return the objects as version 3 has them: in version 1 a list became a tree, in version 3 a role was renamed."""
    raised = [dict(value) for _, value, _ in found]
    if version < 2:
        _chain(raised)
    for value in raised:
        if value.get("type") == "session":
            value["version"] = VERSION
            continue
        message: Any = value.get("message")
        if value.get("type") == MESSAGE and isinstance(message, dict):
            said = cast(dict[str, Any], message)
            if said.get("role") == "hookMessage":
                value["message"] = {**said, "role": "custom"}
    return [(number, value, encode(value)) for (number, _, _), value in zip(found, raised, strict=True)]


def _chain(values: list[dict[str, Any]]) -> None:
    """Give every entry an id and the one before it as its parent; what was kept is named by its id then."""
    ids, taken = Ids(f"version 1 of {values[0]['id']}"), set[str]()
    last: str | None = None
    for value in values:
        if value.get("type") == "session":
            continue
        value["id"], value["parentId"] = ids.entry(taken), last
        last = value["id"]
        taken.add(value["id"])
        if value.get("type") == COMPACTION and isinstance(index := value.get("firstKeptEntryIndex"), int):
            del value["firstKeptEntryIndex"]
            # As in Pi, an index beyond the entries that have an id by now names nothing.
            if 0 < index < len(values) and values[index].get("id") in taken:
                value["firstKeptEntryId"] = values[index]["id"]


def _entries(found: list[tuple[int, dict[str, Any], bytes]], notes: list[Note]) -> list[Entry]:
    entries: list[Entry] = []
    seen: set[str] = set()
    for number, value, line in found[1:]:
        if value.get("type") == "session":
            notes.append(Note(line=number, reason="second_header", message="another header, left out"))
        elif not isinstance(value.get("id"), str) or not value["id"]:
            notes.append(Note(line=number, reason="no_id", message="an entry without id, left out"))
        else:
            entries.append(entry_of(value, line))
            _look_at(entries[-1], number, seen, notes)
    return entries


def _look_at(entry: Entry, number: int, seen: set[str], notes: list[Note]) -> None:
    if entry.id in seen:
        message = f"the id {entry.id[:64]!r} stands twice; the last entry has it"
        notes.append(Note(line=number, reason="duplicate_id", message=message))
    if entry.parent is not None and entry.parent not in seen:
        message = f"the parent {entry.parent[:64]!r} is not among the entries before it"
        notes.append(Note(line=number, reason="no_parent", message=message))
    seen.add(entry.id)
