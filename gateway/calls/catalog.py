"""What the peers of one session offer, under which names a core sees it, and who owns a name.

Owns naming: filter, rename, prefix, collisions. Names are stable (they follow the configuration; one that was listed
stays its owner's for the session, whoever comes or goes) and reversible (a qualified name always reaches its peer,
listed or not). Fetches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from gateway.calls.accepted import Verdict
from gateway.calls.listing import Item, Kind, fits, read_members, read_page
from gateway.protocol import mcp

if TYPE_CHECKING:
    from gateway.calls.param_headers import Mirrored
    from gateway.calls.results import Results
    from gateway.config.model import CatalogConfig
    from gateway.config.peer import PeerConfig, ToolsConfig


_NAMED = ("tools/list", "prompts/list")
"""Lists whose items are renamed and prefixed; those of the others are told apart by URI."""
_ANNOTATION = b"x-mcp-header"
"""`param_headers.ANNOTATION`, without which none of it is loaded."""
_OUTPUT = b'"outputSchema"'
MOST_TOLD = 1000
"""Sentences that are remembered as told; a peer whose list always changes is told of again."""

Judge = Callable[[str, str, bytes], Verdict | bool | None]
"""(peer, tool name, definition) -> true where it is held back; a verdict says why, or what is told of it."""
MOST_GIVEN = 20_000
"""Names of one list that stay their owner's; those beyond may change when another peer begins to offer the same."""
MOST_DECIDED = 4096
"""Verdicts of one session that are recorded."""


class Catalog:
    """The lists of one session's peers."""

    def __init__(
        self,
        config: CatalogConfig,
        peers: Mapping[str, PeerConfig],
        judge: Judge | None = None,
        results: Results | None = None,
    ) -> None:
        self._config = config
        self._peers = peers
        self._kinds = {method: Kind() for method in mcp.LIST_METHODS}
        self.tools = self._kinds["tools/list"]
        """Whose `offered` are the tools of `tool_names`, by name: another object whenever they may be others."""
        self._judge = judge
        self._results = results
        self.direct: Mapping[str, Item] = {}
        """The tools that a call by these names means, with no more to look at; others are for `find` to tell."""
        self._mirrored: Mirrored | None = None
        """Tools of which arguments travel as headers; None before there is one."""
        self._told: set[str] = set()
        self._first = ""
        """The peer whose names were told as they are, before there were others."""
        self.notices: list[str] = []
        """Sentences for people: collisions and odd names. The session records and clears them."""
        self.verdicts: list[tuple[str, str, Verdict]] = []
        """Peer, tool and what was decided of it, once for each definition. The session records and clears them."""
        self._decided: set[tuple[str, str, str]] = set()

    @property
    def is_plain(self) -> bool:
        """Whether lists and names pass untouched: one peer, and no rule about its names."""
        if len(self._peers) != 1:
            return False
        peer = next(iter(self._peers.values()))
        return (
            self._config.prefix != "always"
            and not peer.prefix
            and peer.tools.allow == ["*"]
            and not (peer.tools.deny or peer.tools.rename or peer.tools.pin)
            and self._judge is None
        )

    def keep_names(self, before: Catalog) -> None:
        """Go on with the names that cores were told before a reload, where the rules for them are the same."""
        if (before._config.prefix, before._config.separator) != (self._config.prefix, self._config.separator):
            return
        same = {
            name
            for name, peer in self._peers.items()
            if name in before._peers and _rules(peer) == _rules(before._peers[name])
        }
        for method, kind in before._kinds.items():
            given = {name: whose for name, whose in kind.given.items() if whose[0] in same}
            self._kinds[method].given = given
        first = next(iter(before._peers)) if before.is_plain else before._first
        self._first = first if first in same else ""

    def knows(self, peer: str, method: str) -> bool:
        """Whether the peer's list has been put, and has not changed since it was asked for."""
        return self._kinds[method].knows(peer)

    def changes(self, peer: str, method: str) -> int:
        """Return how often the peer's list has changed: to be given to `put` as it was when the list was asked for."""
        return self._kinds[method].changes[peer]

    def forget(self, peer: str, method: str) -> None:
        """The peer's list has changed: the next use must fetch it again. Until then only qualified names resolve."""
        self._spoil(method).forget(peer)

    def put(self, peer: str, method: str, items: Iterable[Raw], *, asked_at: int | None = None) -> None:
        """Take in the whole list of one peer. `asked_at` is what `changes` was when it was asked for.

        One that has changed meanwhile is used until it is fetched again.
        """
        key = {"resources/list": "uri", "resources/templates/list": "uriTemplate"}.get(method, "name")
        found: list[Item] = []
        for raw in items:
            try:
                name = msgspec.json.decode(read_members.decode(raw).get(key, Raw(b'""')), type=str)
            except msgspec.DecodeError:
                continue
            found.append(Item(peer, name, bytes(raw)))
            if method == "tools/list":
                self._note(peer, raw)
        self._spoil(method).put(peer, found, asked_at)

    def observe(self, peer: str, result: bytes) -> None:
        """Take note of a page of tools that passes through untouched: `x-mcp-header` annotations, output schemas."""
        if _ANNOTATION in result or (self._results is not None and _OUTPUT in result):
            with suppress(msgspec.DecodeError):
                for raw in read_page("tools/list", result).items:
                    self._note(peer, raw)

    def _note(self, peer: str, raw: bytes) -> None:
        if self._results is not None:
            self._results.learn(peer, raw)
        if _ANNOTATION in bytes(raw):
            if self._mirrored is None:
                # Here, since few tools have any.
                from gateway.calls.param_headers import Mirrored

                self._mirrored = Mirrored()
            self._mirrored.learn(peer, raw)

    def header_params(self, peer: str, tool: str, params: bytes) -> tuple[tuple[str, str], ...]:
        """Return the `Mcp-Param-*` headers of a call, from what the tool's schema asks for."""
        return self._mirrored.headers(peer, tool, params) if self._mirrored is not None else ()

    def items(self, method: str) -> list[Item]:
        """Return what is offered, for cores to be told: in the order of the configuration and then of each peer."""
        kind = self._fresh(method)
        if method in _NAMED:
            for name, item in kind.offered.items():
                if name not in kind.given and len(kind.given) < MOST_GIVEN:
                    kind.given[name] = item.peer, item.original
        return list(kind.offered.values())

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools that were last told to cores; none before that, or where lists pass untouched."""
        return list(self.tools.offered)

    def refresh(self, method: str) -> None:
        """See what there is to tell people of a list."""
        self._fresh(method)

    def find(self, method: str, name: str) -> tuple[str, str] | None:
        """Return (peer, original name) of an offered name or a qualified one; None where nobody is known."""
        item = self._fresh(method).offered.get(name)
        if item is not None:
            return item.peer, item.original
        for peer in self._peers:
            prefix = self._prefix(peer)
            if prefix and name.startswith(prefix):
                original = self._original(peer, name[len(prefix) :])
                if method != "tools/list" or self._offers(peer, original):
                    return peer, original
        if len(self._peers) == 1:
            peer = next(iter(self._peers))
            original = self._original(peer, name)
            return (peer, original) if method != "tools/list" or self._offers(peer, original) else None
        return None

    def is_held(self, peer: str, original: str) -> bool:
        """Whether a tool is kept back until somebody accepts its changed definition."""
        self._fresh("tools/list")
        tools = self._kinds["tools/list"].by_peer.get(peer, [])
        return self._judge is not None and any(item.held for item in tools if item.original == original)

    def called(self, peer: str, original: str) -> str:
        """Return the name by which cores call a tool; its own where it is not listed under another."""
        items = () if self.is_plain else self._fresh("tools/list").by_peer.get(peer, ())
        return next((item.offered for item in items if item.original == original and item.offered), original)

    def input_schema(self, peer: str, original: str) -> bytes:
        """Return the input schema of a tool; empty where the tool or its schema is not known."""
        for item in self._kinds["tools/list"].by_peer.get(peer, ()):
            if item.original == original:
                if item.schema is None:
                    item.schema = b""
                    with suppress(msgspec.DecodeError):
                        item.schema = bytes(read_members.decode(item.raw).get("inputSchema", b""))
                return item.schema
        return b""

    def held_by(self, name: str) -> str | None:
        """Return the peer of which a tool would have this name, were it not kept back."""
        self._fresh("tools/list")
        tools = (item for items in self._kinds["tools/list"].by_peer.values() for item in items)
        return next((item.peer for item in tools if item.held and self._bare(item) == name), None)

    def filtered_by(self, name: str) -> str | None:
        """Return the peer of which a tool would have this name, did its `tools.allow` and `tools.deny` let it."""
        for peer, items in self._kinds["tools/list"].by_peer.items():
            for item in items:
                bare = self._bare(item)
                if name in (bare, f"{self._prefix(peer)}{bare}") and not self._offers(peer, item.original):
                    return peer
        return None

    def offered_as(self, method: str, name: str) -> list[str]:
        """Return the names under which what has this name at its peer is offered instead."""
        offered = self._fresh(method).offered.items() if method in _NAMED else ()
        return [called for called, item in offered if self._bare(item) == name]

    def _bare(self, item: Item) -> str:
        return self._peers[item.peer].tools.rename.get(item.original, item.original)

    def find_uri(self, uri: str) -> str | None:
        """Return the peer that listed a resource or a template that the URI fits."""
        item = self._fresh("resources/list").offered.get(uri)
        if item is not None:
            return item.peer
        for template in self._fresh("resources/templates/list").offered.values():
            if fits(template.original, uri):
                return template.peer
        return next(iter(self._peers)) if len(self._peers) == 1 else None

    def _fresh(self, method: str) -> Kind:
        kind = self._kinds[method]
        if kind.stale:
            self._name(method, kind)
            kind.stale = False
            if method == "tools/list":
                self.direct = self._settled(kind)
        return kind

    def _spoil(self, method: str) -> Kind:
        """What is known of a list is about to be something else: no name of it is certain until it is looked at."""
        kind = self._kinds[method]
        kind.stale = True
        if method == "tools/list":
            self.direct = {}
        return kind

    def _settled(self, kind: Kind) -> Mapping[str, Item]:
        """What is offered, without tools of which somebody may hold back a definition, or is about to see another."""
        if self._judge is None and not kind.outdated:
            return kind.offered
        items = [item for items in kind.by_peer.values() for item in items]
        held = {(item.peer, item.original) for item in items if item.held}
        return {
            name: item
            for name, item in kind.offered.items()
            if item.peer not in kind.outdated and (item.peer, item.original) not in held
        }

    def _name(self, method: str, kind: Kind) -> None:
        from gateway.calls.odd_names import confusable, odd

        named = method in _NAMED
        items = [item for peer in self._peers for item in kind.by_peer.get(peer, [])]
        if method == "tools/list":
            items = [item for item in items if self._is_offered(item)]
        owners: dict[str, set[str]] = {}
        for item in items:
            item.bare, item.offered = item.original, ""
            if named:
                item.bare = self._bare(item)
                self._tell(odd(item.peer, item.bare))
            owners.setdefault(item.bare, set()).add(item.peer)
        if method == "tools/list":
            for sentence in confusable(owners):
                self._tell(sentence)
        taken: dict[str, Item] = {}
        if named:
            taken = self._keep(kind, items)
            self._tell_collisions(owners, taken)
        kept = {(item.peer, item.original) for item in taken.values()}
        fresh = [item for item in items if (item.peer, item.original) not in kept]
        prefixed = [
            named and self._must_prefix(item.peer, collides=len(owners[item.bare]) > 1) for item in fresh
        ]
        # Qualified names first: a bare one that is in their way has a qualified one to fall back on.
        for item in compress(fresh, prefixed):
            self._take(taken, item, f"{self._prefix(item.peer)}{item.bare}")
        for item in compress(fresh, map(not_, prefixed)):
            self._take(taken, item, item.bare, named=named)
        kind.offered = {item.offered: item for item in items if item.offered}

    def _keep(self, kind: Kind, items: list[Item]) -> dict[str, Item]:
        """Give every item the name that cores have been told, and return who has which.

        A name whose owner is not there, for now perhaps, is taken too: it is not to mean another one's tool.
        """
        taken: dict[str, Item] = {}
        told = {whose: name for name, whose in kind.given.items()}
        for item in items:
            name = told.get((item.peer, item.original), item.bare if item.peer == self._first else "")
            if name and taken.setdefault(name, item) is item:
                item.offered = name
        for name, (peer, original) in kind.given.items():
            taken.setdefault(name, Item(peer, original, b"", bare=name, offered=name))
        return taken

    def _is_offered(self, item: Item) -> bool:
        """Whether a tool passes the filter and is not held back."""
        if not self._offers(item.peer, item.original):
            return False
        verdict = self._judge(item.peer, item.original, item.raw) if self._judge is not None else None
        item.held = bool(verdict)
        if isinstance(verdict, Verdict):
            self._note_verdict(item, verdict)
        return not item.held

    def _note_verdict(self, item: Item, verdict: Verdict) -> None:
        key = item.peer, item.original, verdict.fingerprint
        if key not in self._decided and len(self._decided) < MOST_DECIDED:
            self._decided.add(key)
            self.verdicts.append((item.peer, item.original, verdict))

    def _take(self, taken: dict[str, Item], item: Item, name: str, *, named: bool = False) -> None:
        """Give an item a name, if it is still free; `named` lets it fall back on its qualified one."""
        winner = taken.setdefault(name, item)
        if winner is item:
            item.offered = name
            return
        if (winner.peer, winner.bare) == (item.peer, item.bare):
            return
        qualified = f"{self._prefix(item.peer)}{item.bare}"
        if named and self._config.prefix != "never" and taken.setdefault(qualified, item) is item:
            item.offered = qualified
        elif winner.bare != item.bare:
            self._tell(f"`{item.bare}` of {item.peer} is not listed: {winner.peer} offers the name `{name}`")

    def _tell_collisions(self, owners: Mapping[str, set[str]], taken: Mapping[str, Item]) -> None:
        for name, peers in owners.items():
            if len(peers) > 1:
                rule = self._rule(taken[name].peer if name in taken else None)
                self._tell(f"`{name}` is offered by {', '.join(sorted(peers))}: {rule}")

    def _must_prefix(self, peer: str, *, collides: bool) -> bool:
        if self._config.prefix == "always" or self._peers[peer].prefix:
            return True
        return self._config.prefix == "auto" and collides

    def _rule(self, keeper: str | None) -> str:
        if keeper is not None:
            rest = "not listed" if self._config.prefix == "never" else "listed with the peer's name before it"
            return f"{keeper} keeps it, as it was listed so before, and any other one is {rest}"
        if self._config.prefix == "never":
            return "the first peer in the configuration keeps it"
        return "each is listed with its peer's name before it"

    def _prefix(self, peer: str) -> str:
        prefix = self._peers[peer].prefix
        prefix = peer if prefix is None else prefix
        return f"{prefix}{self._config.separator}" if prefix else ""

    def _offers(self, peer: str, original: str) -> bool:
        return self._peers[peer].tools.offers(original)

    def _original(self, peer: str, name: str) -> str:
        for original, renamed in self._peers[peer].tools.rename.items():
            if renamed == name:
                return original
        return name

    def _tell(self, sentence: str) -> None:
        if sentence and sentence not in self._told:
            if len(self._told) >= MOST_TOLD:
                self._told.clear()
            self._told.add(sentence)
            self.notices.append(sentence)


def _rules(config: PeerConfig) -> tuple[str | None, ToolsConfig]:
    """Return what a peer's names depend on."""
    return config.prefix, config.tools
