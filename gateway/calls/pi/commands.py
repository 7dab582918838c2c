"""Prompts of MCP servers in Pi's words: a core that speaks Pi sees them as slash commands.

Owns the forms of declarations, arguments and results in that direction; `to_mcp.py` has the other one. Pure functions
over JSON; members that are not named here pass as they are.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec
from msgspec import Raw

from gateway.calls.pi import content
from gateway.calls.pi.errors import call_error, members
from gateway.protocol.errors import Fault
from gateway.protocol.pi_messages import SlashCommand, SlashResult

_encode = msgspec.json.Encoder().encode
_table = msgspec.json.Decoder(dict[str, Raw])


class _Argument(msgspec.Struct):
    name: str


class _Prompt(msgspec.Struct):
    name: str
    arguments: list[_Argument] = msgspec.field(default_factory=list[_Argument])


class _Message(msgspec.Struct):
    role: str
    content: Any


class _Result(msgspec.Struct):
    messages: list[_Message]


_prompt: Final = msgspec.json.Decoder(_Prompt)
_result: Final = msgspec.json.Decoder(_Result)


def command(definition: bytes) -> Raw:
    """Return a prompt of MCP as Pi declares a command: its title is the `label`, its arguments stay as they are."""
    found = _table.decode(definition)
    if "title" in found:
        found["label"] = found.pop("title")
    return Raw(_encode(found))


def arguments_of(definition: bytes) -> tuple[str, list[str]]:
    """Return the name of a prompt and those of its arguments, in their order.

    Raises:
        msgspec.DecodeError: If it is no prompt.
    """
    read = _prompt.decode(definition)
    return read.name, [argument.name for argument in read.arguments]


def prompt_params(body: SlashCommand, names: list[str]) -> bytes | Fault:
    """Return the params of `prompts/get`: `input` gives arguments by name, `args` those that are left, in order.

    The last argument gets all the words that are left, joined by spaces.
    """
    given = members(body.input)
    arguments = {
        name: value if isinstance(value, str) else content.as_text(value) for name, value in given.items()
    }
    words = list(body.args or ())
    places = [name for name in names if name not in arguments]
    if words and not places:
        return Fault(
            code="invalid_request",
            message=f"`/{body.name[:64]}` takes {len(names)} arguments and no more words",
            reason="too_many_arguments",
            details={"arguments": names},
        )
    for index, name in enumerate(places):
        if index < len(words):
            is_last = index == len(places) - 1
            arguments[name] = " ".join(words[index:]) if is_last else words[index]
    params: dict[str, Any] = {"name": body.name}
    if arguments:
        params["arguments"] = arguments
    return _encode(params)


def command_result(result: bytes) -> SlashResult:
    """Return the result of `prompts/get` as Pi knows it: what its messages say, one block each.

    Where that loses who speaks, or had to be told in words, the messages lie whole in `details.messages`.

    Raises:
        msgspec.DecodeError: If it has no messages.
    """
    messages = _result.decode(result).messages
    blocks: list[dict[str, Any]] = []
    is_told = False
    for one in messages:
        said: object = one.content
        parts = cast("list[Any]", said) if isinstance(said, list) else [said]
        told, differs = content.to_pi(parts)
        blocks += told
        is_told = is_told or differs or one.role != "user"
    output: dict[str, Any] = {"content": blocks}
    if is_told:
        output["details"] = {"messages": messages}
    return SlashResult(output=Raw(_encode(output)), is_error=False)


def failed_command(fault: Fault) -> SlashResult:
    """Return a fault as the one result of a command: in words, and with its code."""
    output = {"content": [content.text_block(fault.message)], "error": call_error(fault)}
    return SlashResult(output=Raw(_encode(output)), is_error=True)
