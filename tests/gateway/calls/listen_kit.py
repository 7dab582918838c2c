"""What the tests of subscriptions share: desks with one peer or two, and changes that peers tell of."""

from __future__ import annotations

from typing import Any

from gateway.protocol import mcp
from tests.gateway.calls.kit import Client, Desk, Message, Service

URI = "file:///a"
UPDATED = "notifications/resources/updated"
TOOLS = "notifications/tools/list_changed"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
LISTEN = "subscriptions/listen"


def subscription(message: Message) -> Any:
    return message["params"]["_meta"][mcp.META_SUBSCRIPTION]


def tells_of(service: Service, listening: Message, method: str, **params: Any) -> None:
    """The peer tells of a change under one subscription."""
    service.tells(method, params | {"_meta": {mcp.META_SUBSCRIPTION: listening["id"]}})


def one(core_era: mcp.Era, peer_era: mcp.Era) -> tuple[Desk, Client, Service]:
    service = Service(peer_era)
    service.lists = {"resources/list": [[]], "resources/templates/list": [[]]}
    desk = Desk({"docs": service})
    return desk, desk.core(core_era), service


def two(*eras: mcp.Era) -> tuple[Desk, Client, Service, Service]:
    """Return a desk with a modern core in front of two peers; the second one has the resource."""
    a, b = (Service(era) for era in eras)
    a.lists = {"resources/list": [[]], "resources/templates/list": [[]], "tools/list": [[]]}
    b.lists = {**a.lists, "resources/list": [[{"uri": URI, "name": "a"}]]}
    desk = Desk({"a": a, "b": b})
    core = desk.core("modern")
    core.asks("resources/list")
    core.gets()
    return desk, core, a, b
