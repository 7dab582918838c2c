"""What a load test has counted, by kind of user and name of call, and the figures that budgets are held against.

Owns the counting, the sum over several processes, and the names of figures. Measures nothing itself. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from loadtest.crowd.latency import Histogram

FAULTS_KEPT = 20
"""Different reasons of failures that are kept of one process."""
CALM, CHAOS = "calm", "chaos"
"""The two parts of a run with misbehaving peers, as the last word of a name."""
SESSION = "session opened"
"""The name of handshakes: they count as failures do, and apart from calls in everything else."""
SHARES = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))
SAME_AGENT, ANOTHER_AGENT = "same agent", "another agent"
"""Who calls a peer that behaves: the agent whose other peers do not, and one that has nothing to do with these."""
_COMMON = (
    *("calls", "failed", "failed_share", "unanswered", "calls_per_s", "sessions", "opening_p95_ms", "max_ms"),
    *(f"{name}_ms" for name, _ in SHARES),
)
_RATIOS = tuple(
    f"{who}_{name}_ratio".replace(" ", "_") for who in (SAME_AGENT, ANOTHER_AGENT) for name, _ in SHARES
)
FIGURES: dict[str, tuple[str, ...]] = {
    "scripted": _COMMON,
    "recorded": _COMMON,
    "chaos": _COMMON,
    "bystander": (*_COMMON, *_RATIOS),
    "generator": ("lag_p99_ms",),
}
"""What there can be a budget for, by kind of user."""


class Entry(msgspec.Struct):
    """All calls of one name."""

    took: Histogram = msgspec.field(default_factory=Histogram)
    failed: int = 0
    unanswered: int = 0
    """Of the failed ones: those that had no answer when the run was over."""

    def merge(self, other: Entry) -> None:
        """Add another one."""
        self.took.merge(other.took)
        self.failed += other.failed
        self.unanswered += other.unanswered


class Tally(msgspec.Struct):
    """Counts of one process, or of all."""

    entries: dict[str, dict[str, Entry]] = {}
    """By kind of user, then by name."""
    faults: dict[str, int] = {}
    """Why calls failed, and how many."""
    lag: Histogram = msgspec.field(default_factory=Histogram)
    """How late the load generator itself woke up to send what was due."""

    def add(self, kind: str, name: str, us: float, fault: str | None = None, *, lost: bool = False) -> None:
        """Count one call that took so many microseconds; `lost`: nothing had come when the run was over."""
        entry = self.entries.setdefault(kind, {}).setdefault(name, Entry())
        entry.took.add(us)
        if fault is not None:
            entry.failed += 1
            entry.unanswered += lost
            self._note(f"{kind}, {name}: {fault}", 1)

    def merge(self, other: Tally) -> None:
        """Add what another process has counted."""
        for kind, names in other.entries.items():
            for name, entry in names.items():
                self.entries.setdefault(kind, {}).setdefault(name, Entry()).merge(entry)
        for fault, count in other.faults.items():
            self._note(fault, count)
        self.lag.merge(other.lag)

    def _note(self, fault: str, count: int) -> None:
        if fault not in self.faults and len(self.faults) >= FAULTS_KEPT:
            fault = "other reasons"
        self.faults[fault] = self.faults.get(fault, 0) + count

    @property
    def kinds(self) -> list[str]:
        """The kinds of users that there is something of."""
        return sorted(self.entries)

    def whole(self, kinds: Iterable[str] | None = None, *, sessions: bool = False) -> Entry:
        """All calls of these kinds of users together, or all handshakes."""
        total = Entry()
        for kind in self.entries if kinds is None else kinds:
            for name, entry in self.entries.get(kind, {}).items():
                if (name == SESSION) is sessions:
                    total.merge(entry)
        return total

    def figures(self, seconds: float, calm_s: float = 0.0) -> dict[str, float]:
        """What budgets name, as `KIND.FIGURE`: counts, shares of 1, calls a second, milliseconds, ratios.

        `calm_s` is how long no peer misbehaves at first, in a run of so many seconds.
        """
        found: dict[str, float] = {}
        for kind in self.kinds:
            calls, opened = self.whole([kind]), self.whole([kind], sessions=True)
            figures = of(calls, lasting(kind, "", seconds, calm_s))
            tried = calls.took.count + opened.took.count
            figures["failed"] = float(calls.failed + opened.failed)
            figures["failed_share"] = (calls.failed + opened.failed) / tried
            figures["sessions"] = float(opened.took.count)
            if (us := opened.took.at(0.95)) is not None:
                figures["opening_p95_ms"] = us / 1000
            for name, (calm, chaos) in self._parts(kind).items():
                figures |= {f"{name}_{key}": value for key, value in _ratios(calm, chaos).items()}
            found |= {f"{kind}.{name}": value for name, value in figures.items()}
        if (lag := self.lag.at(0.99)) is not None:
            found["generator.lag_p99_ms"] = lag / 1000
        return found

    def _parts(self, kind: str) -> dict[str, tuple[Entry, Entry]]:
        names = self.entries[kind]
        pairs: dict[str, tuple[Entry, Entry]] = {}
        for name, chaos in names.items():
            first, _, part = name.rpartition(", ")
            if part == CHAOS and (calm := names.get(f"{first}, {CALM}")) is not None:
                pairs[first.replace(" ", "_")] = calm, chaos
        return pairs


def lasting(kind: str, name: str, seconds: float, calm_s: float) -> float:
    """How long calls of that name were made, in a run of so many seconds: some in one part of it alone."""
    calm_s = min(calm_s, seconds)
    part = name.rpartition(", ")[2]
    if part == CALM:
        return calm_s
    return seconds - calm_s if part == CHAOS or (kind == "chaos" and name != SESSION) else seconds


def of(entry: Entry, seconds: float) -> dict[str, float]:
    """The figures of one entry, whose calls were made in so many seconds."""
    count = entry.took.count
    found = {
        "calls": float(count),
        "failed": float(entry.failed),
        "unanswered": float(entry.unanswered),
        "calls_per_s": count / seconds if seconds > 0 else 0.0,
    }
    if count:
        found["failed_share"] = entry.failed / count
        found["max_ms"] = entry.took.worst_us / 1000
    for name, share in SHARES:
        if (us := entry.took.at(share)) is not None:
            found[f"{name}_ms"] = us / 1000
    return found


def _ratios(calm: Entry, chaos: Entry) -> dict[str, float]:
    """By how much calls were slower while peers misbehaved than before, in the same run."""
    found: dict[str, float] = {}
    for name, share in SHARES:
        before, after = calm.took.at(share), chaos.took.at(share)
        if before and after is not None:
            found[f"{name}_ratio"] = after / before
    return found
