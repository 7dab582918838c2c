"""Reading a text form: frames of its operations, with ids, numbers and times as a session of its own would have them.

Owns what stands for what a text form leaves out. Ids are those that a gateway gives: a core counts its requests, the
gateway counts those that it sends to each peer. Takes the contents of files; reads none.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw

from recordings.errors import RecordingError
from recordings.frame import LIFECYCLE, NO_BODY, Flag, Frame
from recordings.header import Header
from recordings.textform import (
    AFTER,
    BEFORE,
    BODIES,
    LANES,
    OUTSIDE,
    SESSION,
    TEXT_FORMAT,
    Reference,
    TextFrame,
    TextLane,
    TextOperation,
    TextSession,
    lane_name,
)
from recordings.textnames import Restorer, read, write

T = TypeVar("T")

STEP_NS = 1_000_000
"""What lies between two frames of a session whose times are not known."""

Files = Callable[[str], bytes]
"""Gives a file of the text form by its path, with slashes. Raises `FileNotFoundError`."""

_REFERENCE = re.compile(r"(.*)#([0-9]{1,9})\.([0-9]{1,9})", re.DOTALL)
_PLACE = re.compile(r"\(byte (\d+)\)")
_PATH = re.compile(r"(?!.*(?:^|/)\.\.?(?:/|$))[^\x00\\]{1,1024}", re.DOTALL)
CANCELLED = "notifications/cancelled"
_ANSWERS = frozenset(("response", "error", "late"))


class BadTextError(RecordingError):
    """A file of a text form is not what it should be. Names the file, the line where it is known, and what to do."""

    def __init__(self, what: str, *, file: str, line: int | None = None) -> None:
        where = f"{file}, line {line}" if line is not None else file
        super().__init__(
            f"{where}: {what}; take the file as `tieline export --git` wrote it, or export again",
            code="invalid_request",
            details={"file": file, "line": line, "what": what},
        )


@dataclass(slots=True)
class Group:
    """The operations of a lane, or of what is outside of lanes."""

    name: str
    """As references call it."""
    lane: str | None
    operations: list[tuple[str, TextOperation]]
    """With the file that each stands in."""


def read_session(files: Files) -> tuple[Header, Iterator[Frame]]:
    """The header and the frames of a text form, the frames as they are asked for. Raises `BadTextError`."""
    session = _decoded(files, SESSION, TextSession)
    if not 1 <= session.tieline_text <= TEXT_FORMAT:
        raise BadTextError(
            f"it is of text format {session.tieline_text}; {TEXT_FORMAT} is known", file=SESSION
        )
    groups = [Group(BEFORE, None, _outside(files, session, BEFORE, session.before))]
    for lane, paths in session.lanes.items():
        groups.append(Group(lane_name(lane), lane, _listed(files, paths, LANES, lane)))
    groups.append(Group(AFTER, None, _outside(files, session, AFTER, session.after)))
    header = Header(
        core=session.core,
        peers=session.peers,
        profiles=session.profiles,
        settings=session.settings,
        imported=session.imported,
        incomplete=session.incomplete,
    )
    return header, _Reader(session, groups, files).frames()


def _outside(
    files: Files, session: TextSession, name: str, short: list[TextOperation]
) -> list[tuple[str, TextOperation]]:
    """What is outside of lanes, from `session.json` or from files of its own."""
    listed = _listed(files, session.outside.get(name, ()), OUTSIDE, "")
    return [(SESSION, each) for each in short] + listed


def _listed(files: Files, paths: Iterable[str], folder: str, lane: str) -> list[tuple[str, TextOperation]]:
    operations: list[tuple[str, TextOperation]] = []
    for path in paths:
        found = _decoded(files, _checked(path, folder, SESSION), TextLane)
        if found.lane != lane:
            raise BadTextError(f"it is of the lane {found.lane!r}, not {lane!r}", file=path)
        operations += [(path, each) for each in found.operations]
    return operations


def _decoded(files: Files, path: str, type_: type[T]) -> T:
    try:
        data = files(path)
    except FileNotFoundError:
        raise BadTextError("it is missing", file=path) from None
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        place = _PLACE.search(str(why))
        line = data.count(b"\n", 0, int(place.group(1))) + 1 if place is not None else None
        raise BadTextError(
            _PLACE.sub("", str(why)).strip() or "it is nested too deep", file=path, line=line
        ) from None


def _checked(path: str, folder: str, file: str) -> str:
    """A path that stays within its folder."""
    if not path.startswith(f"{folder}/") or not _PATH.fullmatch(path):
        raise BadTextError(f"it names the file {path!r}, which is not in `{folder}`", file=file)
    return path


@dataclass(slots=True)
class _Asked:
    """What a request is called by whom, and whose it is."""

    way: str
    core: object = UNSET
    """The core's id, or that of the gateway's question to it."""
    leg: object = UNSET
    """The gateway's id at the peer, or the peer's own."""


class _Reader:
    """Gives frames their numbers, ids and what their senders had seen, in one order."""

    def __init__(self, session: TextSession, groups: list[Group], files: Files) -> None:
        self._groups = groups
        self._files = files
        self._seq = 0
        self._at: dict[tuple[str, int, int], int] = {}
        """The number of each frame by its lane, operation and place."""
        self._asked: dict[int, _Asked] = {}
        self._core_ids = 0
        self._questions = 0
        self._legs: dict[str, int] = {}
        self._readies = Counter(
            frame.peer or ""
            for group in groups
            for _, operation in group.operations
            for frame in operation.frames
            if frame.kind == "ready"
        )
        """How often each peer is still to become ready."""
        self._ready: set[str] = set()
        self._waiting: dict[str, list[int]] = {}
        """Requests of the core that wait for their peer to be ready; they are counted when they are sent."""
        self._own: dict[str, int] = {}
        self._core_seen: int | None = None
        self._peer_seen: dict[str, int] = {}
        self._stderr = dict(session.stderr)
        self._outside = Restorer("")

    def frames(self) -> Iterator[Frame]:
        """All frames in order: what was before the lanes, lane after lane, what was after them."""
        for group in self._groups:
            restorer = Restorer(group.lane) if group.lane is not None else self._outside
            yield from self._group(group, restorer)
        for peer in list(self._stderr):
            yield from self._said_aside(peer)

    def _group(self, group: Group, restorer: Restorer) -> Iterator[Frame]:
        given: dict[int, int] = {}
        """How many frames of each operation that is not at its end have been given."""
        for number, (file, operation) in enumerate(group.operations):
            if not operation.frames:
                raise BadTextError(f"operation {number} has no frames", file=file)
            for earlier in [each for each in given if each not in operation.beside]:
                yield from self._rest(group, restorer, earlier, given.pop(earlier))
            yield from self._rest(group, restorer, number, 0, 1)
            given[number] = 1
        for number, place in given.items():
            yield from self._rest(group, restorer, number, place)

    def _rest(
        self, group: Group, restorer: Restorer, number: int, first: int, end: int | None = None
    ) -> Iterator[Frame]:
        frames = group.operations[number][1].frames
        for place in range(first, len(frames) if end is None else end):
            frame = self._frame(group, restorer, number, place)
            yield frame
            if frame.kind == "spawn" and frame.peer in self._stderr:
                yield from self._said_aside(frame.peer)

    def _said_aside(self, peer: str) -> Iterator[Frame]:
        """The lines of a peer's stderr, which are its first life's as far as anybody knows."""
        restorer = Restorer("")
        for line in self._stderr.pop(peer):
            frame = Frame(seq=self._seq, at=self._seq * STEP_NS, kind="raw", way="peer>", peer=peer)
            frame.x = {"stream": "stderr"}
            frame.body = Raw(restorer.text(line).encode("utf-8", "surrogatepass"))
            self._seq += 1
            yield frame

    # One frame

    def _frame(self, group: Group, restorer: Restorer, number: int, place: int) -> Frame:
        file, operation = group.operations[number]
        text = operation.frames[place]
        seq = self._seq
        self._seq += 1
        self._at[group.name, number, place] = seq
        here = (group.name, number, file)
        re_ = self._seq_of(text.re, here)
        frame = Frame(
            seq=seq,
            at=seq * STEP_NS,
            kind=text.kind,
            way=text.way,
            peer=text.peer,
            life=text.life,
            method=text.method,
            name=restorer.text(text.name) if text.name is not None else None,
            re=re_,
            parent=self._seq_of(text.parent, here),
            op=self._seq_of(text.op, here),
            flags=_flags(text, file),
            x=restorer.restored(text.x, None) if text.x else None,
        )
        is_root = place == 0 and text.way == "core>" and text.kind == "request"
        if is_root:
            frame.lane = group.lane
        self._note_life(frame)
        self._name(frame, operation, place)
        self._put_body(frame, text, restorer, file)
        self._put_after(frame, operation)
        return frame

    def _seq_of(self, reference: Reference | None, here: tuple[str, int, str]) -> int | None:
        if reference is None:
            return None
        group, number, file = here
        if isinstance(reference, int):
            key = (group, number, reference)
        else:
            match = _REFERENCE.fullmatch(reference)
            if match is None:
                raise BadTextError(f"{reference!r} names no frame", file=file)
            key = (match.group(1) or group, int(match.group(2)), int(match.group(3)))
        if key not in self._at:
            raise BadTextError(
                f"operation {number} refers to {reference!r}, which does not come before", file=file
            )
        return self._at[key]

    def _note_life(self, frame: Frame) -> None:
        """Note whether a peer takes requests, and which of them it does not get any more."""
        peer = frame.peer or ""
        if frame.kind == "ready":
            self._ready.add(peer)
            self._readies[peer] -= 1
            self._send(peer)
        elif frame.kind in ("exit", "close", "restart", "open"):
            self._ready.discard(peer)
        elif frame.re is not None and (frame.kind in ("drop", "timeout") or frame.method == CANCELLED):
            waiting = self._waiting.get(peer, [])
            if frame.re in waiting:
                waiting.remove(frame.re)

    def _send(self, peer: str) -> None:
        """Count what has waited for a peer."""
        for seq in self._waiting.pop(peer, ()):
            self._asked[seq].leg = self._leg(peer)
            self._peer_seen[peer] = seq

    def _name(self, frame: Frame, operation: TextOperation, place: int) -> None:
        """Give a message its id: a request the next one of its sender, an answer that of its request."""
        peer = frame.peer or ""
        if frame.kind == "request":
            asked = _Asked(frame.way or "")
            if frame.way == "core>":
                self._core_ids += 1
                asked.core = frame.id = self._core_ids
                if peer and (peer in self._ready or not self._readies[peer]):
                    asked.leg = self._leg(peer)
                elif peer:
                    self._waiting.setdefault(peer, []).append(frame.seq)
            elif frame.way == ">peer":
                asked.leg = frame.id = self._leg(peer)
            elif frame.way == "peer>":
                self._own[peer] = self._own.get(peer, 0) + 1
                asked.leg = frame.id = f"ask-{self._own[peer]}"
                if _is_passed_on(operation, place):
                    self._questions += 1
                    asked.core = self._questions
            else:
                self._questions += 1
                asked.core = frame.id = self._questions
            self._asked[frame.seq] = asked
        elif frame.kind in _ANSWERS:
            asked = self._asked.get(frame.re) if frame.re is not None else None
            if frame.way == "peer>" and frame.re in self._waiting.get(peer, ()):
                # It was ready, though nothing says so.
                self._send(peer)
            if asked is None:
                frame.id = f"orphan-{frame.seq}"
            else:
                frame.id = _id_at(asked, frame)

    def _leg(self, peer: str) -> int:
        self._legs[peer] = self._legs.get(peer, 0) + 1
        return self._legs[peer]

    def _put_body(self, frame: Frame, text: TextFrame, restorer: Restorer, file: str) -> None:
        if text.base64 is not None:
            try:
                frame.body = Raw(base64.b64decode(text.base64, validate=True))
            except (binascii.Error, ValueError):
                raise BadTextError("a body is no base64", file=file) from None
            return
        if text.text is not None:
            words = restorer.text(text.text) if frame.kind == "raw" else text.text
            frame.body = Raw(words.encode("utf-8", "surrogatepass"))
            return
        data = bytes(text.body)
        if text.body_file is not None:
            file = _checked(text.body_file, BODIES, file)
            try:
                data = self._files(file)
            except FileNotFoundError:
                raise BadTextError("it is missing", file=file) from None
        if not data:
            frame.body = NO_BODY
            return
        id_ = frame.id
        if frame.kind == "notification":
            asked = self._asked.get(frame.re) if frame.re is not None else None
            id_ = _id_at(asked, frame) if asked is not None else None
        try:
            frame.body = Raw(write(restorer.restored(read(data), None if id_ is UNSET else id_)))
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as why:
            raise BadTextError(f"a body cannot be read: {why}", file=file) from None

    def _put_after(self, frame: Frame, operation: TextOperation) -> None:
        """Note what its sender had seen, and who sees it."""
        peer = frame.peer or ""
        is_message = frame.kind in ("request", "notification") or frame.kind in _ANSWERS
        if not is_message:
            return
        is_own = "synthetic" in frame.flags
        asked = self._asked.get(frame.re) if frame.re is not None else None
        if frame.way == "core>":
            frame.after = None if is_own else self._core_seen
            if frame.kind == "request" and peer and frame.seq not in self._waiting.get(peer, ()):
                self._peer_seen[peer] = frame.seq
        elif frame.way == "peer>":
            frame.after = None if is_own else self._peer_seen.get(peer)
            is_of_core = asked is None or asked.way == "core>" or _stands_for_its_own(operation, frame)
            goes_on = not frame.flags and (is_of_core or frame.kind == "notification")
            if goes_on and (frame.kind != "request" or self._asked[frame.seq].core is not UNSET):
                self._core_seen = frame.seq
        elif frame.way == ">core":
            self._core_seen = frame.seq
        elif frame.way == ">peer" and frame.kind != "notification":
            self._peer_seen[peer] = frame.seq


def _is_passed_on(operation: TextOperation, place: int) -> bool:
    """Whether the core answers a peer's question, which the gateway then has put to it under an id of its own."""
    return any(each.re == place and each.way == "core>" for each in operation.frames)


def _stands_for_its_own(operation: TextOperation, frame: Frame) -> bool:
    """Whether the core was given what a peer answered to the gateway: its own request has no other answer."""
    root = operation.frames[0]
    is_asked = root.kind == "request" and root.way == "core>" and root.method == frame.method
    return is_asked and not any(each.re == 0 and each.way == ">core" for each in operation.frames)


def _id_at(asked: _Asked, frame: Frame) -> int | str | msgspec.UnsetType | None:
    """What the request is called on the connection on which a frame that is about it goes."""
    found = asked.core if frame.way in ("core>", ">core") else asked.leg
    return found if isinstance(found, int | str) else UNSET


def _flags(text: TextFrame, file: str) -> tuple[Flag, ...]:
    try:
        return msgspec.convert(text.flags, tuple[Flag, ...])
    except msgspec.ValidationError as why:
        raise BadTextError(str(why), file=file) from None


def with_wall(frames: Iterator[Frame], started: int) -> Iterator[Frame]:
    """Frames with a wall clock that stood at `started`, nanoseconds since 1970, when the session began."""
    for frame in frames:
        if frame.kind in LIFECYCLE:
            frame.wall = started + frame.at
        yield frame
