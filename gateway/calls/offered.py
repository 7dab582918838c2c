"""What the extensions of one session have registered together, as a Pi core is told of it: the result of `pi/offers`.

Owns the form of that result, whose shortcut a key is, and what people are told of what is refused, collides or is the
core's own. What of a registration counts is `pi/extras.py`'s. Extensions come in the order of the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from gateway.calls.pi import extras
from gateway.calls.registered import Registered

Extensions: TypeAlias = Sequence[tuple[str, Registered]]
"""Names of peers, and what each has registered."""

_encode = msgspec.json.Encoder().encode


class _Pressed(msgspec.Struct):
    key: str


def offers(extensions: Extensions, called: Callable[[str, str], str], event_hooks: bytes) -> bytes:
    """Return the result of `pi/offers`. `called` gives the name by which a core calls a peer's tool; `event_hooks` is
    the JSON list of events."""
    members: dict[str, Any] = extras.union((name, one.extras) for name, one in extensions).members
    renderers = extras.MEMBERS["tool_renderer"]
    members[renderers] = [
        {**item, "tool": called(item["extension"], item["tool"])} for item in members[renderers]
    ]
    return _encode(
        {"event_hooks": msgspec.Raw(event_hooks), **{name: found for name, found in members.items() if found}}
    )


def owner_of_key(extensions: Extensions, data: bytes) -> str:
    """Return whose shortcut the key in an event's data is; empty where it is nobody's."""
    try:
        key = extras.key_of(msgspec.json.decode(data, type=_Pressed).key)
    except msgspec.DecodeError:
        return ""
    for name, one in extensions:
        if any(each.kind == "shortcut" and each.name == key for each in one.extras.declared):
            return name
    return ""


def sentences(extensions: Extensions, *, has_pi_core: bool) -> list[str]:
    """Return what people are told about registrations."""
    told = [f"{name}: {one.sentence}" for name, registered in extensions for one in registered.extras.refused]
    told += [
        f"{name}: {registered.manifest_error.sentence}"
        for name, registered in extensions
        if registered.manifest_error is not None
    ]
    told += [one.sentence for one in extras.union((name, one.extras) for name, one in extensions).collisions]
    if has_pi_core:
        told += [
            f"{name}: {sentence}"
            for name, registered in extensions
            for sentence in extras.protected(registered.commands)
        ]
    return told
