"""The params of the host calls `log` and `env`.

Owns forms. What is written of an entry is `protocol/log.py`'s, which variables may be read the policy's.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gateway.policy.capability import MOST_TARGETS

OURS: Final = (
    "host_call.", "policy.", "hook.", "tool_call.", "slash_command.", "event_hook.", "request.", "extension.",
    "messages.", "log.",
)  # fmt: skip
"""How the events begin that the gateway itself tells of: nobody else may seem to have."""
MOST_ENTRY: Final = 64 * 1024
"""Bytes of the data of an entry."""


class LogCall(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the extension log. Time, ids and the name of the extension are not its to say."""

    level: Literal["debug", "info", "warn", "error"]
    event: Annotated[str, Meta(min_length=1, max_length=256)]
    message: Annotated[str, Meta(max_length=8192)]
    data: dict[str, Any] | None = None


class EnvCall(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of the gateway's environment: one, or several."""

    name: str | None = None
    names: Annotated[list[str], Meta(max_length=MOST_TARGETS)] | None = None
