"""A decision in words and numbers that a person can follow, and a sum that a person can do again with a pencil.

Owns the lines. Decides nothing: every number is one that the decision holds, in whole milli-nats, thousandths of the
natural logarithm of odds.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.policy.decide import Decision, Facts
from gateway.policy.evidence import WHOLE, Assessment, Term

_ABOUT = {
    "call": "whether anybody knows what the call would do",
    "declaration": "what the extension has declared",
    "scope": "the limits of everything that it may do",
    "deny": "lists and rules that deny",
    "ask": "rules that ask",
    "named": "what is allowed to this very extension",
    "remembered": "what was answered before",
    "default": "what is allowed to every extension",
    "mode": "the mode, for what nothing speaks of",
    "loss": "what the evidence says",
    "ui": "whether there is anybody to ask",
    "answer": "what was answered",
    "fault": "what went wrong",
}


def lines(decision: Decision) -> Iterator[str]:
    """Yield the explanation of a decision, a line each."""
    yield headline(decision)
    yield ""
    yield from _facts(decision.facts)
    yield _row("policy", f"profile {decision.profile}, mode {decision.mode}, {decision.policy}")
    yield ""
    yield "Layers that spoke, in order; the last one decides:"
    for layer, verdict, said in decision.trace:
        yield f"  {layer:<12} {verdict:<6} {said:<24} {_ABOUT[layer]}".rstrip()
    if decision.assessment is not None:
        yield ""
        yield from sum_lines(decision.assessment)


def headline(decision: Decision) -> str:
    """Return verdict, capability, extension and reason in a line."""
    facts = decision.facts
    what = f"tool:{facts.need.tool}" if facts.need.tool else facts.need.capability
    rule = f" ({decision.rule})" if decision.rule else ""
    asked = f", asked because {decision.asked}" if decision.asked else ""
    why = f": {decision.why}" if decision.why else ""
    return f"{decision.verdict}: {what} for {facts.extension}: {decision.reason}{rule}{asked}{why}"


def _facts(facts: Facts) -> Iterator[str]:
    need = facts.need
    yield _row("extension", f"{facts.extension}, {facts.standing.replace('_', ' ')}")
    yield _row(
        "capability", f"{need.capability}, through {need.method}{' ' + need.tool if need.tool else ''}"
    )
    for name, touched in (("paths", need.paths), ("hosts", need.hosts), ("variables", need.env)):
        if touched:
            where = f" in {need.root}" if name == "paths" and need.root else ""
            yield _row(name, ", ".join(each or "." for each in touched) + where)
    remembered = facts.remembered
    if remembered is not None:
        stale = f", no longer holds: {remembered.stale}" if remembered.stale else ""
        yield _row("remembered", f"{remembered.verdict} for {remembered.scope}{stale} ({remembered.id})")
    yield _row("somebody to ask", "yes" if facts.has_ui else "no")


def _row(name: str, value: str) -> str:
    return f"  {name:<16} {value}"


def sum_lines(assessment: Assessment) -> Iterator[str]:
    """Yield the sum of the loss-aware decision, a line a number, all in milli-nats."""
    losses = assessment.losses
    low, high = (int(part) for part in assessment.prior.split("/"))
    a, b = losses.false_denial, losses.false_grant
    yield "Evidence, in milli-nats:"
    yield _number(f"prior {assessment.prior}: 1000 ln({low}/{high - low}), rounded up", assessment.prior_mn)
    for term in assessment.terms:
        yield _number(_term(term), term.term)
    yield _number("sum", assessment.sum_mn)
    limit = "rounded down" if a != b else "and below, since ties deny"
    yield _number(f"may be at most: 1000 ln({a}/{b}), {limit}", assessment.threshold_mn)
    sign, what = ("<=", "granting costs less") if assessment.grants else (">", "denying costs less")
    yield f"  {assessment.sum_mn} {sign} {assessment.threshold_mn}: {what}"
    yield (
        f"  {a} = {losses.deny_benign} - {losses.grant_benign}, what a false denial costs; "
        f"{b} = {losses.grant_malicious} - {losses.deny_malicious}, what a false grant does"
    )
    yield (
        f"  probability of malice {assessment.probability}, may be below {assessment.threshold}; "
        f"expected loss {assessment.expected_grant} of granting, {assessment.expected_deny} of denying"
    )


def _term(term: Term) -> str:
    here = f"{term.name}: {term.present} x {term.signal}/{WHOLE}"
    if not term.absent:
        return here
    return f"{here} + {term.absent} x {WHOLE - term.signal}/{WHOLE}, each rounded up"


def _number(what: str, number: int) -> str:
    return f"  {what:<64} {number:>7}"
