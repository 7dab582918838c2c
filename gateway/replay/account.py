"""The account of one replay: what came again, what did not, and where it first differed.

Owns the counting, and what it means that a request did not come: its lane has gone on without it, and differs, or has
ended before it, and is incomplete. The other divergences were told by the player while it played.
"""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from gateway.replay.player import Player
from recordings.divergence import NO_LANE, Divergence, Report, next_steps
from recordings.script import Script
from recordings.scripted import Arrival, Delivery


def account(player: Player, *, aborted: str = "") -> Report:
    """Return what has come of a replay so far."""
    script = player.script
    unplayed: Counter[str] = Counter()
    told = {each.recorded for each in player.divergences}
    divergences = list(player.divergences)
    of = 0
    last = _last_of_lanes(player)
    first: Arrival | None = None
    for arrival in script.awaited:
        if arrival.is_own:
            # It comes of what the agent does, and is counted with that.
            continue
        of += 1
        if player.has_come(arrival.seq):
            continue
        unplayed[arrival.lane or NO_LANE] += 1
        if arrival.kind != "request" or arrival.seq in told:
            continue
        if arrival.seq > last.get(arrival.lane, 0):
            first = first or arrival
            continue
        divergences.append(
            Divergence(
                cls="missing",
                lane=arrival.lane or None,
                peer=arrival.peer or None,
                method=arrival.method,
                name=arrival.name or None,
                recorded=arrival.seq,
                last_given=player.last_given(arrival.lane),
            )
        )
    if player.faults:
        what = ", ".join(dict.fromkeys(type(fault).__name__ for fault in player.faults))
        aborted = f"the replay itself has failed ({what}); its log says more"
    if first is not None and not aborted:
        what = f"{first.method} {first.name}".strip()
        where = f" of lane {first.lane}" if first.lane else ""
        aborted = f"the agent left before `{what}`{where}, seq {first.seq}, and what comes after"
    loose = 0
    for delivery in script.deliveries.values():
        if delivery.is_loose or (delivery.is_answer and _is_asked_here(script, delivery)):
            loose += delivery.is_answer and player.has_come(delivery.seq)
        else:
            of += 1
            if not player.has_come(delivery.seq):
                unplayed[delivery.lane or NO_LANE] += 1
    return Report(
        path=player.path,
        mode=player.misses.mode,
        served=of - sum(unplayed.values()),
        of=of,
        lanes=tuple(dict.fromkeys(one.lane or None for one in script.awaited)),
        unplayed=dict(unplayed),
        relaxed=player.relaxed,
        ambiguous=player.ambiguous,
        live_calls=player.live_calls,
        loose=loose,
        races=sum(each.cls == "race" for each in divergences),
        divergences=tuple(replace(each, next=next_steps(each, player.path)) for each in divergences),
        aborted=aborted,
    )


def _is_asked_here(script: Script, delivery: Delivery) -> bool:
    """Whether that answers what the gateway itself has asked, which another agent may not bring about."""
    return delivery.cause is not None and script.arrivals[delivery.cause].is_own


def _last_of_lanes(player: Player) -> dict[str, int]:
    """By lane: the last recorded request that has come."""
    return {
        arrival.lane: arrival.seq
        for arrival in player.script.awaited
        if arrival.kind == "request" and player.has_come(arrival.seq)
    }
