"""Generated sessions whose extensions have hooks: what they are asked is answered late, wrongly, or not at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
from hypothesis import strategies as st

from gateway.calls.peer_state import Peer
from gateway.calls.pi.server import Said
from gateway.protocol import mcp
from tests.gateway.replay.pi_service import PiActing, PiPlan, PiService, PiWire, pi_plans
from tests.gateway.replay.scene import Service, Wire

KINDS = ("hook", "hook", "hook", "hook", "hook", "call", "call", "answer", "late", "cancel") * 4
SETS = (
    ("tool_call",),
    ("tool_result",),
    ("tool_call", "tool_result"),
    ("tool_call", "context", "weather"),
    (),
)
TEXT = {"type": "text", "text": "patched"}
ANSWERS: tuple[Any, ...] = (
    None,
    {},
    {"input": {"n": 2}, "reason": "two"},
    {"content": [TEXT]},
    {"block": True, "reason": "no", "isError": True},
    {"block": "yes"},
    {"implementation": "t0"},
    {"input": {"n": 3}, "isError": True},
)


class HookedWire(PiWire):
    """One life of an extension that is asked about events."""

    service: HookedService  # pyright: ignore[reportIncompatibleVariableOverride] - it is made for this one alone

    def _carry(self, said: Said) -> None:
        super()._carry(said)
        for data in said.to_extension:
            message = msgspec.json.decode(data)
            payload = message["payload"]
            if message["type"] == "event_hook" and payload["data"].get("reply") is not False:
                self.service.questions.append((self, message["id"], payload["event"]))

    def register(self) -> None:
        tools = [{"name": f"t{at}", "parameters": {"type": "object"}} for at in range(self.service.pages)]
        offer = {"name": self.service.name, "version": "1", "api_version": "1.0", "tools": tools}
        more = [{"name": f"more{at}"} for at in range(self.service.extra)]
        self._says(
            "register", {**offer, "slash_commands": more, "event_hooks": list(self.service.hooks)}, "r"
        )

    def decides(self, id_: str, event: str, answer: Any) -> None:
        """Answer a question."""
        self._says("event_hook", {"event": event, "data": {"result": answer}}, id_)


class HookedService(PiService):
    """An extension with hooks, by any number of connections."""

    def __init__(self, name: str, *, pages: int, now: Any, hooks: tuple[str, ...]) -> None:
        super().__init__(name, pages=pages, now=now)
        self.hooks = hooks
        self.questions: list[tuple[HookedWire, str, str]] = []

    def wire_to(self, peer: Peer) -> Wire:
        return HookedWire(self, peer)


@dataclass(frozen=True)
class HookedPlan:
    """A plan, and which hooks its extensions have."""

    plan: PiPlan
    hooks: tuple[tuple[str, ...], ...]


class HookedActing(PiActing):
    """A plan with hooks that is being played."""

    def __init__(self, plan: HookedPlan) -> None:
        self._hooks = iter(plan.hooks)
        self.asked = 0
        super().__init__(plan.plan)

    def service(self, name: str, era: mcp.Era, *, stamped: bool) -> Service:
        made = super().service(name, era, stamped=stamped)
        if not isinstance(made, PiService):
            return made
        return HookedService(name, pages=self.plan.pages, now=made.now, hooks=next(self._hooks))

    def do_hook(self, a: int, b: int) -> None:
        """An extension answers what it was asked about an event."""
        open_ = [
            (service, question)
            for service in self.scene.services.values()
            if isinstance(service, HookedService)
            for question in service.questions
        ]
        if not open_:
            return
        service, question = open_[a % len(open_)]
        service.questions.remove(question)
        wire, id_, event = question
        if wire.is_up:
            wire.decides(id_, event, ANSWERS[b])
            self.scene.settle()

    def do_late(self, a: int, b: int) -> None:
        """Hooks are not answered in time."""
        self.scene.passes(0.3 if b % 2 else 0.6)


def hooked_plans(kinds: tuple[str, ...], *, least: int, most: int) -> st.SearchStrategy[HookedPlan]:
    """Plans of such steps, in which at least one peer is an extension that hooks something."""
    sets = st.lists(st.sampled_from(SETS), min_size=3, max_size=3).map(tuple)

    def with_hooks(plan: PiPlan, hooks: tuple[tuple[str, ...], ...]) -> HookedPlan:
        # Shared extensions have hooks of every session; here each has its own.
        peers = tuple((era, http, False) for era, http, _ in plan.plan.peers)
        return HookedPlan(replace(plan, plan=replace(plan.plan, peers=peers)), (SETS[2], *hooks))

    return st.builds(with_hooks, pi_plans(kinds, least=least, most=most, more=KINDS), sets)
