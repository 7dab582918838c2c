"""Values that a live service makes up and a recorded agent brings back: cursors, handles, long ids.

Owns which of the differences between a recorded and a live answer are such values, and their places in what the agent
says later. Who says it, and when, is the caller's business. Pure.
"""

from __future__ import annotations

import re

import msgspec

from gateway.protocol import jsonrpc
from gateway.replay.renames import LONG, Renames
from recordings.difference import differences

TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
"""A JSON text, with its quotes."""
_TEXT_AND_COLON = re.compile(rb"(%b)(\s*:)?" % TEXT.pattern)
"""A JSON text, and the colon behind it where it names a member. Short values are replaced where they are all of a text
that names nothing, long ones everywhere."""
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
        """A recorded message with the values of this run in what it says; its envelope is the core's own."""
        if not self._renames:
            return body
        try:
            envelope = jsonrpc.read(body)
        except jsonrpc.BadMessage:
            return _TEXT_AND_COLON.sub(self._replaced, body)
        for part in map(bytes, (envelope.params, envelope.result, envelope.error)):
            if part[:1] in (b"{", b"["):
                body = body.replace(part, _TEXT_AND_COLON.sub(self._replaced, part), 1)
        return body

    def _replaced(self, found: re.Match[bytes]) -> bytes:
        text, colon = found.groups(b"")
        is_long = len(text) >= LONG + 2
        if colon and not is_long:
            return found[0]
        whole = self._renames.get(text)
        if whole is None:
            whole = b'"%b"' % self._inside.applied(text[1:-1]) if is_long else text
        return whole + colon
