"""Values that a live service makes up and a recorded agent brings back: cursors, handles, long ids.

Owns which of the differences between a recorded and a live answer are such values, and their places in what the agent
says later. Who says it, and when, is the caller's business. Pure.
"""

from __future__ import annotations

import re

import msgspec

from gateway.protocol import jsonrpc
from gateway.replay.renames import LONG, Renames
from gateway.replay.rewire import under_id
from recordings.difference import differences

TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
"""A JSON text. Short values are replaced where they are all of it, long ones inside of it too."""
NAMES = frozenset(("nextCursor", "cursor", "next", "requestState", "taskId", "sessionId", "id"))
"""Members whose value a service makes up for the core to bring back, however short it is."""


class Handles:
    """What one playing of a recording has been given instead of the recorded values."""

    def __init__(self) -> None:
        self._renames: dict[bytes, bytes] = {}
        """JSON texts, recorded and live."""
        self._inside = Renames()

    def learn(self, recorded: bytes, live: bytes) -> None:
        """Compare a recorded result, or error, with the live one: what comes later may bring its values back."""
        if recorded == live:
            return
        for change in differences(recorded, live):
            if change.kind == "value" and change.before is not None and change.after is not None:
                before, after = bytes(change.before), bytes(change.after)
                is_handle = change.pointer.rpartition("/")[2] in NAMES or len(before) >= LONG + 2
                if is_handle and before[:1] == b'"' and after[:1] == b'"':
                    self._renames[before] = after
                    if len(before) >= LONG + 2:
                        self._inside.learn([(msgspec.json.decode(before), msgspec.json.decode(after))])

    def applied(self, body: bytes) -> bytes:
        """A recorded message with the values of this run in it; it keeps its own id, which the core has made up."""
        if not self._renames:
            return body
        renamed = TEXT.sub(self._replaced, body)
        if renamed == body:
            return body
        try:
            id_ = jsonrpc.read(body).id
        except jsonrpc.BadMessage:
            return renamed
        return under_id(renamed, id_) if isinstance(id_, int | str) else renamed

    def _replaced(self, found: re.Match[bytes]) -> bytes:
        text = found[0]
        whole = self._renames.get(text)
        if whole is not None:
            return whole
        return b'"%b"' % self._inside.applied(text[1:-1]) if len(text) >= LONG + 2 else text
