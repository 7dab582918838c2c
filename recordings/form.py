"""The form of a request: two hashes and the volatile values, by which a replay finds the recorded request.

Owns what the protocol makes volatile, the normal form of numbers, and how class values are renamed. Which values
are of a class is `classes`' business, which places are is the profile's. What two forms have to do with each other
is the matcher's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeAlias, TypeGuard

import msgspec

from recordings.classes import LITERAL, Detector
from recordings.globs import Globs, Place
from recordings.profile import IGNORE, Profile, Rule

Part: TypeAlias = Literal["params", "result", "error"]
"""Which part of a message its form is taken of. Pointers of rules begin with it."""

TOLERANT = "~"
"""What the class of a number begins with that may be off by so much: `~0.5`."""

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
_SERVED: Mapping[str, str] = {"cursor": "cursor", "requestState": "state"}
"""Members of params that a peer has given out before, and their class."""
_MOST_DIGITS = 60
"""A number written with an exponent is not written out any further: a short text must not make a long one."""
_SELECTIONS = 4096


class Form(NamedTuple):
    """What a request is compared by.

    `key` (16 bytes) is the same for requests that differ in class values alone; `values` are those values, as
    (class, value) in order of first appearance, members of objects being taken in the order of their names.
    `exact` (16 bytes) is the same only where the class values are, too. Secrets are listed each time that they
    appear, since a recording that was made public does not tell them apart.
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


class _Selection(NamedTuple):
    """The rules that speak about one kind of request."""

    globs: Globs
    rules: tuple[Rule, ...]
    ignores: bool


class Former:
    """Makes forms under one profile."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._detector = Detector(profile)
        self._rules = tuple(rule for rule in profile.rules if rule.at is not None and rule.consume is None)
        self._selected: dict[tuple[str | None, str, str | None], _Selection | None] = {}

    def form(
        self, method: str, name: str | None, params: bytes, *, peer: str | None = None, part: Part = "params"
    ) -> Form:
        """See `form_of`."""
        try:
            tree = _read(params) if params else None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            digest = _hash(method, b"\x00" + params)
            return Form(digest, digest, ())
        served = False
        if _is_object(tree):
            tree, served = _without_volatile(method, tree)
        selection = self._selection(peer, method, name) if self._rules else None
        if selection is not None and selection.ignores:
            tree = _pruned(tree, selection, part)
        plain = _write(tree)
        exact = _hash(method, plain)
        if selection is None and not served and not self._detector.telling(plain):
            return Form(exact, exact, ())
        renaming = _Renaming(self._detector, selection, part)
        renamed = renaming.renamed(tree)
        return Form(_hash(method, _write(renamed)), exact, tuple(renaming.values))

    def _selection(self, peer: str | None, method: str, name: str | None) -> _Selection | None:
        which = (peer, method, name)
        if which in self._selected:
            return self._selected[which]
        rules = tuple(rule for rule in self._rules if rule.fits(peer, method, name))
        selection = None
        if rules:
            globs = Globs([rule.at or "" for rule in rules])
            selection = _Selection(globs, rules, any(rule.kind == IGNORE for rule in rules))
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
    return blake2b(b"%b\n%b" % (method.encode("utf-8", "surrogatepass"), data), digest_size=16).digest()


# `type(x) is dict` would tell a type checker that x is a `dict[Unknown, Unknown]`.


def _is_object(node: object) -> TypeGuard[dict[str, Any]]:
    return type(node) is dict


def _is_list(node: object) -> TypeGuard[list[Any]]:
    return type(node) is list


def _places(node: Any) -> Iterable[Any]:
    """The names of an object's members, the positions of a list's items; nothing for others."""
    if _is_object(node):
        return list(node)
    return range(len(node)) if _is_list(node) else ()


# What the protocol makes volatile


def _without_volatile(method: str, tree: dict[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    """Params without what the protocol makes volatile, and whether they hold what a peer has given out before."""
    meta = tree.get("_meta")
    if _is_object(meta):
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
    return tree or None, "cursor" in tree or "requestState" in tree


def _pruned(tree: Any, selection: _Selection, part: Part) -> Any:
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
        for key in _places(node):
            below = globs.below(place, str(key))
            if not ignored(below):
                stack.append((node[key], below))
            elif _is_object(node):
                del node[key]
            else:
                node[key] = None
    return tree


# Class values


class _Renaming:
    """Renames the class values of one request. Goes down without recursion, members in the order of their names."""

    def __init__(self, detector: Detector, selection: _Selection | None, part: Part) -> None:
        self._detector = detector
        self._globs = None if selection is None else selection.globs
        self._rules = () if selection is None else selection.rules
        self._part: Part = part
        self._counts: dict[str, int] = {}
        self._names: dict[tuple[str, str], str] = {}
        self.values: list[tuple[str, str]] = []
        """(class, value) in order of first appearance."""

    def renamed(self, tree: Any) -> Any:
        """The part of a message with its class values renamed."""
        top: list[Any] = [None]
        place = () if self._globs is None else self._globs.below(self._globs.start, self._part)
        stack: list[tuple[Any, str, Place, Any, Any]] = [(tree, "", place, top, 0)]
        depth_of_params = True
        while stack:
            node, name, place, into, slot = stack.pop()
            rule = self._rule(place)
            if rule is not None and node is not None and (new := self._by_rule(rule, node)) is not None:
                into[slot] = new
            elif _is_object(node):
                stack.extend(reversed(self._members(node, place, into, slot, served=depth_of_params)))
            elif _is_list(node):
                stack.extend(self._items(node, name, place, into, slot))
            else:
                into[slot] = self._scalar(node, name)
            depth_of_params = False
        return top[0]

    def _items(
        self, node: list[Any], name: str, place: Place, into: Any, slot: Any
    ) -> Iterable[tuple[Any, str, Place, Any, Any]]:
        new: list[Any] = [None] * len(node)
        into[slot] = new
        return ((node[at], name, self._below(place, str(at)), new, at) for at in reversed(range(len(node))))

    def _members(
        self, node: dict[str, Any], place: Place, into: Any, slot: Any, *, served: bool
    ) -> list[tuple[Any, str, Place, Any, Any]]:
        new: dict[str, Any] = {}
        into[slot] = new
        members: list[tuple[Any, str, Place, Any, Any]] = []
        for shown, name in sorted((self._key(name), name) for name in node):
            while shown in new:
                shown += LITERAL
            new[shown] = None
            value = node[name]
            if served and self._part == "params" and name in _SERVED and isinstance(value, str):
                # A value that a peer gave out stays where a rule would have looked: by itself.
                members.append((_Served(_SERVED[name], value), name, (), new, shown))
            else:
                members.append((value, name, self._below(place, name), new, shown))
        return members

    def _key(self, name: str) -> str:
        """A member's name; a root in it is renamed, so that order does not hang on where a run took place."""
        if len(name) < 2 or ("/" not in name and "\\" not in name and LITERAL not in name):
            return name
        data = name.encode()
        out: list[str] = []
        copied = 0
        for start, end, kind, value in self._detector.inside(data):
            if kind in self._detector.roots:
                self._note(kind, value)
                out += (_literal(data[copied:start]), f"{LITERAL}{kind}{LITERAL}")
                copied = end
        return "".join((*out, _literal(data[copied:])))

    def _below(self, place: Place, name: str) -> Place:
        return self._globs.below(place, name) if place and self._globs is not None else ()

    def _rule(self, place: Place) -> Rule | None:
        if not place or self._globs is None:
            return None
        hits = self._globs.hits(place)
        return self._rules[hits[0]] if hits else None

    def _by_rule(self, rule: Rule, node: Any) -> str | None:
        if rule.tolerance is not None:
            if isinstance(node, bool) or not isinstance(node, int | float):
                return None
            kind = f"{TOLERANT}{rule.tolerance!r}"
            self.values.append((kind, repr(node)))
            return f"{LITERAL}{kind}{LITERAL}"
        if rule.kind is None or rule.kind == IGNORE:
            return None
        value = node if isinstance(node, str) else _write(node).decode()
        return self._name(rule.kind, value)

    def _scalar(self, node: Any, name: str) -> Any:
        if isinstance(node, str):
            kind = self._detector.by_name(name, node) or self._detector.by_form(node)
            if kind is not None and not _is_mark(node):
                return self._name(kind, node)
            return self._text(node)
        if isinstance(node, _Served):
            return self._name(node.kind, node.value)
        if isinstance(node, bool) or not isinstance(node, int | float):
            return node
        kind = self._detector.by_name(name, node)
        return node if kind is None else self._name(kind, repr(node))

    def _text(self, text: str) -> str:
        data = text.encode()
        found = self._detector.inside(data) if len(data) >= self._detector.shortest else ()
        if not found:
            return text.replace(LITERAL, LITERAL * 2)
        out: list[str] = []
        copied = 0
        for start, end, kind, value in found:
            out += (_literal(data[copied:start]), self._name(kind, value))
            copied = end
        return "".join((*out, _literal(data[copied:])))

    def _name(self, kind: str, value: str) -> str:
        """What stands in the place of a class value."""
        if kind == "secret":
            self.values.append((kind, value))
            return f"{LITERAL}{kind}{LITERAL}"
        if kind in self._detector.roots:
            self._note(kind, value)
            return f"{LITERAL}{kind}{LITERAL}"
        name = self._names.get((kind, value))
        if name is None:
            number = self._counts[kind] = self._counts.get(kind, 0) + 1
            name = self._names[kind, value] = f"{LITERAL}{kind}#{number}{LITERAL}"
            self.values.append((kind, value))
        return name

    def _note(self, kind: str, value: str) -> None:
        if (kind, value) not in self._names:
            self._names[kind, value] = ""
            self.values.append((kind, value))


class _Served(NamedTuple):
    kind: str
    value: str


def _literal(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace(LITERAL, LITERAL * 2)


def _is_mark(text: str) -> bool:
    return text.startswith("[REDACTED") and text.endswith("]")
