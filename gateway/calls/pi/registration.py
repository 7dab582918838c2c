"""What all peers offer a Pi core together, as the one extension that stands for them registers it.

Owns what is known of it: the lists of tools and prompts, and what extensions have registered besides. When the gateway
is asked for that, and when the registration is said, is `core.py`'s business.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from gateway.calls.pi import words
from gateway.calls.pi.lists import LISTS, Lists, Request
from gateway.calls.pi.logs import NAME


class _Offers(msgspec.Struct):
    event_hooks: list[str] = msgspec.field(default_factory=list[str])
    shortcuts: list[Raw] = msgspec.field(default_factory=list[Raw])
    flags: list[Raw] = msgspec.field(default_factory=list[Raw])
    message_renderers: list[Raw] = msgspec.field(default_factory=list[Raw])
    tool_renderers: list[Raw] = msgspec.field(default_factory=list[Raw])
    providers: list[Raw] = msgspec.field(default_factory=list[Raw])

    def more(self) -> dict[str, list[Raw]]:
        """What a registration holds of it beside the hooks."""
        return {name: found for name in self.__struct_fields__[1:] if (found := getattr(self, name))}


class Registration:
    """The registration at one core."""

    def __init__(self, version: str) -> None:
        """`version` is that of the extension."""
        self._version = version
        self._lists = Lists()
        self.hooks: list[str] | None = None
        """The events that peers have hooks for; None until that is known."""
        self._more: dict[str, list[Raw]] = {}
        """Shortcuts, flags, renderers and providers of peers."""
        self._asked: int | None = None
        """The request for what extensions have registered, while it is open."""
        self._said = b""

    def ask(self, request: Request) -> None:
        """Ask for everything."""
        self.ask_for_offers(request)
        for name in LISTS:
            self.ask_for_list(name, request)

    def ask_for_offers(self, request: Request) -> None:
        """Ask what extensions have registered."""
        self._asked = request(words.OFFERS, b"{}")

    def ask_for_list(self, name: str, request: Request) -> None:
        """Fetch a list. Other names than those of the two are none."""
        self._lists.fetch(name, request)

    def answered(self, id_: int, result: bytes, request: Request) -> bool:
        """Take in the answer to a request, if it is one of these; return whether everything is known now.

        What a peer cannot give, or not in the form of it, is nothing.
        """
        if id_ != self._asked:
            return self._lists.page(id_, result, request) and self.hooks is not None
        self._asked = None
        try:
            offers = msgspec.json.decode(result, type=_Offers)
        except msgspec.DecodeError:
            offers = _Offers()
        self.hooks, self._more = offers.event_hooks, offers.more()
        return self._lists.are_known

    def arguments_of(self, command: str) -> list[str]:
        """The arguments of the prompt behind a command, by name."""
        return self._lists.arguments.get(command, [])

    def news(self) -> bytes | None:
        """Return the payload of a registration with all that is known; None where the last one was the same."""
        told = self._lists.offer(NAME, self._version, self.hooks or [], self._more)
        if told == self._said:
            return None
        self._said = told
        return told
