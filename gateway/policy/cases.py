"""Cases that a policy is tried on: calls, and what is to become of them.

Owns the keys of the file and when a case holds. Reads no file.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import Meta

from gateway.config.documents import toml_document
from gateway.config.mistakes import ConfigError, Report
from gateway.config.reading import as_is, read
from gateway.policy.capability import Need, checked, need_of
from gateway.policy.decide import Answer, Decision, Facts, answered, decide, not_judged
from gateway.policy.manifest import Declaration, ManifestError, Standing, declaration
from gateway.policy.model import Policy, Remembered, Verdict
from gateway.policy.paths import Root, Roots
from gateway.policy.rules import Rules
from gateway.protocol.capabilities import CallError, capability_of

MOST_CASES: Final = 10_000
PROJECT: Final = "/project"
"""Where the project lies in a case, for absolute paths."""

_ROOTS = Roots([Root(id="project", path=PROJECT)])


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call, and what is to become of it."""

    extension: Annotated[str, Meta(min_length=1, description="Who asks.")]
    method: Annotated[str, Meta(description="The host call.")]
    expect: Annotated[Verdict, Meta(description="What is to become of it.")]
    params: Annotated[dict[str, Any], Meta(description="As the extension sends them.")] = {}
    name: Annotated[str, Meta(description="What it is called in reports. Default: its place.")] = ""
    capability: Annotated[
        str, Meta(description="What the extension states. Default: what the call needs.")
    ] = ""
    reason: Annotated[str, Meta(description="The reason that the decision must give.")] = ""
    rule: Annotated[str, Meta(description="The rule, entry or grant that must decide.")] = ""
    manifest: Annotated[
        dict[str, Any] | None, Meta(description="The extension's `pi.ext.cap.v1` manifest.")
    ] = None
    capabilities: Annotated[list[str] | None, Meta(description="Its flat list of before.")] = None
    standing: Annotated[
        Standing, Meta(description="What its declaration says of the call, where neither is given.")
    ] = "declared"
    signals: Annotated[dict[str, int], Meta(description="Evidence about it, in thousandths.")] = {}
    remembered: Annotated[Literal["allow", "deny", "none"], Meta(description="What was answered before.")] = (
        "none"
    )
    ui: Annotated[bool, Meta(description="Whether there is anybody to ask.")] = True
    answer: Annotated[
        Literal["allow", "deny", "none"], Meta(description="What is answered, if it is asked.")
    ] = "none"
    folds_case: Annotated[bool, Meta(description="Whether its files' names ignore case.")] = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a case. `wrong` are ends of sentences, none if it holds."""

    case: Case
    decision: Decision
    wrong: tuple[str, ...]


def parse_cases(text: str, *, file: str) -> list[Case]:
    """Read the file: `[[cases]]`.

    Raises:
        ConfigError: With everything that is wrong with it.
    """
    report = Report(file=file)
    document = toml_document(text, report)
    for key in document:
        if key != "cases":
            report.mistake((key,), "is not a known key; did you mean `cases`?")
    listed = document.get("cases", [])
    items = cast(list[Any], listed) if isinstance(listed, list) else []
    if not items:
        report.mistake(("cases",), "must be a list of tables, with one at least")
    if len(items) > MOST_CASES:
        report.mistake(("cases",), f"has more than {MOST_CASES} entries")
        items = []
    cases: list[Case] = []
    for at, item in enumerate(items):
        case = read(Case, item, ("cases", at), report, as_is)
        if case is None:
            continue
        _check(case, at, report)
        cases.append(case if case.name else msgspec.structs.replace(case, name=f"cases[{at}]"))
    if report.mistakes:
        raise ConfigError(report.mistakes, page="docs/howto/audit.md")
    return cases


def _check(case: Case, at: int, report: Report) -> None:
    if case.manifest is not None and case.capabilities is not None:
        report.mistake(("cases", at, "capabilities"), "stands beside `manifest`, which counts alone")
    try:
        _declared(case)
    except ManifestError as error:
        report.mistake(("cases", at, "manifest"), f"cannot be read: {error}")


def _declared(case: Case) -> Declaration | None:
    """What the extension has declared; None where the case says what that comes to."""
    if case.manifest is None and case.capabilities is None:
        return None
    register = {"capability_manifest": case.manifest, "capabilities": case.capabilities}
    found, error = declaration(register)
    if error is not None:
        raise error
    return found


def judged(case: Case, rules: Rules) -> Outcome:
    """Return what becomes of a case under a policy."""
    decision = _decided(case, rules)
    wrong: list[str] = []
    if decision.verdict != case.expect:
        wrong.append(f"is `{decision.verdict}` and should be `{case.expect}`")
    if case.reason and decision.reason != case.reason:
        wrong.append(f"has the reason `{decision.reason}` and should have `{case.reason}`")
    if case.rule and decision.rule != case.rule:
        wrong.append(f"is decided by `{decision.rule or decision.layer}` and should be by `{case.rule}`")
    return Outcome(case=case, decision=decision, wrong=tuple(wrong))


def _decided(case: Case, rules: Rules) -> Decision:
    facts = Facts(extension=case.extension, need=Need("", case.method), has_ui=case.ui)
    try:
        checked(case.capability or capability_of(case.method, case.params), case.method, case.params)
        need = need_of(case.method, case.params, _ROOTS)
    except CallError as error:
        return not_judged(rules, facts, error)
    declared = _declared(case)
    remembered = None
    if case.remembered != "none":
        remembered = Remembered(verdict=case.remembered, scope="always", id="case")
    facts = msgspec.structs.replace(
        facts,
        need=need,
        standing=case.standing if declared is None else declared.standing(need),
        remembered=remembered,
        signals=tuple(sorted(case.signals.items())),
        folds_case=case.folds_case,
    )
    decision = decide(rules, facts)
    if decision.verdict == "ask" and case.answer != "none":
        return answered(decision, Answer(allowed=case.answer == "allow"))
    return decision


def untried(policy: Policy, outcomes: list[Outcome]) -> list[str]:
    """Return what the rules are called that decide no case: nobody knows whether they do what they are for."""
    decided = {outcome.decision.rule for outcome in outcomes}
    names = [rule.id or f"rules[{at}]" for at, rule in enumerate(policy.rules)]
    return [name for name in names if name not in decided]
