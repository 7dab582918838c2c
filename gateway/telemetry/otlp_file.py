"""A recording's spans as one OTLP/JSON document, as collectors' file receivers and trace viewers read it.

Owns that spelling. The spans are those that the live session would have sent, from the same frames; OpenTelemetry
itself is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec

from gateway.telemetry.facts import facts_of
from gateway.telemetry.metrics import Place
from gateway.telemetry.operations import Operation, Scene, Tracker
from gateway.telemetry.spans import attributes, name_of
from recordings.errors import MissingBlobError
from recordings.frame import Frame
from recordings.public import Shown

_KINDS = {"server": 2, "client": 3}
_ERROR = 2


def otlp_json(recording: Shown) -> Iterator[bytes]:
    """The pieces of a document with every operation of a recording as a span."""
    header = recording.header
    core = Place(transport=header.core.transport if header.core is not None else "")
    places = {name: Place(transport=facts.transport) for name, facts in header.peers.items()}
    scene = Scene(session=header.session, seed=header.seed, started=header.started, transport=core.transport)
    resource = [
        _attribute("service.name", "tieline"),
        _attribute("service.version", header.by.rpartition(" ")[2]),
    ]
    scope = {"name": "tieline", "version": header.by.rpartition(" ")[2]}
    yield (
        b'{"resourceSpans":[{"resource":{"attributes":'
        + msgspec.json.encode(resource)
        + b'},"scopeSpans":[{"scope":'
        + msgspec.json.encode(scope)
        + b',"spans":[\n'
    )
    ended: list[Operation] = []
    tracker = Tracker(scene, on_start=lambda _: None, on_end=ended.append)
    first = True
    for frame in chain(recording, (None,)):
        if frame is None:
            tracker.finish()
        else:
            tracker.see(facts_of(frame, _body(recording, frame), hashed=True))
        for operation in ended:
            if operation.sampled and operation.end is not None:
                place = places.get(operation.other, core)
                yield (b"" if first else b",\n") + msgspec.json.encode(_span(operation, place, scene))
                first = False
        ended.clear()
    yield b"\n]}]}]}\n"


def _body(recording: Shown, frame: Frame) -> bytes:
    try:
        return recording.body(frame)
    except MissingBlobError:
        return b""


def _span(operation: Operation, place: Place, scene: Scene) -> dict[str, Any]:
    span: dict[str, Any] = {
        "traceId": operation.trace_id,
        "spanId": operation.span_id,
        "name": name_of(operation),
        "kind": _KINDS[operation.side],
        "startTimeUnixNano": str(scene.started + operation.start),
        "endTimeUnixNano": str(scene.started + (operation.end or operation.start)),
        "attributes": [_attribute(*each) for each in attributes(operation, place, scene).items()],
        "status": {"code": _ERROR} if operation.error else {},
        "flags": 1,
    }
    if operation.parent_id:
        span["parentSpanId"] = operation.parent_id
    if operation.state:
        span["traceState"] = operation.state
    return span


def _attribute(key: str, value: object) -> dict[str, Any]:
    kind = (
        "boolValue"
        if isinstance(value, bool)
        else "intValue"
        if isinstance(value, int)
        else "doubleValue"
        if isinstance(value, float)
        else "stringValue"
    )
    # OTLP/JSON writes 64-bit integers as texts.
    return {"key": key, "value": {kind: str(value) if kind in ("intValue", "stringValue") else value}}
