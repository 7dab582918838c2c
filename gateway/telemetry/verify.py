"""Whether the extension log and the recording of a session say the same, and whether every host call was decided about.

Owns what there is to be found wrong, in sentences. The log is made from frames, so the recording says what must stand
in it: line by line, but for which run of which gateway wrote it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

import msgspec

from gateway.policy.record import RecordedError, facts_of, is_decision
from gateway.protocol.capabilities import CallError, capability_of
from gateway.protocol.log import Entry
from gateway.telemetry.audit import NotALineError, read_line
from gateway.telemetry.facts import HOST_CALL
from gateway.telemetry.ledger import Writer, entries_of
from recordings.errors import MissingBlobError
from recordings.frame import Frame
from recordings.marks import unmarked
from recordings.reader import Recording

NOT_OF_POLICY: Final = frozenset(("invalid_request", "io", "internal"))
"""Codes with which a call may be refused that nobody decided about: it could not be read, or not be recorded."""
OF_ITS_RUN: Final = ("run_id", "scenario_id")
"""Ids that a recording does not know."""


class _Params(msgspec.Struct):
    method: Any = None
    params: Any = None


class _Request(msgspec.Struct):
    params: _Params | None = None


class _Data(msgspec.Struct):
    code: Any = None


class _Error(msgspec.Struct):
    code: Any = None
    data: _Data | None = None


class _Refusal(msgspec.Struct):
    error: _Error | None = None


class Call:
    """A host call, and what the recording has of it."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.decisions: list[Frame] = []
        self.served: Frame | None = None
        """The first frame with which it was given something."""
        self.refused: Frame | None = None


def decided_wrongly(recording: Recording) -> Iterator[str]:
    """Yield what is wrong with a recording's host calls and the decisions about them.

    Raises:
        DamagedError: If the recording is damaged, once everything before that is told.
    """
    calls: dict[int, Call] = {}
    for frame in recording:
        if frame.kind == "request" and frame.way == "peer>" and frame.method == HOST_CALL:
            calls[frame.seq] = Call(frame)
        elif frame.kind == "policy" and is_decision(frame.x):
            call = calls.get(frame.parent) if frame.parent is not None else None
            if call is None or call.frame.peer != frame.peer:
                yield f"frame {frame.seq}: a decision about no host call of `{frame.peer}`"
            else:
                call.decisions.append(frame)
        elif frame.way == ">peer" and frame.re in calls:
            call = calls[frame.re]
            if frame.kind in ("response", "chunk"):
                call.served = call.served or frame
            elif frame.kind == "error":
                call.refused = call.refused or frame
    for call in calls.values():
        yield from _wrong(recording, call)


def _wrong(recording: Recording, call: Call) -> Iterator[str]:
    who = f"frame {call.frame.seq}: a host call of `{call.frame.peer}`"
    served, refused = call.served, call.refused
    if served is not None:
        before = [each for each in call.decisions if each.seq < served.seq]
        if not before:
            yield f"{who} was served by frame {served.seq} without a decision"
        elif (before[-1].x or {}).get("decision") != "allow":
            verdict = (before[-1].x or {}).get("decision")
            yield f"{who} was served by frame {served.seq} though frame {before[-1].seq} says `{verdict}`"
    elif not call.decisions and refused is not None and _code(recording, refused) not in NOT_OF_POLICY:
        yield f"{who} was refused by frame {refused.seq} without a decision"
    if call.decisions:
        yield from _about_another(recording, call)


def _about_another(recording: Recording, call: Call) -> Iterator[str]:
    """Decisions whose facts are not those of the call that was made."""
    needed = _needed(recording, call.frame)
    for frame in call.decisions:
        x = frame.x or {}
        try:
            facts = facts_of(x)
        except RecordedError as error:
            yield f"frame {frame.seq}: {error}"
            continue
        if facts.extension != call.frame.peer:
            yield f"frame {frame.seq}: decides about `{facts.extension}`, and `{call.frame.peer}` has called"
        if x.get("code") != "invalid_request" and needed is not None and facts.need.capability != needed:
            about = facts.need.capability
            yield f"frame {frame.seq}: decides about `{about}`, and frame {call.frame.seq} needs `{needed}`"


def _needed(recording: Recording, frame: Frame) -> str | None:
    """The capability that a recorded call needs; None where that cannot be told."""
    try:
        told = msgspec.json.decode(recording.body(frame), type=_Request).params
    except (msgspec.DecodeError, MissingBlobError, RecursionError):
        return None
    params = None if told is None else told.params
    if told is None or not isinstance(told.method, str) or not isinstance(params, dict):
        return None
    try:
        return capability_of(told.method, cast(dict[str, Any], params))
    except CallError:
        return None


def _code(recording: Recording, frame: Frame) -> str:
    try:
        error = msgspec.json.decode(recording.body(frame), type=_Refusal).error
    except (msgspec.DecodeError, MissingBlobError, RecursionError):
        return ""
    if error is None:
        return ""
    if error.data is not None and isinstance(error.data.code, str):
        return error.data.code
    # A message that was none at all is refused by the number alone.
    return "invalid_request" if isinstance(error.code, int) and -32700 <= error.code <= -32600 else ""


class Told:
    """What a log says of one session, against what its recording says."""

    def __init__(self, recording: Recording) -> None:
        """Read what the recording says.

        Raises:
            DamagedError: If it is damaged.
        """
        self._session = recording.header.session
        self._expected = {_key(entry): entry for entry in entries_of(recording, Writer(scenario_id=""))}
        self.lines = 0
        """Of this session."""
        self.left_out = 0
        """Frames that the log itself says it leaves out."""

    def wrong(self, lines: Iterable[bytes]) -> Iterator[str]:
        """Yield what is wrong with the lines of a log, and then what is missing."""
        seen: dict[tuple[str, object], int] = {}
        for number, line in enumerate(lines, 1):
            try:
                entry = read_line(line)
            except NotALineError as error:
                yield f"line {number}: {error}"
                continue
            if entry.correlation.session_id != self._session:
                continue
            self.lines += 1
            if entry.event == "log.incomplete":
                self.left_out += int((entry.data or {}).get("frames", 0))
                continue
            key = _key(entry)
            expected = self._expected.get(key)
            if key in seen:
                yield f"line {number}: says again what line {seen[key]} says: {_named(entry)}"
            elif expected is None:
                yield f"line {number}: {_named(entry)} is in no frame"
            else:
                yield from (
                    f"line {number}: {_named(entry)} {each}" for each in _differences(entry, expected)
                )
            seen.setdefault(key, number)
        missing = [entry for key, entry in self._expected.items() if key not in seen]
        # What came too fast is not told of; how much that was, is.
        if not self.left_out:
            yield from (f"no line says {_named(entry)}" for entry in missing)


def _key(entry: Entry) -> tuple[str, object]:
    return entry.event, (entry.data or {}).get("seq")


def _named(entry: Entry) -> str:
    seq = (entry.data or {}).get("seq")
    return f"`{entry.event}` of `{entry.correlation.extension_id}`" + (
        "" if seq is None else f", frame {seq}"
    )


def _differences(entry: Entry, expected: Entry) -> Iterator[str]:
    one, other = _plain(entry), _plain(expected)
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            yield f"has `{name}` {_shown(one, name)}, and the recording {_shown(other, name)}"


def _shown(values: dict[str, Any], name: str) -> str:
    if name not in values:
        return "missing"
    text = msgspec.json.encode(values[name]).decode("utf-8", "replace")
    return text if len(text) <= 80 else text[:79] + "…"


def _plain(entry: Entry) -> dict[str, Any]:
    """What a line says, flat, without what a recording cannot know."""
    # A log marks what it left out in public words, where a recording says which secrets are the same.
    told: dict[str, Any] = msgspec.json.decode(unmarked(msgspec.json.encode(entry)))
    ids: dict[str, Any] = {k: v for k, v in told.pop("correlation").items() if k not in OF_ITS_RUN}
    data: dict[str, Any] = told.pop("data", None) or {}
    told.pop("source", None)
    if _ends_with_session(data):
        # When a session has ended without it is a matter of when somebody looked.
        told.pop("ts")
        data.pop("duration_ms", None)
    return told | {f"correlation.{k}": v for k, v in ids.items()} | {f"data.{k}": v for k, v in data.items()}


def _ends_with_session(data: dict[str, Any]) -> bool:
    error = data.get("error")
    return isinstance(error, dict) and "session_ended" in error.values()
