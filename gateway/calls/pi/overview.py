"""What extensions have registered, side by side: for people who look, and for whoever must say what collides.

Owns the sentences about what of registrations is refused, unknown or wanted twice. Decides nothing that a session does
not decide in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gateway.calls.pi import extras
from gateway.calls.registered import Registered
from gateway.hooks.points import unknown
from gateway.policy.manifest import Declaration, ManifestError


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


def overview(extensions: Sequence[tuple[str, Registered]]) -> Overview:
    """Put extensions side by side, given what each has registered, in the order of the configuration."""
    registrations = [_registration(name, one) for name, one in extensions]
    collisions = [
        one.sentence for one in extras.union((name, one.extras) for name, one in extensions).collisions
    ]
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


def _registration(name: str, registered: Registered) -> Registration:
    found, events = registered.extras, list(dict.fromkeys(registered.event_hooks))
    declared, error = registered.declaration, registered.manifest_error
    problems = [one.sentence for one in found.refused]
    problems += extras.protected(registered.commands)
    problems += unknown(events)
    if error is not None:
        problems.append(error.sentence)
    elif declared.manifest is not None:
        problems += declared.manifest.notes
    return Registration(
        extension=name,
        version=str(registered.payload.get("version", "")),
        tools=registered.tool_names,
        commands=list(registered.commands),
        hooks=events,
        **{
            member: [one.name for one in found.declared if one.kind == kind]
            for kind, member in extras.MEMBERS.items()
        },
        capabilities=_capabilities(declared, error),
        problems=problems,
    )


def _capabilities(declared: Declaration, error: ManifestError | None) -> list[str]:
    if error is not None or declared.manifest is None:
        return []
    return list(dict.fromkeys(entry.capability for entry in declared.manifest.entries))
