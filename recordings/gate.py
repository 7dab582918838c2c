"""When a recorded frame may be delivered again: once what caused it has happened again.

Owns the order of deliveries in its three strengths: `causal` holds what the recording shows to depend on each other
within a lane, `lockstep` the whole recorded order, `free` nothing but a request before its answer. Knows no clock: who
waits for what is data, and whoever waits may ask why. Source: the replay contract, the gate.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from recordings.script import LISTEN, Script
from recordings.scripted import Arrival, Delivery

Strength: TypeAlias = Literal["causal", "lockstep", "free"]


def strength_for(script: Script) -> Strength:
    """What suits a recording: without lanes nobody knows what depends on what, and the whole order is held."""
    return "causal" if script.has_lanes else "lockstep"


class Gate:
    """The deliveries of one replay that are still to come."""

    def __init__(self, script: Script, strength: Strength) -> None:
        self.script = self._script = script
        self.strength: Strength = strength
        self._happened: set[int] = set()
        """Arrivals that were seen again, and those that will never be."""
        self._released: set[int] = set()
        """Deliveries that are on their way; those that were made need not be among them."""
        self._done: set[int] = set()
        """Deliveries that were made, or never will be."""
        self._ready: deque[int] = deque()
        self._waits: dict[int, int] = {}
        """How many causes a delivery still waits for."""
        self._waiting: dict[int, int | list[int]] = {}
        """Cause to the deliveries that wait for it; mostly one, which then stands for itself."""
        self._causes: dict[int, int | tuple[int, ...]] = {}
        """Delivery to what it waits for, likewise."""
        self._order: list[int] = []
        """Lockstep: awaited arrivals and deliveries as recorded."""
        self._place: int = 0
        self._parked: dict[int, list[int]] = {}
        """Lockstep: deliveries that were passed by, since nothing waits for their cause, by that."""
        if strength == "lockstep":
            self._build_order()
        else:
            self._build_causes()

    # -- what happens ------------------------------------------------------------------------------------------

    def happened(self, seq: int) -> None:
        """A recorded arrival was seen again, or is given up."""
        if seq not in self._happened:
            self._happened.add(seq)
            if seq in self._parked:
                self._ready.extend(self._parked.pop(seq))
            if seq in self._waiting:
                self._settle(seq)

    def delivered(self, seq: int) -> None:
        """A delivery was made, or is given up."""
        if seq not in self._done:
            self._done.add(seq)
            if seq in self._waiting:
                self._settle(seq)

    def is_next(self, request: int, answer: int) -> bool:
        """Whether a request and its answer may come now, and nothing else hangs on the request.

        False also where `is_contested` may be True.
        """
        if self.strength != "lockstep":
            return not self._ready and self._waiting.get(request) == answer and self._waits[answer] == 1
        if self._ready or self._waiting:
            return False
        place, order = self._place, self._order
        # Or behind what was delivered last, where that was not passed by yet.
        return order[place : place + 2] == [request, answer] or (
            0 < place < len(order)
            and order[place] in self._done
            and order[place - 1] not in self._done
            and order[place + 1 : place + 3] == [request, answer]
        )

    def pass_one(self, request: int, answer: int) -> bool:
        """Let those that are next happen and be delivered; return whether nothing else is due then."""
        self._happened.add(request)
        self._done.add(answer)
        if self.strength != "lockstep":
            del self._waiting[request]
            self._waits[answer] = 0
            if answer in self._waiting:
                self._settle(answer)
            return not self._ready
        order: list[int] = self._order
        place: int = self._place + 2
        if order[place - 1] != answer:
            place += 1
        if place == len(order):
            self._place = place
            return True
        then = order[place]
        if then in self._happened or then not in self._script.arrivals:
            # Whoever takes what is due comes by here, and what is contested is told by where that is.
            self._place = place - 1
            return False
        self._place = place
        return True

    def follows(self, pairs: list[int]) -> bool:
        """Lockstep: whether requests and their answers, in turn, are what comes next, and nothing else hangs on them.

        It is the same then to let each request happen and deliver its answer, and to let all happen first.
        """
        if self.strength != "lockstep" or self._ready or not self._waiting.keys().isdisjoint(pairs):
            return False
        place, order = self._place, self._order
        while place < len(order) and (order[place] in self._done or order[place] in self._happened):
            place += 1
        return order[place : place + len(pairs)] == pairs

    def passes(self, pairs: list[int]) -> bool:
        """Let those that follow happen and be delivered; return whether nothing else is due then."""
        arrived, answered = pairs[::2], pairs[1::2]
        order = self._order
        place = self._place = order.index(pairs[-1], self._place)
        self._happened.update(arrived)
        self._done.update(answered)
        return place + 1 == len(order) or (
            order[place + 1] in self._script.arrivals and order[place + 1] not in self._happened
        )

    def give_up(self, request: int) -> None:
        """A recorded request will not be answered as recorded: what it caused is not waited for."""
        self.happened(request)
        for delivery in self._script.caused_by(request):
            self.delivered(delivery)
        for asked in self._script.made_for(request):
            if self._script.arrivals[asked].is_hook:
                self.give_up(asked)

    def take(self) -> int | None:
        """The next delivery that may be made, or None. It counts as made once `delivered` says so."""
        loose = self._take_ready() if self._ready else None
        if loose is None and self.strength == "lockstep":
            return self._take_ordered()
        return loose

    def is_open(self, seq: int) -> bool:
        """Whether what caused a recorded arrival has happened: what its sender had been given, and its lane's past."""
        arrival = self._script.arrivals[seq]
        after = arrival.after
        if self.strength == "lockstep":
            return seq < self._horizon
        return (
            after is None or arrival.is_loose or after in self._done or after not in self._script.deliveries
        )

    @property
    def held(self) -> list[int]:
        """Awaited arrivals without which the next delivery is not made, in order. Empty where nothing is held."""
        if self.strength == "lockstep":
            missing: list[int] = []
            for place in range(self._place, len(self._order)):
                seq = self._order[place]
                if seq in self._released and seq not in self._done:
                    # It is on its way, and nothing comes before it.
                    return missing
                if seq in self._script.deliveries:
                    if missing and self._may_come(seq):
                        return missing
                elif seq not in self._happened:
                    missing.append(seq)
            return []
        found: dict[int, None] = {}
        for node, count in self._waits.items():
            if count and node >= 0 and node not in self._done and self._may_come(node):
                found.update(dict.fromkeys(self._unseen(node)))
        return sorted(found)

    def held_before(self, delivery: int) -> list[int]:
        """Causal: the awaited arrivals that one delivery still waits for, in order."""
        return sorted(set(self._unseen(delivery)))

    @property
    def is_contested(self) -> bool:
        """Lockstep: whether two deliveries follow each other with nothing recorded between them."""
        return (
            self.strength == "lockstep"
            and not self._ready
            and 0 < self._place < len(self._order)
            and self._order[self._place] in self._script.deliveries
            and self._order[self._place - 1] in self._script.deliveries
        )

    # -- lockstep ----------------------------------------------------------------------------------------------

    @property
    def _horizon(self) -> int:
        """The next delivery: arrivals before it may come at any time now, others would come early."""
        for place in range(self._place, len(self._order)):
            if self._order[place] in self._script.deliveries and self._order[place] not in self._done:
                return self._order[place]
        return sys.maxsize

    def _build_order(self) -> None:
        script = self._script
        arrivals = [*(arrival.seq for arrival in script.awaited), *script.suspensions.values()]
        for delivery in script.deliveries.values():
            if delivery.is_loose:
                self.wait(delivery.seq, [delivery.cause] if delivery.cause is not None else [])
        bound = (seq for seq, delivery in script.deliveries.items() if not delivery.is_loose)
        self._order = sorted([*arrivals, *bound])

    def _may_come(self, seq: int) -> bool:
        cause = self._script.deliveries[seq].cause
        return seq not in self._done and (cause is None or cause in self._happened)

    def _take_ordered(self) -> int | None:
        order, arrivals = self._order, self._script.arrivals
        while self._place < len(order):
            seq = order[self._place]
            if seq in arrivals:
                if seq not in self._happened:
                    return None
            elif seq not in self._done:
                cause = self._script.deliveries[seq].cause
                if cause is not None and cause not in self._happened and arrivals[cause].is_loose:
                    self._parked.setdefault(cause, []).append(seq)
                else:
                    if seq in self._released:
                        return None
                    self._released.add(seq)
                    return seq
            self._place += 1
        return None

    # -- causal and free -----------------------------------------------------------------------------------------

    def _build_causes(self) -> None:
        threads = _Threads(self)
        arrivals = iter(sorted(self._script.arrivals.values(), key=lambda arrival: arrival.seq))
        arrival = next(arrivals, None)
        for delivery in self._script.deliveries.values():
            while arrival is not None and arrival.seq < delivery.seq:
                threads.hear(arrival)
                arrival = next(arrivals, None)
            self.wait(delivery.seq, threads.causes(delivery, within_lane=self.strength == "causal"))

    # -- both ----------------------------------------------------------------------------------------------------

    def wait(self, node: int, causes: Iterable[int]) -> None:
        """Let a delivery, or a knot (a negative number, that stands for all of its causes), wait for causes."""
        waits = tuple(dict.fromkeys(causes))
        self._causes[node] = waits[0] if len(waits) == 1 else waits
        self._waits[node] = len(waits)
        waiting = self._waiting
        for cause in waits:
            others = waiting.get(cause)
            if others is None:
                waiting[cause] = node
            elif isinstance(others, int):
                waiting[cause] = [others, node]
            else:
                others.append(node)
        if not waits:
            self._ready.append(node)

    def _settle(self, cause: int) -> None:
        freed: list[int] = []
        settled = [cause]
        while settled:
            waiting = self._waiting.pop(settled.pop(), ())
            for node in (waiting,) if isinstance(waiting, int) else waiting:
                self._waits[node] -= 1
                if self._waits[node]:
                    continue
                if node < 0:
                    settled.append(node)
                elif node not in self._done:
                    freed.append(node)
        if len(freed) > 1:
            # A knot frees what waits for it after all others, whenever that was said.
            freed.sort()
        self._ready.extend(freed)

    def _unseen(self, node: int) -> Iterator[int]:
        """The awaited arrivals that a delivery still waits for, through knots."""
        todo = [node]
        while todo:
            causes = self._causes.get(todo.pop(), ())
            for cause in (causes,) if isinstance(causes, int) else causes:
                if cause < 0:
                    if self._waits[cause]:
                        todo.append(cause)
                elif cause in self._script.arrivals and cause not in self._happened:
                    yield cause

    def _take_ready(self) -> int | None:
        while self._ready:
            seq = self._ready.popleft()
            if seq not in self._done:
                self._released.add(seq)
                return seq
        return None


class _Threads:
    """What of the past a delivery depends on, followed along the recording."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._streams: dict[tuple[str, int | None], int] = {}
        """The last delivery of each stream: a request's, or a life's own words."""
        self._answers: dict[tuple[str, int | None], list[int]] = {}
        """Answers of the core to questions of a stream, until the next delivery has waited for them."""
        self._latest: dict[str, int] = {}
        """The last request that each peer was sent."""
        self._suspended: dict[int, int] = {}
        """Requests whose core was given a question as an answer, and that answer."""
        self._taken_back: dict[int, int] = {}
        """Requests that were taken back, and by which arrival."""
        self._said: dict[str, int] = {}
        """The last delivery of each peer."""
        self._knots: dict[tuple[str, str], list[tuple[int, int]]] = {}
        """By peer and lane: (arrival, the knot of it and all before it)."""
        self._replied: dict[str, int] = {}
        """By peer: the knot of the core's answers to its questions."""
        self._listening: int | None = None
        """The knot of the listenings of the core, which hear of whatever a peer says to nobody."""
        self._of_peer: dict[str, int] = {}
        """The knot of all that a peer was sent and has said."""
        self._next = 0

    def hear(self, arrival: Arrival) -> None:
        """The core has sent something."""
        script = self._gate.script
        if arrival.kind == "answer" and arrival.re is not None and script.is_known(arrival.re):
            question, _ = script.question(arrival.re)
            self._answers.setdefault((question.peer, question.cause), []).append(arrival.seq)
            replied = self._replied.get(question.peer)
            self._replied[question.peer] = (
                arrival.seq if replied is None else self._knot([arrival.seq, replied])
            )
            if question.cause is None and arrival.lane:
                # It is on the stream of no request: whatever its peer says next may follow from it.
                self._add(question.peer, arrival)
        elif arrival.kind == "suspension" and arrival.re is not None:
            self._suspended[arrival.re] = arrival.seq
        elif arrival.kind == "cancel" and arrival.re is not None:
            self._taken_back[arrival.re] = arrival.seq
            if not arrival.is_loose:
                self._tie(script.arrivals[arrival.re].peer, arrival.seq)
        elif arrival.kind == "request" and arrival.method == LISTEN and not arrival.is_loose:
            before = self._listening
            self._listening = arrival.seq if before is None else self._knot([arrival.seq, before])
        elif arrival.kind == "request" and arrival.peer and not arrival.is_loose:
            self._latest[arrival.peer] = arrival.seq
            self._tie(arrival.peer, arrival.seq)
            if arrival.lane:
                self._add(arrival.peer, arrival)

    def _is_to_nobody(self, delivery: Delivery) -> bool:
        """Whether it belongs to no request, or to one that listens to whatever its peer says."""
        if delivery.cause is None:
            return True
        return self._gate.script.arrivals[delivery.cause].method == LISTEN and not delivery.is_loose

    def _add(self, peer: str, arrival: Arrival) -> None:
        """Tie what a peer was sent in a lane to all that it was sent there before."""
        known = self._knots.setdefault((peer, arrival.lane), [])
        # The first one is all there is.
        knot = self._knot([arrival.seq, known[-1][1]]) if known else arrival.seq
        known.append((arrival.seq, knot))

    def _tie(self, peer: str, seq: int) -> None:
        if seq > self._gate.script.ends.get(peer, -1):
            # It does not end any more.
            return
        before = self._of_peer.get(peer)
        self._of_peer[peer] = seq if before is None else self._knot([seq, before])

    def _knot(self, causes: list[int]) -> int:
        self._next -= 1
        self._gate.wait(self._next, causes)
        return self._next

    def causes(self, delivery: Delivery, *, within_lane: bool) -> list[int]:
        """What has to have happened before a delivery."""
        stream = delivery.peer, delivery.cause
        found: list[int] = []
        if delivery.cause is not None:
            found.append(delivery.cause)
            if delivery.cause in self._suspended:
                found.append(self._suspended[delivery.cause])
            if delivery.cause in self._taken_back:
                # It came too late.
                found.append(self._taken_back[delivery.cause])
        if self._is_to_nobody(delivery):
            # Its channel is all that the peer has heard and said.
            channel = (self._latest, self._said, self._replied) if within_lane else (self._latest, self._said)
            found += (known[delivery.peer] for known in channel if delivery.peer in known)
            if within_lane and self._listening is not None:
                found.append(self._listening)
        if stream in self._streams:
            found.append(self._streams[stream])
        found += self._answers.pop(stream, ())
        if within_lane and delivery.lane and delivery.after is not None:
            known = self._knots.get((delivery.peer, delivery.lane), [])
            place = bisect_right(known, delivery.after, key=lambda pair: pair[0])
            for seq, knot in known[place - 1 : place]:
                if seq == delivery.cause:
                    # Held by the knot too.
                    found.remove(seq)
                found.append(knot)
        if delivery.kind == "ended" and delivery.peer in self._of_peer:
            # What a peer has done and was asked before it went, in whatever lane, comes before its end.
            found.append(self._of_peer[delivery.peer])
        if not delivery.is_loose:
            self._said[delivery.peer] = delivery.seq
            self._tie(delivery.peer, delivery.seq)
        self._streams[stream] = delivery.seq
        return found
