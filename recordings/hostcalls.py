"""What recorded extensions asked of the gateway itself, and what came of it: given again in a replay, and nothing done.

Owns which frames belong to a host call: the decisions about it, what a person was shown, what the extension was given.
"""

from __future__ import annotations

from recordings.columns import Told

HOST_CALL = "pi/host_call"
"""What an extension asks of the gateway itself."""


class HostCalls:
    """The host calls of one recording, by the frames of their requests; each with further frames, in order."""

    def __init__(self) -> None:
        self.given: dict[int, list[int]] = {}
        """Every host call, and what it was given."""
        self.decided: dict[int, list[int]] = {}
        """The decisions about one."""
        self.shown: dict[int, list[int]] = {}
        """What a person answered at the gateway's terminal in the course of one."""

    def asks(self, frame: Told) -> None:
        """A peer asks something: of the gateway itself, perhaps."""
        if frame.method == HOST_CALL:
            self.given[frame.seq] = []

    def gives(self, frame: Told) -> None:
        """The gateway says something to an extension: what a host call of its was given, perhaps."""
        if frame.re in self.given and frame.kind in ("response", "error", "chunk"):
            self.given[frame.re].append(frame.seq)

    def decides(self, frame: Told) -> None:
        """Something is decided or shown within the gateway: about a host call, perhaps."""
        if frame.parent not in self.given:
            return
        if frame.kind == "policy":
            self.decided.setdefault(frame.parent, []).append(frame.seq)
        elif frame.kind == "ui" and frame.re is not None:
            self.shown.setdefault(frame.parent, []).append(frame.seq)
