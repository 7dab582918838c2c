"""A new recording that begins as another one did: its frames up to a point, and some bodies changed on the way.

Owns the copying of frames with their bodies, and what a fork says of its origin. The recording that is forked is never
written to; going on from the fork is the replay's business.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from recordings.difference import Change
from recordings.edits import Edit, edited, wrong
from recordings.errors import MissingBlobError
from recordings.frame import Frame
from recordings.header import Header, Parent
from recordings.reader import Recording
from recordings.segment import through
from recordings.store import Recorder, Redacts


@dataclass(slots=True)
class Forked:
    """What a fork holds."""

    path: Path
    frames: int = 0
    """Frames that were copied."""
    seq: int = 0
    """The last frame that both recordings have."""
    changes: list[tuple[int, Change]] = field(default_factory=list[tuple[int, Change]])
    """What was changed: the frame, and the change."""
    missing_blobs: list[int] = field(default_factory=list[int])
    """Frames whose body was gone already."""


def fork(
    recording: Recording,
    out: Path,
    *,
    session: str,
    at: int | None = None,
    edits: Iterable[Edit] = (),
    redactor: Redacts | None = None,
    by: str = "",
) -> Forked:
    """Write a recording of the frames up to number `at` (None: all), sealed, with `recording` as its parent.

    `session` is the new one's name. An edited frame says so, see `edits`; a last frame of kind `mark` holds all
    edits. What is edited goes through the redactor.

    Raises:
        RecordingError: There is no such frame or place, `out` cannot be written, or the recording is damaged.
    """
    last = _last(recording, at)
    wanted: dict[int, list[Edit]] = {}
    for edit in edits:
        wanted.setdefault(edit.seq, []).append(edit)
    # Tried before anything is written: a mistake must not leave half a recording.
    _try(recording, wanted, last)
    parent = Parent(session=recording.header.session, seq=last)
    header = msgspec.structs.replace(recording.header, session=session, parent=parent)
    if by:
        header.by = by
    result = Forked(out, seq=last)
    with writing(out, header) as recorder:
        at_ns = 0
        for frame in stored(recording):
            if frame.seq > last:
                break
            at_ns = frame.at
            whole = with_body(recording, frame, result.missing_blobs)
            if frame.seq in wanted:
                whole, changes = edited(whole, wanted[frame.seq])
                result.changes += [(frame.seq, change) for change in changes]
                if redactor is not None:
                    # The others have been through one, and are to stay as they are.
                    whole = redactor.frame(whole)
            recorder.append(_ended(whole, last))
            result.frames += 1
        recorder.append(_mark(result, parent, last + 1, at_ns))
    return result


def _last(recording: Recording, at: int | None) -> int:
    last = recording.index.last
    if at is None:
        return last
    if not 0 <= at <= last or not recording.frames:
        raise wrong(f"the recording has no frame {at}: its last one is {last}", seq=at)
    return at


def _try(recording: Recording, wanted: dict[int, list[Edit]], last: int) -> None:
    for seq, edits in wanted.items():
        if seq > last:
            raise wrong(f"frame {seq} is to be changed, and the fork ends before it, at {last}", seq=seq)
        edited(with_body(recording, recording.frame(seq), []), edits)


def _ended(frame: Frame, last: int) -> Frame:
    """A hole that reaches beyond the fork ends with it."""
    end = through(frame)
    if end is None or end <= last:
        return frame
    return msgspec.structs.replace(frame, x={**(frame.x or {}), "through": last})


def _mark(result: Forked, parent: Parent, seq: int, at: int) -> Frame:
    edits = [{"seq": seq, "pointer": change.pointer, "kind": change.kind} for seq, change in result.changes]
    facts: dict[str, object] = {"event": "forked", "session": parent.session, "seq": parent.seq}
    if edits:
        facts["edits"] = edits
    return Frame(seq=seq, at=at, kind="mark", way="inside", flags=("synthetic",), x=facts)


# Copying


@contextlib.contextmanager
def writing(out: Path, header: Header) -> Generator[Recorder]:
    """A recorder of a new recording, sealed at the end of the block; nothing is left where that fails.

    Raises `RecordingError` where `out` cannot be made, or holds something.
    """
    recorder = Recorder(out, header=header, durability="os", reserve_bytes=0)
    try:
        with recorder:
            yield recorder
            recorder.seal()
    except BaseException:
        # It was empty, and all that is in it is ours.
        shutil.rmtree(out, ignore_errors=True)
        raise


def stored(recording: Recording) -> Iterable[Frame]:
    """The frames that are stored, without those that stand for answers which never came."""
    return (frame for frame in recording if not (frame.kind == "lost" and frame.seq > recording.index.last))


def with_body(recording: Recording, frame: Frame, missing: list[int]) -> Frame:
    """The frame with its body in it, wherever that lies; noted in `missing`, and as it is, where it is gone."""
    if frame.blob is None:
        return frame
    try:
        body = recording.body(frame)
    except MissingBlobError:
        missing.append(frame.seq)
        return frame
    return msgspec.structs.replace(frame, body=msgspec.Raw(body), blob=None)
