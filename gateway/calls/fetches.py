"""Lists of peers, fetched into the catalogue: every page, peers side by side, and nothing twice at the same time.

Owns which lists are on their way, and whom else they serve. What is done with a list is the catalogue's business, what
becomes of a request that waits for one is for whoever fetches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from gateway.calls.call import Reply
from gateway.calls.listing import read_page
from gateway.calls.steps import Ask, Flow, Settle, Wait
from gateway.protocol import jsonrpc, mcp

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer
    from gateway.calls.session import Session

MOST_PAGES = 1000
"""Pages that are fetched of one peer's list before it is taken for endless."""
MOST_LIST_BYTES = 32 * 1024 * 1024
"""Bytes that are kept of one peer's list."""
ITEM_BYTES = 256
"""What keeping one item costs beside its own bytes."""


class Fetch:
    """Lists of one kind that are being fetched. Others wait for it with `when_over`."""

    def __init__(self, session: Session, method: str, peers: list[Peer]) -> None:
        self._waiting: list[Callable[[], None]] = []
        self.lives = {peer: peer.life for peer in peers}
        """The peers that have not failed at it, and the life in which each was asked."""
        self.unheard = set(peers)
        """Those that have not answered yet."""
        self.items: dict[Peer, list[Raw]] = {peer: [] for peer in peers}
        self.changes = {peer: session.catalog.changes(peer.name, method) for peer in peers}
        """How often each list had changed when it was asked for."""
        self.fault: Exception | None = None
        """What the gateway itself has failed at, so that nobody gets what was waited for."""

    def serves(self, peer: Peer, changes: int, *, is_fresh: bool) -> bool:
        """Whether who wants the list of a peer now, and no older one where it `is_fresh`, may wait for this one."""
        if self.lives.get(peer) != peer.life or self.changes[peer] != changes:
            return False
        return peer in self.unheard or not is_fresh

    def when_over(self, call: Callable[[], None]) -> None:
        """Have `call` called once the lists are in the catalogue, or are known not to come."""
        self._waiting.append(call)

    def end(self) -> None:
        """Let all who wait go on."""
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()


class Fetches:
    """The lists of one session that are on their way."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._under_way: dict[str, list[Fetch]] = {}
        """By method."""

    def fetch(self, method: str, peers: list[Peer], *, is_fresh: bool = False) -> Flow:
        """Fetch every page of the peers' lists into the catalogue, peers side by side.

        A list that is on its way is waited for. With `is_fresh` only one of which nothing has come.
        """
        yield Settle(peers)
        session = self._session
        peers = [peer for peer in peers if peer.is_ready and mcp.LIST_CAPABILITY[method] in peer.capabilities]
        under_way = self._under_way.setdefault(method, [])
        joined: dict[Fetch, None] = {}
        if session.exchange.joins_lists:
            for peer in list(peers):
                changes = session.catalog.changes(peer.name, method)
                other = next((one for one in under_way if one.serves(peer, changes, is_fresh=is_fresh)), None)
                if other is not None:
                    joined[other] = None
                    peers.remove(peer)
        if joined and not peers:
            yield from _over(joined, under_way)
            return
        fetch = Fetch(session, method, peers)
        under_way.append(fetch)
        try:
            yield from self._pages(method, fetch)
            # Names are given once all are known that they could be mistaken for.
            yield from _over(joined, under_way)
            self._keep(method, fetch)
        except Exception as fault:
            fetch.fault = fault
            raise
        finally:
            under_way.remove(fetch)
            fetch.end()

    def _pages(self, method: str, fetch: Fetch) -> Flow:
        sizes: dict[Peer, int] = dict.fromkeys(fetch.items, 0)
        seen: dict[Peer, set[str]] = {peer: set() for peer in fetch.items}
        asked: dict[Peer, str | None] = dict.fromkeys(fetch.items)
        for _ in range(MOST_PAGES):
            if not asked:
                break
            requests = [(peer, method, _cursor_params(cursor)) for peer, cursor in asked.items()]
            replies = yield Ask(requests, heard=fetch.unheard.discard)
            again: dict[Peer, str | None] = {}
            for peer, reply in zip(asked, replies, strict=True):
                page = self._page(method, peer, reply)
                if page is None:
                    fetch.lives.pop(peer, None)
                    continue
                found, cursor = page
                sizes[peer] += sum(len(item) + ITEM_BYTES for item in found)
                if sizes[peer] > MOST_LIST_BYTES:
                    self._notice(
                        f"{peer.name} lists more than {MOST_LIST_BYTES >> 20} MiB of `{method}`; the list ends there"
                    )
                    continue
                fetch.items[peer].extend(found)
                if cursor is not None and self._is_new(method, peer, cursor, seen[peer]):
                    again[peer] = cursor
            asked = again
        for peer in asked:
            self._notice(f"{peer.name} has more than {MOST_PAGES} pages of `{method}`; the list ends there")

    def _keep(self, method: str, fetch: Fetch) -> None:
        """Put what was fetched into the catalogue, and tell what it makes of that."""
        session = self._session
        for peer, found in fetch.items.items():
            session.catalog.put(peer.name, method, found, asked_at=fetch.changes[peer])
        session.catalog.refresh(method)
        verdicts, session.catalog.verdicts = session.catalog.verdicts, []
        for peer_name, tool, verdict in verdicts:
            facts = {"decision": "held" if verdict.held else "told", "why": verdict.why}
            facts["fingerprint"] = verdict.fingerprint
            session.tap.record("policy", "inside", peer=peer_name, name=tool, x=facts)
        notices, session.catalog.notices = session.catalog.notices, []
        for notice in notices:
            self._notice(notice)

    def _is_new(self, method: str, peer: Peer, cursor: str, seen: set[str]) -> bool:
        if cursor in seen:
            self._notice(f"{peer.name} gives the cursor {cursor!r} of `{method}` twice; the list ends there")
            return False
        seen.add(cursor)
        return True

    def _page(self, method: str, peer: Peer, reply: Reply) -> tuple[list[Raw], str | None] | None:
        if not reply.ok:
            why = reply.fault.message if reply.fault else reply.error.decode(errors="replace")
            self._notice(f"{peer.name} has not listed `{method}`: {why}")
            return None
        try:
            page = read_page(method, reply.result)
        except msgspec.DecodeError as fault:
            self._notice(f"{peer.name} answers `{method}` with something else: {fault}")
            return None
        return page.items, page.next_cursor

    def _notice(self, sentence: str) -> None:
        self._session.flows.notice(sentence)


def _over(joined: dict[Fetch, None], under_way: list[Fetch]) -> Flow:
    """Wait until others have fetched what they are at."""
    for fetch in joined:
        if fetch in under_way:
            yield Wait(fetch.when_over)
        if fetch.fault is not None:
            raise fetch.fault


def _cursor_params(cursor: str | None) -> bytes:
    return jsonrpc.encode({"cursor": cursor}) if cursor is not None else b"{}"
