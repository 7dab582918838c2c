"""Who wants to hear of which change, in both eras of MCP.

Owns subscriptions: by resource after a handshake, by `subscriptions/listen` without one. Sends through a function
that it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from adapters.kit.errors import Json
from gateway.protocol import mcp

if TYPE_CHECKING:
    from adapters.kit.app import List
    from transports.base import Id

UPDATED: Final = "notifications/resources/updated"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"


class Filter(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """What a listener of the stateless era wants to hear."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: list[str] = msgspec.field(default_factory=list[str])


class News:
    """The subscriptions of one connection."""

    def __init__(self, tell: Callable[[str, Json], None]) -> None:
        self._tell = tell
        self._subscribed: set[str] = set()
        self._listening: dict[Id, Filter] = {}

    def subscribe(self, uri: str, *, wanted: bool) -> None:
        """Somebody wants to hear of a resource, or no longer."""
        (self._subscribed.add if wanted else self._subscribed.discard)(uri)

    def listen(self, request: Id, wanted: Filter) -> None:
        """Somebody listens, until the request is cancelled."""
        self._listening[request] = wanted
        self._tell(ACKNOWLEDGED, {"notifications": msgspec.to_builtins(wanted), **_meta(request)})

    def ended(self, request: Id | None) -> None:
        """A request was cancelled."""
        if request is not None:
            self._listening.pop(request, None)

    def changed(self, what: List, *, shaken: bool) -> None:
        """A list is another than it was."""
        method = f"notifications/{what}/list_changed"
        if shaken:
            self._tell(method, {})
        member = mcp.LIST_CHANGED[method]
        for request, wanted in self._listening.items():
            if member in msgspec.to_builtins(wanted):
                self._tell(method, _meta(request))

    def updated(self, uri: str) -> None:
        """A resource has another content."""
        if uri in self._subscribed:
            self._tell(UPDATED, {"uri": uri})
        for request, wanted in self._listening.items():
            if uri in wanted.resource_subscriptions:
                self._tell(UPDATED, {"uri": uri, **_meta(request)})


def _meta(request: Id) -> Json:
    return {"_meta": {mcp.META_SUBSCRIPTION: request}}
