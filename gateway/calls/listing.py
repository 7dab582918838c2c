"""Lists of tools, prompts and resources: a page of one as it travels, one thing that a peer offers, all of one kind.

Owns their shape, and whether a peer's list is still the one that was put; who offers what under which name is the
catalogue's.
"""

from __future__ import annotations

from collections import Counter

import msgspec
from msgspec import Raw, field

from gateway.protocol import mcp

read_members: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])


class Listing(msgspec.Struct):
    """A page of a list: its items verbatim, and where the next page starts."""

    items: list[Raw]
    next_cursor: str | None


def read_page(method: str, result: bytes) -> Listing:
    """Return a page of `tools/list` and the like.

    Raises:
        msgspec.ValidationError: If the result is not of that shape.
    """
    members = read_members.decode(result)
    items = msgspec.json.decode(members.get(mcp.LIST_METHODS[method], Raw(b"[]")), type=list[Raw])
    cursor = members.get("nextCursor")
    return Listing(items, msgspec.json.decode(cursor, type=str | None) if cursor is not None else None)


class Item(msgspec.Struct):
    """One thing that a peer offers."""

    peer: str
    original: str
    """Its name at the peer; the URI of a resource, the template of a template."""
    raw: bytes
    """The definition, verbatim."""
    bare: str = ""
    """Its name after renaming, before any prefix."""
    offered: str = ""
    """Its name for cores; empty where it is not offered."""
    held: bool = False
    """Whether it is kept back until somebody accepts its changed definition."""
    schema: bytes | None = None
    """The input schema of a tool, once somebody has looked."""

    def listed(self) -> bytes:
        """Return the definition as cores see it."""
        if self.offered == self.original:
            return self.raw
        members = read_members.decode(self.raw)
        members["name"] = Raw(msgspec.json.encode(self.offered))
        return msgspec.json.encode(members)


class Kind(msgspec.Struct):
    """All items of one list method, by peer."""

    by_peer: dict[str, list[Item]] = field(default_factory=dict[str, "list[Item]"])
    offered: dict[str, Item] = field(default_factory=dict[str, Item])
    given: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Names that cores have been told, with peer and original name of whom they mean."""
    changes: Counter[str] = field(default_factory=Counter[str])
    """How often each peer's list has changed."""
    outdated: set[str] = field(default_factory=set[str])
    """Peers whose list has changed while it was fetched."""
    stale: bool = True

    def knows(self, peer: str) -> bool:
        """Whether the peer's list has been put, and has not changed since it was asked for."""
        return peer in self.by_peer and peer not in self.outdated

    def forget(self, peer: str) -> None:
        """The peer's list has changed."""
        self.by_peer.pop(peer, None)
        self.outdated.discard(peer)
        self.changes[peer] += 1

    def put(self, peer: str, items: list[Item], asked_at: int | None) -> None:
        """Take in the whole list of one peer; `asked_at` is what `changes` had for it when it was asked for."""
        self.by_peer[peer] = items
        if asked_at is None or asked_at == self.changes[peer]:
            self.outdated.discard(peer)
        else:
            self.outdated.add(peer)


def fits(template: str, uri: str) -> bool:
    """Whether a URI can be an expansion of an RFC 6570 template: literal parts in order, anything between."""
    parts: list[str] = []
    rest = template
    while "{" in rest:
        literal, _, rest = rest.partition("{")
        parts.append(literal)
        _, _, rest = rest.partition("}")
    parts.append(rest)
    if not uri.startswith(parts[0]) or not uri.endswith(parts[-1]):
        return False
    at = len(parts[0])
    for part in parts[1:-1]:
        found = uri.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return at <= len(uri) - len(parts[-1]) or len(parts) == 1
