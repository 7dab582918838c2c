"""How two JSON bodies differ, place by place: what was added, removed, or has another value, type or order.

Owns the comparison and its inverse, `applied`. Knows nothing of frames, lanes or matching; what counts as volatile is
the profile's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec

from recordings.alignment import equal_pairs, gaps, likely_pairs

NODES = 300_000
"""Values in both bodies together up to which places are told apart (about half a second); larger ones are
compared as a whole, as are those nested too deep to decode."""

ChangeKind: TypeAlias = Literal["added", "removed", "type", "value", "order"]
Token: TypeAlias = str | int
Path: TypeAlias = tuple[Token, ...]


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One place where two bodies differ.

    `pointer` is a JSON Pointer. A number in it counts the items of the list before the change, but the last number of
    an `added` counts those after it. `order`: the same items stand in another order; `before` and `after` are the
    whole lists. `before` is None where something was added, `after` where it was removed.
    """

    pointer: str
    kind: ChangeKind
    before: msgspec.Raw | None = None
    after: msgspec.Raw | None = None
    note: str = ""
    """What somebody who knows more has to say of it, such as `same after normalisation`."""


def differences(before: bytes, after: bytes, *, nodes: int = NODES) -> tuple[Change, ...]:
    """How `after` differs from `before`, in the order of the places; empty where both say the same.

    Numbers are compared by value (1 = 1.0 = 1e0; exactly, not as doubles, where one is an integer), members of an
    object without regard to their order. A list is aligned on its equal items, so that one insertion is one change.
    An empty body differs from all others as something added or removed at the root. Two bodies give as many changes
    one way as the other way round. Bytes that are no JSON are compared as a whole, and shown as text.
    """
    if before == after:
        return ()
    if not before or not after:
        return (
            Change("", "removed", before=_whole(before))
            if before
            else Change("", "added", after=_whole(after)),
        )
    try:
        one, other = msgspec.json.decode(before), msgspec.json.decode(after)
        # Compared in an order of their own, so that a tie is not decided differently the other way round.
        turned = before > after
        found = _Comparison(nodes).changes(*((other, one) if turned else (one, other)))
        placed = sorted((_turn(each) if turned else each for each in found), key=_place)
        return tuple(
            Change(pointer_of(each.path), each.kind, _raw(each.before), _raw(each.after)) for each in placed
        )
    except (msgspec.DecodeError, RecursionError, _TooLargeError):
        return (Change("", "value", before=_whole(before), after=_whole(after)),)


def under(pointer: str, changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes of a part, as changes of the whole that has the part at `pointer`, such as `/params`."""
    return tuple(msgspec.structs.replace(change, pointer=f"{pointer}{change.pointer}") for change in changes)


def pointer_of(path: Sequence[Token]) -> str:
    """The JSON Pointer of a path."""
    return "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in path)


def tokens_of(pointer: str) -> list[str]:
    """The tokens of a JSON Pointer. Raises `ValueError` where it is none."""
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise ValueError(f"`{pointer}` is no JSON Pointer: it begins with `/`")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")]


# Comparing


_NOTHING: Any = object()


class _Place(NamedTuple):
    kind: ChangeKind
    path: Path
    path_2: Path
    before: Any = _NOTHING
    after: Any = _NOTHING


class _TooLargeError(Exception):
    pass


def _turn(place: _Place) -> _Place:
    kind: ChangeKind = {"added": "removed", "removed": "added"}.get(place.kind, place.kind)  # pyright: ignore[reportAssignmentType]
    return _Place(kind, place.path_2, place.path, place.after, place.before)


def _place(place: _Place) -> list[tuple[int, str]]:
    return [(token, "") if isinstance(token, int) else (-1, token) for token in place.path]


def _raw(value: Any) -> msgspec.Raw | None:
    return None if value is _NOTHING else msgspec.Raw(msgspec.json.encode(value))


def _whole(body: bytes) -> msgspec.Raw:
    """A body as it is, or as text where it is no JSON."""
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
        body.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(body.decode("utf-8", "backslashreplace")))
    return msgspec.Raw(body)


class _Comparison:
    """One comparison: every value gets a number, and equal ones get the same."""

    def __init__(self, nodes: int) -> None:
        self._left = nodes
        self._numbers: dict[Any, int] = {}
        self._number_of: dict[int, int] = {}
        """By the identity of a container, which lives as long as the comparison."""

    def changes(self, one: Any, other: Any) -> list[_Place]:
        self._count(one)
        self._count(other)
        found: list[_Place] = []
        todo: list[tuple[Any, Any, Path, Path]] = [(one, other, (), ())]
        while todo:
            before, after, path, path_2 = todo.pop()
            if self._number(before) == self._number(after):
                continue
            if _type(before) != _type(after):
                found.append(_Place("type", path, path_2, before, after))
            elif _is_dict(before):
                self._objects(before, after, path, path_2, found, todo)
            elif _is_list(before):
                self._lists(before, after, path, path_2, found, todo)
            else:
                found.append(_Place("value", path, path_2, before, after))
        return found

    def _objects(
        self,
        before: dict[str, Any],
        after: dict[str, Any],
        path: Path,
        path_2: Path,
        found: list[_Place],
        todo: list[tuple[Any, Any, Path, Path]],
    ) -> None:
        for name, value in before.items():
            if name in after:
                todo.append((value, after[name], (*path, name), (*path_2, name)))
            else:
                found.append(_Place("removed", (*path, name), (*path_2, name), value))
        for name, value in after.items():
            if name not in before:
                found.append(_Place("added", (*path, name), (*path_2, name), after=value))

    def _lists(
        self,
        before: list[Any],
        after: list[Any],
        path: Path,
        path_2: Path,
        found: list[_Place],
        todo: list[tuple[Any, Any, Path, Path]],
    ) -> None:
        numbers, numbers_2 = [*map(self._number, before)], [*map(self._number, after)]
        if len(before) == len(after) and Counter(numbers) == Counter(numbers_2):
            found.append(_Place("order", path, path_2, before, after))
            return
        for low, high, low_2, high_2 in gaps(equal_pairs(numbers, numbers_2), len(numbers), len(numbers_2)):
            pairs = [
                (low + i, low_2 + j)
                for i, j in likely_pairs(
                    high - low,
                    high_2 - low_2,
                    lambda i, j, low=low, low_2=low_2: self._likeness(before[low + i], after[low_2 + j]),
                )
            ]
            paired, paired_2 = {i for i, _ in pairs}, {j for _, j in pairs}
            todo += [(before[i], after[j], (*path, i), (*path_2, j)) for i, j in pairs]
            # The place in the other list is where the item comes in, seen from the other side.
            found += [
                _Place("removed", (*path, i), (*path_2, i), before[i])
                for i in range(low, high)
                if i not in paired
            ]
            found += [
                _Place("added", (*path, j), (*path_2, j), after=after[j])
                for j in range(low_2, high_2)
                if j not in paired_2
            ]

    def _likeness(self, one: Any, other: Any) -> float:
        """From 0 to less than 1: the share of equal members or items, and of the type."""
        if _type(one) != _type(other):
            return 0.0
        if _is_dict(one):
            members = cast("dict[str, Any]", one)
            common = sum(
                1 + 3 * (self._number(value) == self._number(other[name]))
                for name, value in members.items()
                if name in other
            )
            return 0.1 + 0.2 * common / max(len(members), len(other), 1)
        if _is_list(one):
            numbers = Counter(map(self._number, cast("list[Any]", one)))
            common = (numbers & Counter(map(self._number, other))).total()
            return 0.1 + 0.8 * common / max(numbers.total(), len(other), 1)
        return 0.1

    # Numbers of values

    def _number(self, value: Any) -> int:
        kind = cast("type[object]", type(value))
        if kind is dict or kind is list:
            return self._number_of[id(value)]
        # Of all scalars, only true and false are equal to one of another type.
        return self._intern((value,) if kind is bool else value)

    def _intern(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _count(self, root: Any) -> None:
        """Number every container, the inner ones first. Raises `_TooLargeError`."""
        order: list[Any] = []
        todo = [root]
        while todo:
            value = todo.pop()
            if _is_container(value):
                order.append(value)
                children = cast("list[Any]", list(value.values()) if _is_dict(value) else value)
                self._left -= len(children)
                if self._left < 0:
                    raise _TooLargeError
                todo += children
        for value in reversed(order):
            if _is_dict(value):
                members = cast("dict[str, Any]", value)
                key: Any = ("{", frozenset((name, self._number(each)) for name, each in members.items()))
            else:
                key = ("[", tuple(map(self._number, value)))
            self._number_of[id(value)] = self._intern(key)


def _is_dict(value: Any) -> bool:
    # Plain booleans: a narrowed `Any` would be a container of unknown items to the type checker.
    return isinstance(value, dict)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_container(value: Any) -> bool:
    return isinstance(value, dict | list)


def _type(value: Any) -> str:
    # True is a number to Python, and 1 and 1.0 are one number to us.
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


# Applying


def applied(before: bytes, changes: Sequence[Change]) -> bytes:
    """The body that `changes`, as `differences` gave them for `before`, lead to; its spelling is that of the encoder.

    Raises `ValueError` where they are not changes of this body.
    """
    root = [msgspec.json.decode(before)] if before else []
    steps: dict[int, tuple[Any, list[tuple[Token, Change]]]] = {}
    # All are found before any is made: while the lists are as they were, the numbers of the paths hold.
    for change in changes:
        container, token = _resolved(root, change)
        steps.setdefault(id(container), (container, []))[1].append((token, change))
    for container, many in steps.values():
        inserted: list[tuple[int, Any]] = []
        dropped: list[int] = []
        for token, change in many:
            value = None if change.after is None else msgspec.json.decode(change.after)
            if change.kind == "removed":
                dropped.append(token) if isinstance(token, int) else container.pop(token)
            elif change.kind == "added" and isinstance(token, int):
                inserted.append((token, value))
            else:
                container[token] = value
        for place in sorted(dropped, reverse=True):
            del container[place]
        for place, value in sorted(inserted, key=lambda each: each[0]):
            container.insert(place, value)
    return msgspec.json.encode(root[0]) if root else b""


def _resolved(root: list[Any], change: Change) -> tuple[Any, Token]:
    """In which container, and under which token, a change lies. Raises `ValueError`."""
    container: Any = root
    token: Token = 0
    for text in tokens_of(change.pointer):
        try:
            container = container[token]
        except (LookupError, TypeError):
            raise ValueError(f"there is nothing at {change.pointer}") from None
        if not _is_container(container):
            raise ValueError(f"there is nothing at {change.pointer}")
        token = int(text) if _is_list(container) else text
    return container, token


# Changing one place


def replaced(body: bytes, pointer: str, value: bytes) -> tuple[bytes, Change]:
    """The body with another value at one place, and the change that this is. A last token `-` appends to a list.

    A member that is not there is added. Raises `ValueError`, saying what is wrong, where the place does not exist or
    the value is no JSON.
    """
    try:
        after: Any = msgspec.json.decode(value)
    except msgspec.DecodeError:
        raise ValueError("the value is no JSON") from None
    root: list[Any] = [msgspec.json.decode(body)] if body else [_NOTHING]
    container: Any = root
    token: Token = 0
    so_far: list[str] = []
    for text in tokens_of(pointer):
        container = _child(container, token, pointer_of(so_far))
        so_far.append(text)
        token = _token(container, text, pointer_of(so_far))
    if _is_list(container) and token == len(cast("list[Any]", container)):
        container.append(after)
        return msgspec.json.encode(root[0]), Change(
            pointer_of([*so_far[:-1], token]), "added", after=_raw(after)
        )
    before: Any = container.get(token, _NOTHING) if _is_dict(container) else container[token]
    container[token] = after
    kind: ChangeKind = "added" if before is _NOTHING else "value" if _type(before) == _type(after) else "type"
    return msgspec.json.encode(root[0]), Change(pointer, kind, _raw(before), _raw(after))


def _child(container: Any, token: Token, pointer: str) -> Any:
    try:
        return container[token]
    except LookupError:
        raise ValueError(f"there is nothing at {pointer}") from None


def _token(container: Any, text: str, pointer: str) -> Token:
    if _is_dict(container):
        return text
    if not _is_list(container):
        raise ValueError(f"there is nothing at {pointer}: what holds it is no object or list")
    count = len(cast("list[Any]", container))
    if text == "-":
        return count
    if text.isascii() and text.isdigit() and int(text) < count:
        return int(text)
    raise ValueError(f"there is nothing at {pointer}: the list has {count} items")
