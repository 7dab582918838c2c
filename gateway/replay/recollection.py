"""What is known of the recorded requests of one script, worked out when it is first asked for and kept.

Owns forms, outcomes, neighbours and tools: whatever depends on the recording alone, so that any number of replays share
it.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b

from gateway.protocol import jsonrpc
from gateway.replay.retries import Retries
from gateway.replay.tools import ToolBook
from recordings.divergence import Near
from recordings.errors import RecordingError
from recordings.form import Form, Forms, form_of
from recordings.matching import Live
from recordings.near import Nearest, Request
from recordings.profile import Consumption, Profile, consumption
from recordings.script import Script
from recordings.scripted import Arrival

MOST_NEAR = 3


class Recollection:
    """One script, remembered."""

    def __init__(self, script: Script, live: Profile | None = None) -> None:
        """`live` is the profile of the run that replays it, whose folders may lie elsewhere."""
        self.script = script
        self._live = live if live is not None else script.profile
        self.live_forms = Forms(self._live)
        """Forms of live requests, which are alike from replay to replay."""
        self.contested: frozenset[int] | None = None
        """Requests that others equal in key and not in outcome; None until the matcher has said which."""
        self._forms: dict[int, Form] = {}
        self._outcomes: dict[int, bytes] = {}
        self._taken: dict[tuple[str, str], Consumption] = {}

    def params(self, seq: int) -> bytes:
        """The params of a recorded request; empty where they cannot be read."""
        try:
            return bytes(jsonrpc.read(self.script.body(seq)).params)
        except (jsonrpc.BadMessage, RecordingError):
            return b""

    def form(self, seq: int) -> Form:
        """The form of a recorded request."""
        form = self._forms.get(seq)
        if form is None:
            arrival = self.script.arrivals[seq]
            form = self._forms[seq] = form_of(
                self.script.profile,
                arrival.method,
                arrival.name or None,
                self.params(seq),
                peer=arrival.peer or None,
            )
        return form

    def outcome(self, seq: int) -> bytes:
        """What stands for everything that a request led to, but for ids: equal where any of them may be taken."""
        known = self._outcomes.get(seq)
        if known is None:
            parts = [self._said(one) for one in self.script.caused_by(seq)]
            known = self._outcomes[seq] = blake2b(b"\n".join(parts), digest_size=16).digest()
        return known

    def _said(self, seq: int) -> bytes:
        try:
            return said(self.script.body(seq))
        except RecordingError:
            # One that cannot be read equals no other.
            return b"%d" % seq

    def consumption(self, arrival: Arrival) -> Consumption:
        """How the recorded answers to such a request are used up, with what its tool says of itself."""
        if arrival.method != "tools/call" or arrival.consumption != "fifo":
            return arrival.consumption
        which = arrival.peer, arrival.name
        taken = self._taken.get(which)
        if taken is None:
            taken = self._taken[which] = consumption(
                self.script.profile,
                arrival.method,
                arrival.name or None,
                peer=arrival.peer or None,
                annotations=self.tools.annotations(arrival.peer, arrival.name),
            )
        return taken

    @cached_property
    def tools(self) -> ToolBook:
        """The recorded tools."""
        return ToolBook(self.script)

    @cached_property
    def retries(self) -> Retries:
        """Who went on after which question."""
        return Retries(self.script, self.params)

    def near(self, live: Live, params: bytes) -> list[Near]:
        """The recorded requests that a live one resembles most."""
        found = self._nearest.of(live.peer or None, live.method, live.name or None, params, most=MOST_NEAR)
        return [
            Near(seq=one.seq, lane=self.script.arrivals[one.seq].lane or None, distance=one.distance)
            for one in found
        ]

    @cached_property
    def _nearest(self) -> Nearest:
        requests = [
            Request(one.seq, one.peer or None, one.method, one.name or None)
            for one in self.script.arrivals.values()
            if one.kind == "request" and not one.is_own
        ]
        return Nearest(self.script.profile, requests, self.params, live=self._live)


def said(message: bytes) -> bytes:
    """What a message says, without its id."""
    try:
        envelope = jsonrpc.read(message)
    except jsonrpc.BadMessage:
        return message
    return bytes(envelope.result or envelope.error or envelope.params)
