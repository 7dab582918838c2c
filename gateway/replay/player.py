"""One replay of a recording to a live core: live frames come in, recorded deliveries come out.

Owns what has been matched with what. How a difference is told is `telling.py`'s, matching `recordings.matching`'s,
order `recordings.gate`'s; how a delivery reaches the exchange is the shell's business. No clock, nothing waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gateway.protocol import jsonrpc, mcp
from gateway.replay.answers import Answers
from gateway.replay.asking import Asking
from gateway.replay.comparing import result_form
from gateway.replay.hosting import Hosting
from gateway.replay.misses import ONLY_RECORDED, Instead, MissPolicy
from gateway.replay.recollection import Recollection
from gateway.replay.retries import ANSWERS
from gateway.replay.telling import (
    OVERDUE,
    Telling,
    failing,
    not_recorded,
    overdue,
)
from recordings.difference import differences, pointer_of, under
from recordings.divergence import Divergence
from recordings.gate import Gate, Strength
from recordings.matching import Line, Live, Match, Matcher, Miss, Recorded
from recordings.profile import consumption
from recordings.script import EVENT_HOOK, LISTEN
from recordings.scripted import Delivery

HANDSHAKES = frozenset(("initialize", "server/discover"))
"""How a core greets depends on its era, which need not be that of the recorded one."""
UNTOLD = HANDSHAKES | {"ping", "pi/offers"}
"""What no recording has to hold: greetings, and how often a core looks whether we are there."""


class Asked(msgspec.Struct, eq=False):
    """A live request, and what became of it."""

    live: int
    peer: str
    lane: str
    method: str
    name: str
    recorded: int | None = None
    miss: Divergence | None = None
    is_own: bool = False
    refused: bool = False
    is_taken_back: bool = False
    is_unsaid: bool = False
    """Whether it asks an extension about a request that the core left before the extension was there."""
    is_answered: bool = False
    """Whether the gateway itself has answered it, or has said that it listens."""
    listens: bytes = b""
    """Of a listening of the gateway's own that is not recorded: its params."""
    instead: Instead = "error"
    """What it is given where the recording has nothing."""
    went_live: bool = False


class Act(NamedTuple):
    """What is to be done next: a recorded frame delivered, or a request answered with why it cannot be."""

    delivery: Delivery | None = None
    answer: Asked | None = None
    message: bytes = b""
    """With `answer`: a whole answer, under whatever id."""
    divert: Asked | None = None
    """A request that goes to a live service."""
    listening: Asked | None = None
    """A listening of the gateway's own, to be acknowledged as it was asked for."""


class Player:
    """One live session against one script."""

    def __init__(
        self,
        recollection: Recollection,
        *,
        strength: Strength,
        path: str = "",
        misses: MissPolicy = ONLY_RECORDED,
        redact: Callable[[bytes], bytes] = bytes,
    ) -> None:
        """`redact` takes secrets out of live bodies, as they were taken out of the recorded ones."""
        script = recollection.script
        self.script = script
        self.gate = Gate(script, strength)
        self.misses = misses
        self.path = path
        self._known = recollection
        self._redact = redact
        self._telling = Telling(recollection, redact)
        self._tell = self._telling.tell
        requests = [
            Recorded(
                seq=arrival.seq,
                at=arrival.at,
                peer=arrival.peer,
                lane=arrival.lane,
                method=arrival.method,
                name=arrival.name,
                consumption=recollection.consumption(arrival),
                is_own=arrival.is_own,
            )
            for arrival in script.arrivals.values()
            if arrival.kind == "request"
        ]
        self._matcher = Matcher(
            requests, form=recollection.form, outcome=recollection.outcome, strict=misses.is_strict
        )
        self._asked: dict[int, Asked] = {}
        self._live_of: dict[int, int] = {}
        self._suspended: dict[int, int] = {}
        """Live frames that have given the core questions, and the requests that they were given for."""
        self._unsaid: list[Asked] = []
        """What the gateway has asked that is not recorded, and is given no answer as long as somebody is to wait."""
        self._answered: set[int] = set()
        self._acts: deque[Act] = deque()
        self._contested: list[int] | None = None
        """Those of the contested requests that have not come, the next one last; None until it is asked for."""
        self._answers = Answers(recollection, self._telling)
        self.renames = self._answers.renames
        self.body_for = self._answers.body_for
        self.unreadable = self._answers.unreadable
        self._given = self._telling.given
        self.delivering: int | None = None
        """The recorded frame that is being delivered at this moment."""
        self._now = 0
        self.divergences = self._telling.divergences
        self.last_given = self._telling.last_given
        self.asking = Asking(
            script,
            self._telling,
            live_of=self._live_of,
            answered=self._answered,
            happened=self.gate.happened,
        )
        """What recorded peers ask of the core."""
        self._recorded_of = self.asking.recorded_of
        self.hosting = Hosting(
            script, recorded_of=self._recorded_of, answered=self._answered, divergences=self.divergences
        )
        """What recorded extensions asked of the gateway."""
        self.faults: list[Exception] = []
        """What has gone wrong in the replay itself."""
        self._struck: set[int] = set()
        """Live requests that such a fault has struck."""
        self.relaxed = 0
        self.ambiguous = 0
        self.live_calls = 0
        """Requests that a live service answers."""

    # -- what the live side does -------------------------------------------------------------------------------

    def asked(
        self,
        live: int,
        *,
        peer: str,
        lane: str,
        method: str,
        name: str,
        params: bytes,
        is_own: bool,
        parent: int | None = None,
        op: int | None = None,
    ) -> Asked:
        """A live request, of the core or, for `parent` or as a part of `op`, of the gateway: find the recorded one."""
        lane = lane if self.script.has_lanes else ""
        one = Asked(live, peer, lane, method, name, is_own=is_own)
        self._asked[live] = one
        params = self._redact(params)
        form = self._known.live_forms.form(method, name or None, params, peer=peer or None)
        wanted = Live(peer, lane, method, name, form, is_own)
        eligible = self.gate.is_open if not lane else None
        made_for = self._made_for(wanted, parent) if is_own and parent is not None else None
        found = made_for or self._matcher.match(wanted, now=self._now, eligible=eligible)
        is_leg = is_own and parent in self._recorded_of and ANSWERS in params
        if isinstance(found, Miss):
            if ANSWERS in params and self._retries(one, params, parent):
                return one
            one.miss = self._telling.missed(live, found, wanted, params)
            one.listens = params if self._listens_again(one, op) else b""
            one.instead = self._choose(one)
            # What the gateway asks by itself depends on the era of its core, and what is asked live is no fault: only
            # the others are told of, and what an extension was not asked about a recorded request.
            one.is_unsaid = method == EVENT_HOOK and self._was_left(parent)
            is_leg = is_leg or (method == EVENT_HOOK and self._is_recorded(parent) and not one.is_unsaid)
            if is_leg or not (one.is_own or method in UNTOLD or one.instead == "live"):
                self.divergences.append(one.miss)
            return one
        self._take(one, found, wanted)
        return one

    def _is_recorded(self, live: int | None) -> bool:
        return live is not None and self.recorded_of(live) is not None

    def _was_left(self, live: int | None) -> bool:
        """Whether a live request is a recorded one that was taken back, with no answer of anybody before that."""
        seq = self.recorded_of(live) if live is not None else None
        if seq is None or seq in self.script.given_here or seq in self.script.refusals:
            return False
        return self.script.is_taken_back(seq) and not self.script.arrivals[seq].answered

    def line_of(self, peer: str, method: str, name: str, params: bytes) -> Line | None:
        """The recorded requests that a live one of the core, without a lane, is one after the other, as they come.

        None where `asked` may find another one, or rename values.
        """
        form = self._known.live_forms.form(method, name or None, self._redact(params), peer=peer)
        return self._matcher.line_of(Live(peer, "", method, name, form))

    def takes(self, one: Recorded) -> None:
        """A live request is the recorded one that was the next of its line: as `asked`, whose steps these are."""
        one.used = True
        if one.at > self._now:
            self._now = one.at
        self.gate.happened(one.seq)

    def answers_one(self, one: Recorded, answer: Delivery) -> bool:
        """As `answers_next`, for one that is next (`Gate.is_next`)."""
        one.used = True
        if one.at > self._now:
            self._now = one.at
        if answer.at > self._now:
            self._now = answer.at
        request, seq, answered = one.seq, answer.seq, self._answered
        answered.add(request)
        answered.add(seq)
        self._given[answer.lane] = seq
        return self.gate.pass_one(request, seq)

    def answers_next(self, answers: Sequence[Delivery], taken: Sequence[Recorded], pairs: list[int]) -> bool:
        """Requests that follow (`Gate.follows`) are taken, and their answers delivered; as `takes` and `delivered`.

        Returns whether nothing else is due then.
        """
        now = self._now
        for one, each in zip(taken, answers, strict=True):
            one.used = True
            now = max(now, one.at, each.at)
            self._given[each.lane] = each.seq
        self._now = now
        self._answered.update(pairs)
        return self.gate.passes(pairs)

    def enter(self, one: Asked) -> None:
        """A request that was taken so is not answered at once: keep what became of it, as `asked` does."""
        self._asked[one.live] = one
        if one.recorded is not None:
            self._live_of[one.recorded] = one.live

    def _made_for(self, wanted: Live, parent: int) -> Match | None:
        """The request that the gateway made by itself for the same request of the core, of all that are equal to it."""
        asked = self._asked.get(parent)
        if asked is None or asked.recorded is None:
            return None
        for seq in self.script.made_for(asked.recorded):
            one = self._matcher.by_seq[seq]
            is_it = (one.peer, one.method, one.name) == (wanted.peer, wanted.method, wanted.name)
            # By which name a tool is known that an extension is asked about depends on which lists have come.
            is_it = is_it and (one.method == EVENT_HOOK or self._known.form(seq).key == wanted.form.key)
            if is_it and not one.used:
                one.used = True
                return Match(seq)
        return None

    def _take(self, one: Asked, found: Match, wanted: Live) -> None:
        seq = one.recorded = found.seq
        if not found.again:
            self._live_of[seq] = one.live
        self.relaxed += found.relaxed
        self.ambiguous += found.ambiguous
        self._answers.learn(one.lane, self._matcher.bind(seq, wanted))
        self._now = max(self._now, self.script.arrivals[seq].at)
        if found.again:
            if self.script.arrivals[seq].peer:
                self._acts.append(Act(answer=one, message=self._answers.recorded(one, seq)))
        elif not self._answers.are_recorded(seq):
            self._acts.append(Act(answer=one, message=self._answers.none(one, seq)))
        self.gate.happened(seq)

    def _retries(self, one: Asked, params: bytes, parent: int | None) -> bool:
        """Whether a request goes on after a question as, when it was recorded, the other side of the gateway did.

        The gateway goes on itself for a legacy core, while a modern one comes back.
        """
        known = self._known.retries
        if one.is_own:
            asked = self._recorded_of.get(parent) if parent is not None else None
            seq = (
                known.by_core(asked, lambda seq: self._matcher.by_seq[seq].used)
                if asked is not None
                else None
            )
        else:
            asked = known.asked_before((one.peer, one.method, one.name), params, self._answered.__contains__)
            seq = known.by_gateway(asked) if asked is not None else None
        if asked is None or seq is None or self._matcher.by_seq[seq].used:
            return False
        one.recorded, one.lane = seq, self.script.deliveries[asked].lane
        self._live_of[seq] = one.live
        self._matcher.by_seq[seq].used = True
        for told in known.answers(asked, seq, params):
            ours, theirs = (
                result_form(self.script.profile, one.peer, told.method, body)
                for body in (told.recorded, told.live)
            )
            if ours.key == theirs.key:
                self._answers.learn(one.lane, self._matcher.learn(one.lane, ours, theirs))
                continue
            where = pointer_of(("params", "inputResponses", told.key))
            changes = under(where, differences(told.recorded, told.live))
            arrival = self.script.arrivals[seq]
            self._tell(
                "answer-differs", one.lane, arrival, live=one.live, changes=changes, method=told.method
            )
        for question in self.script.passed_on.get(asked, ()):
            answer = self.script.answer_of(question)
            if answer is not None:
                # It has come as a part of this request.
                self._answered.add(answer)
                self.gate.happened(answer)
        self._now = max(self._now, self.script.arrivals[seq].at)
        if not self._answers.are_recorded(seq):
            self._acts.append(Act(answer=one, message=self._answers.none(one, seq)))
        self.gate.happened(seq)
        return True

    def cancelled(self, live: int | None) -> None:
        """The core does not want an answer any more."""
        one = self._asked.get(live) if live is not None else None
        if one is None:
            return
        one.is_taken_back = True
        if self._unsaid and not self._finds_no_owner(self._unsaid[0].method):
            unsaid, self._unsaid = self._unsaid, []
            self._acts.extend(self._instead(each, each.miss) for each in unsaid if each.miss is not None)
        if one.recorded is None:
            return
        cancel = self.script.cancel_of(one.recorded)
        if cancel is not None:
            self._answered.add(cancel)
            self.gate.happened(cancel)
            self._asks_no_more(one.recorded)
        elif one.recorded not in self._answered:
            arrival = self.script.arrivals[one.recorded]
            why = "the core takes back a request that was answered when it was recorded"
            self._tell("race", one.lane, arrival, live=one.live, detail=why)

    def _asks_no_more(self, request: int) -> None:
        """Nobody is asked about a request any more that was taken back: no other delivery waits for that."""
        for asked in self.script.made_for(request):
            if self.script.arrivals[asked].is_hook and not self.has_come(asked):
                self.gate.give_up(asked)

    def is_early(self, live: int) -> bool:
        """Whether the recorded core took such a request back after more had come of it than has come by now."""
        seq = self.recorded_of(live)
        cancel = self.script.cancel_of(seq) if seq is not None else None
        if seq is None or cancel is None:
            return False
        return any(one < cancel and one not in self._answered for one in self.script.course_of(seq))

    def answered_live(self, request: int | None, live: int, body: bytes) -> None:
        """A live peer has answered, by the frame `live`: compare that with what it had answered when recorded."""
        one = self._asked.get(request) if request is not None else None
        if one is None or one.recorded is None or one.is_own:
            return
        answer = self.script.given_live.get(one.recorded)
        if answer is None:
            return
        arrival = self.script.arrivals[one.recorded]
        self._telling.answered(
            answer, body, to=arrival, lane=one.lane, peer=one.peer, method=one.method, live=live
        )

    def came(self, live: int, *, is_question: bool) -> None:
        """A message of a peer has passed; a question is on its way to the core."""
        if self.delivering is not None:
            self.asking.came(live, self.delivering, is_question=is_question)

    def goes_on(self, live: int, parent: int | None) -> bool:
        """The core comes back with answers, after `parent` had given it questions.

        That is the request of before where the core of the recording was asked by messages of their own; False where
        it is a recorded request itself.
        """
        before = self._suspended.get(parent) if parent is not None else None
        if before is None or before not in self._asked or self.script.suspensions:
            return False
        self._asked[live] = self._asked[before]
        return True

    def suspended(self, live: int | None, seq: int) -> None:
        """The core is given a question of a peer as the answer to its request, by the frame `seq`."""
        one = self._asked.get(live) if live is not None else None
        if live is not None:
            self._suspended[seq] = live
        then = (
            self.script.suspensions.get(one.recorded)
            if one is not None and one.recorded is not None
            else None
        )
        if then is not None:
            self.gate.happened(then)

    def refused(self, live: int | None) -> None:
        """The gateway itself has refused a live request: no peer will be asked."""
        one = self._asked.get(live) if live is not None else None
        if one is not None and not one.refused:
            one.refused = True
            if one.recorded is not None:
                self.gives_up(one.recorded)
            elif one.instead == "live" and one.miss is not None:
                self.live_calls -= one.went_live
                self.divergences.append(replace(one.miss, detail="no live service has answered it"))

    def given(self, live: int | None, seq: int, kind: str, *, asks: bool) -> None:
        """The gateway itself has answered a request of the core by the frame `seq`, or has said that it listens.

        A response that `asks` is a question of a peer.
        """
        one = self._asked.get(live) if live is not None else None
        if one is not None:
            one.is_answered = True
        if kind == "error":
            self.refused(live)
        elif kind == "response" and asks:
            self.suspended(live, seq)

    def open_before(self, end: Delivery) -> Iterator[int]:
        """Open requests of the core, by live number, that had come to an end or to that peer before it went."""
        script = self.script
        for one in self._asked.values():
            seq = one.recorded
            if seq is None or seq > end.seq or one.is_own or one.is_answered or one.is_taken_back:
                continue
            answer = script.given_here.get(seq, script.refusals.get(seq, script.acknowledged.get(seq)))
            cancel = script.cancel_of(seq)
            is_answered = answer is not None and answer < end.seq
            is_there = (
                script.arrivals[seq].peer == end.peer
                and not self._was_held(seq, end)
                and (answer is None or answer > end.seq)
                and (cancel is None or cancel > end.seq)
                and seq not in self._answered
            )
            if is_answered or is_there:
                yield one.live

    def _was_held(self, request: int, end: Delivery) -> bool:
        """Whether an extension had been asked about a request before a peer went, and had not answered by then."""
        script = self.script
        return any(
            script.arrivals[own].is_hook
            and own < end.seq
            and not any(one < end.seq for one in script.caused_by(own))
            for own in script.made_for(request)
        )

    def dispatched(self, live: int) -> None:
        """A live request has come to its peer; one without a recorded answer is told so."""
        one = self._asked.get(live)
        if one is not None and live in self._struck:
            self._acts.append(Act(answer=one, message=jsonrpc.error(None, failing(one.peer))))
        elif one is not None and one.listens:
            # How often it listens depends on when it learns what: who waits for that is not kept waiting.
            self._acts.append(Act(listening=one))
        elif one is not None and one.is_unsaid:
            # Nobody decided about that when it was recorded.
            pass
        elif one is not None and one.miss is not None and one.is_own and self._finds_no_owner(one.method):
            # The gateway would answer by what it learns from that, and had nothing to go by when it was recorded.
            self._unsaid.append(one)
        elif one is not None and one.miss is not None:
            self._acts.append(self._instead(one, one.miss))
        elif one is not None and one.recorded is not None and self._was_given_here(one.recorded):
            # No peer was there for it when it was recorded.
            self._acts.append(Act(answer=one, message=self._answers.of_gateway(one, one.recorded)))

    def _finds_no_owner(self, method: str) -> bool:
        """Whether a list is asked for while a request is open whose owner was looked for until it was taken back."""
        return method in mcp.LIST_METHODS and any(
            one.recorded is not None
            and not (one.is_own or one.is_taken_back or one.refused or one.method == LISTEN)
            and not self.script.arrivals[one.recorded].peer
            and self.script.cancel_of(one.recorded) is not None
            for one in self._asked.values()
        )

    def _was_given_here(self, seq: int) -> bool:
        """Whether the gateway itself answered a request, and asked no peer in the course of it."""
        return seq in self.script.given_here and not self.script.arrivals[seq].peer

    def listens_again(self, live: int) -> bool:
        """Whether a live request is a listening of the gateway's own that is not recorded."""
        one = self._asked.get(live)
        return one is not None and bool(one.listens)

    def failed(self, fault: Exception, asked: Asked | None = None) -> None:
        """The replay itself has a fault: it is told, and a request that it strikes is answered with that."""
        self.faults.append(fault)
        if asked is not None:
            self._asked.setdefault(asked.live, asked)
            self._struck.add(asked.live)

    def _listens_again(self, one: Asked, op: int | None) -> bool:
        """Whether the gateway listens more often than recorded, for who has listened: no change comes of it."""
        if not one.is_own or one.method != LISTEN:
            return False
        asked = self._asked.get(op) if op is not None else None
        return (asked is not None and asked.recorded is not None) or any(
            each.method == LISTEN and each.peer == one.peer for each in self.script.arrivals.values()
        )

    def _choose(self, one: Asked) -> Instead:
        if one.is_own:
            return "error"
        taken = consumption(
            self.script.profile,
            one.method,
            one.name or None,
            peer=one.peer,
            annotations=self._known.tools.annotations(one.peer, one.name),
        )
        return self.misses.instead(one.peer, one.method, taken)

    def _instead(self, one: Asked, miss: Divergence) -> Act:
        """What a request without a recorded answer is given."""
        instead = one.instead
        if instead == "live":
            one.went_live = True
            self.live_calls += 1
            return Act(divert=one)
        if instead == "stub" and one.method == "tools/call":
            return Act(answer=one, message=jsonrpc.response(0, self._known.tools.stub(one.peer, one.name)))
        if instead == "nearest" and miss.nearest and self.script.arrivals[miss.nearest[0].seq].answered:
            return Act(answer=one, message=self._answers.recorded(one, miss.nearest[0].seq))
        return Act(
            answer=one, message=jsonrpc.error(None, not_recorded(one.peer, one.method, one.name, miss))
        )

    # -- what is to be done --------------------------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        """Whether there is something to do beside deliveries."""
        return bool(self._acts)

    def take(self) -> Act | None:
        """The next thing to do, or None. A delivery counts as made once `delivered` says so."""
        if self._acts:
            return self._acts.popleft()
        seq = self.gate.take()
        return Act(delivery=self.script.deliveries[seq]) if seq is not None else None

    def delivered(self, delivery: Delivery) -> None:
        """A delivery was made, or is given up."""
        self.gate.delivered(delivery.seq)
        self._answered.add(delivery.seq)
        if delivery.at > self._now:
            self._now = delivery.at
        self._given[delivery.lane] = delivery.seq
        if delivery.cause is not None and delivery.is_answer:
            self._answered.add(delivery.cause)

    def recorded_of(self, live: int) -> int | None:
        """The recorded request that a live one was matched with."""
        one = self._asked.get(live)
        return one.recorded if one is not None else None

    def gives_up(self, recorded: int) -> None:
        """A recorded request will not be answered as recorded."""
        self.gate.give_up(recorded)

    def leaves_out(self, delivery: Delivery) -> None:
        """A delivery cannot be made in this run: what comes after it is not held back by it."""
        self.gate.delivered(delivery.seq)

    def allowance_s(self, live: int) -> float:
        """How long the recorded core had waited in vain before it took such a request back; 0 where it had not."""
        seq = self.recorded_of(live)
        at = self.script.taken_back_at(seq) if seq is not None else None
        return (at - self.script.arrivals[seq].at) / 1e9 if at is not None and seq is not None else 0.0

    def overdue(self, live: int, method: str) -> bytes:
        """Nothing that is recorded answers a live request any more: tell so, and return the error that does."""
        one = self._asked.get(live)
        seq = one.recorded if one is not None else None
        if seq is not None:
            arrival = self.script.arrivals[seq]
            if not arrival.is_own:
                self._tell("timeout", arrival.lane, arrival, live=live, detail=OVERDUE)
            self.gate.give_up(seq)
        return overdue(one.peer if one is not None else "", method)

    def is_moot(self, delivery: Delivery) -> bool:
        """Whether a delivery has nobody to go to: what it belongs to was taken back before its peer had heard of it."""
        live = self._live_of.get(delivery.cause) if delivery.cause is not None else None
        return live is not None and self._asked[live].is_taken_back

    def live_of(self, recorded: int | None) -> int | None:
        """The live number of a recorded request or question."""
        return self._live_of.get(recorded) if recorded is not None else None

    @property
    def needs_settling(self) -> bool:
        """Whether the core should be given a moment before the next delivery: its next words may decide a match."""
        if not (self._known.contested or self._known.contested is None) or not self.gate.is_contested:
            return False
        if self._known.contested is None:
            self._known.contested = frozenset(self._matcher.contested())
        if self._contested is None:
            self._contested = sorted(self._known.contested, reverse=True)
        while self._contested and self._matcher.by_seq[self._contested[-1]].used:
            self._contested.pop()
        return bool(self._contested)

    def lose_patience(self) -> bool:
        """Nothing has happened for long: tell of the arrivals that are waited for, and go on without them."""
        return self._do_without(self.gate.held)

    def lose_patience_with(self, live: int) -> bool:
        """As `lose_patience`, for what the recorded answers to one live request wait for."""
        recorded = self.recorded_of(live)
        if recorded is None:
            return False
        waiting = [one for one in self.script.caused_by(recorded) if not self.has_come(one)]
        return self._do_without(sorted({seq for one in waiting for seq in self.gate.held_before(one)}))

    def _do_without(self, held: Sequence[int]) -> bool:
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

    def has_come(self, seq: int) -> bool:
        """Whether a recorded arrival or delivery has come again."""
        return seq in self._live_of or seq in self._answered
