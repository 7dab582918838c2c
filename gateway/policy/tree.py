"""Many path patterns followed down one path together, and what was found on the way remembered.

Owns the walk and its bound. A set of places in the patterns is a state; where a name leads from one is worked out
once and looked up from then on, as engines for regular expressions do. What is remembered is bounded and changes no
answer, nor when the walk is given up. What a pattern means is said in `paths.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gateway.policy.globs import Globs, is_glob

MOST_STEPS: Final = 20_000
"""Places of patterns that one path may lead to before the walk is given up, which refuses the call."""
MOST_KEPT: Final = 4096
"""Ways from a state that are remembered, of one tree; after that it begins anew."""
LONGEST_KEPT: Final = 64
"""Letters of a name that is remembered."""

NOTHING: Final[frozenset[int]] = frozenset()


class BudgetError(RuntimeError):
    """A path that leads to too many places of the patterns. Whoever meets it refuses."""


class _Node:
    """A place in the patterns."""

    __slots__ = ("any", "ends", "globs", "index", "names")

    def __init__(self) -> None:
        self.names: dict[str, _Node] = {}
        self.globs: dict[str, _Node] = {}
        self.index: Globs | None = None
        """Of `globs`, made when it is needed."""
        self.any: _Node | None = None
        """Where `**` leads. It loops there."""
        self.ends: set[int] = set()


Place = tuple[_Node, bool]
"""A place, and whether it was reached by `**`, which then may take more."""


class _State:
    """Places in which a path can be at once, with where it goes on from there."""

    __slots__ = ("ends", "globbed", "names", "other", "places", "targets", "ways")

    def __init__(self, places: frozenset[Place]) -> None:
        self.places = tuple(places)
        self.ends = NOTHING.union(*(node.ends for node, _ in places))
        self.names = frozenset[str]().union(*(node.names for node, _ in places))
        self.globbed = tuple(dict.fromkeys(node for node, _ in places if node.globs))
        self.other: Way | None = None
        """Where a name leads that no pattern has and that is not hidden."""
        self.targets: dict[tuple[object, ...], _State] = {}
        """By all that makes a difference about a name."""
        self.ways: dict[str, Way] = {}


Way = tuple[_State, int]
"""Where a name leads, and what it costs to find out."""


class Tree:
    """Patterns by segment. `wide` ones take hidden names too."""

    __slots__ = ("_root", "_start", "_states", "_wide", "kept")

    def __init__(self, patterns: Iterable[tuple[Sequence[str], int]], *, wide: bool) -> None:
        self._wide = wide
        self._root = _Node()
        for parts, number in patterns:
            self._add(parts, number)
        self._states: dict[frozenset[Place], _State] = {}
        self.kept = 0
        """Ways that are remembered."""
        self._start = self._begin()

    def matching(self, path: str) -> frozenset[int]:
        """Return the numbers of the patterns that match a normal path.

        Raises:
            BudgetError: If that takes too long.
        """
        state = self._start
        if not path:
            return state.ends
        steps = 0
        for name in path.split("/"):
            state, cost = state.ways.get(name) or self._way(state, name)
            steps += cost
            if steps > MOST_STEPS:
                raise BudgetError("a path leads to too many places of the patterns")
        return state.ends

    def _add(self, parts: Sequence[str], number: int) -> None:
        node = self._root
        for part in parts:
            if part == "**":
                node.any = node.any or _Node()
                node = node.any
            else:
                table = node.globs if is_glob(part) else node.names
                node = table.setdefault(part, _Node())
        node.ends.add(number)

    def _begin(self) -> _State:
        places: set[Place] = set()
        _reach(places, self._root)
        return self._state(places)

    def _state(self, places: set[Place]) -> _State:
        # Who is there by `**` can go on in every way that he could otherwise.
        key = frozenset(place for place in places if place[1] or (place[0], True) not in places)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _State(key)
        return state

    def _way(self, state: _State, name: str) -> Way:
        """Work out where a name leads."""
        hidden = not self._wide and name.startswith(".")
        cost = len(state.places)
        if not (state.globbed or hidden or name in state.names):
            if state.other is None:
                state.other = self._target(state, "", (), hidden=False), cost
            return self._keep(state, name, state.other)
        matched: list[_Node] = []
        for node in state.globbed:
            if node.index is None:
                node.index = Globs(node.globs)
            globs, looked = node.index.matching(name)
            cost += looked
            if globs:
                matched += [node.globs[glob] for glob in globs if not hidden or glob[0] == "."]
        plain = name if name in state.names else ""
        key = (plain, hidden, *matched)
        target = state.targets.get(key)
        if target is None:
            target = state.targets[key] = self._target(state, plain, matched, hidden=hidden)
        return self._keep(state, name, (target, cost))

    def _keep(self, state: _State, name: str, way: Way) -> Way:
        self.kept += 1
        if self.kept > MOST_KEPT:
            self.kept = 0
            self._states = {}
            self._start = self._begin()
        elif len(name) <= LONGEST_KEPT:
            state.ways[name] = way
        return way

    def _target(self, state: _State, plain: str, matched: Iterable[_Node], *, hidden: bool) -> _State:
        after: set[Place] = set()
        for node, loops in state.places:
            if loops and not hidden:
                _reach(after, node, loops=True)
            if plain and (following := node.names.get(plain)) is not None:
                _reach(after, following)
        for following in matched:
            _reach(after, following)
        return self._state(after)


def _reach(into: set[Place], node: _Node, *, loops: bool = False) -> None:
    into.add((node, loops))
    if node.any is not None:
        into.add((node.any, True))
