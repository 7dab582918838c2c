"""The tools and prompts of all peers, fetched page by page, and the registration that they become.

Owns what is known of the two lists. When they are fetched, and whether they are registered, is the core's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw

from gateway.calls.pi import commands, extras, to_pi
from gateway.calls.pi.offer import MOST_OFFERED

LISTS: Final = ("tools", "prompts")
MOST_PAGES: Final = 1000

Request: TypeAlias = Callable[[str, bytes], int]
"""Asks the gateway for a method with params, and returns the id of the request."""

_encode = msgspec.json.Encoder().encode


class _List(msgspec.Struct):
    """One list, of which pages are fetched while `id` is set."""

    items: list[Raw] = msgspec.field(default_factory=list[Raw])
    coming: list[Raw] = msgspec.field(default_factory=list[Raw])
    id: int | None = None
    pages: int = 0
    is_known: bool = False
    is_stale: bool = False


class _Page(msgspec.Struct):
    tools: list[Raw] = msgspec.field(default_factory=list[Raw])
    prompts: list[Raw] = msgspec.field(default_factory=list[Raw])
    cursor: str | None = msgspec.field(name="nextCursor", default=None)


class Lists:
    """What one core knows of tools and prompts."""

    def __init__(self) -> None:
        self._lists = {name: _List() for name in LISTS}
        self.arguments: dict[str, list[str]] = {}
        """The arguments of each prompt of the last offer, by its name."""

    def fetch(self, name: str, request: Request) -> None:
        """Fetch a list from its first page; where it is being fetched, once that is done. Other names are none."""
        one = self._lists.get(name)
        if one is None:
            return
        if one.id is not None:
            one.is_stale = True
            return
        one.coming, one.pages, one.is_stale = [], 0, False
        one.id = request(f"{name}/list", b"{}")

    def page(self, id_: int, result: bytes, request: Request) -> bool:
        """Take in the answer to a request, if it is one for a page; return whether both lists are whole now.

        A list that a server cannot give, or not in the form of one, is empty.
        """
        name = next((name for name, one in self._lists.items() if one.id == id_), "")
        if not name:
            return False
        one = self._lists[name]
        one.id = None
        try:
            page = msgspec.json.decode(result, type=_Page)
        except msgspec.DecodeError:
            page = _Page()
        one.coming += page.tools if name == "tools" else page.prompts
        one.pages += 1
        if page.cursor and one.pages < MOST_PAGES and len(one.coming) < MOST_OFFERED:
            one.id = request(f"{name}/list", _encode({"cursor": page.cursor}))
            return False
        one.items, one.is_known = one.coming[:MOST_OFFERED], True
        if one.is_stale:
            self.fetch(name, request)
            return False
        return self.are_known

    @property
    def are_known(self) -> bool:
        """Whether both lists have been whole once."""
        return all(each.is_known for each in self._lists.values())

    def offer(self, name: str, version: str, hooks: list[str], more: dict[str, list[Raw]]) -> bytes:
        """Return the payload of the registration with everything that is known, hooks for these events, and `more`.

        The core's own commands stay its own, whatever a prompt is called.
        """
        tools = _named([bytes(item) for item in self._lists["tools"].items])
        prompts = _named([bytes(item) for item in self._lists["prompts"].items])
        read = [(*commands.arguments_of(prompt), prompt) for prompt in prompts]
        read = [one for one in read if not extras.is_protected(one[0])]
        self.arguments = {name: arguments for name, arguments, _ in read}
        offer = to_pi.register(name, version, tools)
        offer.slash_commands = [commands.command(prompt) for _, _, prompt in read]
        if hooks:
            offer.event_hooks = hooks
        known = _encode(offer)
        return known[:-1] + b"," + _encode(more)[1:] if more else known


def _named(items: list[bytes]) -> list[bytes]:
    """Return the items that have a name, each name once: one that a host cannot take would cost it all the others."""
    found: dict[str, bytes] = {}
    for item in items:
        try:
            name, _ = commands.arguments_of(item)
        except msgspec.DecodeError:
            continue
        if name:
            found.setdefault(name, item)
    return list(found.values())
