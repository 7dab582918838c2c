"""Which recorded request a live one is: by (lane, key, occurrence), with values that differ from run to run renamed.

Owns candidates, consumption, and the renaming of volatile values, which is held as a bijection recorded ↔ live of each
lane: two values that were equal stay equal, two that were different stay different, in whatever order they come. Knows
nothing of time; what has happened already, the gate says. Source: the replay contract, matching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from recordings.form import PUBLIC, TOLERANT, Form, is_within
from recordings.profile import Consumption, kind_name

Why: TypeAlias = Literal["extra", "changed-params", "exhausted", "ambiguous"]

MOST_CANDIDATES = 64
"""How many unused requests of one key are compared by their values; those behind them wait their turn."""
MOST_LOOKED_AT = 4096
"""How many unused requests are looked through for one of a lane, to say what a miss is."""
UNBOUND = frozenset(("timestamp", "pid", "port"))
"""Classes whose equality says nothing: two readings of a clock may fall together in one run and not in another."""


Which: TypeAlias = tuple[bool, str, str, str | None]
"""Whether the gateway asks by itself, the peer, the method, the name."""


class Recorded(msgspec.Struct, gc=False, eq=False):
    """One recorded request, and whether it has been used."""

    seq: int
    at: int
    peer: str
    lane: str
    method: str
    name: str
    consumption: Consumption
    used: bool = False
    is_own: bool = False
    """Whether the gateway had asked by itself."""


class Live(msgspec.Struct, frozen=True, gc=False):
    """One live request, or the recorded one that a test plays again."""

    peer: str
    lane: str
    method: str
    name: str
    form: Form
    is_own: bool = False
    """Whether the gateway asks by itself."""


class Match(NamedTuple):
    """The recorded request that a live one is."""

    seq: int
    relaxed: bool = False
    """Whether a value differs that should not: its class was looked at alone."""
    ambiguous: bool = False
    """Whether others, with other outcomes, would have fitted as well."""
    again: bool = False
    """Whether it was used before, and may be."""


class Miss(NamedTuple):
    """Why there is none, and the recorded requests that say so."""

    why: Why
    seqs: tuple[int, ...] = ()


class Bindings:
    """The volatile values of one lane: recorded ↔ live."""

    __slots__ = ("_live", "_recorded")

    def __init__(self) -> None:
        self._live: dict[tuple[str, str], str] = {}
        self._recorded: dict[tuple[str, str], str] = {}

    def allow(self, recorded: Form, live: Form) -> bool:
        """Whether two requests of one key may be the same under what is bound."""
        if len(recorded.values) != len(live.values):
            return False
        for (kind, ours), (_, theirs) in zip(recorded.values, live.values, strict=True):
            if kind.startswith(TOLERANT):
                if not is_within(kind, ours, theirs):
                    return False
            elif kind in UNBOUND or ours == PUBLIC:
                continue
            elif self._live.get((kind, ours), theirs) != theirs or (
                self._recorded.get((kind, theirs), ours) != ours
            ):
                return False
        return True

    def bind(self, recorded: Form, live: Form) -> list[tuple[str, str]]:
        """Take two requests for the same; return the values that are other ones now: recorded, live."""
        changed: list[tuple[str, str]] = []
        for (kind, ours), (_, theirs) in zip(recorded.values, live.values, strict=False):
            if kind.startswith(TOLERANT) or ours == PUBLIC:
                continue
            if ours != theirs:
                changed.append((ours, theirs))
            if kind not in UNBOUND:
                self._live.setdefault((kind, ours), theirs)
                self._recorded.setdefault((kind, theirs), ours)
        return changed


class Line:
    """Recorded requests in order, the used ones of which are passed over once for all."""

    __slots__ = ("_first", "requests")

    def __init__(self) -> None:
        self.requests: list[Recorded] = []
        self._first = 0

    def seek(self) -> int:
        """The place of the first one that is not used; behind the last, where there is none."""
        place = self._first
        requests = self.requests
        try:
            while requests[place].used:
                place += 1
        except IndexError:
            pass
        self._first = place
        return place

    def first(self) -> Recorded | None:
        """The first one that is not used."""
        place = self._first
        requests = self.requests
        try:
            while (one := requests[place]).used:
                place += 1
        except IndexError:
            one = None
        self._first = place
        return one

    def unused(self, most: int) -> list[Recorded]:
        """The first ones that are not used, at most so many."""
        if self.first() is None:
            return []
        requests = self.requests
        found: list[Recorded] = []
        for place in range(self._first, len(requests)):
            if len(found) >= most:
                break
            if not requests[place].used:
                found.append(requests[place])
        return found

    def last_used(self) -> Recorded | None:
        """The last one that was used, where those before it were too."""
        return next((one for one in reversed(self.requests) if one.used), None)


class Keyed:
    """The recorded requests of one key: all of them, and by lane."""

    __slots__ = ("all", "lanes")

    def __init__(self) -> None:
        self.all = Line()
        self.lanes: dict[str, Line] = {}

    def add(self, request: Recorded) -> None:
        """Take in the next one."""
        self.all.requests.append(request)
        self.lanes.setdefault(request.lane, Line()).requests.append(request)

    def of(self, lane: str) -> Line:
        """Those of a lane; all of them where it is unknown."""
        return self.lanes.get(lane, NONE) if lane else self.all


NONE = Line()


class Group:
    """The recorded requests of one peer, method and name, in order."""

    __slots__ = ("by_key", "requests")

    def __init__(self) -> None:
        self.requests = Line()
        self.by_key: dict[bytes, Keyed] | None = None

    def rest_of(self, lane: str) -> tuple[int, ...]:
        """The first one of a lane that is not used; of all, where it is unknown."""
        unused = self.requests.unused(MOST_LOOKED_AT)
        return tuple(one.seq for one in unused if not lane or one.lane == lane)[:1]


class Matcher:
    """All recorded requests of one replay, and which of them are used up."""

    def __init__(
        self,
        requests: Iterable[Recorded],
        *,
        form: Callable[[int], Form],
        outcome: Callable[[int], bytes],
        strict: bool = True,
    ) -> None:
        """`form` and `outcome` are of a recorded request, by number; both are asked for only where they decide."""
        self._form = form
        self._outcome = outcome
        self._strict = strict
        self._groups: dict[Which, Group] = {}
        self._of_core: dict[str, list[tuple[Which, Group]]] = {}
        """By method: what was not asked by the gateway itself."""
        self._ownerless: set[str] = set()
        """Methods of requests whose owner was never known."""
        self._lanes: dict[str, Bindings] = {}
        self.by_seq: dict[int, Recorded] = {}
        for request in requests:
            self.by_seq[request.seq] = request
            which = request.is_own, request.peer, request.method, kind_name(request.name)
            group = self._groups.get(which)
            if group is None:
                group = self._groups[which] = Group()
                if not request.is_own:
                    self._of_core.setdefault(request.method, []).append((which, group))
                    if not request.peer:
                        self._ownerless.add(request.method)
            group.requests.requests.append(request)

    def match(
        self, live: Live, *, now: int = 0, eligible: Callable[[int], bool] | None = None
    ) -> Match | Miss:
        """Find the recorded request that a live one is, and use it up.

        `now` is virtual time, for polls. `eligible` says of a recorded request whether what caused it has happened;
        those that are come first where lanes are unknown.
        """
        # In one of both runs the gateway may have had to look for the owner of a name first.
        is_open = not live.is_own and (not live.peer or live.method in self._ownerless)
        if not (live.form.values or is_open):
            found = self._at_once(live)
            if found is not None:
                return found
        group = self._group(live)
        keyed = self._keyed(group).get(live.form.key) if group is not None else None
        if is_open:
            keyed = self._of_another_owner(live, keyed) or keyed
        if keyed is None and live.is_own and group is not None:
            kept = self._of_the_gateway(group)
            if kept is not None:
                return kept
        if keyed is None:
            rest = group.rest_of(live.lane) if group is not None else ()
            return Miss("changed-params" if rest else "extra", rest)
        line = keyed.of(live.lane)
        # Where a lane is known and no value is renamed, the first one is the one: nothing has to be compared.
        candidates = line.unused(MOST_CANDIDATES if live.form.values or not live.lane else 1)
        consumption = keyed.all.requests[0].consumption
        if consumption == "sampled":
            candidates = _until(line.unused(MOST_CANDIDATES), now)
        if not candidates:
            return self._again(keyed, line, consumption)
        return self._choose(candidates, live, eligible)

    def _at_once(self, live: Live) -> Match | None:
        """What most requests come to: the first of their key and lane that is not used, with nothing to compare."""
        group = self._groups.get((live.is_own, live.peer, live.method, kind_name(live.name)))
        if group is None or group.by_key is None:
            return None
        keyed = group.by_key.get(live.form.key)
        if keyed is None:
            return None
        # Without a lane, others of the key might be meant; where there are none, there is no question.
        line = (
            keyed.lanes.get(live.lane) if live.lane else keyed.all if len(keyed.all.requests) == 1 else None
        )
        first = line.first() if line is not None else None
        if first is None or first.consumption != "fifo":
            return None
        first.used = True
        return Match(first.seq)

    def line_of(self, live: Live) -> Line | None:
        """The requests that a live one of the core is matched with one after the other, as they come.

        None where anything but their order, and what has been caused, may decide.
        """
        if live.lane or live.is_own or live.form.values or not live.peer or live.method in self._ownerless:
            return None
        group = self._groups.get((False, live.peer, live.method, kind_name(live.name)))
        keyed = self._keyed(group).get(live.form.key) if group is not None else None
        is_plain = keyed is not None and keyed.all.requests[0].consumption not in ("sticky", "sampled")
        return keyed.all if keyed is not None and is_plain else None

    def _group(self, live: Live) -> Group | None:
        """The requests of one kind; who asked for a list, core or gateway, is told apart where both have."""
        which = live.peer, live.method, kind_name(live.name)
        group = self._groups.get((live.is_own, *which))
        other = self._groups.get((not live.is_own, *which)) if group is None else None
        is_free = other is not None and other.requests.requests[0].consumption == "sticky"
        return other if is_free else group

    def _of_the_gateway(self, group: Group) -> Match | None:
        """The next request of the gateway's own of a kind: its params follow from what others said, and when."""
        first = next(iter(group.requests.unused(1)), None)
        if first is None or not first.is_own or first.consumption in ("sticky", "sampled"):
            return None
        first.used = True
        return Match(first.seq)

    def _of_another_owner(self, live: Live, keyed: Keyed | None) -> Keyed | None:
        """Of `keyed` and of requests that are the same but for who owns the name: those whose next one is the oldest.

        What the core says is the same then, and the owner's name of a tool is the end of the core's.
        """
        ours = kind_name(live.name) or ""
        found = [keyed] if keyed is not None else []
        for (_, peer, _, name), group in self._of_core.get(live.method, ()):
            theirs = name or ""
            if (not live.peer or not peer) and (ours.endswith(theirs) or theirs.endswith(ours)):
                other = self._keyed(group).get(live.form.key)
                if other is not None:
                    found.append(other)
        firsts = [(first.seq, each) for each in found if (first := each.of(live.lane).first()) is not None]
        return min(firsts, key=lambda pair: pair[0])[1] if firsts else None

    def _keyed(self, group: Group) -> dict[bytes, Keyed]:
        if group.by_key is None:
            group.by_key = {}
            for request in group.requests.requests:
                group.by_key.setdefault(self._form(request.seq).key, Keyed()).add(request)
        return group.by_key

    def _again(self, keyed: Keyed, line: Line, consumption: Consumption) -> Match | Miss:
        """Every candidate has been used: read-only answers are given again, others never."""
        if consumption in ("sticky", "sampled"):
            used = line.last_used() or keyed.all.last_used()
            if used is None:
                used = keyed.all.unused(1)[0]
                used.used = True
            return Match(used.seq, again=True)
        if not line.requests:
            # Other lanes ask that, this one never has.
            return Miss("extra")
        return Miss("exhausted", tuple(one.seq for one in line.requests[-3:]))

    def _choose(
        self, candidates: list[Recorded], live: Live, eligible: Callable[[int], bool] | None
    ) -> Match | Miss:
        bindings = self._lanes.get(live.lane)
        if bindings is None:
            bindings = self._lanes[live.lane] = Bindings()
        relaxed = False
        if live.form.values:
            equal = [one for one in candidates if self._form(one.seq).exact == live.form.exact]
            fitting = equal or [one for one in candidates if bindings.allow(self._form(one.seq), live.form)]
            relaxed = not fitting
            candidates = fitting or candidates
        first = candidates[0]
        if not live.lane and eligible is not None:
            first = next((one for one in candidates if eligible(one.seq)), first)
        ambiguous = False
        if not live.lane and eligible is None and len(candidates) > 1:
            outcome = self._outcome(first.seq)
            others = [one.seq for one in candidates[1:] if self._outcome(one.seq) != outcome]
            if others and self._strict:
                return Miss("ambiguous", (first.seq, *others[:2]))
            ambiguous = bool(others)
        first.used = True
        return Match(first.seq, relaxed=relaxed, ambiguous=ambiguous)

    def bind(self, seq: int, live: Live) -> list[tuple[str, str]]:
        """Remember the volatile values of a match; return those that are others than recorded: recorded, live."""
        if not live.form.values:
            return []
        return self.learn(live.lane, self._form(seq), live.form)

    def learn(self, lane: str, recorded: Form, live: Form) -> list[tuple[str, str]]:
        """Take two forms of one key for the same; return as `bind`."""
        bindings = self._lanes.get(lane)
        if bindings is None:
            bindings = self._lanes[lane] = Bindings()
        return bindings.bind(recorded, live)

    def contested(self) -> set[int]:
        """Requests that another one of their peer equals in key and not in outcome: where lanes decide."""
        found: set[int] = set()
        for group in self._groups.values():
            if len(group.requests.requests) < 2:
                continue
            for keyed in self._keyed(group).values():
                requests = keyed.all.requests
                if len(requests) > 1 and len({self._outcome(one.seq) for one in requests}) > 1:
                    found.update(one.seq for one in requests)
        return found


def _until(candidates: list[Recorded], now: int) -> list[Recorded]:
    """Polls: the state at virtual time, and those before it are skipped. Never past the last."""
    passed = 0
    while passed + 1 < len(candidates) and candidates[passed + 1].at <= now:
        candidates[passed].used = True
        passed += 1
    return candidates[passed:]
