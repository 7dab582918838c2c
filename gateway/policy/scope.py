"""Scopes: the paths, hosts and names of variables that something is limited to.

Owns what a scope says about a call, whoever has written it: a manifest, an operator, a person who remembered an
answer. What a pattern means is in `paths.py` and `hosts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from gateway.policy.capability import Need
from gateway.policy.hosts import HostError, HostPattern, HostPatterns
from gateway.policy.paths import PathError, PathPatterns, pattern

KINDS: Final = {"read": "paths", "write": "paths", "http": "hosts", "env": "env"}
"""Which part of a scope speaks of a capability. The other capabilities have no scope."""

MOST_PATTERNS: Final = 1024
"""Patterns of one kind in one scope."""


class Scope(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What something is limited to. None is no limit of that kind; an empty list is nothing at all."""

    paths: list[str] | None = None
    hosts: list[str] | None = None
    env: list[str] | None = None

    def of(self, capability: str) -> list[str] | None:
        """Return the patterns that speak of a capability."""
        kind = KINDS.get(capability)
        return None if kind is None else getattr(self, kind)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of limits that there are."""
        return tuple(kind for kind in ("paths", "hosts", "env") if getattr(self, kind) is not None)


UNLIMITED: Final = Scope()


def faults(scope: Scope) -> list[tuple[str, int, str]]:
    """Return what is wrong with a scope's patterns: kind, position, and the end of a sentence."""
    found: list[tuple[str, int, str]] = []
    for kind in scope.kinds:
        patterns: list[str] = getattr(scope, kind)
        if len(patterns) > MOST_PATTERNS:
            found.append((kind, MOST_PATTERNS, f"is one of more than {MOST_PATTERNS}"))
            continue
        for at, text in enumerate(patterns):
            if (fault := pattern_fault(kind, text)) is not None:
                found.append((kind, at, fault))
    return found


def pattern_fault(kind: str, text: str) -> str | None:
    """Return what is wrong with one pattern, as the end of a sentence; None for nothing."""
    if not text:
        return "is empty"
    try:
        if kind == "paths":
            pattern(text)
        elif kind == "hosts":
            HostPattern(text)
        elif "=" in text or "*" in text or not text.isprintable():
            return "must be the exact name of a variable"
    except (PathError, HostError) as error:
        return str(error)
    return None


class Allowed:
    """What several scopes of one capability give together, ready to be asked. Any of them unlimited, and all is."""

    __slots__ = ("_capability", "_env", "_hosts", "_paths", "is_unlimited")

    def __init__(self, capability: str, scopes: Iterable[Scope], *, wide: bool = False) -> None:
        """Read the patterns, which are `wide` where they refuse.

        Raises:
            PathError, HostError: If one is none; `faults` says so beforehand.
        """
        lists = [scope.of(capability) for scope in scopes]
        self._capability = capability
        self.is_unlimited = any(each is None for each in lists)
        texts = [text for each in lists for text in each or ()]
        kind = KINDS.get(capability)
        self._paths = self._hosts = None
        self._env: frozenset[str] = frozenset(texts) if kind == "env" else frozenset()
        if kind == "paths":
            self._paths = PathPatterns(((pattern(text), 0) for text in texts), wide=wide)
        elif kind == "hosts":
            self._hosts = HostPatterns((HostPattern(text, refuses=wide), 0) for text in texts)

    def covers(self, need: Need, *, folds_case: bool = False) -> bool:
        """Whether everything that the call touches is inside. A call that touches nothing nameable is not.

        `folds_case` is that of the root of the paths; it changes only what refuses.

        Raises:
            BudgetError: If a path leads to too many places.
        """
        if self.is_unlimited:
            return True
        if self._paths is not None:
            for path in need.paths:
                if not self._paths.matching(path, folds_case=folds_case):
                    return False
            return bool(need.paths)
        if self._hosts is not None:
            return bool(need.hosts) and all(map(self._hosts.matching, need.hosts))
        return bool(need.env) and self._env.issuperset(need.env)
