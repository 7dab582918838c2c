"""Which peer a request is for: by the name, the URI or the reference that it holds, or because there is only one.

Owns which task is run by whom; no names (the catalogue does). Sends nothing (the session does).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from gateway.calls.request import Request, held_back, invalid, read_named, renamed
from gateway.protocol.errors import METHOD_NOT_FOUND

if TYPE_CHECKING:
    from gateway.calls.call import Call
    from gateway.calls.session import Session

Handler: TypeAlias = Callable[[Request], None]

MOST_TASKS = 10_000
"""How many tasks are remembered with the peer that runs them, where there are several peers."""


class _Reference(msgspec.Struct):
    type: str = ""
    name: str = ""
    uri: str = ""


class _Completion(msgspec.Struct):
    ref: _Reference = msgspec.field(default_factory=_Reference)


class Router:
    """Routes the requests of one session that name something."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.owners: dict[str, str] = {}
        """Task id -> peer, for tasks that a call has started."""

    def by_name(self, list_method: str) -> Handler:
        """Return what routes requests by `params.name`, a name of that list."""

        def route(request: Request) -> None:
            name = read_named(request).name
            if self._session.plain:
                self._session.forward(request, self._session.only, name=name)  # pyright: ignore[reportArgumentType]
                return
            session = self._session
            found = session.catalog.find(list_method, name)
            if found is None or (session.exchange.judge and not session.catalog.knows(found[0], list_method)):
                # A definition that nobody has looked at yet may be one that is held back.
                session.lookups.by_name(request, list_method, name)
                return
            peer, original = found
            if list_method == "tools/list" and session.catalog.is_held(peer, original):
                session.deny(request, held_back(peer, name))
                return
            params = renamed(request, original, name)
            session.forward(request, session.seats[peer], name=original, params=params)

        return route

    def by_uri(self, request: Request) -> None:
        """`resources/read`: to the peer that lists the URI or a template of it."""
        uri = read_named(request).uri
        peer = (
            next(iter(self._session.seats))
            if self._session.only is not None
            else self._session.catalog.find_uri(uri)
        )
        if peer is None:
            self._session.lookups.by_uri(request, uri)
        else:
            self._session.forward(request, self._session.seats[peer], name=uri)

    def complete(self, request: Request) -> None:
        """`completion/complete`: to the peer that offers the prompt or template which it refers to."""
        session = self._session
        if session.plain and session.only is not None:
            session.forward(request, session.only)
            return
        ref = msgspec.json.decode(request.envelope.params or b"{}", type=_Completion).ref
        if ref.type == "ref/resource":
            peer = session.catalog.find_uri(ref.uri)
            if peer is None:
                session.lookups.by_uri(request, ref.uri)
            else:
                session.forward(request, session.seats[peer])
            return
        found = session.catalog.find("prompts/list", ref.name)
        if found is None:
            session.lookups.by_name(request, "prompts/list", ref.name)
            return
        peer, original = found
        session.forward(request, session.seats[peer], params=renamed(request, original, ref.name))

    def remember_task(self, call: Call, result: bytes) -> None:
        """A call has started a task, as its result may say: what is asked about that goes to the same peer."""
        try:
            task = msgspec.json.decode(result, type=dict[str, Any]).get("task")
        except msgspec.DecodeError:
            return
        if isinstance(task, dict) and call.peer is not None and self._session.only is None:
            if len(self.owners) >= MOST_TASKS:
                del self.owners[next(iter(self.owners))]
            self.owners[str(task.get("taskId"))] = call.peer.name  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]

    def unknown(self, request: Request) -> None:
        """A method that the gateway does not know passes, where it is plain whom it is for."""
        seat = self._session.only
        if seat is None and request.method.startswith("tasks/"):
            task = msgspec.json.decode(request.envelope.params or b"{}", type=dict[str, Any]).get("taskId")
            seat = self._session.seats.get(self.owners.get(str(task), ""))
        if seat is None:
            why = f"Several peers are connected, and `{request.method}` does not say which one it is for"
            self._session.deny(request, invalid(METHOD_NOT_FOUND, "method_not_found", why))
            return
        self._session.forward(request, seat)
