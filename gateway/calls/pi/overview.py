"""What extensions have registered, side by side: for people who look, and for whoever must say what collides.

Owns the reading of whole `register` payloads into names, and the sentences about what of them is refused, unknown or
wanted twice. Decides nothing that a session does not decide in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from gateway.calls.pi import extras
from gateway.hooks.points import unknown
from gateway.policy.manifest import Declaration, ManifestError, declaration

_NAMES: Final = {"tools": "tools", "commands": "slash_commands"}


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What one extension has registered, by name."""

    extension: str
    version: str
    tools: list[str]
    commands: list[str]
    hooks: list[str]
    shortcuts: list[str]
    flags: list[str]
    message_renderers: list[str]
    tool_renderers: list[str]
    providers: list[str]
    capabilities: list[str]
    problems: list[str]
    """What of it cannot be taken, in sentences."""

    def parts(self) -> list[tuple[str, list[str]]]:
        """Return what there is, by kind, in the order in which it is shown."""
        kinds = [field.name for field in msgspec.structs.fields(self)][2:-1]
        return [(kind.replace("_", " "), getattr(self, kind)) for kind in kinds if getattr(self, kind)]


class Overview(msgspec.Struct, frozen=True):
    """What several extensions have registered."""

    registrations: list[Registration]
    collisions: list[str]
    """In sentences."""


def overview(payloads: Sequence[tuple[str, Mapping[str, Any]]]) -> Overview:
    """Put extensions side by side, given what each has registered, in the order of the configuration."""
    read = [(name, extras.read_extras(payload)) for name, payload in payloads]
    registrations = [
        _registration(name, payload, found)
        for (name, payload), (_, found) in zip(payloads, read, strict=True)
    ]
    collisions = [one.sentence for one in extras.union(read).collisions]
    for kind, word in (("tools", "tool"), ("commands", "command")):
        owners: dict[str, list[str]] = {}
        for one in registrations:
            for name in getattr(one, kind):
                owners.setdefault(name, []).append(one.extension)
        collisions += [
            f"{word} `{name}` is of {' and of '.join(whose)}: each is offered with its extension's name before it"
            for name, whose in owners.items()
            if len(whose) > 1
        ]
    return Overview(registrations, collisions)


def _registration(name: str, payload: Mapping[str, Any], found: extras.Extras) -> Registration:
    names = {kind: _names(payload.get(member)) for kind, member in _NAMES.items()}
    hooks = payload.get("event_hooks")
    events = list(dict.fromkeys(map(str, cast(list[object], hooks)))) if isinstance(hooks, list) else []
    declared, error = declaration(payload)
    problems = [one.sentence for one in found.refused]
    problems += extras.protected(names["commands"])
    problems += unknown(events)
    if error is not None:
        problems.append(error.sentence)
    elif declared.manifest is not None:
        problems += declared.manifest.notes
    return Registration(
        extension=name,
        version=str(payload.get("version", "")),
        **names,
        hooks=events,
        **{
            member: [one.name for one in found.declared if one.kind == kind]
            for kind, member in extras.MEMBERS.items()
        },
        capabilities=_capabilities(declared, error),
        problems=problems,
    )


def _names(items: object) -> list[str]:
    listed = cast(list[object], items) if isinstance(items, list) else []
    return [str(cast(dict[str, object], item).get("name", "")) for item in listed if isinstance(item, dict)]


def _capabilities(declared: Declaration, error: ManifestError | None) -> list[str]:
    if error is not None or declared.manifest is None:
        return []
    return list(dict.fromkeys(entry.capability for entry in declared.manifest.entries))
