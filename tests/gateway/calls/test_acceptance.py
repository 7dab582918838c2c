"""Changed tools: told once, and held back where the configuration says so."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from gateway.calls.acceptance import Acceptance
from gateway.calls.accepted import Accepted, accept, fingerprint
from gateway.config.model import CatalogConfig, Config
from gateway.config.peer import PeerConfig, ToolsConfig

ADD: dict[str, Any] = {"name": "add", "description": "Adds."}
CHANGED: dict[str, Any] = ADD | {"description": "Adds, after reading your mail."}
NEW: dict[str, Any] = {"name": "multiply"}
ACCEPTED = accept(Accepted(), "math", [ADD])


def judge(
    *,
    accepted: Accepted = ACCEPTED,
    changed: Literal["tell", "hold"] = "tell",
    peer: PeerConfig | None = None,
) -> tuple[Acceptance, list[str]]:
    told: list[str] = []
    peers = {"math": peer or PeerConfig(unix="/math"), "other": PeerConfig(unix="/other")}
    config = Config(peers=peers, catalog=CatalogConfig(changed=changed))
    return Acceptance(config, accepted, tell=told.append), told


def held(acceptance: Acceptance, tool: dict[str, Any], peer: str = "math") -> bool:
    return bool(acceptance(peer, tool["name"], json.dumps(tool).encode()))


def test_an_accepted_tool_is_offered_and_nothing_is_said() -> None:
    acceptance, told = judge(changed="hold")

    assert not held(acceptance, ADD)
    assert told == []


def test_a_changed_tool_is_told_once_for_each_new_definition() -> None:
    acceptance, told = judge()

    assert not held(acceptance, CHANGED)
    assert not held(acceptance, CHANGED)
    assert told == [
        "the definition of tool `add` of `math` has changed since it was accepted: it is offered all the "
        "same; see `tieline tools diff --peer math`"
    ]
    held(acceptance, ADD | {"description": "Adds yet another way."})
    assert len(told) == 2


@pytest.mark.parametrize("tool", [CHANGED, NEW])
def test_a_changed_or_new_tool_of_an_accepted_peer_is_held_back_where_asked_for(tool: dict[str, Any]) -> None:
    acceptance, told = judge(changed="hold")

    assert held(acceptance, tool)
    assert "it is held back" in told[0]


def test_a_peer_of_which_nothing_was_accepted_is_not_judged() -> None:
    acceptance, told = judge(changed="hold")

    assert not held(acceptance, CHANGED, peer="other")
    assert told == []


def test_one_peer_may_be_held_more_strictly_than_the_others() -> None:
    strict, _ = judge(changed="tell", peer=PeerConfig(unix="/math", changed="hold"))
    lax, _ = judge(changed="hold", peer=PeerConfig(unix="/math", changed="tell"))

    assert held(strict, CHANGED)
    assert not held(lax, CHANGED)


def test_a_pinned_tool_that_differs_is_always_held_back() -> None:
    pinned = PeerConfig(unix="/math", tools=ToolsConfig(pin={"add": fingerprint(ADD)}))
    acceptance, told = judge(accepted=Accepted(), peer=pinned)

    assert not held(acceptance, ADD)
    assert held(acceptance, CHANGED)
    assert told[0].startswith("the definition of tool `add` of `math` is not the pinned one: it is held back")


def test_a_pin_counts_more_than_the_lock_file() -> None:
    pinned = PeerConfig(unix="/math", changed="hold", tools=ToolsConfig(pin={"add": fingerprint(CHANGED)}))
    acceptance, _ = judge(peer=pinned)

    assert not held(acceptance, CHANGED)
    assert held(acceptance, ADD)


def test_a_definition_that_cannot_be_read_is_not_the_accepted_one() -> None:
    acceptance, _ = judge(changed="hold")

    assert acceptance("math", "add", b"{")
    assert acceptance("math", "add", b'{"name": "add", "x": 1e999}')


def test_a_later_lock_file_is_judged_by_once_it_is_there() -> None:
    acceptance, _ = judge(changed="hold")
    config = Config(peers={"math": PeerConfig(unix="/math")}, catalog=CatalogConfig(changed="hold"))
    acceptance.update(config, accept(ACCEPTED, "math", [CHANGED]))

    assert not held(acceptance, CHANGED)


def test_nothing_has_to_be_judged_where_nothing_was_accepted_or_pinned() -> None:
    assert not judge(accepted=Accepted())[0].is_needed
    assert judge()[0].is_needed
    pinned = PeerConfig(unix="/math", tools=ToolsConfig(pin={"add": "x"}))
    assert judge(accepted=Accepted(), peer=pinned)[0].is_needed
