"""Requests whose owner nobody knows yet: the lists are fetched first, then they go on.

Owns who waits for which lists, so that two who look for the same do not fetch them twice. Names are the catalogue's,
the fetching is a flow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from gateway.calls.call import Reply
from gateway.calls.request import Request, filtered_out, held_back, renamed
from gateway.calls.steps import Flow, run
from gateway.protocol import mcp
from gateway.protocol.errors import Fault

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer
    from gateway.calls.session import Session

_Found: TypeAlias = tuple[Request, Callable[[], None]]
"""A request, and how it goes on."""
_MOST_NAMED = 8
"""Names that an error proposes."""


class Lookups:
    """The requests of one session that wait for lists."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._joined: dict[tuple[str, ...], list[_Found]] = {}
        """Lists that are being fetched, and who has come to wait for them since."""

    def by_name(self, request: Request, list_method: str, name: str) -> None:
        """Fetch the lists that were not fetched yet, then send the request to the owner of `name`."""
        session = self._session
        call = session.open_call(request, name=name)
        if call is None:
            return

        def found() -> None:
            if not call.is_open:
                return
            owner = session.catalog.find(list_method, name)
            if owner is None:
                session.finish(call, Reply(fault=self._nobody(list_method, name)))
                return
            peer, original = owner
            if request.method == "tools/call" and session.catalog.is_held(peer, original):
                session.finish(call, Reply(fault=held_back(peer, name)))
                return
            if session.resumes(request, peer, original):
                return
            params = renamed(request, original, name)
            if params is not None:
                call.params = params
            call.name = original
            session.send(request, call, session.seats[peer].peer(session, request, original))

        self._look_up((list_method,), (request, found))

    def all_tools(self, request: Request, go_on: Callable[[], None]) -> None:
        """Call `go_on` once the tools of all peers are known: at once where they are."""
        if self._unknown(request, "tools/list"):
            self._look_up(("tools/list",), (request, go_on))
        else:
            go_on()

    def by_uri(self, request: Request, uri: str) -> None:
        """Fetch the lists of resources, then send the request to the peer that a URI belongs to."""
        session = self._session
        call = session.open_call(request, name=uri)
        if call is None:
            return

        def found() -> None:
            if not call.is_open:
                return
            peer = session.catalog.find_uri(uri)
            if peer is None:
                session.finish(call, Reply(fault=self._nobody("resources/list", uri)))
            elif request.method in ("resources/subscribe", "resources/unsubscribe"):
                session.subscriptions.subscription_at(peer, request, uri)
            elif not session.resumes(request, peer, uri):
                session.submit(call, session.seats[peer].peer(session, request, uri))

        self._look_up(("resources/list", "resources/templates/list"), (request, found))

    def _look_up(self, methods: tuple[str, ...], *found: _Found) -> None:
        """Fetch those of the lists that nobody has fetched, and call `found`; who comes meanwhile waits for that."""
        joined = self._joined.get(methods)
        if joined is not None:
            joined.extend(found)
            return
        self._joined[methods] = []
        run(
            self._session,
            self._fetch_unknown(found[0][0], methods),
            lambda _: self._looked(methods, found),
            partial(self._failed, methods, found),
        )

    def _failed(self, methods: tuple[str, ...], found: tuple[_Found, ...], fault: Exception) -> None:
        """The look itself has failed: so have all who wait for it."""
        for request, _ in (*found, *self._joined.pop(methods, [])):
            self._session.failed(request, fault)

    def _looked(self, methods: tuple[str, ...], found: tuple[_Found, ...]) -> None:
        joined = self._joined.pop(methods)
        if joined:
            # What has changed while it was looked for is looked for again, once for all who have joined.
            if any(self._unknown(joined[0][0], method) for method in methods):
                self._look_up(methods, *joined)
            else:
                found = (*found, *joined)
        for request, go_on in found:
            try:
                go_on()
            except msgspec.DecodeError as fault:
                self._session.malformed(request, fault)
            except Exception as fault:  # noqa: BLE001 - whatever it is, this one and the others wait for an answer
                self._session.failed(request, fault)

    def _fetch_unknown(self, request: Request, methods: tuple[str, ...]) -> Flow:
        for method in methods:
            yield from self._session.flows.fetch(method, self._unknown(request, method))

    def _unknown(self, request: Request, method: str) -> list[Peer]:
        session = self._session
        peers = (seat.lister(session, request) for seat in session.seats.values())
        return [peer for peer in peers if not session.catalog.knows(peer.name, method)]

    def _nobody(self, list_method: str, name: str) -> Fault:
        holder = self._session.catalog.held_by(name) if list_method == "tools/list" else None
        if holder is not None:
            return held_back(holder, name)
        filtered = self._session.catalog.filtered_by(name) if list_method == "tools/list" else None
        if filtered is not None:
            return filtered_out(filtered, name)
        what = mcp.LIST_METHODS[list_method].removesuffix("s")
        number = -32602 if what != "resource" else None
        names = self._session.catalog.offered_as(list_method, name)
        if names:
            return Fault(
                code="invalid_request",
                message=f"No peer offers the {what} {name!r} under this name",
                reason="unknown_name",
                advice=f"Call it {' or '.join(f'`{called}`' for called in names[:_MOST_NAMED])}",
                jsonrpc=number,
            )
        down = [p for p in self._session.peers() if p.fault is not None]
        advice = "; ".join(
            f"{p.name} is not there: {p.fault.message.removeprefix(f'{p.name}: ')}" for p in down if p.fault
        )
        return Fault(
            code="io" if down else "invalid_request",
            message=f"No peer offers the {what} {name!r}",
            reason="peer_exited" if down else "unknown_name",
            advice=advice or "`tieline tools list` shows what is offered",
            jsonrpc=None if down else number,
        )
