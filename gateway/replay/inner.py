"""A recording in the place of the services behind one live adapter.

Owns the way of an adapter's messages to a `Player` of each hop, and of what that delivers back to the adapter. What is
matched with what, and when an answer is due, is the player's. Waits by the timer of the adapter's host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from gateway.protocol import jsonrpc
from gateway.protocol.hops import START
from gateway.replay.account import account
from gateway.replay.player import Act, Player
from gateway.replay.rewire import under_id
from recordings.divergence import Divergence
from recordings.errors import RecordingError
from recordings.hops import PASSED_OVER
from recordings.scripted import Delivery
from transports.base import Id

if TYPE_CHECKING:
    from gateway.calls.hops import Hops, Said
    from gateway.calls.ports import Timer


class PlayedInner:
    """The services behind one adapter. Implements `calls.hops.Inner`."""

    def __init__(
        self,
        hops: Hops,
        players: Callable[[str], Player],
        *,
        later: Callable[[float, Callable[[], None]], Timer],
        patience_s: float,
        failed: Callable[[Exception], None],
    ) -> None:
        """`players` makes the player of a hop, asked once for each; `later` has something called after seconds.

        `failed` is told of what goes wrong in the replay itself.
        """
        self._hops = hops
        self._failed = failed
        self._is_over = False
        self._players = players
        self._later = later
        self._patience_s = patience_s
        self._played: dict[str, PlayedHop] = {}

    def heard(self, hop: str, said: Said) -> None:
        """The adapter has said something to a service."""
        if self._is_over:
            return
        try:
            self._hear(hop, said)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the session goes on
            self._failed(fault)

    def _hear(self, hop: str, said: Said) -> None:
        played = self._played.get(hop)
        if played is None:
            say, end = partial(self._hops.say, hop), partial(self._hops.end, hop)
            played = PlayedHop(
                hop, self._players(hop), say, end, later=self._later, patience_s=self._patience_s
            )
            self._played[hop] = played
        played.heard(said)

    def divergences(self) -> Iterator[Divergence]:
        """What has differed at the hops, and what did not come though more did."""
        for played in self._played.values():
            yield from account(played.player).divergences

    def end(self) -> None:
        """Nobody waits any more."""
        self._is_over = True
        for played in self._played.values():
            played.end()


class PlayedHop:
    """One service."""

    def __init__(
        self,
        hop: str,
        player: Player,
        say: Callable[[bytes], int],
        end_service: Callable[[bytes], None],
        *,
        later: Callable[[float, Callable[[], None]], Timer],
        patience_s: float,
    ) -> None:
        """`say` gives the adapter a message and returns the number of its frame.

        `end_service` tells it how its service has ended.
        """
        self.player = player
        self._hop = hop
        self._say = say
        self._end_service = end_service
        self._later = later
        self._patience_s = patience_s
        self._open: dict[int, tuple[Id, str]] = {}
        """Live requests that are not answered: id and method, by number."""
        self._timer: Timer | None = None
        self._is_quiet = False
        self._has_starts = any(one.method == START for one in player.script.arrivals.values())

    def heard(self, said: Said) -> None:
        """The adapter has said something."""
        envelope, player = said.envelope, self.player
        if said.kind in ("response", "error"):
            player.asking.replied(said.re, said.message)
        elif envelope.method == START and not self._has_starts:
            # It was recorded by an adapter that told of none: whatever it had behind it could be opened.
            self._say(jsonrpc.response(envelope.id, b"{}"))  # pyright: ignore[reportArgumentType] - a request has one
        elif envelope.method not in PASSED_OVER:
            if said.kind == "request" and isinstance(envelope.id, int | str):
                self._open[said.seq] = envelope.id, envelope.method
            params = bytes(envelope.params)
            player.asked(
                said.seq, peer=self._hop, lane=self._hop, method=envelope.method, name="", params=params,
                is_own=False,
            )  # fmt: skip
            if said.seq in self._open:
                player.dispatched(said.seq)
        self._is_quiet = False
        self._pump()

    def end(self) -> None:
        """Nobody waits any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _pump(self) -> None:
        while (act := self.player.take()) is not None:
            self._do(act)
        if self._open and self._timer is None:
            self._be_patient()

    def _do(self, act: Act) -> None:
        if act.answer is not None:
            self._answer(act.answer.live, act.message)
            return
        delivery = act.delivery
        if delivery is None:
            return
        try:
            if delivery.kind == "message":
                self._deliver(delivery)
            elif delivery.kind == "ended":
                # Nobody answers what is open, nor does the adapter wait for it.
                self._open.clear()
                self._end_service(self.player.script.body(delivery.seq))
        finally:
            self.player.delivering = None
            self.player.delivered(delivery)

    def _deliver(self, delivery: Delivery) -> None:
        player = self.player
        live = player.live_of(delivery.cause)
        if delivery.is_answer and live not in self._open:
            return
        try:
            body = player.body_for(delivery)
        except RecordingError as missing:
            fault = player.unreadable(delivery, missing)
            if live is not None:
                self._answer(live, jsonrpc.error(None, fault))
            return
        if delivery.is_answer and live is not None:
            body = under_id(body, self._open.pop(live)[0])
        seq = self._say(body)
        player.delivering = delivery.seq
        player.came(seq, is_question=delivery.is_question)

    def _answer(self, live: int, message: bytes) -> None:
        """Answer a request beside the gate; one that tells has no answer."""
        found = self._open.pop(live, None)
        if found is not None:
            self._say(under_id(message, found[0]))

    # -- patience ----------------------------------------------------------------------------------------------

    def _be_patient(self) -> None:
        self._is_quiet = True
        self._timer = self._later(self._patience_s, self._lose_patience)

    def _lose_patience(self) -> None:
        self._timer = None
        if not self._open:
            return
        if not self._is_quiet:
            self._be_patient()
            return
        live, (_, method) = next(iter(self._open.items()))
        if not self.player.lose_patience_with(live):
            self._answer(live, jsonrpc.error(None, self.player.overdue(live, method)))
        self._pump()
