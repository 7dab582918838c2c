"""Whether the rules of a profile are any good: which never fire, and which make different requests the same.

Owns the two questions, which are asked of a recording. A rule that is too loose is the silent failure of a replay: the
wrong answer is served, and nothing says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from recordings.form import Form, Former, is_within
from recordings.formats import places_of_formats, schemas_of
from recordings.frame import SETTLES, Frame
from recordings.operations import Source, body_of, part_of
from recordings.profile import IGNORE, Profile, Rule

MOST_COMPARED = 100
"""So many different requests of one key are compared by their numbers, where a rule has a tolerance."""


class Merge(msgspec.Struct, frozen=True, kw_only=True):
    """A rule without which two recorded requests would be different."""

    rule: Rule
    number: int
    """Where the rule stands in the profile, from 0."""
    seqs: tuple[int, int]
    """Two such requests."""
    requests: int
    """How many there are."""
    by_values: bool
    """Whether a replay still tells them apart, by the values of the rule's class."""


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be said about a profile."""

    fired: tuple[int, ...]
    """How many messages each rule decided something in, in the order of the rules."""
    silent: tuple[int, ...]
    """Rules that never did."""
    merges: tuple[Merge, ...]

    @property
    def is_good(self) -> bool:
        """Whether every rule fires and none hides a difference."""
        return not self.silent and all(merge.by_values for merge in self.merges)


def audit(profile: Profile, source: Source) -> Audit:
    """Try the rules of a profile on a recording.

    Rules with `format` fire where a recorded listing of tools has a schema with that format. Reads the recording
    once; keeps the forms of the requests that a rule decides about.
    """
    return _Audit(profile).of(source)


class _Audit:
    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._former = Former(profile)
        self._fired = [0] * len(profile.rules)
        self._numbers = {id(rule): number for number, rule in enumerate(profile.rules)}
        self._without: dict[int, Former] = {}
        self._groups: defaultdict[
            tuple[int, str | None, str, str | None, bytes], dict[bytes, tuple[int, Form]]
        ] = defaultdict(dict)
        """By rule and by what is the same with it: what is different without it, with one request each."""

    def of(self, source: Source) -> Audit:
        asked: dict[int, Frame] = {}
        for frame in source:
            if frame.kind == "request":
                asked[frame.seq] = frame
                self._message(source, frame, frame)
                self._consumes(frame)
            elif frame.kind in SETTLES and frame.re is not None:
                request = asked.pop(frame.re, None)
                if request is not None and frame.kind in ("response", "error"):
                    self._message(source, request, frame)
        silent = tuple(number for number, fired in enumerate(self._fired) if not fired)
        return Audit(fired=tuple(self._fired), silent=silent, merges=tuple(self._merges()))

    def _consumes(self, request: Frame) -> None:
        for number, rule in enumerate(self._profile.rules):
            if rule.consume is not None and rule.fits(request.peer, request.method or "", request.name):
                self._fired[number] += 1
                return

    def _message(self, source: Source, request: Frame, frame: Frame) -> None:
        part, said = part_of(body_of(source, frame))
        method, name, peer = request.method or "", request.name, request.peer
        if method == "tools/list" and part == "result":
            self._formats(peer, said)
        for rule in self._former.fired(method, name, said, peer=peer, part=part):
            number = self._numbers[id(rule)]
            self._fired[number] += 1
            if part != "params" or frame is not request:
                continue
            form = self._former.form(method, name, said, peer=peer)
            other = self._former_without(number).form(method, name, said, peer=peer)
            same = form.exact if rule.kind == IGNORE else form.key
            different = other.exact if rule.kind == IGNORE else other.key
            self._groups[number, peer, method, name, same].setdefault(different, (frame.seq, form))

    def _formats(self, peer: str | None, listing: bytes) -> None:
        wanted = [
            (number, rule) for number, rule in enumerate(self._profile.rules) if rule.format is not None
        ]
        for tool, schema in schemas_of(listing) if wanted else ():
            formats = {named for _place, named in places_of_formats(schema)}
            for number, rule in wanted:
                if rule.format in formats and rule.fits(peer, "tools/call", tool):
                    self._fired[number] += 1

    def _former_without(self, number: int) -> Former:
        former = self._without.get(number)
        if former is None:
            rules = self._profile.rules
            fewer = msgspec.structs.replace(self._profile, rules=(*rules[:number], *rules[number + 1 :]))
            former = self._without[number] = Former(fewer)
        return former

    def _merges(self) -> Iterator[Merge]:
        found: dict[int, Merge] = {}
        for (number, *_which), group in self._groups.items():
            if len(group) < 2:
                continue
            rule = self._profile.rules[number]
            seqs, by_values = _told_apart(rule, list(group.values()))
            merge = found.get(number)
            if merge is None or (merge.by_values and not by_values):
                requests = len(group) + (merge.requests if merge else 0)
                found[number] = Merge(
                    rule=rule, number=number, seqs=seqs, requests=requests, by_values=by_values
                )
            else:
                found[number] = msgspec.structs.replace(merge, requests=merge.requests + len(group))
        return iter([found[number] for number in sorted(found)])


def _told_apart(rule: Rule, requests: list[tuple[int, Form]]) -> tuple[tuple[int, int], bool]:
    """Two requests of one key, and whether their values tell them apart; two that they do not, if there are."""
    first, second = requests[0][0], requests[1][0]
    if rule.kind == IGNORE:
        return (first, second), False
    if rule.tolerance is None:
        return (first, second), True
    for at, (seq, form) in enumerate(requests[:MOST_COMPARED]):
        for other, form_2 in requests[at + 1 : MOST_COMPARED]:
            if _close(form, form_2):
                return (seq, other), False
    return (first, second), True


def _close(one: Form, other: Form) -> bool:
    """Whether all numbers that may be off are close enough."""
    pairs = zip(one.values, other.values, strict=False)
    return all(is_within(a[0], a[1], b[1]) for a, b in pairs if a[0] == b[0] and a[0].startswith("~"))
