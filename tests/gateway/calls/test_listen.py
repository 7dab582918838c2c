"""Modern cores that listen: each hears of changes, acknowledged first, over any number of peers and their lives."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from gateway.calls.listen import Filter, Listen
from gateway.config.peer import PeerConfig
from gateway.protocol import mcp
from tests.gateway.calls.kit import Client, Desk, Message, Service
from tests.gateway.calls.listen_kit import (
    ACKNOWLEDGED,
    LISTEN,
    TOOLS,
    UPDATED,
    URI,
    one,
    subscription,
    tells_of,
    two,
)

WANTED: Message = {"toolsListChanged": True, "resourceSubscriptions": [URI]}


def listens(core: Client, *, id_: Any = "sub", wanted: Message | None = None) -> None:
    core.asks(LISTEN, {"notifications": WANTED if wanted is None else wanted}, id=id_)


def test_a_subscription_at_one_modern_peer_is_acknowledged_by_it_under_the_cores_id() -> None:
    _, core, docs = one("modern", "modern")
    docs.acknowledges = False
    listens(core)
    listening = docs.gets(LISTEN)
    assert listening["params"]["notifications"] == WANTED
    assert core.hears_nothing
    docs.acknowledge(docs.wire, listening)
    tells_of(docs, listening, UPDATED, uri=URI, later=1)
    acknowledged, updated = core.got

    assert (acknowledged["method"], subscription(acknowledged)) == (ACKNOWLEDGED, "sub")
    assert acknowledged["params"]["notifications"] == WANTED
    assert (updated["params"]["uri"], updated["params"]["later"], subscription(updated)) == (URI, 1, "sub")
    core.cancels("sub")
    assert docs.gets("notifications/cancelled")["params"]["requestId"] == listening["id"]
    tells_of(docs, listening, UPDATED, uri=URI)
    assert core.hears_nothing


@pytest.mark.parametrize("first", [0, 1])
def test_a_resource_that_two_peers_will_tell_of_is_acknowledged_once_in_the_order_of_the_wish(
    first: int,
) -> None:
    """Nobody knows yet whose it is: no peer has listed its resources."""
    a, b = Service("modern"), Service("modern")
    a.acknowledges = b.acknowledges = False
    core = Desk({"a": a, "b": b}).core("modern")
    listens(core, wanted={"resourceSubscriptions": ["file:///x", URI]})
    wishes = [(service, service.gets(LISTEN)) for service in (a, b)]
    wishes[1 - first][1]["params"]["notifications"]["resourceSubscriptions"].remove("file:///x")
    for service, listening in (wishes[1 - first], wishes[first]):
        service.acknowledge(service.wire, listening)

    assert core.gets(ACKNOWLEDGED)["params"]["notifications"] == {"resourceSubscriptions": ["file:///x", URI]}


def test_what_a_peer_says_it_will_tell_of_is_each_resource_once_and_nothing_but_resources() -> None:
    a, b = Service("modern"), Service("modern")
    a.acknowledges = b.acknowledges = False
    core = Desk({"a": a, "b": b}).core("modern")
    listens(core, wanted={"resourceSubscriptions": ["file:///z", URI, "file:///z"]})
    says: list[tuple[Service, list[Any]]] = [
        (a, ["file:///other", {}, ["x"], 7, URI, URI]),
        (b, [URI, "file:///z"]),
    ]
    for service, told in says:
        listening = service.gets(LISTEN)
        listening["params"]["notifications"]["resourceSubscriptions"] = told
        service.acknowledge(service.wire, listening)

    acknowledged = core.gets(ACKNOWLEDGED)["params"]["notifications"]
    assert acknowledged == {"resourceSubscriptions": ["file:///z", URI, "file:///other"]}


def test_a_peer_cannot_keep_the_gateway_busy_by_how_many_resources_it_says_it_will_tell_of() -> None:
    compared = 0

    class Counted(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    listen = Listen(
        MagicMock(), "sub", Filter(uris=[Counted(f"file:///{number}") for number in range(500)]), MagicMock()
    )
    for _ in range(2):
        listen.honour({"resourceSubscriptions": [Counted(f"file:///{number}") for number in range(500)]})

    assert listen.honoured["resourceSubscriptions"] == listen.wanted.uris
    assert compared < 10_000


def test_a_change_that_comes_before_its_acknowledgement_waits_for_it() -> None:
    _, core, docs = one("modern", "modern")
    docs.acknowledges = False
    listens(core)
    listening = docs.gets(LISTEN)
    tells_of(docs, listening, TOOLS)
    assert core.hears_nothing
    docs.acknowledge(docs.wire, listening)

    assert [message["method"] for message in core.got] == [ACKNOWLEDGED, TOOLS]


def test_two_subscriptions_of_one_core_are_told_apart() -> None:
    _, core, docs = one("modern", "modern")
    listens(core, id_=1)
    listens(core, id_="1", wanted={"promptsListChanged": True})
    core.link.inbox.clear()
    first, second = docs.wire.listening
    tells_of(docs, second, "notifications/prompts/list_changed")
    tells_of(docs, first, TOOLS)

    assert [subscription(message) for message in core.got] == ["1", 1]


@pytest.mark.parametrize("id_", [None, True, 99, [1]])
def test_a_change_under_no_subscription_of_ours_reaches_nobody(id_: Any) -> None:
    _, core, docs = one("modern", "modern")
    listens(core)
    core.link.inbox.clear()
    docs.tells(TOOLS, {"_meta": {mcp.META_SUBSCRIPTION: id_}})
    docs.tells(TOOLS)

    assert core.hears_nothing


def test_a_subscription_that_the_peer_ends_is_answered() -> None:
    _, core, docs = one("modern", "modern")
    listens(core)
    core.link.inbox.clear()
    docs.answers(docs.wire.listening[0], {"resultType": "complete"})

    assert core.gets()["id"] == "sub"


def test_a_modern_core_in_front_of_a_legacy_peer_subscribes_to_each_uri() -> None:
    _, core, docs = one("modern", "legacy")
    listens(core)
    asked = docs.gets("resources/subscribe")
    assert asked["params"] == {"uri": URI}
    docs.tells(TOOLS)
    assert core.hears_nothing
    docs.answers(asked)
    acknowledged, changed = core.got
    assert acknowledged["params"]["notifications"] == WANTED
    assert (changed["method"], subscription(changed)) == (TOOLS, "sub")
    docs.tells(UPDATED, {"uri": URI})
    docs.tells(UPDATED, {"uri": "file:///b"})
    docs.tells("notifications/prompts/list_changed")
    assert [subscription(message) for message in core.got] == ["sub"]
    core.cancels("sub")
    assert docs.gets("resources/unsubscribe")["params"] == {"uri": URI}


def test_what_the_peer_refuses_is_not_acknowledged() -> None:
    _, core, docs = one("modern", "legacy")
    listens(core)
    docs.refuses(docs.gets("resources/subscribe"))

    assert core.gets(ACKNOWLEDGED)["params"]["notifications"] == {"toolsListChanged": True}


def test_a_uri_that_another_listener_still_wants_stays_subscribed() -> None:
    _, core, docs = one("modern", "legacy")
    for id_ in (1, 2):
        listens(core, id_=id_)
        docs.answers(docs.gets("resources/subscribe"))
    core.cancels(1)
    assert docs.hears_nothing
    core.cancels(2)
    assert docs.gets("resources/unsubscribe")


def test_a_listener_that_goes_before_its_peer_is_there_subscribes_to_nothing() -> None:
    service = Service("legacy")
    desk = Desk({"docs": service, "more": Service("modern")})
    core = desk.connect("modern")
    service.is_silent = True
    listens(core)
    core.cancels("sub")
    service.is_silent = False
    desk.settle()

    assert service.hears_nothing
    assert desk.services["more"].wire.listening == []
    assert core.hears_nothing


@pytest.mark.parametrize("wanted", [5, [], None, {"toolsListChanged": "yes"}, {"resourceSubscriptions": URI}])
def test_wishes_of_another_shape_are_refused(wanted: Any) -> None:
    _, core, docs = one("modern", "modern")
    core.asks(LISTEN, {"notifications": wanted})

    assert core.gets_error()["code"] == -32602
    assert docs.hears_nothing


@pytest.mark.parametrize("eras", [("modern", "modern"), ("legacy", "modern"), ("legacy", "legacy")])
def test_one_acknowledgement_speaks_for_all_peers_and_a_uri_goes_to_its_owner(
    eras: tuple[mcp.Era, ...],
) -> None:
    _, core, a, b = two(*eras)
    listens(core)
    for service in (a, b):
        for asked in service.wire.got:
            assert (service, asked["params"]["uri"]) == (b, URI)
            service.answers(asked)
    acknowledged = core.gets(ACKNOWLEDGED)

    assert core.hears_nothing
    assert acknowledged["params"]["notifications"] == WANTED
    for service, method, params in ((a, TOOLS, {}), (b, TOOLS, {}), (b, UPDATED, {"uri": URI})):
        if service.era == "modern":
            tells_of(service, service.wire.listening[0], method, **params)
        else:
            service.tells(method, params)
        assert subscription(core.gets(method)) == "sub"
    assert core.hears_nothing


def test_the_acknowledgement_waits_for_the_last_peer() -> None:
    _, core, a, b = two("modern", "modern")
    b.acknowledges = False
    listens(core)
    tells_of(a, a.wire.listening[0], TOOLS)
    assert core.hears_nothing
    b.acknowledge(b.wire, b.gets(LISTEN))

    assert [message["method"] for message in core.got] == [ACKNOWLEDGED, TOOLS]


def test_a_peer_that_refuses_to_listen_does_not_keep_the_others_from_it() -> None:
    desk, core, a, b = two("modern", "modern")
    b.acknowledges = False
    listens(core)
    b.refuses(b.gets(LISTEN))
    assert core.gets(ACKNOWLEDGED)

    tells_of(a, a.wire.listening[0], TOOLS)
    assert core.gets(TOOLS)
    assert any("b has ended a subscription" in notice for notice in desk.notices)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_peer_that_comes_back_is_listened_to_again(era: mcp.Era) -> None:
    desk, core, _, b = two("modern", era)
    listens(core)
    for asked in b.wire.got:
        b.answers(asked)
    core.link.inbox.clear()
    b.dies()
    desk.passes(1)
    core.link.inbox.clear()
    for asked in b.wire.got:
        b.answers(asked)

    assert len(b.wires) == 2
    if era == "modern":
        tells_of(b, b.wire.listening[0], UPDATED, uri=URI)
    else:
        b.tells(UPDATED, {"uri": URI})
    assert subscription(core.gets(UPDATED)) == "sub"
    assert core.hears_nothing


def test_cores_are_told_that_the_lists_of_a_lost_peer_may_be_others() -> None:
    desk, core, _ = one("legacy", "legacy")
    desk.services["docs"].dies()

    assert sorted(message["method"] for message in core.got) == sorted(mcp.LIST_CHANGED)


def test_a_core_that_leaves_takes_its_subscriptions_along() -> None:
    desk, core, docs = one("modern", "modern")
    stateless = desk.connect("modern", ephemeral=True)
    listens(stateless)
    listening = docs.wires[-1].listening[0]
    stateless.leaves()

    assert docs.wires[-1].gets("notifications/cancelled")["params"]["requestId"] == listening["id"]
    assert core.hears_nothing


def test_a_listener_is_subscribed_again_at_a_peer_that_was_replaced() -> None:
    desk, core, _, docs = two("legacy", "legacy")
    listens(core, wanted={"resourceSubscriptions": [URI]})
    docs.answers(docs.gets("resources/subscribe"))
    assert core.gets(ACKNOWLEDGED)
    desk.exchange.reconfigure(desk.config, replaced=["b"])
    core.asks("resources/list", id="again")

    assert docs.gets("resources/subscribe")["params"] == {"uri": URI}
    assert core.gets_result()
    docs.tells(UPDATED, {"uri": URI})
    assert core.gets(UPDATED)["params"]["uri"] == URI


@pytest.mark.parametrize("stamped", [False, True])
def test_a_subscription_that_its_peer_takes_back_is_taken_back_from_the_core(stamped: bool) -> None:
    docs = Service("modern")
    desk = Desk({"docs": docs})
    core = desk.core("modern", stamped=stamped)
    listens(core)
    assert core.gets(ACKNOWLEDGED)
    [listening] = docs.wire.listening
    docs.tells("notifications/cancelled", {"requestId": listening["id"], "reason": "closing"})

    if stamped:
        assert core.link.cancelled == ["sub"]
    else:
        assert core.gets("notifications/cancelled")["params"]["requestId"] == "sub"
    assert core.hears_nothing
    tells_of(docs, listening, TOOLS)
    assert core.hears_nothing
    listens(core)
    assert core.gets(ACKNOWLEDGED)


def test_a_peer_of_several_that_takes_a_subscription_back_leaves_the_others() -> None:
    desk, core, a, b = two("modern", "modern")
    b.acknowledges = False
    listens(core)
    asked = b.gets(LISTEN)
    assert core.hears_nothing
    b.tells("notifications/cancelled", {"requestId": asked["id"]})

    assert core.gets(ACKNOWLEDGED)
    assert any("has ended the subscription" in notice for notice in desk.notices)
    tells_of(a, a.wire.listening[0], TOOLS)
    assert core.gets(TOOLS)


def test_of_a_shared_peer_the_session_whose_subscription_it_is_hears_of_the_end() -> None:
    docs = Service("modern")
    desk = Desk({"docs": docs}, peers={"docs": PeerConfig(command=["x"], scope="shared")})
    ann, bob = desk.core("modern"), desk.core("modern")
    listens(ann, id_="a")
    listens(bob, id_="b")
    assert ann.gets(ACKNOWLEDGED)
    assert bob.gets(ACKNOWLEDGED)
    docs.tells("notifications/cancelled", {"requestId": docs.wire.listening[1]["id"]})

    assert ann.hears_nothing
    assert bob.gets("notifications/cancelled")["params"]["requestId"] == "b"
