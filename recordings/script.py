"""The causal script of a recording: what the core has sent, what its peers have sent, and what had to happen first.

Owns the reading of recorded frames as causes and effects. Decides nothing about a replay that is under way: `matching`
finds the recorded request for a live one, `gate` says when a recorded frame may be delivered again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recordings.columns import Told
from recordings.frame import HOP
from recordings.held import Source
from recordings.hostcalls import HostCalls
from recordings.profile import Consumption, Profile, consumption
from recordings.scripted import Arrival, ArrivalKind, Delivery, DeliveryKind, Meeting

CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
LISTEN = "subscriptions/listen"
EVENT_HOOK = "pi/event_hook"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
BEGINNINGS = (PROGRESS, ACKNOWLEDGED)
"""Notifications that a request alone brings about; what else comes on its stream has causes of its own."""


class Script:
    """One recording, read for replay. Immutable once it is made: any number of replays share it."""

    def __init__(self, source: Source, profile: Profile, *, live: frozenset[str] = frozenset()) -> None:
        """`live` are peers that are not played: what they have said is delivered by nobody, and held back by none."""
        self.profile = profile
        self.live = live
        self.source = source
        self.arrivals: dict[int, Arrival] = {}
        self.deliveries: dict[int, Delivery] = {}
        self.meetings: dict[str, list[Meeting]] = {}
        self.has_lanes = False
        self._caused: dict[int, list[int]] = {}
        self.refusals: dict[int, int] = {}
        """Requests that the gateway itself refused, and the frame that says so."""
        self.passed_on: dict[int, list[int]] = {}
        """Questions that the gateway put to the core because an answer of a peer held them, by that answer."""
        self._passed: dict[int, tuple[int, str]] = {}
        self.suspensions: dict[int, int] = {}
        """Requests that the gateway answered with a question of their peer, and that answer."""
        self.given_here: dict[int, int] = {}
        """Requests that the gateway itself gave a result, if only one that asks, and the frame of that."""
        self.acknowledged: dict[int, int] = {}
        """Listenings of the core, and the frame that says that the gateway listens for it."""
        self.greetings: dict[str, int] = {}
        """Shared peers that were ready before the session began, and the frame that holds their greeting."""
        self.ends: dict[str, int] = {}
        """Peers that went by themselves, and the last frame that says so."""
        self.host_calls = HostCalls()
        self._shaking: set[str] = set()
        self._cancels: dict[int, int] = {}
        self._answers: dict[int, int] = {}
        self.given_live: dict[int, int] = {}
        """Requests that a live peer had answered, and that answer."""
        self._dropped: dict[int, int] = {}
        self._legs: dict[int, list[int]] = {}
        """Requests that the gateway made in the course of one of the core's."""
        self._listens: dict[int, list[int]] = {}
        """Listenings that the gateway began at peers for one of the core."""
        self._made_for: dict[int, list[int]] = {}
        """Requests that the gateway made by itself, by the one of the core that they were made for."""
        for row in source.rows():
            self._see(row)

    def body(self, seq: int) -> bytes:
        """The recorded bytes of a frame.

        Raises:
            RecordingError: Its blob is missing or damaged.
        """
        return self.source.body(seq)

    def caused_by(self, request: int) -> Sequence[int]:
        """The deliveries that would not be without this recorded request, in order."""
        return self._caused.get(request, ())

    def legs_of(self, request: int) -> Sequence[int]:
        """The requests that the gateway made by itself to bring this one to its end, in order."""
        return self._legs.get(request, ())

    def made_for(self, request: int) -> Sequence[int]:
        """What the gateway asked by itself before it passed a request of the core on or answered it, in order."""
        return self._made_for.get(request, ())

    def course_of(self, request: int) -> Iterator[int]:
        """The deliveries that would not be without a request: its own, and those of what was asked in its course."""
        yield from self.caused_by(request)
        for own in (*self.made_for(request), *self.legs_of(request), *self._listens.get(request, ())):
            yield from self.course_of(own)

    def cancel_of(self, request: int) -> int | None:
        """The recorded cancel of a request."""
        return self._cancels.get(request)

    def answer_of(self, question: int) -> int | None:
        """The core's recorded answer to a question."""
        return self._answers.get(question)

    def question(self, seq: int) -> tuple[Delivery, str]:
        """Who has asked the core a question, and by which method. An answer of a peer may hold several."""
        parent, method = self._passed.get(seq, (seq, ""))
        delivery = self.deliveries[parent]
        return delivery, method or delivery.method

    def is_known(self, seq: int) -> bool:
        """Whether that is a question to the core, of a peer or put on behalf of one."""
        return seq in self.deliveries or seq in self._passed

    def is_question(self, seq: int, method: str) -> bool:
        """Whether a recorded question of the gateway's own is one by this method."""
        return self._passed[seq][1] == method

    def is_taken_back(self, request: int) -> bool:
        """Whether nobody waited for an answer in the end: the core cancelled, or went."""
        return request in self._cancels or request in self._dropped

    def taken_back_at(self, request: int) -> int | None:
        """When that was; None where somebody waited to the end."""
        cancel = self._cancels.get(request)
        return self.arrivals[cancel].at if cancel is not None else self._dropped.get(request)

    @property
    def awaited(self) -> Iterator[Arrival]:
        """What a whole replay has to see, in order."""
        return (arrival for arrival in self.arrivals.values() if not arrival.is_loose)

    def _see(self, frame: Told) -> None:
        way = frame.way
        if frame.peer is not None and HOP in frame.peer:
            # What an adapter says to its service is its own business.
            return
        if way == "core>":
            self._from_core(frame)
        elif way == ">peer":
            self._to_peer(frame)
        elif way == "peer>":
            self._from_peer(frame)
        elif way == ">core":
            self._to_core(frame)
        elif way == "inside":
            self._inside(frame)

    def _to_peer(self, frame: Told) -> None:
        if frame.kind == "request":
            about = self.arrivals.get(frame.parent) if frame.parent is not None else None
            is_hook = frame.method == EVENT_HOOK and about is not None and not about.is_loose
            self._arrive(frame, "request", is_own=True, is_hook=is_hook)
            if frame.method == LISTEN and frame.op is not None:
                self._listens.setdefault(frame.op, []).append(frame.seq)
            if frame.parent in self.arrivals:
                self._made_for.setdefault(frame.parent, []).append(frame.seq)
            made_by = self.deliveries.get(frame.parent) if frame.parent is not None else None
            if made_by is not None and made_by.cause is not None:
                self._legs.setdefault(made_by.cause, []).append(frame.seq)
        elif frame.method == CANCELLED and frame.re is not None:
            self._dropped.setdefault(frame.re, frame.at)
        else:
            self.host_calls.gives(frame)

    def _to_core(self, frame: Told) -> None:
        if frame.kind == "error" and frame.re in self.arrivals:
            self.refusals[frame.re] = frame.seq
        elif frame.kind == "response" and frame.re in self.arrivals:
            # The gateway's own answer, or a question that is put to the core as one.
            self.given_here[frame.re] = frame.seq
            if frame.peer:
                self._arrive(frame, "suspension", is_own=True)
                self.suspensions[frame.re] = frame.seq
        elif frame.method == ACKNOWLEDGED and frame.re is not None:
            self.acknowledged[frame.re] = frame.seq
        elif frame.kind == "request" and frame.parent is not None:
            self.passed_on.setdefault(frame.parent, []).append(frame.seq)
            self._passed[frame.seq] = frame.parent, frame.method or ""

    def _from_core(self, frame: Told) -> None:
        if frame.lane:
            self.has_lanes = True
        if frame.kind == "request":
            self._arrive(frame, "request")
        elif frame.kind in ("response", "error") and frame.re is not None:
            if self.live and not self.is_known(frame.re):
                # Of one that is live, which may ask or not.
                return
            self._arrive(frame, "answer")
            self._answers[frame.re] = frame.seq
        elif (frame.method == CANCELLED or frame.kind == "close") and frame.re is not None:
            # A connection that carries one request takes it back by ending.
            self._arrive(frame, "cancel")
            self._cancels[frame.re] = frame.seq

    def _arrive(self, frame: Told, kind: ArrivalKind, *, is_own: bool = False, is_hook: bool = False) -> None:
        method = frame.method or ""
        lane = frame.lane or self._lane_of(frame.re if kind != "request" else frame.parent)
        taken: Consumption = (
            consumption(self.profile, method, frame.name, peer=frame.peer) if kind == "request" else "fifo"
        )
        if kind == "cancel" and frame.re in self.arrivals and self.arrivals[frame.re].is_loose:
            taken = "sticky"
        self.arrivals[frame.seq] = Arrival(
            seq=frame.seq,
            at=frame.at,
            kind=kind,
            peer=frame.peer or "",
            lane=lane,
            method=method,
            name=frame.name or "",
            after=frame.after,
            re=frame.re,
            consumption=taken,
            is_own=is_own,
            is_hook=is_hook,
        )

    def _lane_of(self, seq: int | None) -> str:
        """The lane of what a frame refers to: a cancel, an answer or a further leg belongs where its cause does."""
        if seq is None:
            return ""
        arrival = self.arrivals.get(seq)
        if arrival is not None:
            return arrival.lane
        delivery = self.deliveries.get(self._passed[seq][0] if seq in self._passed else seq)
        return delivery.lane if delivery is not None else ""

    def _from_live(self, frame: Told) -> None:
        """What a peer has said that is live now."""
        asked = self.arrivals.get(frame.re) if frame.re is not None else None
        if asked is not None and frame.kind in ("response", "error"):
            asked.answered = True
            asked.peer = asked.peer or frame.peer or ""
            self.given_live[asked.seq] = frame.seq

    def _from_peer(self, frame: Told) -> None:
        if frame.peer in self.live:
            self._from_live(frame)
            return
        if frame.kind == "raw":
            if (self.source.frame(frame.seq).x or {}).get("stream") != "stderr":
                if frame.parent in self.arrivals:
                    # A damaged answer ends its request too.
                    self.arrivals[frame.parent].answered = True
                self._deliver(frame, "stray", frame.parent)
            return
        if frame.kind in ("response", "error", "late"):
            cause = frame.re
            if cause is not None and cause in self.arrivals:
                self.arrivals[cause].answered = True
            if cause is None:
                self._deliver(frame, "message", frame.parent)
            else:
                self._deliver(frame, "message", cause, is_answer=True)
        elif frame.kind == "request":
            self._deliver(frame, "message", frame.parent, is_question=True)
            self.host_calls.asks(frame)
        elif frame.kind in ("notification", "chunk"):
            self._deliver(
                frame, "message", frame.re if frame.re is not None else self._stream_of(frame.parent)
            )

    def _stream_of(self, seq: int | None) -> int | None:
        """The request that a notification belongs to, which may name a question that was asked about it."""
        question = self.deliveries.get(seq) if seq is not None else None
        return question.cause if question is not None else seq

    def _deliver(
        self,
        frame: Told,
        kind: DeliveryKind,
        cause: int | None,
        *,
        is_answer: bool = False,
        is_question: bool = False,
    ) -> None:
        asked = self.arrivals.get(cause) if cause is not None else None
        if asked is not None:
            self._caused.setdefault(asked.seq, []).append(frame.seq)
            if not asked.peer and frame.peer:
                # The gateway had to look for the owner of a name first.
                asked.peer = frame.peer
        self.deliveries[frame.seq] = Delivery(
            seq=frame.seq,
            at=frame.at,
            kind=kind,
            peer=frame.peer or "",
            life=frame.life,
            lane=asked.lane if asked is not None else (frame.lane or ""),
            cause=cause if asked is not None else None,
            # Time runs out after all that came before it.
            after=frame.seq if kind == "timeout" else frame.after,
            method=frame.method or "",
            is_loose=asked is not None
            and asked.is_loose
            # The answer to a listening is the end of what it tells.
            and ((is_answer and asked.method != LISTEN) or frame.method in BEGINNINGS),
            is_settled=not (frame.peer in self._shaking or (asked is not None and asked.is_own)),
            is_answer=is_answer,
            is_question=is_question,
        )

    def _learn_of_requests(self, frame: Told) -> None:
        """What the gateway says of a request: whose it is, and that nobody waits for it any more."""
        asked = self.arrivals.get(frame.re) if frame.re is not None else None
        if asked is not None and not asked.peer and frame.peer:
            asked.peer = frame.peer
        if frame.kind == "drop" and frame.re is not None:
            for seq in (frame.re, *self._legs.get(frame.re, ())):
                self._dropped.setdefault(seq, frame.at)

    def _inside(self, frame: Told) -> None:
        self._learn_of_requests(frame)
        if frame.peer not in self.live:
            self._decide(frame)

    def _decide(self, frame: Told) -> None:
        self.host_calls.decides(frame)
        if frame.kind not in ("open", "ready", "close", "timeout", "fault"):
            return
        x = self.source.frame(frame.seq).x or {}
        peer = frame.peer or ""
        if frame.kind == "open":
            self._shaking.add(peer)
            meeting = Meeting(seq=frame.seq, peer=peer, life=int(x.get("life", 1)))
            self.meetings.setdefault(peer, []).append(meeting)
        elif frame.kind == "ready":
            self._shaking.discard(peer)
            if x.get("greeted") == "before":
                self.greetings[peer] = frame.seq
        elif frame.kind == "close" and peer and "asked" not in x:
            self._shaking.discard(peer)
            self.ends[peer] = frame.seq
            self._deliver(frame, "ended", None)
        elif frame.kind == "timeout":
            self._deliver(frame, "timeout", frame.re)
        elif frame.kind == "fault" and x.get("event") == "failed":
            self._deliver(frame, "failed", frame.re)
        elif frame.kind == "fault" and x.get("event") == "unreachable":
            if peer in self._shaking:
                # What the peer answered to the handshake says so, and will again.
                self._shaking.discard(peer)
            else:
                self.meetings.setdefault(peer, []).append(Meeting(seq=frame.seq, peer=peer))
