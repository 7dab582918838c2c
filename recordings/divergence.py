"""The divergence report: what a replay did otherwise than its recording, and how that counts.

Owns the classes of divergence, which of them fail, what is a headline and what a consequence, and the commands that
a reader may go on with. How a report looks is `report`'s business; finding divergences is the matcher's and
the gate's.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias, get_args

import msgspec

from recordings.difference import Change

DivergenceClass: TypeAlias = Literal[
    "extra", "missing", "changed-params", "exhausted", "ambiguous", "answer-differs", "decision-differs",
    "hook-order", "race", "timeout", "version", "unreadable",
]  # fmt: skip
CLASSES: tuple[DivergenceClass, ...] = get_args(DivergenceClass)

MEANING: dict[DivergenceClass, str] = {
    "extra": "the recording has no request like this one",
    "missing": "this recorded request was not sent",
    "changed-params": "the recording has this request with other values",
    "exhausted": "every recorded request like this one has been answered already",
    "ambiguous": "several recorded requests fit, and their answers differ",
    "answer-differs": "the answer is not the recorded one",
    "decision-differs": "a hook or the policy decided otherwise than recorded",
    "hook-order": "hooks ran in another order than recorded",
    "race": "a cancellation and an answer crossed; the recording has decided",
    "timeout": "what was recorded next did not come in time",
    "version": "another version of the protocol was agreed on than recorded",
    "unreadable": "a recorded frame that is needed cannot be read",
}
"""What each class says, where a divergence has no sentence of its own."""
HARMLESS: frozenset[DivergenceClass] = frozenset(("race",))
"""Classes that are told and fail nothing: both sides must be ready for either outcome."""

SAME = 0
DIVERGED = 1
INCOMPLETE = 2
BAD_RECORDING = 3
"""Exit codes of a replay. The last one is the caller's: without a recording there is no report."""

Verdict: TypeAlias = Literal["same", "diverged", "incomplete"]

NO_LANE = "(no lane)"
LONGEST = 200
"""Bytes of a value that a command for people may hold."""
MOST_SETS = 5
"""Places that such a command changes at most; a change of more is none to be taken over by hand."""


class Near(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recorded request that a live one resembles; `distance` in words, such as `1 of 14 values`."""

    seq: int
    lane: str | None = None
    nth: int | None = None
    distance: str = ""


class Given(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a lane was last given before it diverged, and whether that was what was recorded."""

    seq: int
    what: str = ""
    """Method and name of the request that it answers, or of the notification."""
    identical: bool = True


class Divergence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One place where a lane of a replay differs from the recording."""

    cls: DivergenceClass
    lane: str | None = None
    peer: str | None = None
    method: str | None = None
    name: str | None = None
    live: int | None = None
    """The frame of the replay in which it showed."""
    recorded: int | None = None
    """The recorded frame that was expected there."""
    nearest: tuple[Near, ...] = ()
    changes: tuple[Change, ...] = ()
    """From the nearest recorded request, or the recorded answer, to the live one."""
    last_given: Given | None = None
    detail: str = ""
    """A sentence without a final period; empty where the class says it all."""
    next: tuple[str, ...] = ()
    """Commands to go on with."""

    @property
    def fails(self) -> bool:
        """Whether it makes a replay one that diverged."""
        return self.cls not in HARMLESS


class Headline(NamedTuple):
    """The first divergence of a lane, and how many in that lane came after it and may be its consequences."""

    divergence: Divergence
    later: int


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one replay."""

    path: str
    session: str = ""
    mode: str = "replay"
    served: int = 0
    """Recorded frames that were used, of `of`."""
    of: int = 0
    lanes: tuple[str | None, ...] = ()
    """Lanes of the recording that were replayed."""
    unplayed: dict[str, int] = {}
    """Recorded frames that nothing asked for, by lane."""
    relaxed: int = 0
    """Requests that matched only by a relaxed rule."""
    ambiguous: int = 0
    """Requests that several recorded ones fitted, of which the oldest was taken."""
    live_calls: int = 0
    """Requests that a live service answered, where the mode allows that."""
    races: int = 0
    loose: int = 0
    """Answers to greetings and lists that were given: nobody waits for them, so they are none of `served`."""
    divergences: tuple[Divergence, ...] = ()
    """In the order in which they showed."""
    aborted: str = ""
    """Why the replay ended before the recording did; empty where it did not."""

    @property
    def headlines(self) -> tuple[Headline, ...]:
        """The first divergence that fails in each lane, in the order in which they showed."""
        first: dict[str | None, Divergence] = {}
        later: dict[str | None, int] = {}
        for each in self.divergences:
            if each.fails:
                first.setdefault(each.lane, each)
                later[each.lane] = later.get(each.lane, -1) + 1
        return tuple(Headline(each, later[lane]) for lane, each in first.items())

    @property
    def harmless(self) -> tuple[Divergence, ...]:
        """What differed and fails nothing."""
        return tuple(each for each in self.divergences if not each.fails)

    @property
    def unplayed_frames(self) -> int:
        """Recorded frames that nothing asked for."""
        return sum(self.unplayed.values())

    @property
    def verdict(self) -> Verdict:
        """`diverged` before `incomplete`: what was not played is mostly a consequence."""
        if any(each.fails for each in self.divergences):
            return "diverged"
        return "incomplete" if self.unplayed_frames or self.aborted else "same"

    @property
    def exit_code(self) -> int:
        """What a command ends with: 0 same, 1 diverged, 2 incomplete."""
        return {"same": SAME, "diverged": DIVERGED, "incomplete": INCOMPLETE}[self.verdict]


def next_steps(divergence: Divergence, path: str) -> tuple[str, ...]:
    """The commands that would take what differs for what is right, go on from before it, or ask live what is missing.

    The pointers of its changes are those of whole messages: they begin with `/params`, `/result` or `/error`.
    """
    return tuple(_steps(divergence, shlex.quote(path), shlex.quote(f"{path.rstrip('/')}.fork")))


def _steps(divergence: Divergence, path: str, fork: str) -> Iterator[str]:
    recorded = divergence.recorded or next((near.seq for near in divergence.nearest), None)
    if divergence.cls in ("changed-params", "answer-differs") and recorded is not None:
        sets = [
            shlex.quote(f"{recorded}:{change.pointer}={bytes(change.after).decode()}")
            for change in divergence.changes
            if change.after is not None and len(bytes(change.after)) <= LONGEST and not change.note
        ]
        if 0 < len(sets) <= MOST_SETS and len(sets) == sum(
            1 for change in divergence.changes if not change.note
        ):
            yield f"tieline fork {path} --out {fork} " + " ".join(f"--set {each}" for each in sets)
    at = divergence.last_given.seq if divergence.last_given else (recorded - 1 if recorded else None)
    if at:
        yield f"tieline fork {path} --out {fork} --at {at}"
    match divergence.cls:
        case "changed-params":
            # What was recorded is mostly not asked any more, and where anything is unplayed, nothing is extended.
            yield f"tieline replay {path} --mode rewrite --config tieline.toml"
        case "extra" | "exhausted":
            yield f"tieline replay {path} --mode extend --config tieline.toml"
        case "ambiguous":
            # A rule that makes two different requests the same is told of there.
            yield f"tieline rules {path}"
        case "unreadable":
            yield f"tieline doctor {path}"
        case _:
            pass
