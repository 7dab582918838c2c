"""Whatever either side says, in whatever shape: the exchange answers, records and lives on."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocol import mcp
from tests.gateway.calls.kit import Client, Desk, Message, Service, text

METHODS = (
    "initialize", "ping", "server/discover", "tools/list", "tools/call", "prompts/get", "prompts/list",
    "resources/read", "resources/list", "resources/templates/list", "resources/subscribe", "resources/unsubscribe",
    "completion/complete", "logging/setLevel", "subscriptions/listen", "tasks/get", "sampling/createMessage",
    "elicitation/create", "roots/list", "x-vendor/odd", "notifications/initialized", "notifications/cancelled",
    "notifications/progress", "notifications/message", "notifications/tools/list_changed",
    "notifications/resources/updated", "notifications/subscriptions/acknowledged",
    "notifications/roots/list_changed",
)  # fmt: skip
NAMES = (
    "_meta", "name", "uri", "cursor", "level", "requestId", "progressToken", "ref", "taskId", "notifications",
    "inputResponses", "requestState", "protocolVersion", "capabilities", "arguments", "tools", "nextCursor",
    "resultType", "inputRequests", "resources", "task", "toolsListChanged", "resourceSubscriptions",
    mcp.META_VERSION, mcp.META_CAPABILITIES, mcp.META_SUBSCRIPTION, mcp.META_INPUT_KEY, mcp.META_LANE,
    mcp.META_LOG_LEVEL,
)  # fmt: skip
LEAVES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(0, 5) | st.just(1.5)
    | st.sampled_from(("", "add", "walk", "a__run", "file:///a", "2026-07-28", "2025-11-25", "info", "input_required"))
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)
PARAMS: st.SearchStrategy[Any] = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4) | VALUES
IDS: st.SearchStrategy[Any] = st.integers(1, 6) | st.sampled_from(("1", "x", ""))
MESSAGES: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"id": IDS, "method": st.sampled_from(METHODS)}, optional={"params": PARAMS}),
    st.fixed_dictionaries({"method": st.sampled_from(METHODS)}, optional={"params": PARAMS}),
    st.fixed_dictionaries({"id": IDS, "result": PARAMS}),
    st.fixed_dictionaries({"id": IDS, "error": PARAMS}),
)
ERAS: st.SearchStrategy[mcp.Era] = st.sampled_from(("legacy", "modern"))
STEPS: st.SearchStrategy[list[tuple[str, Any]]] = st.lists(
    st.tuples(st.sampled_from(("core", "a", "b", "time", "dies")), MESSAGES), max_size=25
)


def whole(core: Client, message: Message) -> bytes:
    """Return a message as its era would write it, so that it gets past the first check."""
    message = {"jsonrpc": "2.0"} | message
    if core.era == "modern" and "method" in message and isinstance(message.get("params", {}), dict):
        params = dict(message.get("params", {}))
        if isinstance(params.get("_meta", {}), dict):
            meta = {mcp.META_VERSION: mcp.LATEST_MODERN, mcp.META_CAPABILITIES: core.capabilities}
            message["params"] = params | {"_meta": meta | params.get("_meta", {})}
    return json.dumps(message).encode()


def still_serves(desk: Desk, core: Client, service: Service) -> None:
    """A fresh call reaches its peer, and its answer the core."""
    desk.passes(3)
    core.link.inbox.clear()
    for wire in service.wires:
        wire.link.inbox.clear()
    core.asks("tools/call", {"name": "b__ping"}, id="last")
    for wire in service.wires:
        for asked in wire.got:
            if asked["method"] == "tools/list":
                wire.answers(asked, {"tools": []})
            elif asked["method"] == "tools/call":
                wire.answers(asked, text("still here"))
    answers = [message for message in core.got if message.get("id") == "last"]
    assert len(answers) == 1
    assert answers[0]["result"]["content"] == text("still here")["content"]


@settings(max_examples=150, deadline=None)
@given(ERAS, ERAS, ERAS, STEPS)
def test_no_sequence_of_odd_messages_stops_the_exchange(
    core_era: mcp.Era, a_era: mcp.Era, b_era: mcp.Era, steps: list[tuple[str, Any]]
) -> None:
    services = {"a": Service(a_era, tools=["run"]), "b": Service(b_era, tools=["walk"])}
    desk = Desk(services)
    core = desk.core(core_era)
    core.asks("tools/list", id="list")
    core.link.inbox.clear()
    for who, message in steps:
        if who == "core":
            core.says(whole(core, message))
        elif who == "time":
            desk.passes(0.2)
        elif who == "dies":
            services["a"].dies()
        else:
            services[who].says({"jsonrpc": "2.0"} | message)

    still_serves(desk, core, services["b"])


@settings(max_examples=100, deadline=None)
@given(ERAS, ERAS, STEPS)
def test_no_sequence_of_odd_messages_stops_one_peer_that_passes_plainly(
    core_era: mcp.Era, era: mcp.Era, steps: list[tuple[str, Any]]
) -> None:
    service = Service(era)
    desk = Desk({"b": service})
    core = desk.core(core_era)
    for who, message in steps:
        if who in ("core", "a"):
            core.says(whole(core, message))
        elif who == "time":
            desk.passes(0.2)
        elif who == "dies":
            service.dies()
        else:
            service.says({"jsonrpc": "2.0"} | message)

    still_serves(desk, core, service)


@settings(max_examples=150, deadline=None)
@given(VALUES, VALUES, st.booleans())
def test_a_handshake_of_any_shape_ends_in_a_peer_that_is_ready_or_given_up(
    result: Any, params: Any, modern: bool
) -> None:
    service = Service("modern" if modern else "legacy")
    service.is_silent = True
    desk = Desk({"b": service})
    core = desk.connect("legacy")
    core.says({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    if service.wires:
        for _ in range(2):
            for asked in service.wire.got:
                if "id" in asked:
                    service.answers(asked["id"], result)
        desk.passes(30)
        assert service.wire.peer.state in ("ready", "failed")
    assert [message.get("id") for message in core.got if "method" not in message] == [1]
