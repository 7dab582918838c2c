"""May this happen? One pure function from a policy and the facts of a call to a decision and how it came about.

Owns the order of precedence and every reason that a decision gives. The layers, in order:

1. *declaration*: what the extension's manifest says about the call. 2. *scope*: the operator's limits.
3. *deny*: lists, rules and remembered refusals; nothing overrides them. *ask*: rules that want a person's word.
4. *named*: allowed for this very extension. 5. *remembered*: a person's earlier answer.
6. *default*: allowed for everybody. 7. *mode*, for what is left. 8. *loss*: may only lower, and only what rests on
6 or 7. Last, *ui*: to ask needs somebody to ask.

Whatever goes wrong on the way, a budget spent or a fault of ours, is a denial.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from gateway.policy.capability import MOST_TARGETS, Need
from gateway.policy.evidence import Assessment
from gateway.policy.manifest import Standing
from gateway.policy.model import Mode, Profile, Remembered, Verdict
from gateway.policy.rules import Clause, Kind, Rules, Signals
from gateway.policy.tree import BudgetError
from gateway.protocol.capabilities import CAPABILITIES, CallError

Layer: TypeAlias = Literal[
    "call", "declaration", "scope", "deny", "ask", "named", "remembered", "default", "mode", "loss", "ui",
    "answer", "fault",
]  # fmt: skip

Step: TypeAlias = tuple[Layer, Verdict, str]
"""One layer that has spoken: which, what it said, and the rule or the reason."""

Keep: TypeAlias = Literal["once", "session", "project", "always"]

_KNOWN: Final = frozenset(CAPABILITIES)


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Everything that a decision is made of besides the policy. All of it is recorded."""

    extension: str
    """Who asks, as the connection says."""
    need: Need
    life: int = 1
    standing: Standing = "nothing_declared"
    remembered: Remembered | None = None
    signals: Signals = ()
    has_ui: bool = False
    folds_case: bool = False
    """Of the root that the paths lie in."""
    executable: str = ""
    """What identifies the program that is the extension: `sha256:…`."""
    manifest: str = ""
    project: str = ""
    session: str = ""
    params_hash: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came back for a question. None allowed: nobody answered in time."""

    allowed: bool | None
    keep: Keep = "once"
    by: str = ""
    """On which surface: `core`, `terminal`."""
    shown: str = ""
    """sha256 hex of the question as it was shown."""
    took_ns: int = 0


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What may happen, and why. `ask` is no last word: see `answered`."""

    verdict: Verdict
    layer: Layer
    """The one whose word it is."""
    reason: str
    rule: str = ""
    """The rule, the entry of a list or the grant, where one decided."""
    why: str = ""
    """What the policy's author says about that rule."""
    asked: str = ""
    """Why a person was to be asked, where that is how it began."""
    mode: Mode
    profile: Profile
    code: Literal["denied", "invalid_request"] = "denied"
    """Of the error, where the call is refused."""
    warn: bool = False
    """Whether it is allowed only because the mode is permissive: to be told in the log."""
    would_deny: bool = False
    """Whether the evidence speaks against what was allowed all the same."""
    trace: tuple[Step, ...] = ()
    policy: str = ""
    """The policy's hash."""
    grants: str = ""
    """The hash of the remembered grants that were looked at."""
    facts: Facts
    assessment: Assessment | None = None
    answer: Answer | None = None


def decide(rules: Rules, facts: Facts, *, grants: str = "") -> Decision:
    """Return what may happen. Never raises: what cannot be decided is denied."""
    try:
        return _decide(rules, facts, grants)
    except Exception as fault:  # noqa: BLE001 - whatever it is, nothing is allowed by it
        return undecided(rules, facts, fault, grants=grants)


def undecided(rules: Rules, facts: Facts, fault: Exception, *, grants: str = "") -> Decision:
    """Return the denial of a call that cannot be decided about, or whose facts could not be gathered."""
    reason, why = "error", f"{type(fault).__name__}: {fault}"[:256]
    if isinstance(fault, PastFaultError):
        was = fault.was
        facts = msgspec.structs.replace(facts, manifest=was.manifest, params_hash=was.params_hash)
        reason, why = fault.reason, str(fault)
    elif isinstance(fault, BudgetError):
        reason, why = "limit", str(fault)
    policy = rules.policy
    return Decision(
        verdict="deny", layer="fault", reason=reason, why=why, mode=policy.mode, profile=policy.profile,
        trace=(("fault", "deny", reason),), policy=rules.hash, grants=grants, facts=facts,
    )  # fmt: skip


class _Said:
    """What the layers come to."""

    __slots__ = ("asked", "clause", "layer", "reason", "trace", "verdict", "warn", "would_deny")

    def __init__(self) -> None:
        self.verdict: Verdict = "deny"
        self.layer: Layer = "fault"
        self.reason = "error"
        self.clause: Clause | None = None
        self.asked = ""
        self.warn = False
        self.would_deny = False
        self.trace: list[Step] = []

    def say(self, layer: Layer, verdict: Verdict, reason: str, clause: Clause | None = None) -> None:
        """Let this be the last word so far."""
        self.layer, self.verdict, self.reason, self.clause = layer, verdict, reason, clause
        self.trace.append((layer, verdict, reason if clause is None else clause.id))


def _decide(rules: Rules, facts: Facts, grants: str) -> Decision:
    mode = rules.mode(facts.extension)
    assessment = rules.assessed(facts.signals)
    said = _Said()
    kind = _gates(rules, facts, mode, said)
    if kind is not None:
        unasked = said.verdict == "allow"
        _layers(kind, facts, mode, said)
        if said.verdict == "allow":
            if not unasked and said.layer not in ("named", "remembered"):
                said.say("declaration", "ask", "nothing_declared")
            else:
                _loss(mode, assessment, said)
    if said.verdict == "ask" and not facts.has_ui:
        said.asked = said.reason
        said.say("ui", "deny", "no_ui", None)
    clause, remembered = said.clause, facts.remembered
    rule = clause.id if clause else remembered.id if remembered and said.layer == "remembered" else ""
    return Decision(
        verdict=said.verdict,
        layer=said.layer,
        reason=said.reason,
        rule=rule,
        why=clause.why if clause else "",
        asked=said.asked,
        mode=mode,
        profile=rules.policy.profile,
        warn=said.warn,
        would_deny=said.would_deny,
        trace=tuple(said.trace),
        policy=rules.hash,
        grants=grants,
        facts=facts,
        assessment=assessment,
    )


def _gates(rules: Rules, facts: Facts, mode: Mode, said: _Said) -> Kind | None:
    """Layers 1 to 3, each of which can stop a call: None if one has, else what there is to say about such calls."""
    need, standing = facts.need, facts.standing
    if need.capability not in _KNOWN:
        said.say("call", "deny", "unknown_capability")
    elif len(need.paths) + len(need.hosts) + len(need.env) > MOST_TARGETS:
        said.say("fault", "deny", "limit")
    elif standing == "declared":
        said.say("declaration", "allow", standing)
    elif standing == "nothing_declared" and mode == "prompt":
        said.say("declaration", "ask", standing)
    elif standing in ("nothing_declared", "undeclared", "undeclared_method") and mode == "permissive":
        said.warn = True
        said.say("declaration", "allow", standing)
    else:
        said.say("declaration", "deny", standing)
    if said.verdict == "deny":
        return None
    kind = rules.kind(facts.extension, need)
    layer, verdict, reason = said.layer, said.verdict, said.reason
    if kind.scopes and not all(each.covers(need) for each in kind.scopes):
        said.say("scope", "deny", "out_of_scope")
    elif clause := kind.deny.of(need, folds_case=facts.folds_case):
        said.say("deny", "deny", clause.reason, clause)
    elif facts.remembered is not None and facts.remembered.verdict == "deny":
        said.say("remembered", "deny", "refused")
    else:
        said.layer, said.verdict, said.reason = layer, verdict, reason
        return kind
    return None


def _layers(kind: Kind, facts: Facts, mode: Mode, said: _Said) -> None:
    """Rules that ask, then layers 4 to 7, of which the first that speaks is heard."""
    need, folds = facts.need, facts.folds_case
    is_granted = facts.remembered is not None and facts.remembered.verdict == "allow"
    asking = kind.always.of(need, folds_case=folds)
    if asking is None and not is_granted:
        asking = kind.ask.of(need, folds_case=folds)
    if asking is not None:
        said.say("ask", "ask", asking.reason, asking)
    elif clause := kind.named.of(need, folds_case=folds):
        said.say("named", "allow", clause.reason, clause)
    elif is_granted:
        said.say("remembered", "allow", "granted")
    elif clause := kind.default.of(need, folds_case=folds):
        said.say("default", "allow", clause.reason, clause)
    elif mode == "strict":
        said.say("mode", "deny", "not_in_default_caps")
    elif mode == "prompt":
        said.say("mode", "ask", "prompt_required")
    else:
        said.warn = True
        said.say("mode", "allow", "permissive")


def _loss(mode: Mode, assessment: Assessment, said: _Said) -> None:
    """Layer 8: where the evidence speaks against it, what nobody has allowed this very extension is lowered."""
    if assessment.grants:
        return
    if mode == "permissive" or said.layer in ("named", "remembered"):
        said.would_deny = True
    elif mode == "strict":
        said.say("loss", "deny", "loss_rule")
    else:
        said.say("loss", "ask", "loss_rule")


class PastFaultError(Exception):
    """The facts of a recorded call could not be gathered, and so they cannot be now."""

    def __init__(self, reason: str, why: str, was: Facts) -> None:
        super().__init__(why)
        self.reason = reason
        self.was = was


def answered(decision: Decision, answer: Answer) -> Decision:
    """Return what follows from a decision that asks and what came back. No answer in time is a no.

    Raises:
        ValueError: If the decision did not ask.
    """
    if decision.verdict != "ask":
        raise ValueError("this decision did not ask")
    verdict: Verdict = "allow" if answer.allowed else "deny"
    reason = "prompt_timeout" if answer.allowed is None else f"prompt_user_{verdict}"
    return msgspec.structs.replace(
        decision,
        verdict=verdict,
        layer="answer",
        reason=reason,
        asked=decision.reason,
        trace=(*decision.trace, ("answer", verdict, reason)),
        answer=answer,
    )


def not_judged(rules: Rules, facts: Facts, error: CallError) -> Decision:
    """Return the record of a call that policy was not asked about, since nobody can say what it would do."""
    return Decision(
        verdict="deny", layer="call", reason=error.reason, why=str(error), mode=rules.mode(facts.extension),
        profile=rules.policy.profile, code="invalid_request", trace=(("call", "deny", error.reason),),
        policy=rules.hash, facts=facts,
    )  # fmt: skip
