"""What requests are given in a replay: recorded answers with the values of this run in them, or errors in their place.

Owns which recorded values are others in this run, and whether a request was answered at all. Which recorded request a
live one is, and when it is answered, is the player's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.protocol import jsonrpc
from gateway.replay.recollection import Recollection
from gateway.replay.renames import Renames
from gateway.replay.telling import Telling, recording_ends, unreadable
from recordings.errors import RecordingError
from recordings.script import LISTEN
from recordings.scripted import Delivery

if TYPE_CHECKING:
    from gateway.replay.player import Asked


class Answers:
    """The answers of one replay."""

    def __init__(self, recollection: Recollection, telling: Telling) -> None:
        self._script = recollection.script
        self._telling = telling
        self.renames: dict[str, Renames] = {}
        """By lane: recorded values that are others in this run."""

    def learn(self, lane: str, changed: list[tuple[str, str]]) -> None:
        """Recorded values are others in this run."""
        if changed:
            renames = self.renames.get(lane)
            if renames is None:
                renames = self.renames[lane] = Renames()
            renames.learn(changed)

    def body_for(self, delivery: Delivery) -> bytes:
        """The bytes of a delivery, with the values of this run in the place of the recorded ones.

        Raises:
            RecordingError: Its blob is missing or damaged.
        """
        body = self._script.source.body(delivery.seq)
        if not self.renames:
            return body
        renames = self.renames.get(delivery.lane)
        return renames.applied(body) if renames is not None else body

    def unreadable(self, delivery: Delivery, missing: RecordingError) -> bytes:
        """A recorded frame cannot be read: tell so, and return the error that stands in its place."""
        arrival = self._script.arrivals.get(delivery.cause) if delivery.cause is not None else None
        if arrival is not None:
            self._telling.tell("unreadable", delivery.lane, arrival, detail=str(missing))
        return unreadable(delivery.peer, missing)

    # Answers beside the gate

    def are_recorded(self, seq: int) -> bool:
        """Whether somebody in the recording, sooner or later, ends this request: a peer, a cancel, the gateway."""
        arrival = self._script.arrivals[seq]
        if not arrival.peer or arrival.answered or self._script.ends.get(arrival.peer, -1) > seq:
            return True
        if seq in self._script.given_here or (arrival.method == LISTEN and seq not in self._script.refusals):
            return True
        return any(
            self._script.deliveries[one].kind in ("timeout", "failed") for one in self._script.caused_by(seq)
        ) or self._script.is_taken_back(seq)

    def recorded(self, one: Asked, seq: int) -> bytes:
        """The answer that a recorded request had, for one that is given it beside the gate."""
        for each in self._script.caused_by(seq):
            delivery = self._script.deliveries[each]
            if delivery.is_answer:
                try:
                    return self.body_for(delivery)
                except RecordingError as missing:
                    return jsonrpc.error(None, self.unreadable(delivery, missing))
        return self.none(one, seq)

    def of_gateway(self, one: Asked, seq: int) -> bytes:
        """The answer that the gateway itself gave to a request."""
        try:
            return self._script.body(self._script.given_here[seq])
        except RecordingError:
            return self.none(one, seq)

    def none(self, one: Asked, seq: int) -> bytes:
        """What a request is given that nobody answered when it was recorded: an error, that of then if there is one."""
        refusal = self._script.refusals.get(seq)
        if refusal is not None:
            try:
                return jsonrpc.error(None, bytes(jsonrpc.read(self._script.body(refusal)).error))
            except (jsonrpc.BadMessage, RecordingError):
                pass
        return jsonrpc.error(None, recording_ends(one.peer, one.method))
