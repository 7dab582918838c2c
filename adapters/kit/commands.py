"""Commands and prompts: words that follow a name, as the arguments of a function, and what it says.

Owns the reading of words and the forms of both in either dialect.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, cast, get_origin

import msgspec

from adapters.kit.errors import Json, ToolError
from adapters.kit.functions import Signature, choices_of, members_of
from adapters.kit.results import result_of, text_block

MOST_COMPLETIONS = 100
"""As many as MCP allows in one answer."""


class Message(msgspec.Struct):
    """One message of a prompt."""

    text: str
    role: Literal["user", "assistant"] = "user"


class Command(msgspec.Struct, frozen=True):
    """One command or prompt."""

    signature: Signature
    kind: Literal["command", "prompt"]

    @property
    def as_prompt(self) -> Json:
        """It as MCP's `prompts/list` gives it."""
        arguments: list[Json] = []
        described = self.signature.schema["properties"]
        for member in members_of(self.signature):
            argument: Json = {"name": member.name, "required": member.required}
            text = described[member.name].get("description")
            arguments.append(argument | ({"description": text} if text else {}))
        about = {"description": self.signature.about} if self.signature.about else {}
        return {"name": self.signature.name, **about, "arguments": arguments}

    @property
    def as_slash_command(self) -> Json:
        """It as Pi's `register` declares it."""
        return self.as_prompt | {"parameters": self.signature.schema}

    async def run(self, words: list[str], named: Json, context: object) -> Any:
        """Run it with arguments by name, and words for those that are left. Raises `ToolError`."""
        try:
            return await self.signature.call(
                arguments_of(self.signature, words, named), context, strict=False
            )
        except msgspec.ValidationError as fault:
            raise ToolError("invalid_request", f"/{self.signature.name}: {fault}") from None


def arguments_of(signature: Signature, words: list[str], named: Json) -> Json:
    """The arguments of a command. The last place takes all the words that are left, as a list where it is one.

    Raises `ToolError` for words that nothing takes.
    """
    given = dict(named)
    places = [member for member in members_of(signature) if member.name not in named]
    if words and not places:
        raise ToolError("invalid_request", f"/{signature.name} takes no more words: {' '.join(words)[:80]}")
    for index, member in enumerate(places):
        is_last = index == len(places) - 1
        if is_last and get_origin(member.type) is list:
            given[member.name] = words[index:]
        elif index < len(words):
            given[member.name] = " ".join(words[index:]) if is_last else words[index]
    return given


def messages_of(returned: Any) -> list[Json]:
    """What a prompt or a command has said, as messages of MCP."""
    items = cast("list[Any]", returned) if isinstance(returned, list) else [returned]
    if items and all(isinstance(item, Message) for item in items):
        return [{"role": item.role, "content": text_block(item.text)} for item in items]
    return [{"role": "user", "content": block} for block in result_of(returned)["content"]]


async def complete(
    completions: dict[tuple[str, str], Callable[..., Any]],
    of: str,
    signature: Signature | None,
    argument: str,
    typed: str,
    others: dict[str, str],
) -> list[str]:
    """Values for an argument, those that begin as was typed first; none where nobody knows any."""
    if (function := completions.get((of, argument))) is not None:
        takes_others = len(inspect.signature(function).parameters) > 1
        found: Any = function(typed, others) if takes_others else function(typed)
        return list(await found if inspect.isawaitable(found) else found)
    for member in members_of(signature) if signature is not None else ():
        if member.name == argument:
            return [choice for choice in choices_of(member.type) if choice.startswith(typed)]
    return []
