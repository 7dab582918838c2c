"""The text form of a recording: what its files hold, how they are spelt, and how a recording is written as them.

Owns the shapes, the names of the files and which body gets one of its own. Which values are renamed is `textnames`'
business, in which order things stand is `textorder`'s, the way back is `textback`'s. Touches no file itself.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec
from msgspec import Raw

from recordings.frame import Frame, Kind, Way, is_hop
from recordings.header import Header, Origin, PeerFacts
from recordings.marks import unmarked
from recordings.profile import BUILT_IN, Profile
from recordings.textnames import Namer, read, write
from recordings.textorder import Laid, Operation, laid

TEXT_FORMAT = 1
SESSION = "session.json"
LANES = "lanes"
BODIES = "bodies"
OUTSIDE = "outside"
LARGE = 32 * 1024
"""A body that is longer has a file of its own."""
LONG_LANE = 256
"""A lane of more operations is a directory, a file an operation."""

Reference: TypeAlias = int | str
"""A frame of the same operation by its place; another one as `#OPERATION.PLACE` of the same lane; of other
lanes with `lane NAME` before that, or with `before` or `after` for what is outside of lanes."""

BEFORE = "before"
AFTER = "after"
_VOLATILE = frozenset(("pid", "stderr_lost"))
_DURATIONS = ("_ms", "_ns", "_us")


class TextFrame(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One frame. Members stand in the order of their names, but for those of a body."""

    base64: str | None = None
    """The bytes of a body that is no text."""
    body: Raw = Raw(b"")
    body_file: str | None = None
    flags: list[str] = []
    kind: Kind
    life: int = 1
    method: str | None = None
    name: str | None = None
    op: Reference | None = None
    parent: Reference | None = None
    peer: str | None = None
    re: Reference | None = None
    text: str | None = None
    """A body that is no JSON, or too deep to be looked into."""
    way: Way | None = None
    x: dict[str, Any] | None = None


class TextOperation(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A request of the core with all that came of it, or what belongs to none."""

    beside: list[int] = []
    """Operations before this one in the lane that had not ended when it began."""
    frames: list[TextFrame]


class TextLane(msgspec.Struct, kw_only=True):
    """One file of a lane."""

    lane: str
    operations: list[TextOperation]


class TextSession(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The file `session.json`."""

    after: list[TextOperation] = []
    before: list[TextOperation] = []
    core: PeerFacts | None = None
    imported: Origin | None = None
    incomplete: bool = False
    lanes: dict[str, list[str]] = {}
    """The files of each lane."""
    outside: dict[str, list[str]] = {}
    """The files of `before` and `after`, where these are long."""
    peers: dict[str, PeerFacts] = {}
    profiles: dict[str, str] = {}
    settings: dict[str, Any] = {}
    stderr: dict[str, list[str]] = {}
    tieline_text: int


def spelt(value: object) -> bytes:
    """How a file of the text form is spelt: a value a line."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def text_files(
    header: Header,
    frames: Iterable[Frame],
    body: Callable[[Frame], bytes],
    *,
    profile: Profile = BUILT_IN,
    public: bool = False,
) -> Iterator[tuple[str, bytes]]:
    """The files of a text form: their paths, with slashes, and contents. The last one is `session.json`.

    `public` writes `[REDACTED]` for secrets and leaves out the command lines of peers. What has crossed hops is left
    out: when an adapter says something to its service beside its calls is timing, and would differ from run to run.
    """
    frames = (frame for frame in frames if not is_hop(frame.peer))
    order = list(header.settings.get("peers", header.peers))
    content = _Content(profile, body)
    yield from _Writer(body, profile, public=public).files(header, laid(frames, peers=order, content=content))


class _Content:
    """What a request asks for, without its volatile values: equal for requests that a replay takes for one another."""

    def __init__(self, profile: Profile, body: Callable[[Frame], bytes]) -> None:
        self._profile = profile
        self._body = body

    def __call__(self, frame: Frame) -> str:
        try:
            tree = Namer(self._profile).renamed(read(self._body(frame)))
            return write(tree).decode("utf-8", "replace")
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return ""


class _Writer:
    """Writes operations down."""

    def __init__(self, body: Callable[[Frame], bytes], profile: Profile, *, public: bool) -> None:
        self._body = body
        self._profile = profile
        self._public = public
        self._places: dict[int, tuple[str, int, int]] = {}
        self._bodies: set[str] = set()
        self._waiting: list[tuple[str, bytes]] = []

    def files(self, header: Header, order: Laid) -> Iterator[tuple[str, bytes]]:
        """The files of a recording that is laid out so."""
        lanes = [(lane_name(lane), operations) for lane, operations in order.lanes.items()]
        for group, operations in ((BEFORE, order.before), *lanes, (AFTER, order.after)):
            for number, operation in enumerate(operations):
                for place, frame in enumerate(operation.frames):
                    self._places[frame.seq] = (group, number, place)
        names: dict[str, list[str]] = {}
        for lane, operations in order.lanes.items():
            names[lane] = []
            for path, text in self._lane(lane, operations):
                yield from self._drained()
                names[lane].append(path)
                yield path, spelt(text)
        namer = self._namer()
        outside: dict[str, list[str]] = {}
        short: dict[str, list[TextOperation]] = {}
        for name, operations in ((BEFORE, order.before), (AFTER, order.after)):
            texts = [self._operation(operation, operations, namer) for operation in operations]
            yield from self._drained()
            short[name] = texts if len(texts) <= LONG_LANE else []
            for path, text in _split(f"{OUTSIDE}/{name}", "", texts) if not short[name] else ():
                outside.setdefault(name, []).append(path)
                yield path, spelt(text)
        session = TextSession(
            tieline_text=TEXT_FORMAT,
            core=header.core,
            peers={name: self._facts(facts) for name, facts in header.peers.items()},
            profiles=header.profiles,
            settings=header.settings,
            imported=header.imported,
            incomplete=header.incomplete,
            lanes=names,
            outside=outside,
            before=short[BEFORE],
            after=short[AFTER],
            stderr={peer: self._stderr(frames) for peer, frames in order.stderr.items()},
        )
        yield SESSION, spelt(session)

    def _namer(self) -> Namer:
        return Namer(self._profile, public=self._public)

    def _drained(self) -> Iterator[tuple[str, bytes]]:
        yield from self._waiting
        self._waiting = []

    def _facts(self, facts: PeerFacts) -> PeerFacts:
        command = [] if self._public else [self._namer().text(word) for word in facts.command]
        return msgspec.structs.replace(facts, command=command)

    def _stderr(self, frames: list[Frame]) -> list[str]:
        namer = self._namer()
        return [namer.text(self._body(frame).decode("utf-8", "backslashreplace")) for frame in frames]

    def _lane(self, lane: str, operations: list[Operation]) -> Iterator[tuple[str, TextLane]]:
        path = f"{LANES}/{'/'.join(_segment(part) for part in lane.split('/'))}"
        namer = self._namer()
        texts = [self._operation(operation, operations, namer) for operation in operations]
        if len(texts) <= LONG_LANE:
            yield f"{path}.json", TextLane(lane=lane, operations=texts)
            return
        yield from _split(f"{path}.d", lane, texts)

    def _operation(self, operation: Operation, lane: list[Operation], namer: Namer) -> TextOperation:
        first = self._places[operation.root.seq]
        return TextOperation(
            beside=sorted(self._places[other.root.seq][1] for other in operation.beside if other in lane)
            if operation.beside
            else [],
            frames=[self._frame(frame, first, namer) for frame in operation.frames],
        )

    def _frame(self, frame: Frame, first: tuple[str, int, int], namer: Namer) -> TextFrame:
        text = TextFrame(
            kind=frame.kind,
            way=frame.way,
            peer=frame.peer,
            life=frame.life,
            method=frame.method,
            name=namer.text(frame.name) if frame.name is not None else None,
            re=self._reference(frame.re, first),
            parent=self._reference(frame.parent, first),
            op=self._reference(frame.op, first),
            flags=sorted(frame.flags),
            x=self._facts_of(frame, namer),
        )
        self._put_body(frame, text, namer)
        return text

    def _reference(self, seq: int | None, first: tuple[str, int, int]) -> Reference | None:
        place = self._places.get(seq) if seq is not None else None
        if place is None:
            return None
        if place[:2] == first[:2]:
            return place[2]
        lane = "" if place[0] == first[0] else place[0]
        return f"{lane}#{place[1]}.{place[2]}"

    def _facts_of(self, frame: Frame, namer: Namer) -> dict[str, Any] | None:
        if not frame.x:
            return None
        kept = {
            key: frame.x[key]
            for key in sorted(frame.x)
            if key not in _VOLATILE and not key.endswith(_DURATIONS)
        }
        return namer.renamed(kept, is_message=False) or None

    def _put_body(self, frame: Frame, text: TextFrame, namer: Namer) -> None:
        data = self._body(frame)
        if not data:
            return
        if self._public:
            data = unmarked(data)
        if frame.kind == "raw":
            try:
                text.text = namer.text(data.decode("utf-8"))
            except UnicodeDecodeError:
                text.base64 = base64.b64encode(data).decode()
            return
        try:
            made = write(namer.renamed(read(data)))
        except (RecursionError, msgspec.MsgspecError, UnicodeError):
            text.text = data.decode("utf-8", "replace")
            return
        if len(made) < LARGE:
            text.body = Raw(made)
            return
        whole = msgspec.json.format(made, indent=2) + b"\n"
        text.body_file = f"{BODIES}/{hashlib.sha256(whole).hexdigest()[:32]}.json"
        if text.body_file not in self._bodies:
            self._bodies.add(text.body_file)
            self._waiting.append((text.body_file, whole))


def _split(folder: str, lane: str, operations: list[TextOperation]) -> Iterator[tuple[str, TextLane]]:
    """A file for each operation."""
    for number, operation in enumerate(operations):
        yield f"{folder}/{number:06}.json", TextLane(lane=lane, operations=[operation])


def lane_name(lane: str) -> str:
    """What references call a lane."""
    return f"lane {lane}"


def _segment(part: str) -> str:
    """A part of a lane's name as the name of a file, on any system."""
    quoted = quote(part, safe=" ()+,=@") or "%"
    return quoted.replace(".", "%2E") if not quoted.strip(".") or quoted.endswith((".d", ".json")) else quoted
