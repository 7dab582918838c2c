"""Edits of recorded bodies: how they are written, what they make of a frame, and how it is seen that there was one.

Owns the mark that an edited frame bears. Which frames are edited, and where the result goes, is `fork`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from recordings.difference import Change, replaced
from recordings.errors import RecordingError
from recordings.frame import Frame

EDITED = "edited"
"""The name in `x` under which an edited frame has `places`, JSON Pointers, and `flags`, those that it bore before."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Another value at one place of a frame's body: a JSON Pointer from the root of the message, and JSON."""

    seq: int
    pointer: str
    value: bytes


def edit_of(text: str) -> Edit:
    """An edit as people write it: `204:/result/content/0/text="no"`, the value in JSON. Raises `RecordingError`."""
    place, sign, value = text.partition("=")
    seq, colon, pointer = place.partition(":")
    if not sign or not colon or not (seq.isascii() and seq.isdigit()) or (pointer and pointer[0] != "/"):
        raise wrong(f"`{text}` names no place and value: write SEQ:/POINTER=JSON, as in `204:/result/n=1`")
    while not _is_json(value):
        # A name in the pointer may hold the sign too.
        more, sign, value = value.partition("=")
        pointer += f"={more}"
        if not sign:
            raise wrong(f"the value in `{text}` is no JSON: a text needs quotes of its own")
    return Edit(int(seq), pointer, value.encode())


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def edited(frame: Frame, edits: Sequence[Edit]) -> tuple[Frame, list[Change]]:
    """A frame, given with its body, with its edits in it, and what changed. Raises `RecordingError`.

    It is flagged `synthetic`, and lists the places in `x`.
    """
    if frame.kind == "raw" or not bytes(frame.body):
        raise wrong(f"frame {frame.seq} holds no message that could be changed", seq=frame.seq)
    body = bytes(frame.body)
    changes: list[Change] = []
    for edit in edits:
        try:
            body, change = replaced(body, edit.pointer, edit.value)
        except (ValueError, RecursionError) as why:
            raise wrong(f"frame {frame.seq} cannot be changed: {why}", seq=frame.seq) from None
        changes.append(change)
    before: dict[str, Any] = (frame.x or {}).get(EDITED) or {"places": [], "flags": list(frame.flags)}
    facts = {**before, "places": [*before["places"], *(change.pointer for change in changes)]}
    made = msgspec.structs.replace(
        frame,
        body=msgspec.Raw(body),
        flags=frame.flags if "synthetic" in frame.flags else (*frame.flags, "synthetic"),
        # They were made of the body that it had.
        params_hash=None,
        key=None,
        nth=None,
        x={**(frame.x or {}), EDITED: facts},
    )
    return made, changes


def unedited(frame: Frame) -> Frame:
    """The frame without the mark of an edit, as if its body had been recorded so: for those who compare."""
    facts = frame.x or {}
    if EDITED not in facts:
        return frame
    flags = tuple(facts[EDITED].get("flags", ()))
    left = {key: value for key, value in facts.items() if key != EDITED}
    return msgspec.structs.replace(frame, flags=flags, x=left or None)


def wrong(message: str, **details: object) -> RecordingError:
    """What is wrong with an edit or a fork that was asked for."""
    return RecordingError(message, code="invalid_request", details=dict(details))
