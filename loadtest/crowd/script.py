"""The script of a closed model: calls with the time that is thought after each, read from TOML.

Owns the form of a script and the errors about it. Who plays it, and over what, is the users' business. Pure.
"""

from __future__ import annotations

import tomllib
from typing import Annotated, Any

import msgspec
from msgspec import Meta

LANE = "io.tieline/lane"


class ScriptError(ValueError):
    """A script that cannot be played; the text says where and why."""


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call of a tool, and how long is thought after its answer."""

    tool: Annotated[str, Meta(min_length=1)]
    arguments: dict[str, Any] = {}
    think_ms: Annotated[float, Meta(ge=0)] = 0.0

    def body(self, id_: int, lane: str = "") -> bytes:
        """The request, as an agent of that lane sends it."""
        params: dict[str, Any] = {"name": self.tool, "arguments": self.arguments}
        if lane:
            params["_meta"] = {LANE: lane}
        return msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params})


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user does again and again: `[[call]]` tables, in order."""

    call: Annotated[list[Call], Meta(min_length=1)]


def parse(text: str, name: str) -> Script:
    """Read a script.

    Raises:
        ScriptError: It is no TOML, or says something else than a script does.
    """
    try:
        return msgspec.convert(tomllib.loads(text), Script)
    except tomllib.TOMLDecodeError as fault:
        raise ScriptError(f"{name} is no TOML: {fault}") from None
    except msgspec.ValidationError as fault:
        raise ScriptError(f"{name} is no script of calls: {fault}") from None
