"""What an extension offers: its tools, commands and hooks, read out of `register`.

Owns which declarations can be used at all. A tool or a command that cannot be called by its name makes the whole
registration wrong: half of what an extension meant would be worse than none of it.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import Raw, UnsetType

from gateway.protocol.errors import Fault
from gateway.protocol.pi_messages import EMPTY, VERSIONS, Manifest, Register

MOST_OFFERED: Final = 1024
"""Tools, or commands, or hooks, of one extension."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool: what is needed to call it, and the whole declaration as it came."""

    name: str
    declared: Raw


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command, named without its slash."""

    name: str
    declared: Raw


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one extension has declared."""

    name: str
    version: str
    tools: dict[str, Tool]
    commands: dict[str, Command]
    hooks: frozenset[str]
    capabilities: tuple[str, ...] = ()
    manifest: Manifest | None = None
    declared: Raw = EMPTY
    """The payload of `register` as it came."""


class _Named(msgspec.Struct):
    name: str
    parameters: Raw = EMPTY

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("`name` must not be empty")
        if bytes(memoryview(self.parameters)[:1]) != b"{":
            raise ValueError("`parameters` must be an object")


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


_named = msgspec.json.Decoder(_Named)
_Item = TypeVar("_Item", bound=_HasName)


def offer_of(register: Register, declared: Raw = EMPTY) -> Offer | Fault:
    """Return what a registration, which came as `declared`, offers, or why it is none that can be taken."""
    if register.api_version not in VERSIONS:
        spoken = ", ".join(VERSIONS)
        return _wrong(
            "api_version",
            f"the extension wants API version {register.api_version[:32]!r}; spoken here: {spoken}",
            spoken=list(VERSIONS),
        )
    if not register.name:
        return _wrong("bad_name", "`name` must not be empty")
    tools = _read("tool", [Tool(name=n, declared=d) for n, d in _names(register.tools)])
    if isinstance(tools, Fault):
        return tools
    commands = _read("command", [Command(name=n, declared=d) for n, d in _names(register.slash_commands)])
    if isinstance(commands, Fault):
        return commands
    hooks = register.event_hooks or []
    if len(hooks) > MOST_OFFERED:
        return _wrong("too_many", f"more than {MOST_OFFERED} hooks")
    manifest = register.capability_manifest
    return Offer(
        name=register.name,
        version=register.version,
        tools=tools,
        commands=commands,
        hooks=frozenset(hooks),
        capabilities=tuple(register.capabilities or ()),
        manifest=None if isinstance(manifest, UnsetType) else manifest,
        declared=declared,
    )


def _names(items: list[Raw] | UnsetType) -> list[tuple[str, Raw]]:
    """Return each item with its name, which is empty where the item cannot be read."""
    found: list[tuple[str, Raw]] = []
    for item in items or ():
        try:
            found.append((_named.decode(item).name, item))
        except msgspec.ValidationError:
            found.append(("", item))
    return found


def _read(what: str, items: list[_Item]) -> dict[str, _Item] | Fault:
    if len(items) > MOST_OFFERED:
        return _wrong("too_many", f"more than {MOST_OFFERED} {what}s")
    by_name: dict[str, _Item] = {}
    for index, item in enumerate(items):
        if not item.name:
            needs = "a `name`, and `parameters` that are an object" if what == "tool" else "a `name`"
            return _wrong("bad_declaration", f"{what} {index} needs {needs}", index=index)
        if item.name in by_name:
            return _wrong("declared_twice", f"there are two {what}s named {item.name[:64]!r}", index=index)
        by_name[item.name] = item
    return by_name


def _wrong(reason: str, message: str, **details: object) -> Fault:
    return Fault(code="invalid_request", message=message, reason=reason, details=details)
