"""The form of a request: two hashes and the volatile values, by which a replay finds the recorded request.

Owns what the protocol makes volatile, the normal form of numbers, and the hashes. Which values are renamed is the
business of `renaming`, `classes` and the profile; what two forms have to do with each other is the matcher's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from recordings.classes import LITERAL, Detector
from recordings.globs import Globs, Place
from recordings.profile import IGNORE, Profile, Rule
from recordings.renaming import TOLERANT, Part, Renaming, Selection, is_object, places

__all__ = ["PUBLIC", "TOLERANT", "Form", "Former", "Forms", "Part", "form_of", "former", "is_within"]

PUBLIC = "[REDACTED]"
"""A secret of a recording that was made public: which of several equal ones it was is not known any more."""

_KEPT_META = "io.modelcontextprotocol/logLevel"
_RESERVED = ("io.modelcontextprotocol/", "io.tieline/")
_TRACE = frozenset(("progressToken", "traceparent", "tracestate", "baggage"))
_DROPPED: Mapping[str, tuple[str, ...]] = {
    # What the modern era says in reserved keys of `_meta`, the older one says in its handshake.
    "initialize": ("protocolVersion", "capabilities", "clientInfo"),
    "notifications/cancelled": ("requestId",),
    "notifications/progress": ("progressToken",),
}
_DROPPED_OF_EVENTS = ("toolCallId", "parentToolCallId")
"""What a core calls a tool call, in the data of an event about it: its key is what is called, and with what."""
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_MOST_DIGITS = 60
"""A number written with an exponent is not written out any further: a short text must not make a long one."""
_SELECTIONS = 4096


class Form(NamedTuple):
    """What a request is compared by.

    `key` (16 bytes) is the same for requests that differ in class values alone; `values` are those values, as
    (class, value) in order of first appearance, members of objects being taken in the order of their names.
    `exact` (16 bytes) is the same only where the class values are, too. Secrets are listed each time that they
    appear, since a recording that was made public does not tell them apart; times are, since a clock may be read
    twice at the same moment in one run and not in another.
    """

    key: bytes
    exact: bytes
    values: tuple[tuple[str, str], ...]


def form_of(
    profile: Profile,
    method: str,
    name: str | None,
    params: bytes,
    *,
    peer: str | None = None,
    part: Part = "params",
) -> Form:
    """The form of a request whose secrets are redacted; absent params are empty bytes, and the same as `{}`.

    `name` and `peer` say which rules apply and are in no hash. Params that cannot be read (nested too deep, a number
    of thousands of digits, no JSON) are compared byte for byte.
    """
    return former(profile).form(method, name, params, peer=peer, part=part)


def former(profile: Profile) -> Former:
    """The compiled profile; compiled once."""
    memo = vars(profile)
    found: Former | None = memo.get("former")
    if found is None:
        found = memo["former"] = Former(profile)
    return found


class Former:
    """Makes forms under one profile."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._detector = Detector(profile)
        self._rules = tuple(rule for rule in profile.rules if rule.at is not None and rule.consume is None)
        self._selected: dict[tuple[str | None, str, str | None], Selection | None] = {}

    def form(
        self, method: str, name: str | None, params: bytes, *, peer: str | None = None, part: Part = "params"
    ) -> Form:
        """See `form_of`."""
        try:
            tree = _read(params) if params else None
        except _UNREADABLE:
            digest = _hash(method, b"\x00" + params)
            return Form(digest, digest, ())
        selection = self._selection(peer, method, name) if self._rules else None
        tree, served = _stable(method, tree, selection, part)
        plain = _write(tree)
        exact = _hash(method, plain)
        quiet = not self._detector.telling(plain)
        if quiet and selection is None and not served:
            return Form(exact, exact, ())
        renaming = Renaming(self._detector, selection, part, quiet=quiet)
        renamed = renaming.renamed(tree)
        return Form(_hash(method, _write(renamed)), exact, tuple(renaming.values))

    def normal(
        self, method: str, name: str | None, params: bytes, *, peer: str | None = None, part: Part = "params"
    ) -> Any:
        """What `key` is the hash of, as data; unreadable bytes as they are. Names of members are in any order."""
        try:
            tree = _read(params) if params else None
        except _UNREADABLE:
            return params
        selection = self._selection(peer, method, name) if self._rules else None
        tree, served = _stable(method, tree, selection, part)
        quiet = not self._detector.telling(_write(tree))
        if quiet and selection is None and not served:
            return tree
        return Renaming(self._detector, selection, part, quiet=quiet).renamed(tree)

    def fired(
        self, method: str, name: str | None, params: bytes, *, peer: str | None = None, part: Part = "params"
    ) -> list[Rule]:
        """The rules that decide about a place of this part of a message, each once; one that meets null does, too."""
        selection = self._selection(peer, method, name) if self._rules else None
        try:
            tree: Any = _read(params) if params else None
        except _UNREADABLE:
            return []
        if selection is None:
            return []
        globs, found = selection.globs, dict[int, None]()
        stack: list[tuple[Any, Place]] = [(tree, globs.below(globs.start, part))]
        while stack:
            node, place = stack.pop()
            hits = globs.hits(place)
            if hits:
                found[hits[0]] = None
            elif place:
                stack.extend((node[key], globs.below(place, str(key))) for key in places(node))
        return [selection.rules[index] for index in sorted(found)]

    def _selection(self, peer: str | None, method: str, name: str | None) -> Selection | None:
        which = (peer, method, name)
        if which in self._selected:
            return self._selected[which]
        rules = tuple(rule for rule in self._rules if rule.fits(peer, method, name))
        selection = None
        if rules:
            globs = Globs([rule.at or "" for rule in rules])
            selection = Selection(globs, rules, any(rule.kind == IGNORE for rule in rules))
        if len(self._selected) >= _SELECTIONS:
            self._selected.clear()
        self._selected[which] = selection
        return selection


class Forms:
    """Forms under one profile, remembered by the bytes that they were taken of.

    At most `most` forms and `most_bytes` bytes of params are kept; what was not asked for longest goes first.
    """

    def __init__(self, profile: Profile, *, most: int = 4096, most_bytes: int = 8 << 20) -> None:
        self._former = former(profile)
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._known: OrderedDict[tuple[str | None, str, str | None, bytes], Form] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def form(self, method: str, name: str | None, params: bytes, *, peer: str | None = None) -> Form:
        """The form of a request, see `form_of`."""
        which = (peer, method, name, params)
        known = self._known.get(which)
        if known is not None:
            self._known.move_to_end(which)
            return known
        form = self._former.form(method, name, params, peer=peer)
        self._known[which] = form
        self._bytes += len(params)
        while len(self._known) > self._most or self._bytes > self._most_bytes:
            old, _form = self._known.popitem(last=False)
            self._bytes -= len(old[3])
        return form


def is_within(kind: str, recorded: str, live: str) -> bool:
    """Whether two values of a tolerant class (`~0.5`) are close enough. Raises ValueError for another class."""
    if not kind.startswith(TOLERANT):
        raise ValueError(f"{kind} is no tolerance")
    return abs(Decimal(recorded) - Decimal(live)) <= Decimal(kind[1:])


# Reading and writing


def _number(text: str) -> Any:
    """A number with a point or an exponent: a whole one as an integer, another one as its double."""
    try:
        exact = Decimal(text)
    except ArithmeticError:
        return LITERAL + text.lower()
    sign, digits, exponent = exact.as_tuple()
    if not isinstance(exponent, int) or not exact:
        return 0
    figures = "".join(map(str, digits)).rstrip("0")
    exponent += len(digits) - len(figures)
    if exponent < 0:
        return float(text)
    if len(figures) + exponent > _MOST_DIGITS:
        return f"{LITERAL}{'-' if sign else ''}{figures}e{exponent}"
    return int(exact)


_read = msgspec.json.Decoder(Any, float_hook=_number).decode
_write = msgspec.json.Encoder(order="sorted").encode


def _hash(method: str, data: bytes) -> bytes:
    hasher = _begun(method).copy()
    hasher.update(data)
    return hasher.digest()


@lru_cache(maxsize=1024)
def _begun(method: str) -> blake2b:
    return blake2b(method.encode("utf-8", "surrogatepass") + b"\n", digest_size=16)


# What the protocol makes volatile


def _without_volatile(method: str, tree: dict[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    """Params without what the protocol makes volatile, and whether they hold what a peer has given out before."""
    meta = tree.get("_meta")
    if is_object(meta):
        kept = {
            key: value
            for key, value in meta.items()
            if key == _KEPT_META or not (key in _TRACE or key.startswith(_RESERVED))
        }
        if kept:
            tree["_meta"] = kept
        else:
            del tree["_meta"]
    dropped = _DROPPED.get(method)
    if dropped is not None:
        for key in dropped:
            tree.pop(key, None)
    if method == "pi/event_hook" and is_object(tree.get("data")):
        tree["data"] = {key: value for key, value in tree["data"].items() if key not in _DROPPED_OF_EVENTS}
    return tree or None, "cursor" in tree or "requestState" in tree


def _stable(method: str, tree: Any, selection: Selection | None, part: Part) -> tuple[Any, bool]:
    """A part of a message without what does not matter, and whether it holds what a peer has given out before."""
    served = False
    if is_object(tree):
        tree, served = _without_volatile(method, tree)
    if selection is not None and selection.ignores:
        tree = _pruned(tree, selection, part)
        if part == "params" and tree == {}:
            tree = None
    return tree, served


def _pruned(tree: Any, selection: Selection, part: Part) -> Any:
    """A message's part without the places that are ignored: members are gone, items of lists are null."""
    globs, rules = selection.globs, selection.rules

    def ignored(place: Place) -> bool:
        hits = globs.hits(place)
        return bool(hits) and rules[hits[0]].kind == IGNORE

    start = globs.below(globs.start, part)
    if ignored(start):
        return None
    stack: list[tuple[Any, Place]] = [(tree, start)]
    while stack:
        node, place = stack.pop()
        if not place:
            continue
        for key in places(node):
            below = globs.below(place, str(key))
            if not ignored(below):
                stack.append((node[key], below))
            elif is_object(node):
                del node[key]
            else:
                node[key] = None
    return tree
