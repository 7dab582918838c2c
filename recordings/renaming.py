"""Renaming the class values of one message, so that what differs from run to run has the same name in each.

Owns the walk through a document, without recursion, and what stands in the place of a value. Which values are of a
class is `classes`' business, which places are is the profile's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, TypeGuard

import msgspec

from recordings.classes import LITERAL, Detector
from recordings.globs import Globs, Place
from recordings.profile import IGNORE, Rule

Part: TypeAlias = Literal["params", "result", "error"]
"""Which part of a message its form is taken of. Pointers of rules begin with it."""

TOLERANT = "~"
"""What the class of a number begins with that may be off by so much: `~0.5`."""

_SERVED: Mapping[str, str] = {"cursor": "cursor", "requestState": "state"}
"""Members of params that a peer has given out before, and their class."""
_LISTED_EACH_TIME = frozenset(("secret", "timestamp"))
"""Classes of which equality within a request says nothing: what a public recording says of secrets, and two readings
of a clock, which may fall together in one run and not in another."""

_write = msgspec.json.Encoder(order="sorted").encode


class Selection(NamedTuple):
    """The rules that speak about one kind of request."""

    globs: Globs
    rules: tuple[Rule, ...]
    ignores: bool


class Renaming:
    """Renames the class values of one request. Goes down without recursion, members in the order of their names."""

    def __init__(
        self, detector: Detector, selection: Selection | None, part: Part, *, quiet: bool = False
    ) -> None:
        """`quiet`: only rules and what a peer has given out are looked for; the detector has nothing to find."""
        self._detector = detector
        self._quiet = quiet
        self._globs = None if selection is None else selection.globs
        self._rules = () if selection is None else selection.rules
        self._part: Part = part
        self._counts: dict[str, int] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._roots: set[tuple[str, str]] = set()
        self.values: list[tuple[str, str]] = []
        """(class, value) in order of first appearance."""

    def renamed(self, tree: Any) -> Any:
        """The part of a message with its class values renamed."""
        top: list[Any] = [None]
        place = () if self._globs is None else self._globs.below(self._globs.start, self._part)
        stack: list[tuple[Any, str, Place, Any, Any]] = [(tree, "", place, top, 0)]
        is_top = True
        while stack:
            node, name, place, into, slot = stack.pop()
            if self._quiet and not place and not isinstance(node, _Served) and not is_top:
                into[slot] = node
                continue
            rule = self._rule(place)
            if rule is not None and node is not None and (new := self._by_rule(rule, node)) is not None:
                into[slot] = new
            elif is_object(node):
                stack.extend(reversed(self._members(node, place, into, slot, served=is_top)))
            elif is_list(node):
                stack.extend(self._items(node, name, place, into, slot))
            else:
                into[slot] = self._scalar(node, name)
            is_top = False
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
        again = 0
        for shown, name in sorted((self._key(name), name) for name in node):
            if shown in new:
                again += 1
                shown = f"{shown}{LITERAL}{again}"
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
        if self._quiet or len(name) < 2 or ("/" not in name and "\\" not in name and LITERAL not in name):
            return name
        data = name.encode()
        out: list[str] = []
        copied = 0
        for start, end, kind, value in self._detector.inside(data):
            if kind in self._detector.roots:
                out += (_literal(data[copied:start]), self._root(kind, value))
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
        if self._quiet and not isinstance(node, _Served):
            return node
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
            new = self._root(kind, value) if kind in self._detector.roots else self._name(kind, value)
            out += (_literal(data[copied:start]), new)
            copied = end
        return "".join((*out, _literal(data[copied:])))

    def _name(self, kind: str, value: str) -> str:
        """What stands in the place of a class value."""
        if kind in _LISTED_EACH_TIME:
            self.values.append((kind, value))
            return f"{LITERAL}{kind}{LITERAL}"
        name = self._names.get((kind, value))
        if name is None:
            number = self._counts[kind] = self._counts.get(kind, 0) + 1
            name = self._names[kind, value] = f"{LITERAL}{kind}#{number}{LITERAL}"
            self.values.append((kind, value))
        return name

    def _root(self, kind: str, path: str) -> str:
        """What stands in the place of a root: there is one of each name, so it has no number."""
        if (kind, path) not in self._roots:
            self._roots.add((kind, path))
            self.values.append((kind, path))
        return f"{LITERAL}{kind}{LITERAL}"


class _Served(NamedTuple):
    kind: str
    value: str


def _literal(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace(LITERAL, LITERAL * 2)


def _is_mark(text: str) -> bool:
    return text.startswith("[REDACTED") and text.endswith("]")


# `type(x) is dict` would tell a type checker that x is a `dict[Unknown, Unknown]`.


def is_object(node: object) -> TypeGuard[dict[str, Any]]:
    return type(node) is dict


def is_list(node: object) -> TypeGuard[list[Any]]:
    return type(node) is list


def places(node: Any) -> Iterable[Any]:
    """The names of an object's members, the positions of a list's items; nothing for others."""
    if is_object(node):
        return list(node)
    return range(len(node)) if is_list(node) else ()
