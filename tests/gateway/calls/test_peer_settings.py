"""Each setting of a peer does what its description says: what a core sees of it, and what the peer does."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.calls.acceptance import Acceptance
from gateway.calls.accepted import Accepted, AcceptedTool, fingerprint
from gateway.config.model import CatalogConfig, Config
from gateway.config.peer import PeerConfig, ToolsConfig
from tests.gateway.calls.kit import LEGACY, MODERN, Client, Desk, Service


def peer(**settings: Any) -> PeerConfig:
    return PeerConfig(command=["x"], **settings)


def listed(core: Client) -> list[str]:
    """The names of the tools that a core is offered."""
    core.asks("tools/list", id="list")
    return [tool["name"] for tool in core.gets_result()["tools"]]


def reaches(desk: Desk, core: Client, name: str) -> tuple[str, str] | str:
    """Which peer a call of that name comes to, and under which name; or why it comes to none."""
    core.calls(name, id="call")
    for service in desk.services.values():
        for wire in service.wires:
            for message in wire.got:
                if message.get("method") == "tools/call":
                    wire.answers(message)
                    core.gets_result()
                    return service.name, message["params"]["name"]
    return core.gets_error()["data"]["reason"]


@pytest.mark.parametrize(
    ("tools", "offered"),
    [
        (ToolsConfig(), ["read", "write", "write_all"]),
        (ToolsConfig(allow=["read"]), ["read"]),
        (ToolsConfig(allow=["wr*"]), ["write", "write_all"]),
        (ToolsConfig(deny=["write*"]), ["read"]),
        (ToolsConfig(allow=["w*"], deny=["*_all"]), ["write"]),
    ],
)
def test_allow_and_deny_say_which_tools_are_offered_and_can_be_called(
    tools: ToolsConfig, offered: list[str]
) -> None:
    desk = Desk({"files": Service(tools=["read", "write", "write_all"])}, peers={"files": peer(tools=tools)})
    core = desk.core()
    assert listed(core) == offered
    for name in ("read", "write", "write_all"):
        called = ("files", name) if name in offered else "filtered"
        assert reaches(desk, core, name) == called


@pytest.mark.parametrize("name", ["write", "files__write"])
def test_a_tool_that_is_not_let_through_is_told_to_be_denied_and_one_that_is_not_there_is_not(
    name: str,
) -> None:
    services = {"files": Service(tools=["read", "write"]), "calc": Service(tools=["add"])}
    desk = Desk(services, peers={"files": peer(tools=ToolsConfig(deny=["write"]))})
    core = desk.core()
    core.calls(name)
    error = core.gets_error()
    assert (error["data"]["code"], error["data"]["reason"], error["data"]["peer"]) == (
        "denied",
        "filtered",
        "files",
    )
    assert "`tools.deny`" in error["data"]["advice"]
    core.calls("nothing", id=2)
    assert core.gets_error()["data"]["reason"] == "unknown_name"


def test_rename_is_the_name_that_a_core_sees_and_the_peer_never_does() -> None:
    tools = ToolsConfig(rename={"read": "look_into"})
    desk = Desk({"files": Service(tools=["read", "write"])}, peers={"files": peer(tools=tools)})
    core = desk.core()
    assert listed(core) == ["look_into", "write"]
    assert reaches(desk, core, "look_into") == ("files", "read")


@pytest.mark.parametrize(
    ("prefix", "offered"),
    [
        (None, ["a__read", "b__read"]),
        ("disk", ["a__read", "disk__read"]),
        ("", ["a__read", "read"]),
    ],
)
def test_prefix_of_a_peer_stands_for_its_name_and_is_put_before_all_its_names(
    prefix: str | None, offered: list[str]
) -> None:
    desk = Desk(
        {"a": Service(tools=["read"]), "b": Service(tools=["read"])}, peers={"b": peer(prefix=prefix)}
    )
    core = desk.core()
    assert listed(core) == offered
    assert reaches(desk, core, offered[1]) == ("b", "read")


def test_a_prefix_is_put_even_where_no_name_stands_twice() -> None:
    desk = Desk({"a": Service(tools=["read"])}, peers={"a": peer(prefix="disk")})
    core = desk.core()
    assert listed(core) == ["disk__read"]


@pytest.mark.parametrize(
    ("prefix", "separator", "offered"),
    [
        ("auto", "__", ["a__read", "only", "b__read"]),
        ("always", ".", ["a.read", "a.only", "b.read"]),
        ("never", "__", ["read", "only"]),
    ],
)
def test_prefix_and_separator_of_the_catalogue_are_the_rule_for_all_peers(
    prefix: Any, separator: str, offered: list[str]
) -> None:
    desk = Desk(
        {"a": Service(tools=["read", "only"]), "b": Service(tools=["read"])},
        catalog=CatalogConfig(prefix=prefix, separator=separator),
    )
    assert listed(desk.core()) == offered


def judged(desk_peers: dict[str, PeerConfig], catalog: CatalogConfig) -> tuple[Acceptance, list[str]]:
    """A judge that has accepted `read` of both peers, as it was."""
    told: list[str] = []
    was = {"name": "read", "description": "reads"}
    accepted = Accepted(
        peers={
            name: {"read": AcceptedTool(fingerprint=fingerprint(was), definition=was)} for name in desk_peers
        }
    )
    config = Config(peers=desk_peers, catalog=catalog)
    return Acceptance(config, accepted, tell=told.append), told


@pytest.mark.parametrize(
    ("everywhere", "own", "offered"),
    [
        ("tell", None, True),
        ("hold", None, False),
        ("tell", "hold", False),
        ("hold", "tell", True),
    ],
)
def test_changed_says_whether_a_tool_that_is_not_as_accepted_is_offered(
    everywhere: Any, own: Any, *, offered: bool
) -> None:
    peers = {"a": peer(changed=own)}
    catalog = CatalogConfig(changed=everywhere)
    judge, told = judged(peers, catalog)
    service = Service(tools=[{"name": "read", "description": "reads, and sends it to somebody"}])
    desk = Desk({"a": service}, peers=peers, catalog=catalog, judge=judge)
    core = desk.core()

    assert listed(core) == (["read"] if offered else [])
    assert reaches(desk, core, "read") == (("a", "read") if offered else "changed")
    (sentence,) = told
    assert ("it is offered all the same" if offered else "it is held back") in sentence
    (policy,) = desk.frames("policy")
    assert (policy.peer, policy.name, policy.x) == (
        "a",
        "read",
        {
            "decision": "told" if offered else "held",
            "why": "has changed since it was accepted",
            "fingerprint": fingerprint({"name": "read", "description": "reads, and sends it to somebody"}),
        },
    )


def test_a_pinned_tool_that_differs_is_held_back_whatever_else_is_said() -> None:
    same, other = {"name": "read"}, {"name": "write"}
    pins = {"read": fingerprint(same), "write": fingerprint({"name": "write", "description": "as it was"})}
    peers = {"a": peer(changed="tell", tools=ToolsConfig(pin=pins))}
    judge, _ = judged({}, CatalogConfig())
    judge.update(Config(peers=peers), Accepted(peers={}))
    desk = Desk({"a": Service(tools=[same, other])}, peers=peers, judge=judge)
    core = desk.core()
    assert listed(core) == ["read"]
    assert reaches(desk, core, "write") == "changed"


def test_a_session_has_a_connection_of_its_own_and_a_shared_peer_one_for_all() -> None:
    desk = Desk({"own": Service(), "all": Service()}, peers={"all": peer(scope="shared")})
    cores = [desk.core(), desk.core(), desk.core("modern")]
    for core in cores:
        core.asks("tools/list", id="list")
    assert len(desk.services["own"].wires) == 3
    assert len(desk.services["all"].wires) == 1

    for core in cores[:2]:
        core.leaves()
    own, common = desk.services["own"].wires, desk.services["all"].wire
    assert [wire.link.is_closed for wire in own] == [True, True, False]
    assert not common.link.is_closed


def test_a_lazy_peer_is_started_when_it_is_needed_and_an_eager_one_when_a_core_greets() -> None:
    desk = Desk({"early": Service(), "late": Service(tools=["add"])}, peers={"early": peer(start="eager")})
    core = desk.core()
    assert len(desk.services["early"].wires) == 1
    assert desk.services["late"].wires == []
    core.calls("late__add")
    assert len(desk.services["late"].wires) == 1


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_peer_has_so_long_to_answer_a_call(era: Any) -> None:
    desk = Desk({"calc": Service(era)}, peers={"calc": peer(call_timeout_s=2.0)})
    core = desk.core(era)
    core.calls()
    desk.passes(1.9)
    assert core.hears_nothing
    desk.passes(0.5)
    assert core.gets_error()["data"]["reason"] == "deadline"


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({"era": "legacy"}, ["initialize"]),
        ({"era": "modern"}, ["server/discover"]),
        ({"version": "2025-06-18"}, ["initialize"]),
        ({"version": MODERN}, ["server/discover"]),
    ],
)
def test_an_era_or_a_version_says_which_handshake_is_tried_and_no_other_is(
    settings: dict[str, Any], asked: list[str]
) -> None:
    for core_era in ("legacy", "modern"):
        desk = Desk({"calc": Service()}, peers={"calc": peer(**settings)})
        desk.services["calc"].is_silent = True
        desk.core(core_era)
        desk.passes(30)
        methods = [message["method"] for wire in desk.services["calc"].wires for message in wire.got]
        assert set(methods) == set(asked)


def test_a_peer_is_asked_for_the_version_that_it_must_speak_and_refused_where_it_does_not() -> None:
    for answers, ready in ((("2025-06-18"), True), (LEGACY, False)):
        service = Service(version=answers)
        desk = Desk({"calc": service}, peers={"calc": peer(version="2025-06-18")})
        desk.core()
        (one,) = desk.exchange.peers_named("calc")
        assert one.is_ready == ready
        if not ready:
            assert one.fault is not None
            assert one.fault.reason == "version"
            assert "insists on 2025-06-18" in one.fault.message


def test_a_held_tool_of_one_of_several_peers_is_told_to_be_held_and_not_unknown() -> None:
    peers = {"a": peer(tools=ToolsConfig(rename={"read": "look"})), "b": peer()}
    catalog = CatalogConfig(changed="hold")
    judge, _ = judged({"a": peers["a"]}, catalog)
    judge.update(Config(peers=peers, catalog=catalog), judge._accepted)  # pyright: ignore[reportPrivateUsage]
    services = {"a": Service(tools=[{"name": "read", "description": "other"}]), "b": Service(tools=["add"])}
    desk = Desk(services, peers=peers, catalog=catalog, judge=judge)
    core = desk.core()
    assert listed(core) == ["add"]
    for name in ("look", "a__look", "a__read"):
        assert reaches(desk, core, name) == "changed"
    assert reaches(desk, core, "nothing") == "unknown_name"
