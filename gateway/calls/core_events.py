"""The side of hooks that Pi cores see: the events that they ask about or tell of, and what extensions offer them.

Owns what they were told last of what there is. Who has hooks, and how they are asked, is `hooked`'s business.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from gateway.calls import hook_words, offered
from gateway.calls.call import Call
from gateway.calls.pi import events, words
from gateway.calls.request import Request
from gateway.calls.steps import run
from gateway.hooks.pipeline import Outcome
from gateway.hooks.points import POINTS
from gateway.protocol import jsonrpc

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.hooked import Hooked
    from gateway.protocol.jsonrpc import Envelope

TOOL = ("tool_call", "tool_result")
"""Moments that the gateway sees at every core."""


class CoreEvents:
    """What the Pi cores of one session ask of hooks, and are told of them."""

    def __init__(self, hooked: Hooked) -> None:
        self._hooked = hooked
        self._session = hooked.session
        self._told: bytes = b'{"event_hooks":[]}'
        """What there is, as they were told of it last."""

    def asked(self, request: Request) -> None:
        """A Pi core asks what hooks say to an event."""
        session = self._session
        asked = events.decode_event.decode(request.envelope.params)
        call = session.open_call(request, name=asked.event)
        if call is None:
            return
        run(
            session,
            self._hooked.settle(request),
            lambda _: self._settled_for(request, call, asked),
            partial(session.failed, request),
        )

    def _settled_for(self, request: Request, call: Call, asked: events.Event) -> None:
        if not call.is_open:
            return
        point = POINTS.get(asked.event)
        line = self._hooked.lines.get(asked.event, []) if point is not None and point.is_asked else []
        if not line:
            self._session.give(request, b"{}")
            return
        self._hooked.runs.start(asked.event, line, bytes(asked.data), call, partial(self._answered, request))

    def _answered(self, request: Request, outcome: Outcome) -> None:
        self._session.give(request, hook_words.answer_result(outcome.answer))

    def tell(self, envelope: Envelope) -> None:
        """A Pi core tells of an event: so is every extension that has a hook for it, and is there."""
        try:
            asked = events.decode_event.decode(envelope.params)
        except msgspec.DecodeError:
            return
        if asked.event == events.SHORTCUT:
            self._pressed(envelope, bytes(asked.data))
            return
        point = POINTS.get(asked.event)
        if point is None or point.sender == "gateway":
            # What the gateway sees itself it has told itself, once.
            return
        self._hooked.tell_of(asked.event, bytes(asked.data))

    def _pressed(self, envelope: Envelope, data: bytes) -> None:
        """A key was pressed: whose shortcut it is hears of it, and nobody else."""
        peer = self._hooked.peer_of(offered.owner_of_key(self._hooked.registered(), data))
        if peer is not None and peer.is_ready:
            peer.notify(jsonrpc.notification(words.EVENT, bytes(envelope.params)), words.EVENT)

    def offers(self, request: Request) -> None:
        """A Pi core asks for what the extensions of its session offer beside tools and commands."""
        session = self._session
        call = session.open_call(request)
        if call is not None:
            run(
                session,
                self._hooked.settle(request),
                lambda _: self._offer(request, call),
                partial(session.failed, request),
            )

    def _offer(self, request: Request, call: Call) -> None:
        if call.is_open:
            self._told = self._offers()
            self._session.give(request, self._told)

    def _offers(self) -> bytes:
        return offered.offers(self._hooked.registered(), self._session.catalog.called, self._events())

    def _events(self) -> bytes:
        lines = self._hooked.lines
        asked_for = [
            event
            for event, point in POINTS.items()
            if event in lines and (point.sender == "core" or event in TOOL)
        ]
        return jsonrpc.encode(asked_for)

    def changed(self) -> None:
        """What extensions offer may be something else now: tell the Pi cores so, if it is."""
        cores: list[Core] = [core for core in self._session.cores if core.is_pi]
        offers = self._offers() if cores else self._told
        if offers == self._told:
            return
        self._told = offers
        message = jsonrpc.notification(words.OFFERS_CHANGED)
        seq = self._session.tap.record(
            "notification", ">core", message, method=words.OFFERS_CHANGED, flags=("synthetic",)
        )
        for core in cores:
            core.notify(message, words.OFFERS_CHANGED, about=None, seq=seq)
