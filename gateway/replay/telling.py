"""What a replay says where it differs from its recording: divergences, and the errors in the place of answers.

Owns their wording, and what each lane was given last, which is told with them. What differs is found elsewhere. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.protocol.errors import Fault, error_object
from gateway.replay.comparing import changes_of
from gateway.replay.recollection import Recollection
from recordings.difference import Change, differences, under
from recordings.divergence import Divergence, DivergenceClass, Given, Near
from recordings.errors import RecordingError
from recordings.matching import Live, Miss
from recordings.scripted import Arrival


class Telling:
    """The divergences of one replay."""

    def __init__(self, recollection: Recollection, redact: Callable[[bytes], bytes]) -> None:
        self._known = recollection
        self._redact = redact
        self.divergences: list[Divergence] = []
        self.given: dict[str, int] = {}
        """What each lane was last given, by the number of the recorded frame."""

    def tell(
        self,
        cls: DivergenceClass,
        lane: str,
        arrival: Arrival,
        *,
        live: int | None = None,
        detail: str = "",
        changes: tuple[Change, ...] = (),
        method: str = "",
    ) -> None:
        """Something is not as it was recorded."""
        self.divergences.append(
            Divergence(
                cls=cls,
                lane=lane or None,
                peer=arrival.peer or None,
                method=method or arrival.method,
                name=arrival.name or None,
                live=live,
                recorded=arrival.seq,
                changes=changes,
                detail=detail,
                last_given=self.last_given(lane),
            )
        )

    def missed(self, live: int, miss: Miss, wanted: Live, params: bytes) -> Divergence:
        """What is to be told of a live request that no recorded one matches; `params` are without secrets."""
        recorded = miss.seqs[0] if miss.seqs else None
        near = self._known.near(wanted, params)
        compared = near[0].seq if near else recorded
        changes = ()
        if compared is not None and miss.why in ("changed-params", "extra"):
            changes = under("/params", differences(self._known.params(compared), params))
        return Divergence(
            cls=miss.why,
            lane=wanted.lane or None,
            peer=wanted.peer or None,
            method=wanted.method,
            name=self._without_secrets(wanted.name) or None,
            live=live,
            recorded=recorded,
            nearest=tuple(near) or ((Near(seq=compared),) if compared is not None else ()),
            changes=changes,
            last_given=self.last_given(wanted.lane),
        )

    def answered(
        self, answer: int, body: bytes, *, to: Arrival, lane: str, peer: str, method: str, live: int
    ) -> None:
        """An answer is there, by the live frame `live`, where one was recorded: how it differs is told, if it does.

        `body` is the whole message, and `to` what is told to be another one.
        """
        script = self._known.script
        try:
            whole = script.body(answer)
        except RecordingError as missing:
            self.tell("unreadable", lane, to, live=live, method=method, detail=str(missing))
            return
        changes = changes_of(script.profile, peer, method, whole, self._redact(body))
        if changes:
            self.tell("answer-differs", lane, to, live=live, method=method, changes=changes)

    def _without_secrets(self, name: str) -> str:
        """A live name as it would be recorded: an address may hold a password."""
        return msgspec.json.decode(self._redact(msgspec.json.encode(name)), type=str)

    def last_given(self, lane: str) -> Given | None:
        """What a lane was given last."""
        seq = self.given.get(lane)
        if seq is None:
            return None
        script = self._known.script
        delivery = script.deliveries[seq]
        cause = script.arrivals.get(delivery.cause) if delivery.cause is not None else None
        what = f"{cause.method} {cause.name}".strip() if cause is not None else delivery.method
        return Given(seq=seq, what=what)


def not_recorded(peer: str, method: str, name: str, divergence: Divergence) -> bytes:
    """The error with which a request is answered that the recording has no answer to."""
    what = f"`{method}`{f' {name}' if name else ''}"
    facts: dict[str, object] = {"divergence": divergence.cls}
    if divergence.nearest:
        facts["nearest"] = divergence.nearest[0].seq
    if divergence.changes:
        facts["differs"] = [change.pointer for change in divergence.changes[:8]]
    return error_object(
        Fault(
            code="invalid_request",
            message=f"Replay: the recording has no answer left for this {what} ({divergence.cls})",
            reason="not_recorded",
            peer=peer,
            advice="Record the session again, or `tieline replay --mode extend` to add what is missing",
            retryable=False,
            details=facts,
        )
    )


OVERDUE = "the recorded answer does not come in this replay"


def overdue(peer: str, method: str) -> bytes:
    """The error with which a request is answered that nothing recorded answers any more."""
    return error_object(
        Fault(
            code="timeout",
            message=f"Replay: {OVERDUE}: `{method}`",
            reason="not_replayed",
            outcome="unknown",
            peer=peer,
        )
    )


def recording_ends(peer: str, method: str) -> bytes:
    """The error with which a request is answered that was never answered when it was recorded."""
    why = f"the recording ends before `{method}` was answered"
    return error_object(
        Fault(code="io", message=f"Replay: {why}", reason="recording_ends", outcome="unknown", peer=peer)
    )


def unreadable(peer: str, missing: RecordingError) -> bytes:
    """The error that stands in the place of a recorded answer that cannot be read."""
    return error_object(
        Fault(code="io", message=f"Replay: {missing}", reason="unreadable", outcome="unknown", peer=peer)
    )


def failing(peer: str) -> bytes:
    """The error with which a request is answered that a fault of the replay itself has struck."""
    return error_object(
        Fault(
            code="internal",
            message="The replay has failed at this request; its log says more",
            reason="internal",
            outcome="unknown",
            peer=peer,
        )
    )
