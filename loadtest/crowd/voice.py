"""One agent of a crowd on its way through its plan: what it says, with what is fresh in this run, and what it hears.

Owns ids, cancels, recorded answers to questions, and the values that live services have made up anew. When a message is
due is `pacing`'s business. Pure.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from gateway.protocol import jsonrpc, mcp
from gateway.replay.handles import Handles
from loadtest.crowd.plan import Plan, is_error
from transports import http_headers

LONGEST = 120
"""So much is kept of what an error says."""


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Params(msgspec.Struct):
    name: str = ""
    uri: str = ""
    meta: dict[str, Any] = msgspec.field(default_factory=dict[str, Any], name="_meta")


class Voice:
    """What one agent says, once through the plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._handles = Handles()
        self._ids: dict[int, int] = {}
        """Recorded requests, and the ids under which they were sent."""
        self._answers = {method: deque(bodies) for method, bodies in plan.answers.items()}

    def asks(self, key: int, id_: int) -> bytes:
        """A recorded request, under an id of this run."""
        self._ids[key] = id_
        return under(self._handles.applied(self._plan.said[key].body), id_)

    def tells(self, key: int) -> bytes:
        """A recorded notification."""
        said = self._plan.said[key]
        if said.takes_back is not None:
            return cancel_of(self._ids.get(said.takes_back, 0))
        return self._handles.applied(said.body)

    def hears(self, key: int, answer: bytes) -> str | None:
        """An answer has come. Returns what is wrong with it, compared with the recorded one; None if nothing is."""
        said = self._plan.said[key]
        if is_error(answer):
            return None if said.is_error else f"{said_of(answer)}; a result was recorded"
        if said.is_error:
            return "a result; an error was recorded"
        if said.given:
            recorded, live = jsonrpc.read(said.given), jsonrpc.read(answer)
            self._handles.learn(bytes(recorded.result), bytes(live.result))
        return None

    def answers(self, method: str) -> bytes | None:
        """The next recorded answer to a question by this method; None where there is none."""
        known = self._answers.get(method)
        return self._handles.applied(known.popleft()) if known else None


def alone(body: bytes) -> dict[str, str]:
    """The HTTP headers of a message of the era without sessions, which repeat what stands in it."""
    envelope = jsonrpc.read(body)
    params = msgspec.json.decode(bytes(envelope.params) or b"{}", type=_Params)
    headers = {http_headers.METHOD: envelope.method}
    if (version := params.meta.get(mcp.META_VERSION)) is not None:
        headers[http_headers.VERSION] = str(version)
    named = params.uri if envelope.method.startswith("resources/") else params.name
    if named:
        headers[http_headers.NAME] = http_headers.encode_value(named)
    return headers


def under(body: bytes, id_: int) -> bytes:
    """A request under another id."""
    return jsonrpc.with_id(body, jsonrpc.read(body), id_)


def cancel_of(id_: int) -> bytes:
    """The notification that takes a request back."""
    return b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}' % id_


def said_of(answer: bytes) -> str:
    """The error of an answer, in words."""
    try:
        error = bytes(jsonrpc.read(answer).error)
        read = msgspec.json.decode(error, type=_Error) if error else None
    except (jsonrpc.BadMessage, msgspec.DecodeError):
        return "an answer that cannot be read"
    return f"error {read.code}: {read.message[:LONGEST]}" if read is not None else "the tool says isError"
