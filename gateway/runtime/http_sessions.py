"""The sessions of the HTTP listener by their ids: found, held while they are used, ended when they are silent.

Owns which session makes room for a new one and when a silent one has ended. What happens inside of one is
`http_session`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager

from gateway.runtime.http_session import SessionLink
from transports.base import TransportError


class Sessions:
    """The open sessions, those first that were silent longest."""

    def __init__(self, most: int, idle_s: float) -> None:
        """Hold at most so many, each for so many seconds without a request."""
        self._most = most
        self._idle_s = idle_s
        self._sessions: OrderedDict[str, SessionLink] = OrderedDict()
        self._silent: dict[str, float] = {}
        """Id -> loop time since when no request of it is served."""
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._sessions)

    def add(self, session: SessionLink) -> None:
        """Take in a new session."""
        self._sessions[session.id] = session

    def find(self, session_id: str, principal: str | None) -> SessionLink | None:
        """Return the session of that id if it is the caller's own."""
        session = self._sessions.get(session_id)
        return None if session is None or session.principal != principal else session

    def forget(self, session: SessionLink) -> None:
        """A session has ended."""
        self._sessions.pop(session.id, None)
        self._silent.pop(session.id, None)

    def make_room(self) -> bool:
        """Return whether one more may be opened; where all places are taken, the one silent longest ends."""
        if len(self._sessions) < self._most:
            return True
        for session in self._sessions.values():
            if not session.busy:
                session.end(TransportError("idle", "the session made room for a new one"))
                return True
        return False

    @contextmanager
    def busy(self, session: SessionLink) -> Generator[None]:
        """Hold a session while a request of it is served; without another one it will have ended in time."""
        self.hold(session)
        try:
            yield
        finally:
            self.release(session)

    def hold(self, session: SessionLink) -> None:
        """A request of the session is served from now on."""
        session.busy += 1
        self._silent.pop(session.id, None)

    def release(self, session: SessionLink) -> None:
        """It is served."""
        session.busy -= 1
        if not session.busy and not session.over:
            self._rest(session)

    def close(self) -> None:
        """End every session."""
        self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for session in list(self._sessions.values()):
            session.close()

    def _rest(self, session: SessionLink) -> None:
        loop = asyncio.get_running_loop()
        self._sessions.move_to_end(session.id)
        self._silent[session.id] = loop.time()
        if self._sweeper is None and not self._is_closed:
            self._sweeper = loop.call_later(self._idle_s, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        loop = asyncio.get_running_loop()
        while self._silent:
            session_id, since = next(iter(self._silent.items()))
            if since + self._idle_s > loop.time():
                self._sweeper = loop.call_at(since + self._idle_s, self._sweep)
                return
            why = f"the session was silent for {self._idle_s:g} s"
            self._sessions[session_id].end(TransportError("idle", why))
