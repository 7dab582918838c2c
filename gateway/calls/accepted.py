"""Accepted tool definitions: what a person has agreed to, and how what a peer offers now differs from it.

A tool's description is read by a model as an instruction, so a peer that changes one after it was looked at
changes the agent. Owns the fingerprint, the comparison and the text of the lock file; reads and writes no
file. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec

Definition: TypeAlias = dict[str, Any]
"""A tool as `tools/list` gives it, decoded."""

_IGNORED = ("_meta",)
"""Members that no model is shown and that may differ from one listing to the next."""
SHORT = 60
"""Characters up to which two versions of a text are shown side by side rather than as a diff."""


class AcceptedTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as it was when it was accepted."""

    fingerprint: str
    definition: Definition


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The lock file: accepted tools by peer and by the name that the peer gives them."""

    format: Literal[1] = 1
    peers: dict[str, dict[str, AcceptedTool]] = {}


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One tool that is not as it was accepted. `lines` tell a person how, without control characters."""

    peer: str
    tool: str
    kind: Literal["added", "changed", "removed"]
    lines: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Why a tool is not as it was accepted or pinned. True where it is held back, false where it is only told."""

    why: str
    fingerprint: str
    held: bool

    def __bool__(self) -> bool:
        """Whether the tool is held back."""
        return self.held


class AcceptedError(ValueError):
    """A lock file that cannot be read."""

    hint = "Restore it from version control, or delete it and accept the tools anew"


def fingerprint(definition: Mapping[str, Any]) -> str:
    """Return the sha256 hex of a definition's canonical JSON, without what no model is shown.

    Raises:
        NotCanonicalError: If it holds a number that is not finite.
    """
    from hashlib import sha256

    from gateway.protocol.canonical import canonical

    shown = {key: value for key, value in definition.items() if key not in _IGNORED}
    return sha256(canonical(shown)).hexdigest()


def compare(accepted: Accepted, peer: str, offered: Iterable[Definition]) -> list[Difference]:
    """Return what differs between a peer's accepted tools and those that it offers now, by name.

    A peer of which nothing was ever accepted has only additions.
    """
    known = accepted.peers.get(peer, {})
    now = {str(definition.get("name", "")): definition for definition in offered}
    differences = [
        _difference(peer, name, known.get(name), now.get(name)) for name in sorted(known.keys() | now.keys())
    ]
    return [difference for difference in differences if difference is not None]


def _difference(peer: str, tool: str, was: AcceptedTool | None, now: Definition | None) -> Difference | None:
    if was is None:
        description = str((now or {}).get("description", ""))
        return Difference(peer=peer, tool=tool, kind="added", lines=tuple(_each_line("+", description)))
    if now is None:
        return Difference(peer=peer, tool=tool, kind="removed")
    if was.fingerprint == fingerprint(now):
        return None
    lines = tuple(_changes(was.definition, now, ""))
    return Difference(peer=peer, tool=tool, kind="changed", lines=lines)


def accept(accepted: Accepted, peer: str, offered: Iterable[Definition]) -> Accepted:
    """Return `accepted` with exactly the tools that `peer` offers now."""
    tools = {
        str(definition.get("name", "")): AcceptedTool(
            fingerprint=fingerprint(definition), definition=definition
        )
        for definition in offered
    }
    return Accepted(peers={**accepted.peers, peer: tools})


def is_accepted(accepted: Accepted, peer: str, definition: Definition) -> bool | None:
    """Whether a definition is as it was accepted; None if the tool was never looked at."""
    tool = accepted.peers.get(peer, {}).get(str(definition.get("name", "")))
    return None if tool is None else tool.fingerprint == fingerprint(definition)


def encode(accepted: Accepted) -> bytes:
    """Return the lock file: JSON that people can read and that version control can diff."""
    return msgspec.json.format(msgspec.json.encode(accepted, order="sorted"), indent=2) + b"\n"


def decode(data: bytes) -> Accepted:
    """Read a lock file.

    Raises:
        AcceptedError: If it is damaged, or a definition in it was edited so that its fingerprint is wrong.
    """
    try:
        accepted = msgspec.json.decode(data, type=Accepted)
    except msgspec.MsgspecError as error:
        raise AcceptedError(str(error)) from error
    for peer, tools in accepted.peers.items():
        for name, tool in tools.items():
            if tool.fingerprint != fingerprint(tool.definition):
                raise AcceptedError(f"the definition of `{visible(name)}` of `{peer}` was edited")
    return accepted


def visible(text: str) -> str:
    """Return `text` with everything that would not show, or would act on a terminal, written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _changes(was: object, now: object, where: str) -> Iterable[str]:
    """Tell the differences of two JSON values, each under its JSON pointer."""
    if isinstance(was, dict) and isinstance(now, dict):
        before, after = cast(dict[str, object], was), cast(dict[str, object], now)
        for key in sorted(before.keys() | after.keys()):
            place = f"{where}/{key.replace('~', '~0').replace('/', '~1')}"
            if place.removeprefix("/") in _IGNORED:
                continue
            if key not in before:
                yield f"+ {visible(place)}: {_text(after[key])}"
            elif key not in after:
                yield f"- {visible(place)}: {_text(before[key])}"
            else:
                yield from _changes(before[key], after[key], place)
    elif isinstance(was, str) and isinstance(now, str) and was != now and max(len(was), len(now)) > SHORT:
        yield f"~ {visible(where)}:"
        from difflib import ndiff

        for line in ndiff(was.splitlines(), now.splitlines()):
            yield f"    {visible(line)}"
    else:
        before, after = _encode(cast(object, was)), _encode(now)
        if before != after:
            yield f"~ {visible(where)}: {visible(before)} -> {visible(after)}"


def _text(value: object) -> str:
    return visible(_encode(value))


def _encode(value: object) -> str:
    # As text, since `1`, `1.0` and `true` are equal in Python and not in a schema.
    return msgspec.json.encode(value, order="sorted").decode()


def _each_line(sign: str, text: str) -> Iterable[str]:
    return (f"{sign} {visible(line)}" for line in text.splitlines())
