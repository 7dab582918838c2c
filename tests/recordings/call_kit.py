"""Sessions written as calls: each becomes the frames that a gateway would have recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from recordings.frame import Frame
from tests.recordings.recording_kit import frame, recorded


class Call(NamedTuple):
    """One call and its end: a result, an error object, or none."""

    name: str
    arguments: dict[str, Any]
    result: Any = None
    lane: str = ""
    peer: str = "db"
    method: str = "tools/call"
    error: Any = None
    cancelled: bool = False
    progress: int = 0
    decision: dict[str, Any] | None = None
    took_ms: int = 1


def frames_of(*calls: Call, first: int = 0, between: int = 0) -> list[Frame]:
    """The frames of calls one after another; `between` notifications of a peer before each."""
    made: list[Frame] = []

    def add(kind: str, body: object, at: int, **fields: object) -> int:
        seq = first + len(made)
        data = msgspec.json.encode(body) if body is not None else b""
        given = {key: value for key, value in fields.items() if value not in (None, "")}
        made.append(frame(seq, data, kind, at=at, **given))
        return seq

    at = 0
    for number, call in enumerate(calls, 1):
        peer, method, name = call.peer, call.method, call.name
        for _ in range(between):
            add("notification", {"method": "notifications/message"}, at, way="peer>", peer=peer)
        params = {"name": name, "arguments": call.arguments, "_meta": {"progressToken": number}}
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        where = {"peer": peer, "method": method, "name": name, "lane": call.lane}
        seq = add("request", body, at, way="core>", id=number, after=made[-1].seq if made else None, **where)
        if call.decision is not None:
            add("policy", None, at, way="inside", parent=seq, peer=peer, name=name, x=call.decision)
        for step in range(call.progress):
            params = {"progressToken": number, "progress": step}
            add(
                "notification",
                {"method": "notifications/progress", "params": params},
                at,
                way="peer>",
                peer=peer,
                re=seq,
            )
        at += call.took_ms * 1_000_000
        if call.cancelled:
            params = {"requestId": number}
            cancel = {"method": "notifications/cancelled", "params": params}
            add("notification", cancel, at, way="core>", peer=peer, re=seq, method="notifications/cancelled")
            add("drop", None, at, way="inside", peer=peer, re=seq)
            add("notification", cancel, at, way=">peer", peer=peer, re=seq)
        elif call.error is not None:
            add("error", {"id": number, "error": call.error}, at, way="peer>", id=number, re=seq, peer=peer)
        elif call.result is not None:
            add(
                "response",
                {"id": number, "result": call.result},
                at,
                way="peer>",
                id=number,
                re=seq,
                peer=peer,
            )
    return made


def session_of(path: Path, *calls: Call, between: int = 0, seal: bool = False) -> Path:
    """A recording of calls."""
    return recorded(path, frames_of(*calls, between=between), seal=seal)
