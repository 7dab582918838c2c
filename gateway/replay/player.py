"""One replay of a recording to a live core: live frames come in, recorded deliveries come out.

Owns what has been matched with what, and what is told of where the two differ. Matching is `recordings.matching`'s,
order `recordings.gate`'s; how a delivery reaches the exchange is the shell's business. No clock, nothing waits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from gateway.protocol import jsonrpc
from gateway.protocol.errors import Fault, error_object
from recordings.difference import differences
from recordings.divergence import Divergence, DivergenceClass, Given, Near, Report
from recordings.errors import RecordingError
from recordings.form import Form, Forms, form_of
from recordings.gate import Gate, Strength
from recordings.matching import Live, Match, Matcher, Miss, Recorded
from recordings.script import Arrival, Delivery, Script

LONG = 16
"""Values of this length and more are found again inside of text; shorter ones might be anything."""


class Asked(msgspec.Struct, eq=False):
    """A live request, and what became of it."""

    live: int
    peer: str
    lane: str
    method: str
    name: str
    params: bytes
    recorded: int | None = None
    miss: Divergence | None = None
    is_own: bool = False
    refused: bool = False


class Act(NamedTuple):
    """What is to be done next: a recorded frame delivered, or a request answered with why it cannot be."""

    delivery: Delivery | None = None
    answer: Asked | None = None
    error: bytes = b""
    """With `answer`: the JSON-RPC error object."""


class Matching(NamedTuple):
    """What the matcher and the nearest-neighbour search go by: made once for a recording."""

    forms: dict[int, Form]
    outcomes: dict[int, bytes]


class Player:
    """One live session against one script."""

    def __init__(
        self,
        script: Script,
        *,
        strength: Strength,
        path: str = "",
        mode: str = "replay",
        strict: bool = True,
        live_profile_forms: Forms | None = None,
        redact: Callable[[bytes], bytes] = bytes,
        nearest: Callable[[Live, bytes], list[Near]] | None = None,
        memo: Matching | None = None,
    ) -> None:
        self.script = script
        self.gate = Gate(script, strength)
        self.mode = mode
        self.path = path
        self._memo = memo if memo is not None else Matching({}, {})
        self._forms = live_profile_forms if live_profile_forms is not None else Forms(script.profile)
        self._redact = redact
        self._nearest = nearest
        requests = [
            Recorded(
                seq=arrival.seq,
                at=arrival.at,
                peer=arrival.peer,
                lane=arrival.lane,
                method=arrival.method,
                name=arrival.name,
                consumption=arrival.consumption,
            )
            for arrival in script.arrivals.values()
            if arrival.kind == "request"
        ]
        self._matcher = Matcher(requests, form=self._form, outcome=self._outcome, strict=strict)
        self._contested: set[int] | None = None
        self._asked: dict[int, Asked] = {}
        self._live_of: dict[int, int] = {}
        self._questions: dict[int, int] = {}
        """Live number of a question to its recorded one."""
        self._answered: set[int] = set()
        self._acts: list[Act] = []
        self._renames: dict[str, dict[str, str]] = {}
        """By lane: recorded values that are others in this run."""
        self._given: dict[str, int] = {}
        """What each lane was last given."""
        self.delivering: int | None = None
        """The recorded frame that is being delivered at this moment."""
        self._now = 0
        self.divergences: list[Divergence] = []
        self.relaxed = 0
        self.ambiguous = 0
        self.served = 0

    # -- what the live side does -------------------------------------------------------------------------------

    def asked(
        self, live: int, *, peer: str, lane: str, method: str, name: str, params: bytes, is_own: bool
    ) -> Asked:
        """A live request, of the core or of the gateway itself: find the recorded one."""
        lane = lane if self.script.has_lanes else ""
        one = Asked(live, peer, lane, method, name, params, is_own=is_own)
        self._asked[live] = one
        form = self._forms.form(method, name or None, self._redact(params), peer=peer or None)
        wanted = Live(peer, lane, method, name, form)
        eligible = self.gate.is_open if not lane else None
        found = self._matcher.match(wanted, now=self._now, eligible=eligible)
        if isinstance(found, Miss):
            one.miss = self._missed(one, found, wanted)
            return one
        self._take(one, found, wanted)
        return one

    def _take(self, one: Asked, found: Match, wanted: Live) -> None:
        seq = one.recorded = found.seq
        self._live_of[seq] = one.live
        self.relaxed += found.relaxed
        self.ambiguous += found.ambiguous
        self.served += not found.again
        changed = self._matcher.bind(seq, wanted)
        if changed:
            self._renames.setdefault(one.lane, {}).update(changed)
        self._now = max(self._now, self.script.arrivals[seq].at)
        if found.again:
            for delivery in self.script.caused_by(seq):
                if self.script.deliveries[delivery].is_answer:
                    self._acts.append(Act(delivery=self.script.deliveries[delivery]))
        elif not self._is_answered(seq):
            self._acts.append(Act(answer=one, error=self._unanswered(one, seq)))
        self.gate.happened(seq)

    def _is_answered(self, seq: int) -> bool:
        """Whether somebody in the recording, sooner or later, ends this request: a peer, a cancel, the gateway."""
        arrival = self.script.arrivals[seq]
        if not arrival.peer or arrival.answered or self.script.ends.get(arrival.peer, -1) > seq:
            return True
        return any(
            self.script.deliveries[one].kind in ("timeout", "failed") for one in self.script.caused_by(seq)
        ) or self.script.is_taken_back(seq)

    def _unanswered(self, one: Asked, seq: int) -> bytes:
        refusal = self.script.refusals.get(seq)
        if refusal is not None:
            try:
                return bytes(jsonrpc.read(self.script.body(refusal)).error)
            except (jsonrpc.BadMessage, RecordingError):
                pass
        why = f"the recording ends before `{one.method}` was answered"
        return error_object(
            Fault(
                code="io", message=f"Replay: {why}", reason="recording_ends", outcome="unknown", peer=one.peer
            )
        )

    def cancelled(self, live: int | None) -> None:
        """The core does not want an answer any more."""
        one = self._asked.get(live) if live is not None else None
        if one is None or one.recorded is None:
            return
        cancel = self.script.cancel_of(one.recorded)
        if cancel is not None:
            self.served += cancel not in self._answered
            self._answered.add(cancel)
            self.gate.happened(cancel)
        elif one.recorded not in self._answered:
            arrival = self.script.arrivals[one.recorded]
            why = "the core takes back a request that was answered when it was recorded"
            self._tell("race", one.lane, arrival, live=one.live, detail=why)

    def replied(self, question: int | None, body: bytes) -> None:
        """The core has answered a question; `question` is the live number of that."""
        recorded = self._questions.get(question) if question is not None else None
        if recorded is None:
            return
        answer = self.script.answer_of(recorded)
        if answer is None:
            return
        self.served += answer not in self._answered
        self._answered.add(answer)
        self.gate.happened(answer)
        delivery = self.script.deliveries[recorded]
        before, after = _result(self.script.body(answer)), _result(self._redact(body))
        changes = differences(before, after)
        if changes and self._differs(delivery, before, after):
            self._tell(
                "answer-differs",
                delivery.lane,
                self.script.arrivals[answer],
                live=question,
                changes=changes,
                method=delivery.method,
            )

    def _differs(self, delivery: Delivery, before: bytes, after: bytes) -> bool:
        ours = form_of(self.script.profile, delivery.method, None, before, peer=delivery.peer, part="result")
        theirs = form_of(self.script.profile, delivery.method, None, after, peer=delivery.peer, part="result")
        return ours.key != theirs.key

    def questioned(self, live: int) -> None:
        """A question of a peer has passed on its way to the core."""
        if self.delivering is not None:
            self._questions[live] = self.delivering
            self._live_of[self.delivering] = live

    def refused(self, live: int | None) -> None:
        """The gateway itself has refused a live request: no peer will be asked."""
        one = self._asked.get(live) if live is not None else None
        if one is not None and not one.refused:
            one.refused = True
            if one.recorded is not None:
                self.gate.give_up(one.recorded)

    def dispatched(self, live: int) -> None:
        """A live request has come to its peer; one without a recorded answer is told so."""
        one = self._asked.get(live)
        if one is not None and one.miss is not None:
            self._acts.append(Act(answer=one, error=self._not_recorded(one, one.miss)))

    # -- what is to be done --------------------------------------------------------------------------------------

    def take(self) -> Act | None:
        """The next thing to do, or None. A delivery counts as made once `delivered` says so."""
        if self._acts:
            return self._acts.pop(0)
        seq = self.gate.take()
        return Act(delivery=self.script.deliveries[seq]) if seq is not None else None

    def delivered(self, delivery: Delivery) -> None:
        """A delivery was made, or is given up."""
        self.gate.delivered(delivery.seq)
        self.served += delivery.seq not in self._answered
        self._answered.add(delivery.seq)
        self._now = max(self._now, delivery.at)
        self._given[delivery.lane] = delivery.seq
        if delivery.cause is not None and delivery.is_answer:
            self._answered.add(delivery.cause)

    def live_of(self, recorded: int | None) -> int | None:
        """The live number of a recorded request or question."""
        return self._live_of.get(recorded) if recorded is not None else None

    def body_for(self, delivery: Delivery) -> bytes:
        """The bytes of a delivery, with the values of this run in the place of the recorded ones.

        Raises:
            RecordingError: Its blob is missing or damaged.
        """
        body = self.script.body(delivery.seq)
        for ours, theirs in self._renames.get(delivery.lane, {}).items():
            if len(ours) >= LONG and ours.encode() in body:
                body = _replaced(body, ours, theirs)
        return body

    @property
    def needs_settling(self) -> bool:
        """Whether the core should be given a moment before the next delivery: its next words may decide a match."""
        if not self.gate.is_contested:
            return False
        if self._contested is None:
            self._contested = self._matcher.contested()
        return any(not self._matcher.by_seq[seq].used for seq in self._contested)

    @property
    def held(self) -> list[int]:
        """Recorded arrivals that a delivery waits for although its own request has come."""
        return self.gate.held

    def lose_patience(self) -> bool:
        """Nothing has happened for long: tell of the arrivals that are waited for, and go on without them."""
        held = self.gate.held
        for seq in held:
            arrival = self.script.arrivals[seq]
            self._tell("timeout", arrival.lane, arrival, detail="a recorded request did not come in time")
            if arrival.kind == "request":
                self.gate.give_up(seq)
            else:
                self.gate.happened(seq)
            recorded = self._matcher.by_seq.get(seq)
            if recorded is not None:
                recorded.used = True
        return bool(held)

    def unreadable(self, delivery: Delivery, missing: RecordingError) -> bytes:
        """A recorded frame cannot be read: tell so, and return the error that stands in its place."""
        arrival = self.script.arrivals.get(delivery.cause) if delivery.cause is not None else None
        if arrival is not None:
            self._tell("unreadable", delivery.lane, arrival, detail=str(missing))
        return error_object(
            Fault(
                code="io",
                message=f"Replay: {missing}",
                reason="unreadable",
                outcome="unknown",
                peer=delivery.peer,
            )
        )

    # -- the report ----------------------------------------------------------------------------------------------

    def report(self, *, aborted: str = "") -> Report:
        """What has come of the replay so far."""
        unplayed: Counter[str] = Counter()
        told = {each.recorded for each in self.divergences}
        divergences = list(self.divergences)
        of = 0
        for arrival in self.script.arrivals.values():
            if arrival.is_loose:
                continue
            of += 1
            if arrival.seq in self._live_of or arrival.seq in self._answered:
                continue
            unplayed[arrival.lane or "(no lane)"] += 1
            if arrival.kind == "request" and arrival.seq not in told:
                divergences.append(
                    Divergence(
                        cls="missing",
                        lane=arrival.lane or None,
                        peer=arrival.peer or None,
                        method=arrival.method,
                        name=arrival.name or None,
                        recorded=arrival.seq,
                        last_given=self._last_given(arrival.lane),
                    )
                )
        for delivery in self.script.deliveries.values():
            if not delivery.is_loose:
                of += 1
                if delivery.seq not in self._answered:
                    unplayed[delivery.lane or "(no lane)"] += 1
        served = of - sum(unplayed.values())
        return Report(
            path=self.path,
            mode=self.mode,
            served=served,
            of=of,
            lanes=tuple(dict.fromkeys(one.lane or None for one in self.script.awaited)),
            unplayed=dict(unplayed),
            relaxed=self.relaxed,
            ambiguous=self.ambiguous,
            races=sum(each.cls == "race" for each in divergences),
            divergences=tuple(divergences),
            aborted=aborted,
        )

    def _missed(self, one: Asked, miss: Miss, wanted: Live) -> Divergence:
        recorded = miss.seqs[0] if miss.seqs else None
        near = self._nearest(wanted, one.params) if self._nearest is not None else []
        compared = near[0].seq if near else recorded
        changes = ()
        if compared is not None and miss.why in ("changed-params", "extra"):
            changes = differences(self._params(compared), self._redact(one.params))
        divergence = Divergence(
            cls=miss.why,
            lane=one.lane or None,
            peer=one.peer or None,
            method=one.method,
            name=one.name or None,
            live=one.live,
            recorded=recorded,
            nearest=tuple(near) or ((Near(seq=compared),) if compared is not None else ()),
            changes=changes,
            last_given=self._last_given(one.lane),
        )
        if not one.is_own:
            # What the gateway asks by itself depends on the era of its core: that is no fault of the core's.
            self.divergences.append(divergence)
        return divergence

    def _last_given(self, lane: str) -> Given | None:
        seq = self._given.get(lane)
        if seq is None:
            return None
        delivery = self.script.deliveries[seq]
        cause = self.script.arrivals.get(delivery.cause) if delivery.cause is not None else None
        what = f"{cause.method} {cause.name}".strip() if cause is not None else delivery.method
        return Given(seq=seq, what=what)

    def _not_recorded(self, one: Asked, divergence: Divergence) -> bytes:
        what = f"`{one.method}`{f' {one.name}' if one.name else ''}"
        facts: dict[str, object] = {"divergence": divergence.cls}
        if divergence.nearest:
            facts["nearest"] = divergence.nearest[0].seq
        if divergence.changes:
            facts["differs"] = [change.pointer for change in divergence.changes[:8]]
        advice = "Record the session again, or `tieline replay --mode extend` to add what is missing"
        return error_object(
            Fault(
                code="invalid_request",
                message=f"Replay: the recording has no answer left for this {what} ({divergence.cls})",
                reason="not_recorded",
                peer=one.peer,
                advice=advice,
                retryable=False,
                details=facts,
            )
        )

    def _tell(
        self,
        cls: DivergenceClass,
        lane: str,
        arrival: Arrival,
        *,
        live: int | None = None,
        detail: str = "",
        changes: tuple[object, ...] = (),
        method: str = "",
    ) -> None:
        self.divergences.append(
            Divergence(
                cls=cls,
                lane=lane or None,
                peer=arrival.peer or None,
                method=method or arrival.method,
                name=arrival.name or None,
                live=live,
                recorded=arrival.seq,
                changes=changes,  # pyright: ignore[reportArgumentType] - they come from `differences`
                detail=detail,
                last_given=self._last_given(lane),
            )
        )

    # -- recorded requests ---------------------------------------------------------------------------------------

    def _params(self, seq: int) -> bytes:
        try:
            return bytes(jsonrpc.read(self.script.body(seq)).params)
        except (jsonrpc.BadMessage, RecordingError):
            return b""

    def _form(self, seq: int) -> Form:
        form = self._memo.forms.get(seq)
        if form is None:
            arrival = self.script.arrivals[seq]
            form = self._memo.forms[seq] = form_of(
                self.script.profile,
                arrival.method,
                arrival.name or None,
                self._params(seq),
                peer=arrival.peer or None,
            )
        return form

    def _outcome(self, seq: int) -> bytes:
        """Everything that a request led to, but for ids: equal where it does not matter which one is taken."""
        known = self._memo.outcomes.get(seq)
        if known is None:
            parts = [_result(self.script.body(one)) for one in self.script.caused_by(seq)]
            known = self._memo.outcomes[seq] = b"\n".join(parts)
        return known


def _result(message: bytes) -> bytes:
    """What an answer, or a message of a peer, says: without its id."""
    try:
        envelope = jsonrpc.read(message)
    except jsonrpc.BadMessage:
        return message
    return bytes(envelope.result or envelope.error or envelope.params)


def _replaced(body: bytes, ours: str, theirs: str) -> bytes:
    before, after = (msgspec.json.encode(text)[1:-1] for text in (ours, theirs))
    whole = rb"(?<![A-Za-z0-9_-])" + re.escape(before) + rb"(?![A-Za-z0-9_-])"
    return re.sub(whole, lambda _: after, body)
