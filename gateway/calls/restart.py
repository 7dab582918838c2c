"""When a peer's process is started, started again, given up: a machine of states, told what happened when.

Owns the states, the waits and the breaker. Starts nothing and reads no clock: every step takes `now_ns` and
answers with what to do, when to ask again, and what to record. One machine serves all lives of one peer.

    idle ─start→ starting ─ready→ ready ─ended→ backing_off ─tick→ starting …
                    └─ended→ backing_off, or failed (breaker open) ─tick→ starting (half open)
    any ─stop→ stopping ─ended→ stopped ─start→ starting
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from gateway.config.peer import RestartConfig

State: TypeAlias = Literal["idle", "starting", "ready", "backing_off", "failed", "stopping", "stopped"]
Action: TypeAlias = Literal["nothing", "spawn", "stop"]

_WAITING: frozenset[State] = frozenset({"backing_off", "failed"})


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers. Durations in nanoseconds."""

    enabled: bool = True
    """False: an end that nobody asked for leads to `failed`, and only `reset` leads out."""
    first_wait_ns: int = 100_000_000
    """Wait after the first failure; doubles with each. The real one is between half of it and all of it."""
    longest_wait_ns: int = 30_000_000_000
    open_after: int = 5
    """Failures in a row that open the breaker."""
    cool_down_ns: int = 30_000_000_000
    """How long an open breaker waits before one start is tried; doubles while those fail."""
    longest_cool_down_ns: int = 300_000_000_000
    stable_ns: int = 60_000_000_000
    """Ready for so long, a life wipes out the failures before it."""

    @staticmethod
    def of(config: RestartConfig) -> RestartPolicy:
        """Take the numbers from a peer's configuration. Equal ones are one object: most peers have the same."""
        return _policy_of(config)

    def wait_ns(self, failures: int, draw: float) -> int:
        """Wait after that many failures; `draw` in [0, 1) spreads peers that failed together."""
        most = min(self.first_wait_ns << min(failures - 1, 40), self.longest_wait_ns)
        return most // 2 + int(most / 2 * draw)

    def cool_ns(self, times_opened: int) -> int:
        """Wait of the breaker when it has opened for the n-th time in a row."""
        return min(self.cool_down_ns << min(times_opened - 1, 40), self.longest_cool_down_ns)


@lru_cache(maxsize=16)
def _policy_of(config: RestartConfig) -> RestartPolicy:
    return RestartPolicy(
        enabled=config.enabled,
        first_wait_ns=int(config.backoff_s * 1e9),
        longest_wait_ns=int(config.backoff_max_s * 1e9),
        open_after=config.budget,
        stable_ns=int(config.window_s * 1e9),
    )


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """What one step came to."""

    before: State
    state: State
    life: int
    """The incarnation that this is about: the one to spawn, the one that ended. Begins with 1."""
    action: Action = "nothing"
    """`spawn` the next life, `stop` the present one."""
    wake_at_ns: int | None = None
    """Call `tick` then; None: no need to."""
    facts: dict[str, object] = msgspec.field(default_factory=dict[str, object])
    """What to record with the change of state; nothing where there was none."""

    @property
    def changed(self) -> bool:
        """Whether there is something to record."""
        return self.before != self.state


class RestartMachine:
    """Decides about the lives of one peer."""

    __slots__ = (
        "_start_after_stop", "_started_ns", "_times_opened", "failures", "half_open", "life", "policy",
        "state", "wake_at_ns",
    )  # fmt: skip

    def __init__(self, policy: RestartPolicy | None = None) -> None:
        self.policy = policy or RestartPolicy()
        self.state: State = "idle"
        self.life = 0
        """Number of the latest life; 0 before the first."""
        self.failures = 0
        """Failures in a row."""
        self.wake_at_ns: int | None = None
        """When the wait ends, in `backing_off` and `failed`; in `ready`, when the life counts as stable."""
        self.half_open = False
        """Whether this life is the trial of an open breaker."""
        self._times_opened = 0
        self._started_ns = 0
        self._start_after_stop = False

    @property
    def may_call(self) -> bool:
        """Whether a call may wait for this peer: not while the breaker is open, nor once it is to end."""
        return self.state in {"idle", "starting", "ready", "backing_off"}

    def retry_after_ms(self, now_ns: int) -> int | None:
        """Milliseconds until the next start is tried; None where none is planned."""
        if self.state not in _WAITING or self.wake_at_ns is None:
            return None
        return max(0, -((now_ns - self.wake_at_ns) // 1_000_000))

    def start(self, now_ns: int) -> Transition:
        """Somebody wants the peer: a first call, or an eager start.

        While a wait runs nothing happens: `tick` ends it. While stopping, it starts again once that is done.
        """
        if self.state == "stopping":
            self._start_after_stop = True
        if self.state in {"idle", "stopped"}:
            return self._spawn(now_ns, reason="wanted")
        return self._same(wake=True)

    def reset(self, now_ns: int) -> Transition:
        """A person says try now: failures are forgotten and a waiting or stopped peer starts at once."""
        self._forget()
        if self.state in _WAITING:
            return self._spawn(now_ns, reason="reset")
        return self.start(now_ns)

    def ready(self, now_ns: int) -> Transition:
        """The handshake of the present life is done."""
        if self.state != "starting":
            return self._same(wake=True)
        self.wake_at_ns = now_ns + self.policy.stable_ns
        took_ms = (now_ns - self._started_ns) // 1_000_000
        return self._enter("ready", {"took_ms": took_ms, "half_open": self.half_open})

    def ended(self, now_ns: int, draw: float, *, reason: str, final: bool = False) -> Transition:
        """The present life is over, or could not be started.

        `draw` is the next number in [0, 1) of the session's generator. `final` says that another try cannot
        help, as with an unknown protocol version.
        """
        if self.state == "stopping":
            self.wake_at_ns = None
            if self._start_after_stop:
                return self._spawn(now_ns, reason="wanted while stopping")
            return self._enter("stopped", {"reason": reason})
        if self.state not in {"starting", "ready"}:
            return self._same(wake=True)
        self._settle(now_ns)
        self.failures += 1
        facts: dict[str, object] = {"reason": reason, "failures": self.failures}
        if final or not self.policy.enabled:
            self.wake_at_ns = None
            return self._enter("failed", {**facts, "final": True})
        if self.half_open or self.failures >= self.policy.open_after:
            self._times_opened += 1
            wait = self.policy.cool_ns(self._times_opened)
            return self._wait("failed", now_ns, wait, facts)
        return self._wait("backing_off", now_ns, self.policy.wait_ns(self.failures, draw), facts)

    def tick(self, now_ns: int) -> Transition:
        """Time has passed. Harmless at any time; needed at `wake_at_ns`."""
        if self.wake_at_ns is None or now_ns < self.wake_at_ns:
            return self._same(wake=True)
        if self.state == "ready":
            self._settle(now_ns)
            self.wake_at_ns = None
            return self._same()
        if self.state in _WAITING:
            self.half_open = self.state == "failed"
            return self._spawn(now_ns, reason="trial" if self.half_open else "waited")
        return self._same()

    def stop(self, now_ns: int) -> Transition:
        """The peer is to end and stay away until `start`, which then finds no failures of before."""
        self._start_after_stop = False
        self._forget()
        if self.state in {"starting", "ready"}:
            lived_ms = (now_ns - self._started_ns) // 1_000_000
            self.wake_at_ns = None
            return self._enter("stopping", {"reason": "asked", "lived_ms": lived_ms}, action="stop")
        if self.state in {"stopping", "stopped"}:
            return self._same()
        self.wake_at_ns = None
        return self._enter("stopped", {"reason": "asked"})

    def _settle(self, now_ns: int) -> None:
        """Forget failures once a life has been ready for long enough."""
        if self.state == "ready" and self.wake_at_ns is not None and now_ns >= self.wake_at_ns:
            self._forget()

    def _forget(self) -> None:
        self.failures = self._times_opened = 0
        self.half_open = False

    def _spawn(self, now_ns: int, *, reason: str) -> Transition:
        self.life += 1
        self._started_ns = now_ns
        self._start_after_stop = False
        self.wake_at_ns = None
        facts: dict[str, object] = {"reason": reason, "half_open": self.half_open}
        return self._enter("starting", facts, action="spawn")

    def _wait(self, state: State, now_ns: int, wait_ns: int, facts: dict[str, object]) -> Transition:
        self.wake_at_ns = now_ns + wait_ns
        return self._enter(state, {**facts, "wait_ms": wait_ns // 1_000_000})

    def _enter(self, state: State, facts: dict[str, object], action: Action = "nothing") -> Transition:
        before, self.state = self.state, state
        return Transition(
            before=before, state=state, life=self.life, action=action, wake_at_ns=self.wake_at_ns, facts=facts
        )

    def _same(self, *, wake: bool = False) -> Transition:
        at = self.wake_at_ns if wake else None
        return Transition(before=self.state, state=self.state, life=self.life, wake_at_ns=at)
