"""A policy of ours as policies of Cedar, and a call as a request to it: another engine's word on the same question.

Cedar knows permit and forbid alone. So it is asked twice: whether a call may happen with a person's word (`may`), and
whether it may without (`silently`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gateway.policy.decide import Facts
from gateway.policy.evidence import assess
from gateway.policy.model import Policy, Rule, Verdict
from gateway.policy.scope import KINDS

MOST = 2
"""Things that a call touches in these tests; each has attributes of its own, since Cedar has no loops."""


def verdict(may: bool, silently: bool, *, has_ui: bool) -> Verdict:
    """What two answers of Cedar come to."""
    if may and silently:
        return "allow"
    return "ask" if may and has_ui else "deny"


def request(policy: Policy, facts: Facts, action: str) -> dict[str, Any]:
    """One question to Cedar."""
    need = facts.need
    override = policy.extensions.get(facts.extension)
    context: dict[str, Any] = {
        "mode": (override and override.mode) or policy.mode,
        "standing": facts.standing,
        "remembered": facts.remembered.verdict if facts.remembered else "none",
        "harmless": assess(policy.model, dict(facts.signals)).grants,
        "capability": need.capability,
        "method": need.method,
        "tool": need.tool,
        "folds": facts.folds_case,
    }
    for at, path in enumerate(need.paths):
        context[f"path{at}"] = path
        context[f"lower{at}"] = path.casefold()
    for at, host in enumerate(need.hosts):
        context[f"host{at}"], _, context[f"port{at}"] = host.rpartition(":")
    for at, name in enumerate(need.env):
        context[f"env{at}"] = name
    return {
        "principal": f'Extension::"{facts.extension}"',
        "action": f'Action::"{action}"',
        "resource": 'Host::"host"',
        "context": context,
    }


def policies(policy: Policy) -> str:
    """All that a policy says, in Cedar's words."""
    return "\n".join([*_gates(), *_limits(policy), *_lists(policy), *map(_rule, policy.rules), *_modes()])


def _gates() -> Iterator[str]:
    yield _forbid('context.mode == "strict" && context.standing != "declared"')
    yield _forbid(
        'context.mode == "prompt" && context.standing != "declared" && context.standing != "nothing_declared"'
    )
    yield _forbid('context.standing == "unreadable_manifest" || context.standing == "out_of_scope"')
    yield _forbid('context.remembered == "deny"')
    yield _permit('context.remembered == "allow"')


def _modes() -> Iterator[str]:
    yield _permit('context.mode == "prompt"', action="may")
    yield _permit('context.mode == "permissive"')


def _limits(policy: Policy) -> Iterator[str]:
    for scope, who in [
        (policy.scope, "true"),
        *((o.scope, f'principal == Extension::"{name}"') for name, o in policy.extensions.items()),
    ]:
        for kind in scope.kinds:
            about = " || ".join(f'context.capability == "{c}"' for c, of in KINDS.items() if of == kind)
            inside = _touches(kind, getattr(scope, kind), refuses=False)
            yield _forbid(f"({who}) && ({about}) && !({inside})")


def _lists(policy: Policy) -> Iterator[str]:
    for name in policy.deny_caps:
        yield _forbid(_about(name))
    for name in policy.default_caps:
        yield _default(_about(name))
    for extension, override in policy.extensions.items():
        who = f'principal == Extension::"{extension}"'
        yield from (_forbid(f"{who} && {_about(name)}") for name in override.deny)
        yield from (_permit(f"{who} && {_about(name)}") for name in override.allow)


def _rule(rule: Rule) -> str:
    refuses = rule.verdict != "allow"
    when = [_about(rule.capability)]
    if rule.extension != "*":
        when.append(f'principal == Extension::"{rule.extension}"')
    if rule.method != "*":
        when.append(f'context.method == "{rule.method}"')
    when += [f"({_touches(kind, getattr(rule, kind), refuses=refuses)})" for kind in rule.scope.kinds]
    condition = " && ".join(when)
    if rule.verdict == "deny":
        return _forbid(condition)
    if rule.verdict == "allow":
        return _default(condition) if rule.extension == "*" else _permit(condition)
    unless = "" if rule.always else ' && context.remembered != "allow"'
    return _forbid(condition + unless, action="silently") + "\n" + _permit(condition, action="may")


def _default(when: str) -> str:
    """What is allowed to everybody holds where the evidence does not speak against it and something was declared."""
    in_strict = _permit(f'context.mode == "strict" && context.harmless && ({when})')
    in_prompt = _permit(
        f'context.mode == "prompt" && context.harmless && context.standing == "declared" && ({when})'
    )
    return "\n".join((in_strict, in_prompt))


def _about(capability: str) -> str:
    if capability == "*":
        return "true"
    if capability.startswith("tool:"):
        return f'context.tool == "{capability.removeprefix("tool:")}"'
    return f'context.capability == "{capability}"'


def _touches(kind: str, patterns: Iterable[str], *, refuses: bool) -> str:
    """Whether any of what a call touches fits one pattern, where that refuses, and all of it otherwise."""
    name = {"paths": "path", "hosts": "host", "env": "env"}[kind]
    one = {"paths": _path, "hosts": _host, "env": _name}[kind]
    each: list[str] = []
    for at in range(MOST):
        fits = " || ".join(one(pattern, at, refuses=refuses) for pattern in patterns) or "false"
        there = f"context has {name}{at}"
        each.append(f"({there} && ({fits}))" if refuses else f"(!({there}) || ({fits}))")
    return " || ".join(each) if refuses else f"context has {name}0 && " + " && ".join(each)


def _path(pattern: str, at: int, *, refuses: bool) -> str:
    plain = _like(f"context.path{at}", pattern, refuses=refuses)
    if not refuses:
        return plain
    return (
        f"({plain}) || (context.folds && ({_like(f'context.lower{at}', pattern.casefold(), refuses=True)}))"
    )


def _like(what: str, pattern: str, *, refuses: bool) -> str:
    """One of the forms that the tests use: a plain path, `a/**`, `**/x`, `a/*` and `a/*.x`."""
    head, _, last = pattern.rpartition("/")
    base = f"{head}/" if head and head != "**" else ""
    hidden = f'({what} like "{base}.*" || {what} like "{base}*/.*")'
    if "*" not in pattern:
        return f'{what} == "{pattern}"'
    if last == "**":
        root = f'{what} == "{head}" || ' if head else f'{what} == "" || '
        below = f'{what} like "{base}*"'
        return f"({root}{below})" if refuses else f"({root}({below} && !{hidden}))"
    if head == "**":
        found = f'({what} like "{last}" || {what} like "*/{last}")'
        if refuses:
            return found
        if last.startswith("."):
            # The name is hidden and meant; no folder above it may be.
            above = f'{what} like ".*/*" || {what} like "*/.*/*"'
            return f'({what} like "{last}" || ({what} like "*/{last}" && !({above})))'
        return f"({found} && !{hidden})"
    found = f'({what} like "{pattern}" && !({what} like "{base}*/*"))'
    return found if refuses else f'({found} && !({what} like "{base}.*"))'


def _host(pattern: str, at: int, *, refuses: bool) -> str:
    name, _, port = pattern.rpartition(":") if pattern.count(":") == 1 else (pattern, "", "")
    host = f"context.host{at}"
    fits = "true" if name == "*" else f'{host} like "{name}"' if "*" in name else f'{host} == "{name}"'
    if port == "*" or (refuses and not port):
        return f"({fits})"
    ports = (port,) if port else ("80", "443")
    right = " || ".join(f'context.port{at} == "{each}"' for each in ports)
    return f"(({fits}) && ({right}))"


def _name(pattern: str, at: int, *, refuses: bool) -> str:
    del refuses
    return f'context.env{at} == "{pattern}"'


def _forbid(when: str, *, action: str = "") -> str:
    return f"forbid(principal, {_action(action)}, resource) when {{ {when} }};"


def _permit(when: str, *, action: str = "") -> str:
    return f"permit(principal, {_action(action)}, resource) when {{ {when} }};"


def _action(action: str) -> str:
    return f'action == Action::"{action}"' if action else "action"
