"""Wire ids that a gateway gave out by counting, and what they would be if some requests had not been made.

Owns the reading of those ids from frames and the places where a message repeats them. A session that is played again
counts again: without this, what is left of a recording would differ from its replay in every id.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from recordings.frame import Frame

Endpoint: TypeAlias = str
"""Whom a request was sent to: a peer by its name, the core as the empty text."""
Ids: TypeAlias = Mapping[tuple[Endpoint, int], int]
"""What each id becomes."""

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_ANSWERS = frozenset(("response", "error", "late"))
_ID = ("id",)
_TOKEN_OF_REQUEST = ("params", "_meta", "progressToken")
_PLACES: Mapping[str, tuple[str, ...]] = {
    "notifications/progress": ("params", "progressToken"),
    "notifications/cancelled": ("params", "requestId"),
}
_SUBSCRIPTIONS = (("params", "_meta", SUBSCRIPTION), ("result", "_meta", SUBSCRIPTION))


def giver(frame: Frame) -> Endpoint | None:
    """Whose requests the ids of the gateway's in this frame count; None where it can have none.

    That is whoever answers or reports under such an id, or is asked under it.
    """
    match frame.way, frame.kind:
        case (("peer>" | "core>"), "request"):
            # Under an id of its sender's own.
            return None
        case (("peer>" | ">peer"), _):
            return frame.peer
        case (("core>" | ">core"), _):
            return ""
        case _:
            return None


class WireIds:
    """Which requests of a recording went to whom under which id."""

    def __init__(self) -> None:
        self._sent: dict[Endpoint, dict[int, int | None]] = {}
        """By endpoint: the requests in order, each with its id where a frame says it."""

    def see(self, frame: Frame) -> None:
        """Take the next frame."""
        if frame.kind == "request":
            if frame.way == "core>" and frame.peer:
                self._sent.setdefault(frame.peer, {})[frame.seq] = None
            elif frame.way == "peer>":
                self._sent.setdefault("", {})[frame.seq] = None
            elif frame.way in (">peer", ">core") and isinstance(frame.id, int):
                self._sent.setdefault(giver(frame) or "", {})[frame.seq] = frame.id
        elif frame.kind in _ANSWERS and frame.re is not None and isinstance(frame.id, int):
            sent = self._sent.get(giver(frame) or "", {})
            if frame.re in sent and sent[frame.re] is None:
                sent[frame.re] = frame.id

    def without(self, gone: Container[int]) -> dict[tuple[Endpoint, int], int]:
        """What the ids become without these requests; only those that change.

        Ids that do not rise with the requests were not counted by a gateway, and stay.
        """
        ids: dict[tuple[Endpoint, int], int] = {}
        for endpoint, sent in self._sent.items():
            known = [id_ for id_ in sent.values() if id_ is not None]
            if known != sorted(set(known)) or (known and known[0] < 1):
                continue
            fewer = 0
            for seq, id_ in _filled(sent):
                if seq in gone:
                    fewer += 1
                elif fewer:
                    ids[endpoint, id_] = id_ - fewer
        return ids


def _filled(sent: Mapping[int, int | None]) -> Iterable[tuple[int, int]]:
    """Requests with their ids, those too that nothing tells: they have what is missing between their neighbours."""
    last = 0
    waiting: list[int] = []
    for seq, id_ in sent.items():
        if id_ is None:
            waiting.append(seq)
            continue
        yield from zip(waiting, range(last + 1, id_), strict=False)
        yield seq, id_
        last, waiting = id_, []
    yield from ((seq, last + number) for number, seq in enumerate(waiting, 1))


def with_ids(frame: Frame, ids: Ids) -> Frame:
    """The frame, given with its body, under the ids that they become, everything else spelt as it was."""
    endpoint = giver(frame)
    if not ids or endpoint is None:
        return frame
    changes: dict[str, Any] = {}
    if frame.kind in _ANSWERS or frame.kind == "request":
        new = ids.get((endpoint, frame.id)) if isinstance(frame.id, int) else None
        if new is not None:
            changes["id"] = new
    body = bytes(frame.body)
    if body and frame.kind != "raw":
        rewritten = body
        for path in _paths(frame):
            rewritten = _at(rewritten, path, endpoint, ids)
        if rewritten is not body:
            changes["body"] = msgspec.Raw(rewritten)
    return msgspec.structs.replace(frame, **changes) if changes else frame


def _paths(frame: Frame) -> tuple[tuple[str, ...], ...]:
    if frame.kind == "request":
        return _ID, _TOKEN_OF_REQUEST
    if frame.kind in _ANSWERS:
        return _ID, *_SUBSCRIPTIONS
    place = _PLACES.get(frame.method or "")
    if frame.method == "notifications/cancelled" and frame.way in ("peer>", "core>"):
        # Its sender takes back what it has asked itself.
        return ()
    return (*((place,) if place else ()), *_SUBSCRIPTIONS)


def _at(body: bytes, path: tuple[str, ...], endpoint: Endpoint, ids: Ids) -> bytes:
    """The body with another id at one place; the same object where there is none to change."""
    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return body
    name, *rest = path
    value = members.get(name)
    if value is None:
        return body
    old = bytes(value)
    if rest:
        new = _at(old, tuple(rest), endpoint, ids)
    else:
        found = ids.get((endpoint, int(old))) if old.isdigit() else None
        new = old if found is None else b"%d" % found
    if new is old or new == old:
        return body
    members[name] = msgspec.Raw(new)
    return msgspec.json.encode(members)
