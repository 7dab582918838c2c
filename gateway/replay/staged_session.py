"""The session of a driven replay: made again in memory, with what the frames say came from outside.

Owns what it begins with, what was read from files, and which writes had failed. No file is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw

from gateway.sessions.files import Beginning, Loaded, StoreError

if TYPE_CHECKING:
    from recordings.frame import Frame

NAME: Final = "session"
READ: Final = frozenset(("read", "unread", "listed"))
"""What came from outside while something waited for it."""


class _Lines(msgspec.Struct):
    lines: list[Raw]


class _Listed(msgspec.Struct):
    sessions: list[dict[str, Any]]


class StagedKeeper:
    """Implements `calls.ports.Keeper`."""

    def __init__(self, begun: dict[str, Any], failures: dict[int, StoreError]) -> None:
        """`begun` is what the frame of the beginning says, `failures` are the writes that failed, counted from 0."""
        self.beginning = Beginning(
            seed=str(begun.get("seed", "")),
            at_ms=int(begun.get("at_ms", 0)),
            cwd=str(begun.get("cwd", "")),
            directory=str(begun.get("directory", "")),
        )
        self._failures = failures
        self._writes = 0
        self._load: Callable[[Loaded | StoreError], None] | None = None
        self._list: Callable[[list[dict[str, Any]] | StoreError], None] | None = None

    def seen(self, line: bytes) -> bytes:
        """Return the line: what no recording may hold is in none that was made of one."""
        return line

    def append(self, file: str, lines: Sequence[bytes], *, new: bool) -> None:
        """Fail where it had failed.

        Raises:
            StoreError: As recorded.
        """
        self._writes += 1
        fault = self._failures.get(self._writes - 1)
        if fault is not None:
            raise fault

    def load(self, target: str, then: Callable[[Loaded | StoreError], None]) -> None:
        """Wait for what was read."""
        self._load = then

    def list(self, limit: int, then: Callable[[list[dict[str, Any]] | StoreError], None]) -> None:
        """Wait for what was found."""
        self._list = then

    def close(self) -> None:
        """There is nothing to let go of."""

    def play(self, x: dict[str, Any], body: bytes) -> bool:
        """Give what a frame says was read; whether somebody has waited for it."""
        load, self._load = self._load, None
        list_, self._list = self._list, None
        fault = StoreError(str(x.get("reason", "")), str(x.get("message", "")))
        if load is not None:
            if x["event"] == "read":
                lines = [bytes(line) for line in msgspec.json.decode(body, type=_Lines).lines]
                load(Loaded(file=str(x.get("file", "")), lines=lines, notes=list(x.get("notes", []))))
            else:
                load(fault)
        elif list_ is not None:
            if x["event"] == "listed":
                list_(msgspec.json.decode(body, type=_Listed).sessions)
            else:
                list_(fault)
        else:
            return False
        return True


class StagedSessions:
    """The session of one driven replay, if it has one."""

    def __init__(self) -> None:
        self._begun: dict[str, Any] | None = None
        self._failures: dict[int, StoreError] = {}
        self._last: StagedKeeper | None = None

    def expect(self, frame: Frame) -> None:
        """A recorded frame."""
        x = frame.x or {}
        if not is_of_session(frame):
            return
        if x.get("event") == "begun":
            self._begun = x
        elif x.get("event") == "failed":
            fault = StoreError(str(x.get("reason", "")), str(x.get("message", "")))
            self._failures[int(x.get("write", -1))] = fault

    def keeper(self) -> StagedKeeper | None:
        """Return the keeper of the session that begins; None where none had begun."""
        if self._last is None and self._begun is not None:
            self._last = StagedKeeper(self._begun, self._failures)
        return self._last

    def play(self, x: dict[str, Any], body: bytes) -> bool:
        """Give what a frame says was read; whether somebody has waited for it."""
        return self._last is not None and self._last.play(x, body)


def is_of_session(frame: Frame) -> bool:
    """Whether a frame says something of the session."""
    return frame.kind == "state" and frame.way == "inside" and frame.name == NAME


def is_input(frame: Frame) -> bool:
    """Whether a frame says what came from outside."""
    return is_of_session(frame) and (frame.x or {}).get("event") in READ
