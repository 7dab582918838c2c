"""What a hook may answer at each point, read strictly: an answer is of the right shape, or it is a fault of the hook.

Owns the members of each answer and the other spellings that are taken for them: `snake_case`, and what pi_agent_rust
accepts. What follows from an answer is `folds`' business. Members that hold what somebody else reads stay bytes.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from gateway.hooks.points import Fold, Point

Text: TypeAlias = Annotated[str, Meta(min_length=1)]


class BadAnswerError(ValueError):
    """An answer that cannot be taken; says which place is wrong and what belongs there."""


# Contents of messages


class _TextBlock(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _ImageBlock(msgspec.Struct, tag_field="type", tag="image"):
    data: str
    mime_type: str = msgspec.field(name="mimeType")


class _AudioBlock(msgspec.Struct, tag_field="type", tag="audio"):
    data: str
    mime_type: str = msgspec.field(name="mimeType")


class _ResourceBlock(msgspec.Struct, tag_field="type", tag="resource"):
    resource: dict[str, Any]


class _LinkBlock(msgspec.Struct, tag_field="type", tag="resource_link"):
    uri: str
    name: str


_Said: TypeAlias = _TextBlock | _ImageBlock
_Block: TypeAlias = _TextBlock | _ImageBlock | _AudioBlock | _ResourceBlock | _LinkBlock


class _Injected(msgspec.Struct):
    custom_type: Text = msgspec.field(name="customType")
    content: str | list[_Said]
    display: bool = True


class _Message(msgspec.Struct):
    role: Text


class _Compaction(msgspec.Struct):
    summary: str
    first_kept: Text = msgspec.field(name="firstKeptEntryId")
    tokens_before: int | UnsetType = msgspec.field(name="tokensBefore", default=UNSET)


class _Summary(msgspec.Struct):
    summary: str
    usage: dict[str, Any] | UnsetType = UNSET


class _Ran(msgspec.Struct):
    output: str
    exit_code: int | None = msgspec.field(name="exitCode", default=None)
    cancelled: bool = False
    truncated: bool = False


class _Model(msgspec.Struct):
    model: Text
    provider: str | UnsetType = UNSET


_STRING: Final = msgspec.json.Decoder(str)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_BLOCKS: Final = msgspec.json.Decoder(list[_Block])
_IMAGES: Final = msgspec.json.Decoder(list[_ImageBlock])
_INJECTED: Final = msgspec.json.Decoder(_Injected)
_MESSAGES: Final = msgspec.json.Decoder(list[_Message])
_OBJECTS: Final = msgspec.json.Decoder(list[dict[str, Raw]])
_COMPACTION: Final = msgspec.json.Decoder(_Compaction)
_SUMMARY: Final = msgspec.json.Decoder(_Summary)
_RAN: Final = msgspec.json.Decoder(_Ran)
_MODEL: Final = msgspec.json.Decoder(_Model)


def _check(name: str, value: Raw | UnsetType, decoder: msgspec.json.Decoder[Any]) -> None:
    if value is not UNSET:
        try:
            decoder.decode(value)
        except msgspec.ValidationError as fault:
            raise ValueError(f"`{name}`: {fault}") from None


# Answers


class InputAnswer(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """`continue`, `transform` with other words or images, or `handled`."""

    action: Literal["continue", "transform", "handled"]
    text: Raw | UnsetType = UNSET
    images: Raw | UnsetType = UNSET
    reason: str = ""

    def __post_init__(self) -> None:
        _check("text", self.text, _STRING)
        _check("images", self.images, _IMAGES)
        if self.action == "transform" and self.text is UNSET and self.images is UNSET:
            raise ValueError("`transform` needs `text` or `images`")


class InjectAnswer(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Messages for the model, and another system prompt for this turn."""

    message: Raw | UnsetType = UNSET
    messages: list[Raw] | UnsetType = UNSET
    system_prompt: Raw | UnsetType = UNSET
    reason: str = ""

    def __post_init__(self) -> None:
        _check("systemPrompt", self.system_prompt, _STRING)
        for index, message in enumerate(self.said):
            _check(f"messages[{index}]", message, _INJECTED)

    @property
    def said(self) -> list[Raw]:
        """All messages that are to be injected."""
        one = [] if isinstance(self.message, UnsetType) else [self.message]
        return one + ([] if isinstance(self.messages, UnsetType) else self.messages)


class ContextAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """Other messages for the model in the place of those that it would be given."""

    messages: Raw
    reason: str = ""

    def __post_init__(self) -> None:
        _check("messages", self.messages, _MESSAGES)


class JudgeAnswer(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Whether a tool may run; with other input, or as another tool."""

    block: bool = False
    reason: str = ""
    input: Raw | UnsetType = UNSET
    implementation: Text | UnsetType = UNSET
    terminate: bool | UnsetType = UNSET

    def __post_init__(self) -> None:
        _check("input", self.input, _OBJECT)


class PatchAnswer(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Members of a tool's result that are to be others."""

    content: Raw | UnsetType = UNSET
    details: Raw | UnsetType = UNSET
    structured_content: Raw | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    usage: Raw | UnsetType = UNSET
    artifacts: list[Raw] | UnsetType = UNSET
    render_hints: Raw | UnsetType = UNSET
    reason: str = ""

    def __post_init__(self) -> None:
        _check("content", self.content, _BLOCKS)
        _check("structuredContent", self.structured_content, _OBJECT)
        _check("usage", self.usage, _OBJECT)
        _check("renderHints", self.render_hints, _OBJECT)
        for index, artifact in enumerate(self.artifacts or ()):
            _check(f"artifacts[{index}]", artifact, _OBJECT)


class CancelAnswer(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Whether the session may go on as wanted, and what it gets of the extension where it does."""

    cancel: bool = False
    reason: str = ""
    skip_conversation_restore: bool | UnsetType = UNSET
    compaction: Raw | UnsetType = UNSET
    summary: Raw | UnsetType = UNSET
    custom_instructions: str | UnsetType = UNSET
    replace_instructions: bool | UnsetType = UNSET
    label: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        _check("compaction", self.compaction, _COMPACTION)
        _check("summary", self.summary, _SUMMARY)


class RouteAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """Which model an extension would take, or has taken."""

    advise: Raw | UnsetType = UNSET
    decide: Raw | UnsetType = UNSET
    reason: str = ""

    def __post_init__(self) -> None:
        _check("advise", self.advise, _MODEL)
        _check("decide", self.decide, _MODEL)
        if self.advise is not UNSET and self.decide is not UNSET:
            raise ValueError("either `advise` or `decide`, not both")


class JoinAnswer(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Where further skills, prompts and themes lie."""

    skill_paths: str | list[str] | UnsetType = UNSET
    prompt_paths: str | list[str] | UnsetType = UNSET
    theme_paths: str | list[str] | UnsetType = UNSET
    reason: str = ""


class FirstAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """Another way to run a user's command, or its result."""

    operations: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    reason: str = ""

    def __post_init__(self) -> None:
        _check("operations", self.operations, _OBJECT)
        _check("result", self.result, _RAN)
        if (self.operations is UNSET) == (self.result is UNSET):
            raise ValueError("exactly one of `operations` and `result`")


Answer: TypeAlias = (
    InputAnswer | InjectAnswer | ContextAnswer | JudgeAnswer | PatchAnswer | CancelAnswer | RouteAnswer | JoinAnswer
    | FirstAnswer
)  # fmt: skip

_encode = msgspec.json.Encoder().encode

ANSWERS: Final[dict[Fold, type[Answer]]] = {
    "input": InputAnswer,
    "inject": InjectAnswer,
    "replace": ContextAnswer,
    "judge": JudgeAnswer,
    "patch": PatchAnswer,
    "cancel": CancelAnswer,
    "route": RouteAnswer,
    "join": JoinAnswer,
    "first": FirstAnswer,
}
_DECODERS: Final = {fold: msgspec.json.Decoder(type_) for fold, type_ in ANSWERS.items()}
_NONE: Final = (b"{}", b"null")
_MEMBERS: Final = {fold: frozenset(type_.__struct_encode_fields__) for fold, type_ in ANSWERS.items()}
_ALIASES: Final[dict[Fold, dict[str, str]]] = {
    "input": {"content": "text", "attachments": "images", "message": "reason"},
    "cancel": {"cancelled": "cancel"},
}
_OTHERWISE: Final = frozenset(("block",))
"""Members that are no members of an answer, and say what one does."""
_OF_SNAKE: Final = {
    name: "".join(word.capitalize() if index else word for index, word in enumerate(name.split("_")))
    for type_ in ANSWERS.values()
    for name in type_.__struct_fields__
    if "_" in name
}


def read(point: Point, result: bytes) -> tuple[Answer | None, tuple[str, ...]]:
    """Return what a hook has answered, None where it has no opinion, and which members of it mean nothing here.

    Raises:
        BadAnswerError: If it is no answer at this point.
    """
    if not result or result in _NONE or (result[:1] == b"{" and not result[1:-1].strip()):
        return None, ()
    fold = point.fold
    if result[:1] != b"{":
        return _bare(fold, result), ()
    try:
        # Most answers are of this very form. What is not is looked at member by member, or refused in better words.
        return _DECODERS[fold].decode(result), ()
    except msgspec.DecodeError:
        pass
    try:
        found = _named(fold, _OBJECT.decode(result))
        known = _MEMBERS[fold]
        ignored = tuple(name[:64] for name in found if name not in known and name not in _OTHERWISE)
        if len(ignored) == len(found):
            names = ", ".join(sorted(known))
            raise BadAnswerError(f"the answer has none of the members that mean something here: {names}")
        if fold == "input":
            found = _acted(found)
        taken = {name: value for name, value in found.items() if name in known}
        return _DECODERS[fold].decode(_encode(taken)), ignored
    except msgspec.DecodeError as fault:
        raise BadAnswerError(f"the answer to `{point.event}` is not one: {fault}") from None


def _bare(fold: Fold, result: bytes) -> Answer:
    """Return what an answer means that is no object."""
    if fold == "cancel" and result == b"false":
        return CancelAnswer(cancel=True)
    if fold == "input" and result[:1] == b'"':
        return InputAnswer(action="transform", text=Raw(result))
    raise BadAnswerError(f"the answer must be an object, and is `{result[:32].decode(errors='replace')}`")


def _named(fold: Fold, given: dict[str, Raw]) -> dict[str, Raw]:
    """Return the members under the names that they have here."""
    aliases = _ALIASES.get(fold, {})
    found: dict[str, Raw] = {}
    for name, value in given.items():
        name = aliases.get(name, _OF_SNAKE.get(name, name))
        if name in found:
            raise BadAnswerError(f"the answer says `{name[:64]}` twice, in two spellings")
        found[name] = value
    if bytes(found.get("reason", b"")) == b"null":
        # Whoever writes an answer out of an optional text has this for none.
        del found["reason"]
    return found


def _acted(found: dict[str, Raw]) -> dict[str, Raw]:
    """Return an answer about input with its action said in one way."""
    action = bytes(found.get("action", b""))
    blocks = bytes(found.pop("block", b"false"))
    if blocks not in (b"true", b"false"):
        raise BadAnswerError("`block` must be true or false")
    if blocks == b"true" or action in (b'"block"', b'"blocked"'):
        found["action"] = Raw(b'"handled"')
    elif not action:
        changes = "text" in found or "images" in found
        found["action"] = Raw(b'"transform"' if changes else b'"continue"')
    return found
