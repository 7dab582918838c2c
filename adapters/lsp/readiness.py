"""Whether a language server has loaded, and whether an answer of it is the whole one.

Servers answer "nothing" or "a part" while they load, with no mark. What is known of each server (`Wait`) says how it
tells that it has loaded; an answer of a server that never tells is not called whole, however often it was the
same. Owns these decisions: facts and times in, a verdict out. Pure.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Readiness: TypeAlias = Literal["ready", "loading", "unknown"]
Wait: TypeAlias = Literal["none", "progress", "registration", "status", "settle"]
"""How a server tells that it has loaded: it needs not, since it answers from the files (`none`); by ending all work
that it reports (`progress`); by registering for a method (`registration`); by a notification (`status`); not at all
(`settle`)."""

GRACE_S = 5.0
"""How long a server that tells by progress may take until it reports any."""
QUIET_S = 0.3
EMPTY_S = 0.3
"""After this long, "nothing" of a server that has loaded is asked for once more."""
STEADY_S = 1.0
STEADY_EMPTY_S = 2.5
"""How long an answer of a server that does not tell must stay the same."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0


class Load:
    """What a server has said about its loading. Times are in seconds of any clock."""

    def __init__(self, wait: Wait, now: float, sign: str = "") -> None:
        self.wait = wait
        self.sign = sign
        """The method whose registration or whose notification is the sign, see `Wait`."""
        self.heard = now
        """When the server last said anything by itself."""
        self._began: float | None = None
        self._signed = False
        self._work: dict[int | str, str] = {}
        self._ended_at: float | None = None

    @property
    def working(self) -> bool:
        """Whether the server reports work that has not ended."""
        return bool(self._work)

    def begin(self, now: float) -> None:
        """The server was given a file: from the first one on it is expected to load."""
        if self._began is None:
            self._began = now

    def progress(self, token: int | str, kind: str, line: str, now: float) -> None:
        """The server reports work: that it begins, goes on or ends."""
        if kind == "end":
            self._work.pop(token, None)
            self._ended_at = now
        else:
            self._work[token] = line

    def signal(self, method: str, *, ready: bool = True) -> None:
        """The server has registered for a method, or sent a notification that says whether it is ready."""
        if method == self.sign:
            self._signed = ready

    def readiness(self, now: float) -> Readiness:
        """What is known."""
        match self.wait:
            case "registration" | "status":
                # Not by its work: that of basedpyright on files that were closed meanwhile never ends.
                return "ready" if self._signed else "loading"
            case _ if self._work:
                return "loading"
            case "none":
                return "ready"
            case "progress" if self._ended_at is not None:
                # One piece of work may follow on another.
                return "ready" if now - self._ended_at >= QUIET_S else "loading"
            case "progress" if self._began is None or now - self._began < GRACE_S:
                return "loading"
            case _:
                return "unknown"

    def doing(self) -> str:
        """What the server says that it does, for a person."""
        return next(reversed(self._work.values()), "")


class Again(msgspec.Struct, frozen=True):
    """Ask again after so long, once the server does not load any more."""

    after_s: float


class Final(msgspec.Struct, frozen=True):
    """The answer is given. `whole` is whether nothing speaks for there being more."""

    whole: bool
    readiness: Readiness


class Settling:
    """One question that is asked until its answer is the whole one, or time is up."""

    def __init__(self, now: float, limit_s: float) -> None:
        self._until = now + limit_s
        self._since = now
        self._last: object = None
        self._asked = 0
        self._pause = FIRST_PAUSE_S

    def may_wait(self, now: float) -> bool:
        """Whether there is time left to wait for the server to load."""
        return now < self._until

    def judge(
        self,
        now: float,
        answer: object,
        *,
        empty: bool,
        asked_when: Readiness,
        load: Load,
        known: bool = False,
    ) -> Again | Final:
        """What to do with an answer of a server that was `asked_when` loading, ready or neither.

        `known`: this server has given a whole answer to such a question, and no file has changed since.
        """
        self._asked += 1
        same = self._asked > 1 and answer == self._last
        if not same:
            self._last, self._since = answer, now
        steady = now - self._since
        if asked_when == "ready":
            # Work that began with the question may be what the question made it do, and a server that has registered
            # may not have seen all files yet: twice the same is enough.
            sure = known or same or not (empty or load.working or load.wait == "registration")
            if sure:
                return Final(whole=True, readiness="ready")
        elif asked_when == "unknown":
            quiet = now - load.heard >= QUIET_S
            if known or (quiet and same and steady >= (STEADY_EMPTY_S if empty else STEADY_S)):
                return Final(whole=False, readiness="unknown")
        if not self.may_wait(now):
            return Final(whole=False, readiness=load.readiness(now))
        if asked_when == "ready":
            return Again(EMPTY_S)
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE_S)
        return Again(self._pause)


def is_fresh(
    now: float, *, quiet_s: float, sent_at: float, version: int, pushed_at: float, pushed_version: int | None
) -> bool:
    """Whether pushed diagnostics are those of the text that was sent: by their version, else by their time.

    Servers push more than once for one text, so the last push has to be a moment old.
    """
    mine = pushed_at >= sent_at if pushed_version is None else pushed_version >= version
    return mine and now - pushed_at >= quiet_s


class Patience:
    """How often a server is started again, and when one that does not answer is given up."""

    def __init__(self, starts: int = 4, window_s: float = 60.0) -> None:
        self._starts: list[float] = []
        self._most, self._window_s = starts, window_s
        self._silent = 0

    def may_start(self, now: float) -> float:
        """0 where the server may be started now, else in how many seconds it may be."""
        self._starts = [at for at in self._starts if now - at < self._window_s]
        if len(self._starts) >= self._most:
            return self._window_s - (now - self._starts[0])
        self._starts.append(now)
        return 0.0

    def timed_out(self, asked_at: float, heard_at: float) -> bool:
        """A request was not answered in time. Whether the server is to be ended: at the second in silence."""
        self._silent = self._silent + 1 if heard_at < asked_at else 0
        return self._silent > 1

    def answered(self) -> None:
        """A request was answered."""
        self._silent = 0
