"""Legacy cores that subscribe: each hears of what it has subscribed to, at peers of both eras, alone or shared."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config.peer import PeerConfig
from gateway.protocol import mcp
from tests.gateway.calls.kit import Client, Desk, Service
from tests.gateway.calls.listen_kit import (
    ACKNOWLEDGED,
    LISTEN,
    TOOLS,
    UPDATED,
    URI,
    one,
    tells_of,
    two,
)


def test_a_legacy_core_subscribes_at_a_legacy_peer_and_again_when_that_has_come_back() -> None:
    desk, core, docs = one("legacy", "legacy")
    for uri in (URI, "file:///b"):
        core.asks("resources/subscribe", {"uri": uri})
        docs.answers(docs.gets("resources/subscribe"))
        core.gets()
    core.asks("resources/unsubscribe", {"uri": "file:///b"})
    docs.answers(docs.gets("resources/unsubscribe"))
    core.gets()
    docs.dies()
    desk.passes(1)

    assert docs.gets("resources/subscribe")["params"] == {"uri": URI}
    assert docs.hears_nothing
    docs.tells(UPDATED, {"uri": URI})
    assert core.got[-1]["params"] == {"uri": URI}


def bridged() -> tuple[Desk, Client, Service]:
    desk, core, docs = one("legacy", "modern")
    assert docs.wire.listening[0]["params"]["notifications"] == {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
    }
    return desk, core, docs


def test_a_legacy_core_in_front_of_a_modern_peer_hears_changes_by_a_listening_of_ours() -> None:
    _, core, docs = bridged()
    tells_of(docs, docs.wire.listening[0], TOOLS)

    assert core.gets(TOOLS) == {"jsonrpc": "2.0", "method": TOOLS}


def test_subscribing_to_a_resource_widens_that_listening_and_is_answered_once_it_stands() -> None:
    _, core, docs = bridged()
    docs.acknowledges = False
    core.asks("resources/subscribe", {"uri": URI}, id=1)
    listening, cancelled = docs.wire.got
    assert listening["params"]["notifications"]["resourceSubscriptions"] == [URI]
    assert cancelled["params"]["requestId"] == docs.wire.listening[0]["id"]
    assert core.hears_nothing
    docs.acknowledge(docs.wire, listening)
    assert core.gets() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    tells_of(docs, listening, UPDATED, uri=URI)
    assert core.gets(UPDATED)["params"] == {"uri": URI}
    tells_of(docs, docs.wire.listening[0], UPDATED, uri=URI)
    assert core.hears_nothing


def test_two_resources_that_are_subscribed_to_in_a_row_are_both_answered() -> None:
    _, core, docs = bridged()
    docs.acknowledges = False
    core.asks("resources/subscribe", {"uri": URI}, id=1)
    core.asks("resources/subscribe", {"uri": "file:///b"}, id=2)
    listenings = [message for message in docs.wire.got if message["method"] == LISTEN]
    for listening in listenings:
        docs.acknowledge(docs.wire, listening)

    assert [message["id"] for message in core.got] == [1, 2]
    assert listenings[-1]["params"]["notifications"]["resourceSubscriptions"] == [URI, "file:///b"]


def test_unsubscribing_narrows_it_again() -> None:
    _, core, docs = bridged()
    core.asks("resources/subscribe", {"uri": URI}, id=1)
    core.asks("resources/unsubscribe", {"uri": URI}, id=2)

    assert [message["id"] for message in core.got] == [1, 2]
    assert "resourceSubscriptions" not in docs.wire.listening[-1]["params"]["notifications"]


def test_a_listening_that_the_peer_refuses_is_an_error_for_who_subscribed() -> None:
    _, core, docs = bridged()
    docs.acknowledges = False
    core.asks("resources/subscribe", {"uri": URI}, id=1)
    docs.refuses(docs.wire.got[0], -32099, "no")

    assert core.gets_error() == {"code": -32099, "message": "no"}


def test_a_modern_peer_that_comes_back_is_listened_to_for_legacy_cores_again() -> None:
    desk, core, docs = bridged()
    core.asks("resources/subscribe", {"uri": URI})
    docs.dies()
    desk.passes(1)
    core.link.inbox.clear()

    assert docs.wire.listening[-1]["params"]["notifications"]["resourceSubscriptions"] == [URI]
    tells_of(docs, docs.wire.listening[-1], UPDATED, uri=URI)
    assert core.gets(UPDATED)


def test_every_legacy_core_of_a_shared_modern_peer_hears_changes_and_leaves_no_listening_behind() -> None:
    docs = Service("modern")
    desk = Desk({"docs": docs}, peers={"docs": PeerConfig(command=["x"], scope="shared")})
    first, second = desk.core(), desk.core()
    of_first, of_second = docs.wire.listening
    tells_of(docs, of_second, TOOLS)
    assert first.hears_nothing
    second.gets(TOOLS)
    second.leaves()
    assert docs.gets("notifications/cancelled")["params"]["requestId"] == of_second["id"]
    tells_of(docs, of_first, TOOLS)
    first.gets(TOOLS)
    first.leaves()
    assert desk.exchange.shared["docs"].pending == {}


def shared(*, count: int = 2, era: mcp.Era = "legacy") -> tuple[Desk, list[Client], Service]:
    docs = Service(era)
    desk = Desk({"docs": docs}, peers={"docs": PeerConfig(command=["x"], scope="shared")})
    return desk, [desk.core() for _ in range(count)], docs


def subscribes(core: Client, docs: Service, uri: str = URI) -> None:
    core.asks("resources/subscribe", {"uri": uri})
    docs.answers(docs.gets("resources/subscribe"))
    assert core.gets_result() == {}


def test_a_change_at_a_shared_legacy_peer_reaches_and_is_recorded_for_who_subscribed_alone() -> None:
    desk, (ann, bob), docs = shared()
    subscribes(ann, docs)
    docs.tells(UPDATED, {"uri": URI})
    docs.tells(UPDATED, {"uri": f"{URI}#part"})
    docs.tells(UPDATED, {"uri": f"{URI}else"})

    assert [message["params"]["uri"] for message in ann.got] == [URI, f"{URI}#part"]
    assert bob.hears_nothing
    assert not [frame for frame in desk.tap.frames if frame.method == UPDATED]


def test_a_subscription_at_a_shared_peer_ends_with_the_last_who_holds_it() -> None:
    _, (ann, bob), docs = shared()
    subscribes(ann, docs)
    subscribes(bob, docs)
    ann.asks("resources/unsubscribe", {"uri": URI})

    assert ann.gets_result() == {}
    assert docs.hears_nothing
    docs.tells(UPDATED, {"uri": URI})
    assert ann.hears_nothing
    assert bob.gets(UPDATED)
    bob.leaves()
    assert docs.gets("resources/unsubscribe")["params"] == {"uri": URI}
    docs.tells(UPDATED, {"uri": URI})
    assert ann.hears_nothing


def test_a_listener_that_leaves_ends_no_subscription_of_another_session() -> None:
    desk, (ann,), docs = shared(count=1)
    subscribes(ann, docs)
    bob = desk.core("modern")
    bob.asks("subscriptions/listen", {"notifications": {"resourceSubscriptions": [URI]}})
    docs.answers(docs.gets("resources/subscribe"))
    assert bob.gets(ACKNOWLEDGED)
    bob.leaves()

    assert docs.hears_nothing
    docs.tells(UPDATED, {"uri": URI})
    assert ann.gets(UPDATED)


def test_a_change_at_a_shared_modern_peer_is_recorded_for_its_listener_alone() -> None:
    desk, (ann, _), docs = shared(era="modern")
    ann.asks("resources/subscribe", {"uri": URI})
    assert ann.gets_result() == {}
    about = {"io.modelcontextprotocol/subscriptionId": docs.wire.listening[-1]["id"]}
    docs.tells(UPDATED, {"uri": URI, "_meta": about})

    assert ann.gets(UPDATED)["params"] == {"uri": URI}
    assert not [frame for frame in desk.tap.frames if frame.method == UPDATED]


@pytest.mark.parametrize("scope", ["session", "shared"])
def test_subscriptions_are_made_again_at_a_peer_that_was_replaced(scope: Any) -> None:
    docs = Service()
    config = PeerConfig(command=["x"], scope=scope)
    desk = Desk({"docs": docs}, peers={"docs": config})
    core = desk.core()
    subscribes(core, docs)
    desk.config.peers["docs"] = PeerConfig(command=["y"], scope=scope)
    desk.exchange.reconfigure(desk.config, replaced=["docs"])
    core.got.clear()
    core.calls()

    assert docs.gets("resources/subscribe")["params"] == {"uri": URI}
    assert docs.gets("tools/call")
    assert docs.hears_nothing


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_subscription_whose_owner_must_be_looked_up_is_one_like_others(era: mcp.Era) -> None:
    desk, _, _, docs = two("legacy", era)
    core = desk.core()
    core.asks("resources/subscribe", {"uri": URI})
    if era == "legacy":
        docs.answers(docs.gets("resources/subscribe"))
    assert core.gets_result() == {}
    docs.dies()
    desk.passes(1)
    core.got.clear()

    if era == "legacy":
        assert docs.gets("resources/subscribe")["params"] == {"uri": URI}
        docs.tells(UPDATED, {"uri": URI})
    else:
        assert docs.wire.listening[0]["params"]["notifications"]["resourceSubscriptions"] == [URI]
        tells_of(docs, docs.wire.listening[0], UPDATED, uri=URI)
    assert core.gets(UPDATED)["params"] == {"uri": URI}


def test_a_subscription_that_waits_for_its_peer_goes_out_once() -> None:
    desk = Desk({"docs": Service()})
    docs = desk.services["docs"]
    docs.is_down = True
    core = desk.connect()
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "core", "version": "1"},
    }
    core.asks("initialize", params, id="initialize")
    core.got.clear()
    docs.is_down = False
    core.asks("resources/subscribe", {"uri": URI})

    assert [message["method"] for message in docs.wire.got] == ["resources/subscribe"]


def gone(docs: Service) -> None:
    """The peer has gone and is not back yet."""
    docs.dies()
    docs.wire.got.clear()


def test_a_subscription_that_waits_for_a_modern_peer_is_listened_to_and_never_sent_as_it_is() -> None:
    desk, core, docs = bridged()
    gone(docs)
    core.got.clear()
    core.asks("resources/subscribe", {"uri": URI}, id=1)
    assert core.hears_nothing
    desk.passes(1)

    assert core.gets() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert [
        listening["params"]["notifications"]["resourceSubscriptions"] for listening in docs.wire.listening
    ] == [[URI]]
    assert not [message for message in docs.wire.got if message.get("method") == "resources/subscribe"]
    tells_of(docs, docs.wire.listening[-1], UPDATED, uri=URI)
    assert core.gets(UPDATED)["params"] == {"uri": URI}


def test_what_was_unsubscribed_from_while_a_modern_peer_was_gone_is_not_listened_to_when_it_is_back() -> None:
    desk, core, docs = bridged()
    core.asks("resources/subscribe", {"uri": URI}, id=1)
    gone(docs)
    core.got.clear()
    core.asks("resources/unsubscribe", {"uri": URI}, id=2)
    desk.passes(1)

    assert "resourceSubscriptions" not in docs.wire.listening[-1]["params"]["notifications"]
    assert core.gets_result() == {}


@pytest.mark.parametrize(("before", "after"), [("modern", "legacy"), ("legacy", "modern")])
def test_a_subscription_is_held_at_a_peer_that_comes_back_in_the_other_era(
    before: mcp.Era, after: mcp.Era
) -> None:
    desk, core, docs = one("legacy", before)
    core.asks("resources/subscribe", {"uri": URI})
    if before == "legacy":
        docs.answers(docs.gets("resources/subscribe"))
    core.got.clear()
    docs.era, docs.version = after, mcp.LATEST_LEGACY if after == "legacy" else mcp.LATEST_MODERN
    docs.dies()
    desk.passes(1)
    core.got.clear()

    if after == "legacy":
        assert docs.gets("resources/subscribe")["params"] == {"uri": URI}
        docs.tells(UPDATED, {"uri": URI})
    else:
        assert docs.wire.listening[-1]["params"]["notifications"]["resourceSubscriptions"] == [URI]
        tells_of(docs, docs.wire.listening[-1], UPDATED, uri=URI)
    assert core.gets(UPDATED)["params"] == {"uri": URI}


def test_a_subscription_that_waits_for_a_legacy_peer_to_come_back_goes_out_once() -> None:
    desk, core, docs = one("legacy", "legacy")
    gone(docs)
    core.asks("resources/subscribe", {"uri": URI})
    desk.passes(1)

    assert [message["method"] for message in docs.wire.got] == ["resources/subscribe"]


def test_a_listening_of_ours_that_its_peer_takes_back_is_an_error_for_who_waits_for_it() -> None:
    _, core, docs = bridged()
    docs.acknowledges = False
    core.asks("resources/subscribe", {"uri": URI})
    asked = docs.gets(LISTEN)
    docs.tells("notifications/cancelled", {"requestId": asked["id"]})

    assert "has ended the subscription" in core.gets_error()["message"]
