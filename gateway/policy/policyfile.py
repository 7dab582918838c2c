"""A policy as text, TOML or JSON, into a `Policy`, or everything that is wrong with it.

Owns the keys of the file, and the finding of rules that could never do anything: a rule that parses and never matches
is worse than none, since somebody relies on it. Reads no file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import Meta

from gateway.config.documents import toml_document
from gateway.config.lines import json_lines, plain_json
from gateway.config.mistakes import ConfigError, KeyPath, Mistake, Report, did_you_mean
from gateway.config.reading import as_is, read
from gateway.policy.capability import METHODS_OF, can_be_named
from gateway.policy.evidence import WEIGHTS, Losses, Model, Weight, model_fault
from gateway.policy.model import ANY, PROFILES, Mode, Override, Policy, Profile, Rule
from gateway.policy.scope import KINDS, UNLIMITED, Scope, pattern_fault
from gateway.protocol.capabilities import CAPABILITIES, METHODS

MOST_RULES: Final = 10_000
_FRACTION = re.compile(r"([0-9]{1,7})/([0-9]{1,7})", re.ASCII)


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How evidence about extensions is weighed, and what mistakes cost."""

    prior: Annotated[
        str, Meta(description="The probability of malice before any evidence, as a fraction.")
    ] = "1/100"
    weights: Annotated[
        dict[str, Weight],
        Meta(
            description="Milli-nats of each signal, `present` and `absent`; others keep theirs. 0 switches one off."
        ),
    ] = {}
    losses: Annotated[Losses, Meta(description="What each outcome costs.")] = Losses()


class PolicyFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The keys of the file, but for `rules`. What is absent is the profile's."""

    profile: Annotated[Profile, Meta(description="What the policy begins with.")] = "standard"
    mode: Annotated[Mode | None, Meta(description="What becomes of calls that nothing else speaks of.")] = (
        None
    )
    default_caps: Annotated[list[str] | None, Meta(description="Capabilities that every extension has.")] = (
        None
    )
    deny_caps: Annotated[list[str] | None, Meta(description="Capabilities that no extension has.")] = None
    max_memory_mb: Annotated[int, Meta(ge=1, description="Memory of an extension, in MiB.")] = 256
    scope: Annotated[Scope, Meta(description="Limits of everything that any extension may do.")] = UNLIMITED
    extensions: Annotated[dict[str, Override], Meta(description="What holds for one extension besides.")] = {}
    evidence: Annotated[Evidence, Meta(description="The loss-aware decision.")] = Evidence()


def parse_policy(text: str, *, file: str) -> tuple[Policy, tuple[str, ...]]:
    """Read a policy; what ends in `.json` is JSON, all else TOML. It may also lie under `extensions.policy`.

    Returns:
        The policy, and notes about rules that do nothing because others say more.

    Raises:
        ConfigError: With everything that is wrong.
    """
    report = Report(file=file)
    document, place = _document(text, report)
    if not isinstance(document, dict):
        report.mistake(place, "must be a table")
        raise ConfigError(report.mistakes)
    return read_policy(cast(dict[str, Any], document), report, place)


def read_policy(
    document: Mapping[str, Any], report: Report, place: KeyPath = ("extensions", "policy")
) -> tuple[Policy, tuple[str, ...]]:
    """Read a policy out of a table that lies at `place` of a file.

    Returns:
        As `parse_policy`.

    Raises:
        ConfigError: With everything that is wrong.
    """
    table = dict(document)
    listed = table.pop("rules", [])
    found = read(PolicyFile, table, place, report, as_is)
    rules = _rules(listed, (*place, "rules"), report)
    if found is not None:
        _check_lists(found, place, report)
    model = None if found is None else _model(found.evidence, (*place, "evidence"), report)
    if report.mistakes or found is None or model is None:
        raise ConfigError(report.mistakes)
    begun = PROFILES[found.profile]
    policy = msgspec.structs.replace(
        begun,
        mode=found.mode or begun.mode,
        default_caps=begun.default_caps if found.default_caps is None else tuple(found.default_caps),
        deny_caps=begun.deny_caps if found.deny_caps is None else tuple(found.deny_caps),
        max_memory_mb=found.max_memory_mb,
        scope=found.scope,
        extensions=found.extensions,
        rules=rules,
        model=model,
    )
    _shadows(policy, place, report)
    return policy, tuple(report.notes)


def _document(text: str, report: Report) -> tuple[object, KeyPath]:
    document = _json_document(text, report) if report.file.endswith(".json") else toml_document(text, report)
    if isinstance(document, dict):
        inner = cast(dict[str, Any], document).get("extensions")
        if isinstance(inner, dict) and "policy" in inner:
            return cast(dict[str, Any], inner)["policy"], ("extensions", "policy")
    return cast(object, document), ()


def _json_document(text: str, report: Report) -> object:
    try:
        plain = plain_json(text)
        document: object = json.loads(plain)
        report.lines = partial(json_lines, plain)
    except (ValueError, RecursionError) as error:
        raise ConfigError([Mistake(report.file, None, "", f"cannot be read: {error}")]) from error
    return document


def _rules(listed: object, place: KeyPath, report: Report) -> tuple[Rule, ...]:
    if not isinstance(listed, list):
        report.mistake(place, "must be a list of tables")
        return ()
    items = cast(list[Any], listed)
    if len(items) > MOST_RULES:
        report.mistake(place, f"has more than {MOST_RULES} entries")
        return ()
    rules: list[Rule] = []
    ids: set[str] = set()
    for at, item in enumerate(items):
        rule = read(Rule, item, (*place, at), report, as_is)
        if rule is None:
            continue
        if rule.id in ids:
            report.mistake((*place, at, "id"), "stands twice")
        if rule.id:
            ids.add(rule.id)
        _check_rule(rule, (*place, at), report)
        rules.append(rule)
    return tuple(rules)


def _check_rule(rule: Rule, place: KeyPath, report: Report) -> None:
    """Find what would keep a rule from ever matching."""
    if rule.capability != ANY:
        _check_capability(rule.capability, (*place, "capability"), report)
    if rule.method != ANY and rule.method not in METHODS:
        report.mistake((*place, "method"), f"is not a host call{did_you_mean(rule.method, METHODS)}")
    elif rule.method != ANY and rule.method not in METHODS_OF.get(rule.capability, METHODS):
        report.mistake((*place, "method"), f"never needs `{rule.capability}`: the rule would never match")
    kinds = rule.scope.kinds
    if len(kinds) > 1:
        report.mistake((*place, kinds[1]), f"stands beside `{kinds[0]}`: a call has one of them")
    for kind in kinds:
        if rule.capability in CAPABILITIES and KINDS.get(rule.capability) != kind:
            report.mistake((*place, kind), f"says nothing of `{rule.capability}`: the rule would never match")
        if not getattr(rule, kind):
            report.mistake((*place, kind), "is empty: the rule would never match")
    _check_scope(rule.scope, place, report, wide=rule.verdict != "allow")
    if rule.always and rule.verdict != "ask":
        report.mistake((*place, "always"), "belongs to rules that ask")


def _check_lists(found: PolicyFile, place: KeyPath, report: Report) -> None:
    for name in ("default_caps", "deny_caps"):
        for at, each in enumerate(getattr(found, name) or ()):
            _check_capability(each, (*place, name, at), report)
    _check_scope(found.scope, (*place, "scope"), report)
    for extension, override in found.extensions.items():
        where = (*place, "extensions", extension)
        for name in ("allow", "deny"):
            for at, each in enumerate(getattr(override, name)):
                _check_capability(each, (*where, name, at), report)
        _check_scope(override.scope, (*where, "scope"), report)


def _check_capability(name: str, place: KeyPath, report: Report) -> None:
    if not can_be_named(name):
        report.mistake(place, f"`{name}` is not a capability{did_you_mean(name, CAPABILITIES)}")


def _check_scope(scope: Scope, place: KeyPath, report: Report, *, wide: bool = False) -> None:
    for kind in scope.kinds:
        for at, text in enumerate(getattr(scope, kind)):
            # A rule that refuses may name many variables at once.
            plain = text.replace("*", "x") if wide and kind == "env" else text
            if (fault := pattern_fault(kind, plain)) is not None:
                report.mistake((*place, kind, at), f"`{text}` {fault}")


def _model(evidence: Evidence, place: KeyPath, report: Report) -> Model | None:
    prior = _FRACTION.fullmatch(evidence.prior)
    if prior is None:
        report.mistake((*place, "prior"), "must be a fraction, such as `1/100`")
        return None
    model = Model(
        prior=(int(prior[1]), int(prior[2])),
        weights={**WEIGHTS, **evidence.weights},
        losses=evidence.losses,
    )
    if (fault := model_fault(model)) is not None:
        report.mistake(place, f"cannot be used: {fault}")
        return None
    return model


def _shadows(policy: Policy, place: KeyPath, report: Report) -> None:
    """Note rules and entries that a denial of the same calls leaves nothing to say."""
    denied = set(policy.deny_caps)
    for extension, override in policy.extensions.items():
        for at, name in enumerate(override.allow):
            if name in denied or name in override.deny:
                where = (*place, "extensions", extension, "allow", at)
                report.note(where, f"`{name}` does nothing: it is denied elsewhere, which nothing overrides")
    for at, rule in enumerate(policy.rules):
        if rule.verdict != "deny" and rule.capability in denied:
            report.note((*place, "rules", at), f"does nothing: `deny_caps` has `{rule.capability}`")
