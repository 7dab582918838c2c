"""Recordings in other people's formats: HAR, Chrome trace (Perfetto reads it), and plain JSON for `jq`.

Owns the mapping of frames to those formats. Everything is given piece by piece, so that a recording may be
larger than memory; where the pieces go is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

import msgspec

from recordings.errors import MissingBlobError
from recordings.frame import LIFECYCLE, Frame
from recordings.header import encode_header
from recordings.marks import unmarked
from recordings.public import Shown
from recordings.segment import json_of
from recordings.views import Pair, is_forwarded, is_trouble, pairs

Format: TypeAlias = Literal["har", "trace", "json"]

_encode = msgspec.json.encode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def exported(recording: Shown, form: Format, *, public: bool = False) -> Iterator[bytes]:
    """The pieces of a whole document. `public` leaves out what tells equal secrets."""
    pieces = {"har": _har, "trace": _trace, "json": _json}[form](recording)
    return (unmarked(piece) for piece in pieces) if public else pieces


def _listed(items: Iterable[bytes]) -> Iterator[bytes]:
    first = True
    for item in items:
        yield item if first else b",\n" + item
        first = False


def _body(recording: Shown, frame: Frame) -> bytes:
    try:
        return recording.body(frame)
    except MissingBlobError as error:
        return _encode({"tieline": error.message})


# Plain JSON


def _json(recording: Shown) -> Iterator[bytes]:
    yield b'{"recording":' + encode_header(recording.header).strip() + b',"frames":[\n'
    yield from _listed(json_of(_whole(recording, frame)) for frame in recording)
    yield b"\n]}\n"


def _whole(recording: Shown, frame: Frame) -> Frame:
    """The frame with its body in it, wherever that lies."""
    if frame.blob is None:
        return frame
    return msgspec.structs.replace(frame, body=msgspec.Raw(_body(recording, frame)), blob=None)


# HAR 1.2


def _har(recording: Shown) -> Iterator[bytes]:
    creator = {"name": "tieline", "version": recording.header.by.rpartition(" ")[2] or "1"}
    yield b'{"log":{"version":"1.2","creator":' + _encode(creator) + b',"pages":[],"entries":[\n'
    yield from _listed(
        _encode(_entry(recording, pair)) for pair in pairs(recording) if not is_forwarded(pair.request)
    )
    yield b"\n]}}\n"


def _entry(recording: Shown, pair: Pair) -> dict[str, Any]:
    request, answer = pair.request, pair.answer
    took_ms = (pair.took_ns or 0) / 1e6
    path = "/".join(quote(part) for part in (request.peer or "core", request.method, request.name) if part)
    asked = _body(recording, request)
    said = _body(recording, answer) if answer is not None else b""
    return {
        "startedDateTime": _clock(recording, request.at),
        "time": took_ms,
        "request": {
            "method": "POST",
            "url": f"tieline://{path}",
            "httpVersion": "tieline",
            "cookies": [],
            "headers": [],
            "queryString": [],
            "postData": {"mimeType": "application/json", "text": asked.decode("utf-8", "replace")},
            "headersSize": -1,
            "bodySize": len(asked),
        },
        "response": {
            "status": 0
            if answer is None or answer.kind in ("drop", "lost")
            else 500
            if is_trouble(answer)
            else 200,
            "statusText": "no answer" if answer is None else answer.kind,
            "httpVersion": "tieline",
            "cookies": [],
            "headers": [],
            "content": {
                "size": len(said),
                "mimeType": "application/json",
                "text": said.decode("utf-8", "replace"),
            },
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": len(said),
        },
        "cache": {},
        "timings": {"send": 0, "wait": took_ms, "receive": 0},
        "_tieline": {
            "seq": request.seq,
            "answer": answer.seq if answer is not None else None,
            "lane": request.lane,
            "way": request.way,
        },
    }


def _clock(recording: Shown, at: int) -> str:
    moment = _EPOCH + timedelta(microseconds=(recording.header.started + at) // 1000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


# Chrome trace


def _trace(recording: Shown) -> Iterator[bytes]:
    yield b'{"displayTimeUnit":"ms","traceEvents":[\n'
    yield from _listed(_encode(event) for event in _events(recording))
    yield b"\n]}\n"


def _events(recording: Shown) -> Iterator[dict[str, Any]]:
    tracks = _Tracks()
    waiting: dict[int, Frame] = {}
    for frame in recording:
        yield from tracks.names(frame)
        if frame.kind == "request":
            waiting[frame.seq] = frame
            yield _event(tracks, frame, frame, "b")
            continue
        request = waiting.get(frame.re) if frame.re is not None else None
        if request is not None and frame.kind in ("response", "error", "timeout", "drop", "lost"):
            del waiting[request.seq]
            yield _event(tracks, request, frame, "e")
        else:
            yield _event(tracks, frame, frame, "n" if request is not None else "i", about=request)


def _event(
    tracks: _Tracks, place: Frame, frame: Frame, phase: str, *, about: Frame | None = None
) -> dict[str, Any]:
    process, thread = tracks.of(place)
    event: dict[str, Any] = {
        "ph": phase,
        "name": " ".join(part for part in ((about or place).method, (about or place).name) if part)
        or frame.kind,
        "cat": "life" if frame.kind in LIFECYCLE else "call" if phase in "ben" else frame.kind,
        "ts": frame.at / 1000,
        "pid": process,
        "tid": thread,
        "args": {"seq": frame.seq, "kind": frame.kind, "way": frame.way},
    }
    if phase == "i":
        event["s"] = "t"
    else:
        event["id"] = (about or place).seq
    return event


class _Tracks:
    """A process for each peer, a thread for each lane."""

    def __init__(self) -> None:
        self._processes: dict[str, int] = {}
        self._threads: dict[tuple[str, str], int] = {}

    def of(self, frame: Frame) -> tuple[int, int]:
        peer = frame.peer or "core"
        return self._processes[peer], self._threads[peer, frame.lane or ""]

    def names(self, frame: Frame) -> Iterator[dict[str, Any]]:
        peer, lane = frame.peer or "core", frame.lane or ""
        if peer not in self._processes:
            self._processes[peer] = len(self._processes) + 1
            yield {
                "ph": "M",
                "name": "process_name",
                "pid": self._processes[peer],
                "tid": 0,
                "args": {"name": peer},
            }
        if (peer, lane) not in self._threads:
            self._threads[peer, lane] = len(self._threads) + 1
            yield {
                "ph": "M",
                "name": "thread_name",
                "pid": self._processes[peer],
                "tid": self._threads[peer, lane],
                "args": {"name": lane or "(no lane)"},
            }
