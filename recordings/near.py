"""The recorded requests that a live one resembles most, for a report of why it matched none.

Owns resemblance: the same peer first, then the same method, then the same name, then the share of equal values. Takes
the profile's word for which values may differ; what is told of a neighbour is the report's business.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from recordings.form import former
from recordings.profile import Profile, kind_name
from recordings.renaming import is_list, is_object

MOST_VALUES = 256
"""So many values of one request are compared: the first, members being taken in the order of their names."""
MOST_CANDIDATES = 1000
"""So many recorded requests of one kind are compared with a live one: those that share its rarest values."""
MOST_KINDS = 50
"""So many other kinds of requests (peer, method, name) of each level are looked into where the live one's own has too
few, and of each its first requests only:"""
MOST_OF_OTHERS = 200

_LONG = 64


class Request(NamedTuple):
    """A recorded request, without its params."""

    seq: int
    peer: str | None
    method: str
    name: str | None


class Neighbour(NamedTuple):
    """A recorded request and how much it resembles the live one."""

    seq: int
    peer: bool
    """Whether it went to the same peer."""
    method: bool
    name: bool
    equal: int
    """Values that are equal in both, at the same place."""
    of: int
    """Values of both, those that are equal counted once."""

    @property
    def share(self) -> float:
        """Equal values in all, from 0 to 1; 1 where neither has any."""
        return self.equal / self.of if self.of else 1.0

    @property
    def distance(self) -> str:
        """What differs, in words: `2 of 14 values`, `another tool or name`."""
        if not self.peer:
            return "another peer"
        if not self.method:
            return "another method"
        if not self.name:
            return "another name"
        return f"{self.of - self.equal} of {self.of} values"


class Nearest:
    """An index over recorded requests; each kind of request is indexed when it is first asked about.

    `params` gives the params of a recorded request (redacted, empty where it has none) by its number, and is asked
    once for each request of a kind. Indexing costs some 15 µs a request, and nothing as long as all requests match.
    """

    def __init__(
        self,
        profile: Profile,
        requests: Iterable[Request],
        params: Callable[[int], bytes],
        *,
        live: Profile | None = None,
    ) -> None:
        """`live` is the profile of the run that asks, whose folders may lie elsewhere."""
        self._former = former(profile)
        self._live = former(live) if live is not None else self._former
        self._params = params
        self._kinds: dict[tuple[str | None, str, str | None], _Kind] = {}
        for request in requests:
            which = (request.peer, request.method, kind_name(request.name))
            kind = self._kinds.get(which)
            if kind is None:
                kind = self._kinds[which] = _Kind()
            kind.seqs.append(request.seq)

    def of(
        self, peer: str | None, method: str, name: str | None, params: bytes, *, most: int = 3
    ) -> list[Neighbour]:
        """The nearest recorded requests, the nearest first; of equally near ones, the oldest."""
        values = values_of(self._live.normal(method, name, params, peer=peer))
        name = kind_name(name)
        found: list[Neighbour] = []
        for level in self._levels(peer, method, name):
            for kind in level:
                for equal, of, seq in self._kind(kind, own=kind == (peer, method, name)).nearest(
                    values, most
                ):
                    found.append(
                        Neighbour(
                            seq,
                            kind[0] == peer,
                            kind[1] == method,
                            kind[:3] == (peer, method, name),
                            equal,
                            of,
                        )
                    )
            if len(found) >= most:
                break
        found.sort(key=lambda each: (not each.peer, not each.method, not each.name, -each.share, each.seq))
        return found[:most]

    def _levels(
        self, peer: str | None, method: str, name: str | None
    ) -> Iterator[list[tuple[str | None, str, str | None]]]:
        """Kinds of requests, nearer ones first."""
        own = (peer, method, name)
        yield [own] if own in self._kinds else []
        others = [kind for kind in self._kinds if kind != own]
        same_method = [kind for kind in others if kind[:2] == (peer, method)]
        yield same_method[:MOST_KINDS]
        yield [kind for kind in others if kind[0] == peer and kind[1] != method][:MOST_KINDS]
        yield [kind for kind in others if kind[0] != peer and kind[1] == method][:MOST_KINDS]

    def _kind(self, which: tuple[str | None, str, str | None], *, own: bool) -> _Kind:
        kind = self._kinds[which]
        upto = len(kind.seqs) if own else min(len(kind.seqs), MOST_OF_OTHERS)
        if kind.indexed < upto:
            peer, method, name = which
            kind.index(upto, lambda seq: self._values(peer, method, name, self._params(seq)))
        return kind

    def _values(self, peer: str | None, method: str, name: str | None, params: bytes) -> list[str]:
        return values_of(self._former.normal(method, name, params, peer=peer))


class _Kind:
    """The requests of one peer, method and name."""

    def __init__(self) -> None:
        self.seqs: array[int] = array("Q")
        self._numbers: dict[str, int] = {}
        """Each value's number."""
        self._holders: list[array[int]] = []
        """Which requests hold a value, by the value's number; of frequent values the first ones."""
        self._held: list[array[int]] = []
        """Which values a request holds."""

    @property
    def indexed(self) -> int:
        """How many of the requests have been looked at."""
        return len(self._held)

    def index(self, upto: int, values: Callable[[int], list[str]]) -> None:
        """Look at the requests up to there that have not been looked at."""
        numbers, holders = self._numbers, self._holders
        for at in range(self.indexed, upto):
            seq = self.seqs[at]
            held = array("I")
            for value in values(seq):
                number = numbers.get(value)
                if number is None:
                    number = numbers[value] = len(holders)
                    holders.append(array("I"))
                held.append(number)
                if len(holders[number]) < MOST_CANDIDATES:
                    holders[number].append(at)
            self._held.append(held)

    def nearest(self, values: list[str], most: int) -> list[tuple[int, int, int]]:
        """(equal values, values of both, sequence number) of the nearest requests, the nearest first."""
        known = {number for value in values if (number := self._numbers.get(value)) is not None}
        ranked: list[tuple[float, int, int, int]] = []
        for at in self._candidates(known):
            held = self._held[at]
            equal = len(known.intersection(held))
            of = len(values) + len(held) - equal
            ranked.append((-equal / of if of else -1.0, self.seqs[at], equal, of))
        ranked.sort()
        return [(equal, of, seq) for _share, seq, equal, of in ranked[:most]]

    def _candidates(self, known: set[int]) -> Iterable[int]:
        found: dict[int, None] = {}
        for number in sorted(known, key=lambda number: (len(self._holders[number]), number)):
            for at in self._holders[number]:
                found[at] = None
            if len(found) >= MOST_CANDIDATES:
                return list(found)[:MOST_CANDIDATES]
        # Whatever shares no value at all is equally near.
        for at in range(min(self.indexed, 16)):
            found.setdefault(at)
        return found


def values_of(tree: Any) -> list[str]:
    """The values of a document with their places, each once, as texts: at most `MOST_VALUES`."""
    found: list[str] = []
    stack: list[tuple[str, Any]] = [("", tree)]
    while stack and len(found) < MOST_VALUES:
        path, node = stack.pop()
        if len(path) > _LONG:
            path = _short(path)
        if is_object(node):
            if node:
                names = sorted(node)[:MOST_VALUES]
                stack.extend((f"{path}/{name}", node[name]) for name in reversed(names))
                continue
        elif is_list(node) and node:
            stack.extend((f"{path}/{at}", node[at]) for at in range(min(len(node), MOST_VALUES) - 1, -1, -1))
            continue
        elif node is None and not path:
            break
        found.append(_value(path, node))
    return found


def _value(path: str, node: Any) -> str:
    text = f"{path}={node!r}"
    return text if len(text) <= _LONG else _short(text)


def _short(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
