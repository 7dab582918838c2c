"""A policy made ready to be asked: by extension and capability, so that a call meets the few rules that can fit it.

Owns which rules fit a call, and which of several is named: the narrowest. What follows from them is `decide.py`'s.
Everything is a set; the order in which rules were written changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Final

import msgspec

from gateway.policy.capability import TOOL_MARK, Need
from gateway.policy.evidence import Assessment, assess
from gateway.policy.globs import fits
from gateway.policy.hosts import HostPattern, HostPatterns
from gateway.policy.model import ANY, Mode, Override, Policy, Rule, Verdict
from gateway.policy.paths import PathPatterns, pattern, specificity
from gateway.policy.scope import KINDS, Allowed
from gateway.policy.tree import NOTHING

MOST_KEPT: Final = 4096
"""Extensions, or tools of one, whose rules are kept together; more are put together anew each time."""

Signals = tuple[tuple[str, int], ...]
"""Evidence about an extension, by name, in thousandths."""


class Clause(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that a policy says: a rule, or an entry of one of its lists."""

    reason: str
    id: str
    why: str = ""


class Clauses:
    """What is said with one verdict about calls of one kind, the narrowest first.

    Args:
        rules: Each with the clause that it is, and how narrow it is.
        kind: Which part of a scope speaks of these calls; None for none.
        refuses: Whether a clause holds as soon as one thing that a call touches fits, and wildcards are wide.
    """

    __slots__ = ("_clauses", "_env", "_hosts", "_open", "_paths", "_refuses")

    def __init__(self, rules: Iterable[tuple[Rule, Clause]], kind: str | None, *, refuses: bool) -> None:
        ordered = sorted(rules, key=lambda each: (_narrowness(each[0], kind), each[1].id, each[1].reason))
        self._clauses = [clause for _, clause in ordered]
        self._refuses = refuses
        self._open = len(ordered)
        """The number of the narrowest clause that needs no look at what a call touches."""
        paths: list[tuple[tuple[str, ...], int]] = []
        hosts: list[tuple[HostPattern, int]] = []
        self._env: list[tuple[str, int]] = []
        for number, (rule, _) in enumerate(ordered):
            texts = None if kind is None else getattr(rule, kind)
            if texts is None:
                self._open = min(self._open, number)
            elif kind == "paths":
                paths += [(pattern(text), number) for text in texts]
            elif kind == "hosts":
                hosts += [(HostPattern(text, refuses=refuses), number) for text in texts]
            else:
                self._env += [(text, number) for text in texts]
        self._paths = PathPatterns(paths, wide=refuses) if paths else None
        self._hosts = HostPatterns(hosts) if hosts else None

    def of(self, need: Need, *, folds_case: bool) -> Clause | None:
        """Return the narrowest clause that holds for a call, or None.

        Raises:
            BudgetError: If a path leads to too many places.
        """
        if not self._clauses:
            return None
        number = self._open
        if number and (found := self._touched(need, folds_case=folds_case)):
            number = min(number, *found)
        return self._clauses[number] if number < len(self._clauses) else None

    def _touched(self, need: Need, *, folds_case: bool) -> Set[int]:
        each: list[Set[int]]
        if self._paths is not None:
            if len(need.paths) == 1:
                return self._paths.matching(need.paths[0], folds_case=folds_case)
            each = [self._paths.matching(path, folds_case=folds_case) for path in need.paths]
        elif self._hosts is not None:
            each = [self._hosts.matching(host) for host in need.hosts]
        elif self._env:
            each = [{number for glob, number in self._env if fits(glob, name)} for name in need.env]
        else:
            return NOTHING
        if not each:
            return NOTHING
        join = frozenset[int].union if self._refuses else frozenset[int].intersection
        return join(*map(frozenset[int], each))


class Kind:
    """All that a policy says about calls of one extension with one capability, method and tool."""

    __slots__ = ("always", "ask", "default", "deny", "named", "scopes")

    def __init__(self, policy: Policy, extension: str, need: Need) -> None:
        override = policy.extensions.get(extension)
        kind = KINDS.get(need.capability)
        places: dict[str, list[tuple[Rule, Clause]]] = {
            place: [] for place in ("deny", "always", "ask", "named", "default")
        }
        for rule, clause in said(policy, extension, override):
            if _fits(rule, extension, need, kind):
                places[_place(rule)].append((rule, clause))
        self.deny = Clauses(places["deny"], kind, refuses=True)
        self.always = Clauses(places["always"], kind, refuses=True)
        """What is asked every time."""
        self.ask = Clauses(places["ask"], kind, refuses=True)
        self.named = Clauses(places["named"], kind, refuses=False)
        self.default = Clauses(places["default"], kind, refuses=False)
        limits = [policy.scope, *([override.scope] if override else [])]
        made = [Allowed(need.capability, [limit]) for limit in limits]
        self.scopes = tuple(each for each in made if not each.is_unlimited)


class Rules:
    """A policy, ready. Remembers what it has worked out, and nothing that changes a decision."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.hash = policy.hash
        self._kinds: dict[tuple[str, str, str, str], Kind] = {}
        self._assessed: dict[Signals, Assessment] = {}

    def mode(self, extension: str) -> Mode:
        """The mode that holds for an extension."""
        override = self.policy.extensions.get(extension)
        return (override and override.mode) or self.policy.mode

    def kind(self, extension: str, need: Need) -> Kind:
        """All that is said about calls like this one."""
        key = (extension, need.capability, need.method, need.tool)
        found = self._kinds.get(key)
        if found is None:
            found = Kind(self.policy, extension, need)
            if len(self._kinds) < MOST_KEPT:
                self._kinds[key] = found
        return found

    def assessed(self, signals: Signals) -> Assessment:
        """The loss-aware decision about an extension with these signals.

        Raises:
            EvidenceError: If there is none.
        """
        found = self._assessed.get(signals)
        if found is None:
            found = assess(self.policy.model, dict(signals))
            if len(self._assessed) < MOST_KEPT:
                self._assessed[signals] = found
        return found


def said(policy: Policy, extension: str, override: Override | None) -> Iterator[tuple[Rule, Clause]]:
    """Yield everything that a policy says about an extension, lists and rules alike, as rules."""

    def listed(
        verdict: Verdict, names: Iterable[str], reason: str, whose: str
    ) -> Iterator[tuple[Rule, Clause]]:
        for name in names:
            yield Rule(verdict=verdict, capability=name, extension=whose), Clause(reason=reason, id=name)

    if override is not None:
        yield from listed("deny", override.deny, "extension_deny", extension)
        yield from listed("allow", override.allow, "extension_allow", extension)
    yield from listed("deny", policy.deny_caps, "deny_caps", ANY)
    yield from listed("allow", policy.default_caps, "default_caps", ANY)
    for at, rule in enumerate(policy.rules):
        yield rule, Clause(reason=f"rule_{rule.verdict}", id=rule.id or f"rules[{at}]", why=rule.why)


def _place(rule: Rule) -> str:
    if rule.verdict == "allow":
        # A rule for everybody is a default: nobody has looked at this extension.
        return "default" if rule.extension == ANY else "named"
    return "always" if rule.verdict == "ask" and rule.always else rule.verdict


def _fits(rule: Rule, extension: str, need: Need, kind: str | None) -> bool:
    if rule.extension not in (ANY, extension) or rule.method not in (ANY, need.method):
        return False
    if rule.capability not in (ANY, need.capability) and not (
        need.tool and rule.capability == TOOL_MARK + need.tool
    ):
        return False
    # A rule about hosts says nothing about files.
    kinds = rule.scope.kinds
    return not kinds or kind in kinds


def _narrowness(rule: Rule, kind: str | None) -> tuple[bool | int, ...]:
    """A key that sorts the narrower first."""
    texts = None if kind is None else getattr(rule, kind)
    how: tuple[int, int] = (0, 0)
    if texts and kind == "paths":
        how = min(specificity(pattern(text)) for text in texts)
    elif texts and kind == "hosts":
        how = min(HostPattern(text).specificity() for text in texts)
    elif texts:
        how = min((1 if "*" not in text else 0, len(text)) for text in texts)
    return (
        rule.extension == ANY,
        texts is None,
        -how[0],
        -how[1],
        not rule.capability.startswith(TOOL_MARK),
        rule.method == ANY,
        rule.capability == ANY,
    )
