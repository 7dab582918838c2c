"""Proposing rules: what differs between two recordings of the same session is expected to differ again.

Owns the guess of a class from a name and two values, and how places become pointer globs. Proposes only: a person
reads the rules, with their examples, before they are used. Whether they are too loose, `audit` says.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from recordings.classes import LITERAL, Detector, class_of_name, is_class_value
from recordings.difference import Change, differences, tokens_of
from recordings.form import Former, Part, former
from recordings.globs import DEEPEST, pointer_token
from recordings.names import set_of, words_of
from recordings.operations import Operation, Source, kind_of, operations, part_of, picked
from recordings.profile import BUILT_IN, IGNORE, OWN, Profile, Rule, literal_glob

SHARED = 3
"""Places of so many names, or tools, that differ in the same way become one rule."""
EXAMPLE = 80
"""Characters of a value that are shown."""

_Where: TypeAlias = Literal["request", "answer"]
_ID_NAMES = set_of("id key uuid guid etag hash digest revision rev cursor handle ref nonce")
_ID = re.compile(r"(?=.*[0-9])[A-Za-z0-9_.:/+=-]{6,200}")
_OWN_NAME = re.compile(r"[a-z0-9]+")


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that would make two recordings the same at some places, and what was seen there."""

    rule: Rule
    places: int
    """How many places of messages it is about."""
    before: str
    after: str
    """What stands at the first of them, as JSON; long ones are cut."""
    seqs: tuple[int, int]
    """The two messages of the first place."""
    why: str


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of two recordings."""

    proposals: tuple[Proposal, ...]
    calls: int
    """Calls that were compared."""
    alone: tuple[int, int]
    """Calls that only one recording has: no rule makes up for these."""
    outcomes: tuple[tuple[int, int], ...]
    """Calls that were answered in one and failed in the other: no rule makes up for these either."""


class _Seen(NamedTuple):
    peer: str
    method: str
    name: str
    pointer: str
    kind: str
    why: str
    before: str
    after: str
    seqs: tuple[int, int]


def propose(
    one: Source, other: Source, profile: Profile = BUILT_IN, *, other_profile: Profile | None = None
) -> Proposed:
    """Propose rules from two recordings of the same scripted session.

    Calls are aligned by lane, peer, method, name and occurrence. What the profile takes care of is not proposed. Each
    recording has its own profile where its roots lie elsewhere. Reads each recording two times.
    """
    theirs = other_profile or profile
    pairs, alone = _aligned(operations(one, profile)[0], operations(other, theirs)[0])
    outcomes = tuple((a.seq, b.seq) for a, b in pairs if a.outcome != b.outcome)
    told = list(_messages(pairs))
    bodies = picked(one, {seqs[0] for _, _, seqs in told}), picked(other, {seqs[1] for _, _, seqs in told})
    seen: list[_Seen] = []
    formers = former(profile), former(theirs)
    detector = Detector(profile)
    for operation, where, seqs in told:
        before, after = bodies[0].get(seqs[0], b""), bodies[1].get(seqs[1], b"")
        seen.extend(_differing(formers, detector, operation, where, seqs, before, after))
    return Proposed(proposals=tuple(_merged(seen)), calls=len(pairs), alone=alone, outcomes=outcomes)


# Aligning


def _aligned(
    before: Iterable[Operation], after: Iterable[Operation]
) -> tuple[list[tuple[Operation, Operation]], tuple[int, int]]:
    """Pairs of calls by lane, kind and occurrence, and how many have no other."""
    first, second = _numbered(before), _numbered(after)
    pairs = [(call, second[which]) for which, call in first.items() if which in second]
    return pairs, (len(first) - len(pairs), len(second) - len(pairs))


def _numbered(calls: Iterable[Operation]) -> dict[tuple[Any, ...], Operation]:
    counts: Counter[tuple[Any, ...]] = Counter()
    found: dict[tuple[Any, ...], Operation] = {}
    for call in calls:
        which = (*kind_of(call), call.lane)
        found[*which, counts[which]] = call
        counts[which] += 1
    return found


def _messages(
    pairs: Iterable[tuple[Operation, Operation]],
) -> Iterator[tuple[Operation, _Where, tuple[int, int]]]:
    """The messages of pairs that differ under the profile."""
    for a, b in pairs:
        if a.key != b.key:
            yield a, "request", (a.seq, b.seq)
        if (
            a.answer_key != b.answer_key
            and a.outcome == b.outcome
            and a.answer is not None
            and b.answer is not None
        ):
            yield a, "answer", (a.answer, b.answer)


# Places


def _differing(
    formers: tuple[Former, Former],
    detector: Detector,
    operation: Operation,
    where: _Where,
    seqs: tuple[int, int],
    before: bytes,
    after: bytes,
) -> Iterator[_Seen]:
    """The places where two messages differ although the profile was applied to both."""
    (part, one), (part_2, other) = part_of(before), part_of(after)
    if part != part_2 or (part == "params") != (where == "request"):
        return
    normal = [
        msgspec.json.encode(
            each.normal(operation.method, operation.name, data, peer=operation.peer, part=part)
        )
        for each, data in ((formers[0], one), (formers[1], other))
    ]
    for change in differences(*normal):
        tokens = tokens_of(change.pointer)
        if change.kind in ("added", "removed") and len(tokens) > 1 and tokens[-1].isdigit():
            # An item that is ignored still counts, so the rule is about the list.
            tokens = tokens[:-1]
        if not tokens:
            continue
        kind, why = _guess(detector, tokens, change)
        yield _Seen(
            operation.peer,
            operation.method,
            operation.name,
            _glob(detector, part, tokens),
            kind,
            why,
            _shown(change.before),
            _shown(change.after),
            seqs,
        )


def _glob(detector: Detector, part: Part, tokens: list[str]) -> str:
    """The pointer glob of a place: positions in lists and names that are values themselves become `*`."""
    names = [
        "*"
        if token.isdigit() or LITERAL in token or is_class_value(detector, token)
        else pointer_token(token)
        for token in tokens[: DEEPEST - 2]
    ]
    return "/".join(("", part, *names))


def _shown(value: msgspec.Raw | None) -> str:
    """A value for people; what is renamed already is shown as `<uuid#1>`."""
    if value is None:
        return ""
    text = bytes(value).decode("utf-8", "replace")
    text = re.sub(r"\\u001a([^\\]*)\\u001a", r"<\1>", text)
    return text if len(text) <= EXAMPLE else text[: EXAMPLE - 1] + "…"


# Guessing


def _guess(detector: Detector, tokens: list[str], change: Change) -> tuple[str, str]:
    """A class, or `ignore`, and why."""
    if change.kind == "order":
        return IGNORE, "the same items in another order"
    if change.before is None or change.after is None:
        return IGNORE, "only in one of them"
    if change.kind == "type":
        return IGNORE, "of another type"
    name = next((token for token in reversed(tokens) if not token.isdigit()), "")
    values = [msgspec.json.decode(value) for value in (change.before, change.after)]
    named = class_of_name(name)
    if named == "timestamp" and all(_is_scalar(value) for value in values):
        return "timestamp", f"`{name}` says that it is a time"
    if named is not None and all(_is_scalar(value) for value in values):
        return named, f"`{name}` says so"
    if not all(isinstance(value, str) for value in values):
        own = _own_class(name) if all(isinstance(value, int) for value in values) else None
        return (own, f"`{name}` says that it is an id") if own else (IGNORE, "a value that differs")
    if any(LITERAL in value or " " in value for value in values):
        return IGNORE, "a text that differs"
    own = _own_class(name)
    if own:
        return own, f"`{name}` says that it is an id"
    if all(_ID.fullmatch(value) for value in values):
        return f"{OWN}id", "looks like an id"
    return IGNORE, "a text that differs"


def _own_class(name: str) -> str | None:
    """A class of its own for values under a name that says that they are ids: `order_id` is `x-order-id`."""
    words = words_of(name)
    if not words or words[-1] not in _ID_NAMES or not all(_OWN_NAME.fullmatch(word) for word in words):
        return None
    return OWN + "-".join(words[-2:])


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


# Merging


def _merged(seen: Iterable[_Seen]) -> list[Proposal]:
    """One proposal for what differs in the same way at places that one rule can name."""
    groups: dict[tuple[str, str, str, str], list[_Seen]] = {}
    for each in seen:
        groups.setdefault((each.peer, each.method, _tool(each), each.pointer), []).append(each)
    found = [_one(group) for group in groups.values()]
    found = _shared(found, _under_any, lambda rule: (rule.peer, rule.method, rule.tool))
    found = _shared(found, _of_any_tool, lambda rule: (rule.peer, rule.method))
    return sorted(found, key=lambda each: (each.rule.at or "", each.rule.method or "", each.rule.tool or ""))


def _tool(seen: _Seen) -> str:
    """The name that a rule is about. A resource's URI is mostly another one each time."""
    return "" if "://" in seen.name else seen.name


def _one(group: list[_Seen]) -> Proposal:
    first = group[0]
    kinds = Counter(each.kind for each in group)
    # Where the guesses do not agree, none of them is good.
    kind = first.kind if len(kinds) == 1 else IGNORE
    rule = Rule(
        at=first.pointer,
        method=literal_glob(first.method),
        peer=literal_glob(first.peer) if first.peer else None,
        tool=literal_glob(_tool(first)) if _tool(first) else None,
        kind=kind,
    )
    why = first.why if len(kinds) == 1 else "differs in several ways"
    return Proposal(
        rule=rule, places=len(group), before=first.before, after=first.after, seqs=first.seqs, why=why
    )


def _shared(
    found: list[Proposal], wider: Callable[[Rule], Rule | None], beside: Callable[[Rule], object]
) -> list[Proposal]:
    """Proposals of which enough would be the same rule, were it wider, become that rule."""
    groups: defaultdict[tuple[object, Rule], list[Proposal]] = defaultdict(list)
    kept: list[Proposal] = []
    for each in found:
        rule = wider(each.rule)
        if rule is None:
            kept.append(each)
        else:
            groups[beside(each.rule), rule].append(each)
    for (_, rule), group in groups.items():
        if len(group) < SHARED:
            kept.extend(group)
        else:
            kept.append(
                msgspec.structs.replace(group[0], rule=rule, places=sum(each.places for each in group))
            )
    return kept


def _under_any(rule: Rule) -> Rule | None:
    """The rule for all places of that name: `/params/arguments/a/ts` becomes `/params/arguments/**/ts`."""
    parts = (rule.at or "").split("/")
    head = 3 if parts[:3] in (["", "params", "arguments"], ["", "result", "structuredContent"]) else 2
    if len(parts) < head + 2 or parts[-1] in ("*", "**"):
        return None
    return msgspec.structs.replace(rule, at="/".join((*parts[:head], "**", parts[-1])))


def _of_any_tool(rule: Rule) -> Rule | None:
    return None if rule.tool is None else msgspec.structs.replace(rule, tool=None)


# Writing


def rules_toml(proposals: Iterable[Proposal], *, table: str = "rule") -> str:
    """The rules as TOML, each with what was seen as a comment."""
    return "\n".join(_rule_toml(each, table) for each in proposals)


def _rule_toml(proposal: Proposal, table: str) -> str:
    seqs = " and ".join(map(str, proposal.seqs))
    times = f", {proposal.places} times" if proposal.places > 1 else ""
    lines = [f"# {_comment(proposal.why)} (frames {seqs}{times})"]
    lines.append(f"#   {_comment(proposal.before) or 'nothing'} | {_comment(proposal.after) or 'nothing'}")
    lines.append(f"[[{table}]]")
    facts = msgspec.to_builtins(proposal.rule)
    for key, value in facts.items():
        lines.append(f"{key} = " + (_toml_text(value) if isinstance(value, str) else repr(value)))
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _toml_text(text: str) -> str:
    """A basic string of TOML; its escapes are those of JSON, but for DEL."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
