"""What follows from one hook's answer: what the next hook is given, whether there is a next one, and what was decided.

Owns the semantics of each fold, as a function from the event's data so far and an answer to a `Verdict`. Everything
that a hook brings about is a change of members of the data, so that it can be told as a patch of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Literal, TypeAlias, cast

import msgspec
from msgspec import Raw, UnsetType

from gateway.hooks.answers import (
    Answer,
    CancelAnswer,
    ContextAnswer,
    FirstAnswer,
    InjectAnswer,
    InputAnswer,
    JoinAnswer,
    JudgeAnswer,
    PatchAnswer,
    RouteAnswer,
)
from gateway.hooks.points import Fold

Word: TypeAlias = Literal["none", "changed", "block", "cancel", "handled", "replaced", "advised", "decided"]
"""What a hook has decided. `none` is no opinion."""
Members: TypeAlias = Mapping[str, Raw]

_encode = msgspec.json.Encoder().encode
_list = msgspec.json.Decoder(list[Raw])
_text = msgspec.json.Decoder(str)


class WrongChangeError(ValueError):
    """A change that is of the right shape and cannot be made."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the gateway knows and a hook's answer is held against."""

    complaint: Callable[[str, bytes], str] = lambda _tool, _input: ""
    """What is wrong with an input for a tool, by its name; empty for nothing."""
    allows_path: Callable[[str], bool] = lambda _path: True
    """Whether a path that is to be discovered lies where that is allowed."""
    may_decide: bool = False
    """Whether a model that is decided for is more than advice."""
    passes_faults: bool = False
    """Whether a hook that would stop what it was asked about by failing lets it pass instead."""
    profile: str = ""
    """The profile that says so, for the record."""


class Verdict(msgspec.Struct):
    """What one answer leads to. `changes` are members of the event's data; None takes one away."""

    word: Word = "none"
    reason: str = ""
    changes: dict[str, Raw | None] = msgspec.field(default_factory=dict[str, "Raw | None"])
    is_last: bool = False


def verdict(fold: Fold, answer: Answer, members: Members, rules: Rules, owner: str) -> Verdict:
    """Return what an answer of `owner` leads to, where the event's data is `members` so far.

    Raises:
        WrongChangeError: If it changes something to what cannot be.
    """
    return _FOLDS[fold](answer, members, rules, owner)


def _changed(reason: str, **members: object) -> Verdict:
    """Return the verdict that sets those of the members that are not unset."""
    changes: dict[str, Raw | None] = {}
    for name, value in members.items():
        if not isinstance(value, UnsetType):
            changes[name] = value if isinstance(value, Raw) else Raw(_encode(value))
    return Verdict("changed" if changes else "none", reason, changes)


def _more(members: Members, name: str, items: list[Raw]) -> Raw:
    """Return a list with more items, which is new where there was none, or something else that nobody can add to."""
    try:
        before = _list.decode(members[name]) if name in members else []
    except msgspec.ValidationError:
        before = []
    return Raw(_encode(before + items))


def _name(members: Mapping[str, Raw | None], *names: str) -> str:
    """Return the first text under one of these names; empty where none is there."""
    for name in names:
        if (found := members.get(name)) is not None:
            with suppress(msgspec.ValidationError):
                return _text.decode(found)
    return ""


def _input(answer: InputAnswer, *_: object) -> Verdict:
    if answer.action == "handled":
        return Verdict("handled", answer.reason, is_last=True)
    if answer.action == "continue":
        return Verdict(reason=answer.reason)
    return _changed(answer.reason, text=answer.text, images=answer.images)


def _inject(answer: InjectAnswer, members: Members, *_: object) -> Verdict:
    said = answer.said
    found = _changed(answer.reason, systemPrompt=answer.system_prompt)
    if said:
        found.word, found.changes["messages"] = "changed", _more(members, "messages", said)
    return found


def _replace(answer: ContextAnswer, *_: object) -> Verdict:
    return _changed(answer.reason, messages=answer.messages)


def _judge(answer: JudgeAnswer, members: Members, rules: Rules, _: str) -> Verdict:
    if answer.block:
        found = _changed(answer.reason, terminate=answer.terminate)
        found.word, found.is_last = "block", True
        return found
    found = _changed(
        answer.reason,
        input=answer.input,
        implementation=answer.implementation,
        terminate=answer.terminate,
    )
    changes = found.changes
    if "input" in changes or "implementation" in changes:
        given = bytes(changes.get("input") or members.get("input") or b"{}")
        name = _name(changes, "implementation") or _name(members, "implementation", "toolName")
        complaint = rules.complaint(name, given)
        if complaint:
            raise WrongChangeError(complaint)
    return found


def _patch(answer: PatchAnswer, members: Members, *_: object) -> Verdict:
    found = _changed(
        answer.reason,
        content=answer.content,
        details=answer.details,
        structuredContent=answer.structured_content,
        isError=answer.is_error,
        usage=answer.usage,
        renderHints=answer.render_hints,
    )
    if answer.artifacts:
        found.word, found.changes["artifacts"] = "changed", _more(members, "artifacts", answer.artifacts)
    if (
        "content" in found.changes
        and "structuredContent" not in found.changes
        and "structuredContent" in members
    ):
        # It says what the old content said: with other content beside it, one of them would be wrong.
        found.changes["structuredContent"] = None
    return found


def _cancel(answer: CancelAnswer, *_: object) -> Verdict:
    if answer.cancel:
        return Verdict("cancel", answer.reason, is_last=True)
    return _changed(
        answer.reason,
        skipConversationRestore=answer.skip_conversation_restore,
        compaction=answer.compaction,
        summary=answer.summary,
        customInstructions=answer.custom_instructions,
        replaceInstructions=answer.replace_instructions,
        label=answer.label,
    )


def _route(answer: RouteAnswer, members: Members, rules: Rules, owner: str) -> Verdict:
    if not isinstance(answer.decide, UnsetType) and rules.may_decide:
        return Verdict("decided", answer.reason, {"decide": answer.decide}, is_last=True)
    advice = answer.advise if isinstance(answer.decide, UnsetType) else answer.decide
    if isinstance(advice, UnsetType):
        return Verdict(reason=answer.reason)
    reason = answer.reason
    if not isinstance(answer.decide, UnsetType):
        reason = f"advice alone, since the profile lets no extension decide{': ' if reason else ''}{reason}"
    listed = Raw(_encode({"extension": owner, "advise": advice, "reason": answer.reason}))
    return Verdict("advised", reason, {"advice": _more(members, "advice", [listed])})


def _join(answer: JoinAnswer, members: Members, rules: Rules, _: str) -> Verdict:
    found = Verdict(reason=answer.reason)
    refused: list[str] = []
    for name, given in (
        ("skillPaths", answer.skill_paths),
        ("promptPaths", answer.prompt_paths),
        ("themePaths", answer.theme_paths),
    ):
        if isinstance(given, UnsetType):
            continue
        paths = [given] if isinstance(given, str) else given
        refused += [path for path in paths if not rules.allows_path(path)]
        allowed = [Raw(_encode(path)) for path in paths if rules.allows_path(path)]
        if allowed:
            found.word, found.changes[name] = "changed", _more(members, name, allowed)
    if refused:
        told = ", ".join(repr(path[:128]) for path in refused[:4])
        found.reason = f"outside of the allowed roots, and refused: {told}"
    return found


def _first(answer: FirstAnswer, *_: object) -> Verdict:
    found = _changed(answer.reason, operations=answer.operations, result=answer.result)
    found.word, found.is_last = "replaced", True
    return found


_FOLDS: Final = cast(
    "dict[Fold, Callable[[Answer, Members, Rules, str], Verdict]]",
    {
        "input": _input,
        "inject": _inject,
        "replace": _replace,
        "judge": _judge,
        "patch": _patch,
        "cancel": _cancel,
        "route": _route,
        "join": _join,
        "first": _first,
    },
)
GIVEN: Final[dict[Fold, tuple[str, ...]]] = {
    "input": ("text", "images"),
    "inject": ("messages", "systemPrompt"),
    "replace": ("messages",),
    "judge": ("input", "implementation", "terminate"),
    "patch": ("content", "details", "structuredContent", "isError", "usage", "artifacts", "renderHints"),
    "cancel": (
        "skipConversationRestore", "compaction", "summary", "customInstructions", "replaceInstructions", "label",
    ),
    "route": ("advice", "decide"),
    "join": ("skillPaths", "promptPaths", "themePaths"),
    "first": ("operations", "result"),
}  # fmt: skip
"""The members of the data in which the answers of all hooks lie in the end."""
