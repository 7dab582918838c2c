"""A decision as plain data: the `x` of a `policy` frame, the facts back out of one, and the data of a log line.

Owns the form `tieline.policy.v1`. A frame lies in a private recording and names the paths that a call is about, so
that the decision can be made again under another policy; a line of the log has hashes in place of paths, of the
project's folder and of the names of variables. Params are in neither.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

if TYPE_CHECKING:
    from gateway.policy.decide import Answer, Decision, Facts

SCHEMA: Final = "tieline.policy.v1"
_HASHED: Final = ("paths", "env")
_SAID: Final = {
    "no_ui": "it is to be asked about, and there is nobody to ask",
    "prompt_timeout": "nobody has said yes",
    "prompt_user_deny": "a person has said no",
    "refused": "a person has said no before",
    "loss_rule": "the evidence speaks against it",
    "out_of_scope": "it is out of scope",
}
"""Reasons for people, where their names do not say it."""
_QUOTING: Final = ("call", "fault")
"""Layers whose `why` may quote what the extension has sent."""


class RecordedError(ValueError):
    """The `x` of a frame that says it holds a decision, and does not."""


def x_of(decision: Decision) -> dict[str, Any]:
    """Return the `x` of the frame of a decision. `decision` is its verdict, `facts` all that it was made of."""
    facts = decision.facts
    x: dict[str, Any] = {
        "schema": SCHEMA,
        "decision": decision.verdict,
        "reason": decision.reason,
        "capability": facts.need.capability,
        "mode": decision.mode,
        "profile": decision.profile,
        "layer": decision.layer,
        "trace": [list(step) for step in decision.trace],
        "policy": decision.policy,
        "facts": msgspec.to_builtins(facts),
    }
    for name in ("rule", "why", "asked", "grants"):
        if value := getattr(decision, name):
            x[name] = value
    if decision.verdict == "deny":
        x["code"] = decision.code
    for name in ("warn", "would_deny"):
        if getattr(decision, name):
            x[name] = True
    if decision.assessment is not None:
        x["evidence"] = msgspec.to_builtins(decision.assessment)
    if decision.answer is not None:
        x["answer"] = msgspec.to_builtins(decision.answer)
    return x


def is_decision(x: Mapping[str, Any] | None) -> bool:
    """Whether the `x` of a `policy` frame is of this form; other things are recorded as `policy` too."""
    return x is not None and x.get("schema") == SCHEMA


def facts_of(x: Mapping[str, Any]) -> Facts:
    """Return the facts that a recorded decision was made of.

    Raises:
        RecordedError: If they cannot be read.
    """
    # Here, since the log only asks whether there is a decision.
    from gateway.policy.decide import Facts

    try:
        return msgspec.convert(x["facts"], Facts, strict=True)
    except (KeyError, msgspec.ValidationError) as error:
        raise RecordedError(f"the facts of a decision cannot be read: {error}") from error


def answer_of(x: Mapping[str, Any]) -> Answer | None:
    """Return what a person answered when this was decided; None if nobody was asked.

    Raises:
        RecordedError: If it cannot be read.
    """
    from gateway.policy.decide import Answer

    try:
        return msgspec.convert(x["answer"], Answer, strict=True) if "answer" in x else None
    except msgspec.ValidationError as error:
        raise RecordedError(f"the answer to a question cannot be read: {error}") from error


def log_data(x: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `data` of the line `policy.decision`: a frame's `x`, with hashes for paths, project and names.

    Takes any `x` that says it is a decision, also one with other members than those of `x_of`.
    """
    data = dict(x)
    if data.get("layer") in _QUOTING:
        data.pop("why", None)
    facts = data.get("facts")
    need = cast(dict[str, Any], facts).get("need") if isinstance(facts, dict) else None
    if isinstance(need, dict):
        told = dict(cast(dict[str, Any], need))
        for name in _HASHED:
            told[name] = [_hash(str(each)) for each in told.get(name) or ()]
        data["facts"] = {**cast(dict[str, Any], facts), "need": told}
        if project := data["facts"].get("project"):
            data["facts"]["project"] = _hash(str(project))
    return data


def refusal(decision: Decision) -> tuple[str, dict[str, Any]]:
    """Return message and details of the error for an extension whose call was refused.

    It learns the capability and the reason, and nothing of rules and of what others may do.
    """
    need = decision.facts.need
    details: dict[str, Any] = {"capability": need.capability, "reason": decision.reason}
    if decision.code == "invalid_request":
        return decision.why, details
    why = _SAID.get(decision.reason) or decision.reason.replace("_", " ")
    return f"`{need.capability}` is denied by policy: {why}", details


def _hash(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
