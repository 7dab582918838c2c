"""The hooks that are being asked in one session: about which calls, and by which rules their answers count.

Owns the runs of open calls, which end with them, and the rules, which follow the policy's profile. What is asked when
is `hooked`'s business, how one event goes through its hooks `hook_run`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.calls.call import Call
from gateway.calls.hook_run import Run
from gateway.calls.inputs import Inputs
from gateway.hooks.breaker import Breaker
from gateway.hooks.folds import Rules
from gateway.hooks.order import Hook
from gateway.hooks.pipeline import Outcome
from gateway.hooks.pipeline import run as pipeline
from gateway.hooks.points import POINTS
from gateway.policy.paths import PathError

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer
    from gateway.calls.session import Session


class Runs:
    """The runs of one session."""

    def __init__(self, session: Session, breaker: Breaker, peer_of: Callable[[str], Peer | None]) -> None:
        self._session = session
        self._breaker = breaker
        self._peer_of = peer_of
        self._inputs = Inputs()
        self._known_rules: Rules | None = None
        self._open: dict[Call, Run] = {}

    def start(
        self, event: str, line: list[Hook], data: bytes, call: Call, done: Callable[[Outcome], None]
    ) -> None:
        """Ask the hooks of `line` about a call; `done` is called only while that is open."""
        one = self._open[call] = self._of_call(event, line, data, call, done)
        one.start()

    def go_on(
        self, event: str, line: list[Hook], data: bytes, call: Call, done: Callable[[Outcome], None], leg: Call,
        since: int,
    ) -> Run:  # fmt: skip
        """As `start`, where the first hook was asked by the straight way: `leg` is the question."""
        one = self._open[call] = self._of_call(event, line, data, call, done, is_asked=True)
        one.resume(leg, line[0].deadline_ms, since)
        return one

    def _of_call(
        self, event: str, line: list[Hook], data: bytes, call: Call, done: Callable[[Outcome], None], *,
        is_asked: bool = False,
    ) -> Run:  # fmt: skip
        session = self._session

        def ended(outcome: Outcome) -> None:
            self._open.pop(call, None)
            if not call.is_open:
                return
            try:
                done(outcome)
            except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
                session.call_failed(call, fault)

        def failed(fault: Exception) -> None:
            self._open.pop(call, None)
            session.call_failed(call, fault)

        return self.made(event, line, data, call, ended, failed, is_asked=is_asked)

    def made(
        self, event: str, line: list[Hook], data: bytes, about: Call, done: Callable[[Outcome], None],
        failed: Callable[[Exception], None], *, is_asked: bool = False,
    ) -> Run:  # fmt: skip
        """Return a run to be started, whoever waits for it."""
        steps = pipeline(POINTS[event], line, data, self._breaker, self._rules(), is_asked=is_asked)
        return Run(self._session, steps, peer_of=self._peer_of, about=about, done=done, failed=failed)

    def left(self, call: Call, reason: str = "the call has ended") -> None:
        """A call has ended or is not waited for: nor are the hooks that are asked about it."""
        one = self._open.pop(call, None)
        if one is not None:
            one.stop(reason)
        elif call.leg is not None and call.leg.asked is not None:
            call.leg.asked.stop(reason)

    def _rules(self) -> Rules:
        profile = self._session.host_calls.authority.rules.policy.profile
        known = self._known_rules
        if known is not None and known.profile == profile:
            return known
        is_auto = profile == "full-auto"
        known = self._known_rules = Rules(
            complaint=self.complaint,
            allows_path=self._allows_path,
            may_decide=is_auto,
            passes_faults=is_auto,
            profile=profile,
        )
        return known

    def complaint(self, tool: str, given: bytes) -> str:
        """Return what is wrong with an input for a tool. What is no tool of a peer's, the core itself has to judge."""
        catalog = self._session.catalog
        item = catalog.direct.get(tool)
        # Only what was looked up by the long way once has a schema here, and that one is what the long way finds.
        if item is not None and item.schema and self._inputs.is_taken(item.schema, given):
            return ""
        found = catalog.find("tools/list", tool)
        schema = catalog.input_schema(*found) if found is not None else b""
        return self._inputs.complaint(schema, given) if schema else ""

    def _allows_path(self, path: str) -> bool:
        try:
            return bool(self._session.host_calls.authority.roots.relative([path]))
        except PathError:
            return False
