"""Calls that go on after a question of their peer: the live request that does so, and the recorded one that did.

A modern core comes back by itself, with answers in its request; for a legacy one the gateway does, once the core has
answered. Owns how a request of one kind is found for one of the other. Compares nothing and marks nothing as used.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple, TypeAlias

import msgspec

from gateway.calls import translate
from gateway.protocol import jsonrpc
from recordings.errors import RecordingError
from recordings.script import Script

ANSWERS = b'"inputResponses"'
MOST_LOOKED_AT = 4096
"""How many requests of a kind are looked through for the one that goes on, or the one that it goes on after."""

Which: TypeAlias = tuple[str, str, str]
"""A peer, a method, a name."""


class Told(NamedTuple):
    """One answer in a request that goes on, and what it answers."""

    key: str
    method: str
    recorded: bytes
    live: bytes


class Retries:
    """Of one script: who went on after which question."""

    def __init__(self, script: Script, params: Callable[[int], bytes]) -> None:
        """`params` are of a recorded request, by number; empty where they cannot be read."""
        self._script = script
        self._params = params

    def by_core(self, asked: int, is_used: Callable[[int], bool]) -> int | None:
        """The request with which the recorded core came back after an answer of its peer that asks."""
        request = self._script.deliveries[asked].cause
        question = self._question(asked)
        if request is None or question is None:
            return None
        cause = self._script.arrivals[request]
        requests = self._of_kind.get((cause.peer, cause.method, cause.name), [])
        start = bisect_right(requests, asked)
        fallback: int | None = None
        for seq in requests[start : start + MOST_LOOKED_AT]:
            arrival = self._script.arrivals[seq]
            if arrival.is_own or arrival.lane != cause.lane or is_used(seq):
                continue
            retry = _retry(self._params(seq))
            if retry is None or not question.requests.keys() & retry.responses.keys():
                continue
            if retry.state == question.state:
                return seq
            # A state that was taken out for the public tells nobody apart.
            fallback = fallback if fallback is not None else seq
        return fallback

    def by_gateway(self, asked: int) -> int | None:
        """The request with which the gateway went on after an answer of a peer that asks."""
        cause = self._script.deliveries[asked].cause
        legs = self._script.legs_of(cause) if cause is not None else ()
        return next((seq for seq in legs if seq > asked), None)

    def asked_before(self, which: Which, params: bytes, has_come: Callable[[int], bool]) -> int | None:
        """The answer that asks which a live core goes on after: the last one that it was given, by its state."""
        retry = _retry(params)
        if retry is None:
            return None
        for seq in reversed(self._of_kind.get(which, [])[-MOST_LOOKED_AT:]):
            for one in self._script.caused_by(seq):
                if self._script.deliveries[one].is_answer and has_come(one):
                    question = self._question(one)
                    if question is not None and question.state == retry.state:
                        return one
        return None

    def answers(self, asked: int, recorded: int, params: bytes) -> Iterator[Told]:
        """What the recorded request and the live one, of which these are the params, answer to each question."""
        question, before, now = self._question(asked), _retry(self._params(recorded)), _retry(params)
        if question is None or before is None or now is None:
            return
        for key, request in question.requests.items():
            ours, theirs = before.responses.get(key), now.responses.get(key)
            yield Told(key, str(request.get("method", "")), bytes(ours or b"null"), bytes(theirs or b"null"))

    def _question(self, answer: int) -> translate.InputRequired | None:
        try:
            return translate.input_required(bytes(jsonrpc.read(self._script.body(answer)).result))
        except (jsonrpc.BadMessage, RecordingError):
            return None

    @cached_property
    def _of_kind(self) -> dict[Which, list[int]]:
        found: dict[Which, list[int]] = {}
        for arrival in self._script.arrivals.values():
            if arrival.kind == "request":
                found.setdefault((arrival.peer, arrival.method, arrival.name), []).append(arrival.seq)
        return found


def _retry(params: bytes) -> translate.Retry | None:
    if ANSWERS not in params:
        return None
    try:
        return translate.read_retry.decode(params)
    except msgspec.DecodeError:
        return None
