"""Where hooks come in: the moments of a session at which extensions are asked or told, and what follows from that.

Owns which extensions have a hook for what, in which order, and how a call goes on after they were asked. How answers
become one is `hooks`' business, who is being asked `hook_runs`', the asking of one event `hook_run`'s; the events of Pi
cores are `core_events`'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import UnsetType

from gateway.calls import hook_words, offered, translate
from gateway.calls.call import Call, Reply
from gateway.calls.core_events import TOOL, CoreEvents
from gateway.calls.hook_runs import Runs
from gateway.calls.pi import words
from gateway.calls.request import Request, bad_params, read_named
from gateway.calls.steps import Flow, Settle, run
from gateway.calls.straight_asked import Way
from gateway.calls.straight_hooked import goes_by_hooks
from gateway.hooks.breaker import Breaker
from gateway.hooks.order import Hook, in_order
from gateway.hooks.pipeline import Outcome
from gateway.hooks.points import POINTS, unknown
from gateway.protocol import jsonrpc

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.hook_run import Run
    from gateway.calls.host_call import Hosted
    from gateway.calls.peer_state import Peer
    from gateway.calls.registered import Registered
    from gateway.calls.seat import Seat
    from gateway.calls.session import Session


class Hooked:
    """The hooks of one session that has extensions, or a core that asks for some."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.breaker = Breaker()
        runs = self.runs = Runs(session, self.breaker, self.peer_of)
        self.complaint = runs.complaint
        """What is wrong with an input for a tool."""
        self.left = runs.left
        """A call has ended or is not waited for: nor are the hooks that are asked about it."""
        self.may_go_straight = True
        """Set to False, every call goes the long way: for tests."""
        self._lines: dict[str, list[Hook]] | None = None
        """Who is asked at each event, in order; None until it is looked at again."""
        self.way: Way | None = None
        """The straight way to the first hook that is asked about calls; None where there is none, or nobody has looked.
        """
        self.is_settled = False
        """Whether there is nobody left to be waited for, as far as was looked."""
        self._settled: set[str] = set()
        """Extensions that were there, or were known not to come, since the session began."""
        self._told: set[str] = set()
        self.of_cores = CoreEvents(self)
        """What Pi cores ask and are told."""

    # Who has hooks.

    @property
    def lines(self) -> dict[str, list[Hook]]:
        """The hooks of each event, in the order in which they are asked."""
        if self._lines is None:
            self._lines = self._read()
        return self._lines

    def _read(self) -> dict[str, list[Hook]]:
        found: dict[str, list[Hook]] = {}
        config = self.session.config.extensions.hooks
        for position, (name, seat) in enumerate(self.session.seats.items()):
            peer = _connected(seat)
            if peer is None or peer.registered is None:
                continue
            hook = Hook(
                owner=name,
                priority=config.priority.get(name, 0),
                position=position,
                deadline_ms=config.timeouts_ms.get(name, config.timeout_ms),
            )
            for event in dict.fromkeys(peer.registered.event_hooks):
                if event in POINTS:
                    found.setdefault(event, []).append(hook)
        lines = {event: in_order(hooks) for event, hooks in found.items()}
        self.way = None
        for hook in reversed(lines.get("tool_call", ())):
            self.way = Way(self.session, self, hook, self.session.seats[hook.owner], self.way)
        return lines

    @property
    def minds_calls(self) -> bool:
        """Whether a plain tool call may not go its straight way."""
        return bool(self._unsettled()) or any(event in self.lines for event in TOOL)

    @property
    def minds_results(self) -> bool:
        """Whether results of tools are looked at on their way back."""
        return "tool_result" in self.lines

    def changed(self, peer: Peer | None = None, *, anew: bool = False) -> None:
        """What an extension registers is something else now; `anew` where it was started again."""
        self._look_again()
        if peer is not None:
            self._settled.add(peer.name)
            if anew:
                self.breaker.forget(peer.name)
            if peer.registered is not None:
                for sentence in unknown(peer.registered.event_hooks):
                    self._notice(f"{peer.name} hooks an event: {sentence}")
        has_pi_core = any(core.is_pi for core in self.session.cores)
        for sentence in offered.sentences(self.registered(), has_pi_core=has_pi_core):
            self._notice(sentence)
        self.of_cores.changed()

    def _look_again(self) -> None:
        """Who has hooks may be others. Questions that are open keep the timer of their way, and end it."""
        self._lines = None
        if self.way is not None:
            self.way.close(keeps_open=True)
        self.way = None

    def reconfigured(self, replaced: set[str]) -> None:
        """The session goes on by another configuration, with new connections in the place of those `replaced`."""
        self._settled -= replaced
        self.is_settled = False
        self.changed()

    def _notice(self, sentence: str) -> None:
        if sentence not in self._told and len(self._told) < 1000:
            self._told.add(sentence)
            self.session.flows.notice(sentence)

    def peer_of(self, owner: str) -> Peer | None:
        """Return the connection to an extension; None where there is none now."""
        seat = self.session.seats.get(owner)
        return _connected(seat) if seat is not None else None

    def registered(self) -> list[tuple[str, Registered]]:
        """Return the extensions that are there, in the order of the configuration."""
        peers = [(name, _connected(seat)) for name, seat in self.session.seats.items()]
        return [
            (name, peer.registered)
            for name, peer in peers
            if peer is not None and peer.registered is not None
        ]

    def _unsettled(self) -> list[Seat]:
        """Extensions of which nobody knows yet whether they come, and what hooks they have."""
        if self.is_settled:
            return []
        found: list[Seat] = []
        for name, seat in self.session.seats.items():
            if seat.is_pi and name not in self._settled:
                peer = _connected(seat)
                if peer is not None and (peer.registered is not None or peer.state in ("failed", "stopped")):
                    self._settled.add(name)
                else:
                    found.append(seat)
        self.is_settled = not found
        if self.is_settled:
            self.session.choose_way()
        return found

    def settle(self, request: Request) -> Flow:
        """Have every extension there that may have a hook."""
        unsettled = self._unsettled()
        if unsettled:
            yield Settle([_of(seat, self.session, request) for seat in unsettled])
            self._settled.update(seat.name for seat in unsettled)
            self._look_again()
            self.session.choose_way()

    # Calls of tools.

    goes_straight = goes_by_hooks
    """As `straight.goes_straight`, where there are extensions, whether they are asked about calls or not."""

    def go_together(self, core: Core, many: Sequence[bytes], most_depth: int) -> int:
        """As `straight.go_together`, for calls that hooks are asked about."""
        # Here, since most who have a hook never send several calls at once.
        from gateway.calls.straight_crowd import ask_together

        return ask_together(self, core, many, most_depth)

    def holds(self, request: Request, call: Call, peer: Peer) -> bool:
        """Whether a tool call waits for hooks, which have been begun to be asked; it goes on by itself."""
        if request.core.is_pi:
            unmarked = hook_words.unmarked(bytes(call.params))
            if unmarked is not None:
                call.params = unmarked
                return False
        unsettled = self._unsettled()
        line = self.lines.get("tool_call")
        if not unsettled and line is None:
            return False
        session = self.session
        name = read_named(request).name
        if unsettled or not session.catalog.knows(peer.name, "tools/list"):
            flow = self._prepare(request, peer)
            go_on = partial(self._prepared, request, call, peer, name)
            run(session, flow, go_on, partial(session.call_failed, call))
        else:
            self._judge(request, call, peer, name, line or [])
        return True

    def _prepare(self, request: Request, owner: Peer) -> Flow:
        """Have every extension there that may have a hook, and know the tool's schema if one has."""
        yield from self.settle(request)
        if "tool_call" in self.lines:
            # An input that a hook has changed is held against it, and a core need not have listed the tools.
            seat = self.session.seats.get(owner.name)
            if seat is not None and owner not in seat.peers:
                # A place where calls wait for a connection is never connected itself.
                owner = seat.lister(self.session, request)
            yield from self.session.flows.fetch("tools/list", [owner])

    def _prepared(self, request: Request, call: Call, peer: Peer, name: str, _: object) -> None:
        if call.is_open:
            self._judge(request, call, peer, name, self.lines.get("tool_call", []))

    def _judge(self, request: Request, call: Call, peer: Peer, name: str, line: list[Hook]) -> None:
        try:
            data = hook_words.call_data(name, call.core_id, bytes(call.params))
        except msgspec.DecodeError as fault:
            why = f"`params` of `{call.method}` are malformed: {fault}"
            self.session.finish(call, Reply(fault=bad_params(why)))
            return
        self.judge(request, call, peer, name, line, data)

    def judge(
        self, request: Request, call: Call, peer: Peer, name: str, line: list[Hook], data: bytes
    ) -> None:
        """Ask the hooks of `line` about a call of the tool `name`, and go on with it as they have decided."""
        self.runs.start("tool_call", line, data, call, partial(self._judged, request, call, peer, name))

    def goes_on(
        self, request: Request, call: Call, peer: Peer, line: list[Hook], data: bytes, leg: Call, since: int
    ) -> Run:
        """As `judge`, where the first hook was asked by the straight way: `leg` is the question."""
        done = partial(self._judged, request, call, peer, call.name)
        return self.runs.go_on("tool_call", line, data, call, done, leg, since)

    def _judged(self, request: Request, call: Call, peer: Peer, name: str, outcome: Outcome) -> None:
        session = self.session
        if outcome.stops:
            session.give_call(call, hook_words.blocked(outcome))
            return
        seat = session.seats.get(peer.name)
        if seat is not None and peer not in seat.peers:
            # It was to wait for a connection, and may have one by now.
            peer = seat.peer(session, request, name)
        if outcome.word == "none":
            session.submit(call, peer)
            return
        after = hook_words.read_changed.decode(outcome.data)
        call.params = translate.with_members(bytes(call.params), {"arguments": after.input})
        # They mirror arguments that may be others now.
        call.headers = tuple(header for header in call.headers if not header[0].startswith("mcp-param-"))
        if isinstance(after.implementation, UnsetType) or after.implementation == name:
            session.submit(call, peer)
        else:
            # What a name means is certain once all that is offered is known.
            go_on = partial(self._instead, request, call, peer, after.implementation, outcome)
            session.lookups.all_tools(request, go_on)

    def _instead(self, request: Request, call: Call, peer: Peer, wanted: str, outcome: Outcome) -> None:
        """Make a call of another tool than the core has called."""
        if not call.is_open:
            return
        session = self.session
        found = session.catalog.find("tools/list", wanted)
        seat = session.seats.get(found[0]) if found is not None else None
        if found is None or seat is None or session.catalog.is_held(*found):
            why = f"the hook of {outcome.owner} wants `{wanted}` to be called, which is not offered"
            names = session.catalog.offered_as("tools/list", wanted) if found is None else ()
            if names:
                why = f"{why} under this name, but as {' or '.join(f'`{called}`' for called in names[:8])}"
            facts = {"code": "denied", "extension": outcome.owner, "reason": why}
            session.give_call(call, hook_words.refusal(f"Blocked: {why}", facts))
            return
        owner, original = found
        call.name = original
        call.params = translate.with_members(bytes(call.params), {"name": original})
        # The lists may have been waited for, and the connection have gone meanwhile.
        is_there = owner == peer.name and peer in seat.peers
        session.submit(call, peer if is_there else seat.peer(session, request, original))

    def holds_result(self, call: Call, reply: Reply) -> bool:
        """Whether a tool's result waits for hooks; the call is answered by itself then.

        A Pi core has an event of its own for what its tools have given, which it sends for these results too.
        """
        core = call.core
        if not self.minds_results or not reply.result or core is None or core.is_pi:
            return False
        name = self.session.catalog.called(call.peer.name if call.peer is not None else "", call.name)
        try:
            data = hook_words.result_data(name, call.core_id, bytes(call.params), bytes(reply.result))
        except msgspec.DecodeError:
            return False
        if data is None or not call.is_open:
            return False
        self.runs.start(
            "tool_result", self.lines["tool_result"], data, call, partial(self._patched, call, reply)
        )
        return True

    def _patched(self, call: Call, reply: Reply, outcome: Outcome) -> None:
        if outcome.word == "none":
            self.session.finish(call, reply)
        else:
            self.session.give_call(call, hook_words.patched(bytes(reply.result), outcome.data))

    def close(self) -> None:
        """The session ends."""
        if self.way is not None:
            self.way.close()

    # What extensions do themselves.

    def before(
        self, event: str, data: bytes, asker: Hosted, done: Callable[[Outcome], None],
        failed: Callable[[Exception], None],
    ) -> Run | None:  # fmt: skip
        """Return the run that asks about something which an extension wants, to be started; None where nobody minds.

        Whoever wants it is not asked.
        """
        line = [hook for hook in self.lines.get(event, ()) if hook.owner != asker.peer.name]
        if not line:
            return None
        about = Call(self.session, words.HOST_CALL, b"{}", seq=asker.seq)
        return self.runs.made(event, line, data, about, done, failed)

    def tell_of(self, event: str, data: bytes) -> None:
        """Tell every extension that has a hook for it, and is there."""
        message = jsonrpc.notification(words.EVENT, hook_words.event_params(event, data))
        for hook in self.lines.get(event, ()):
            peer = self.peer_of(hook.owner)
            if peer is not None and peer.is_ready:
                peer.notify(message, words.EVENT)


def _connected(seat: Seat) -> Peer | None:
    """Return the connection to an extension; further ones are there for calls that overlap."""
    return seat.peers[0] if seat.peers and seat.is_pi else None


def _of(seat: Seat, session: Session, request: Request) -> Peer:
    return _connected(seat) or seat.lister(session, request)
