"""Several peers at once, and several cores: who asked is answered, and nobody else hears of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.e2e.cells import SOUTH
from tests.e2e.features import text_of
from tests.e2e.house import TIELINE, House
from tests.e2e.raw_core import SAMPLED, Era, RawCore, connected
from tests.e2e.wires import HttpWire, StdioWire

pytestmark = pytest.mark.xdist_group("several")

CALLS = 30


def five(house: House) -> dict[str, dict[str, Any]]:
    """One peer on each southbound transport, in changing eras; HTTP+SSE has only the old one."""
    return {
        f"by{south}": house.matrix_peer(south, "modern" if south in {"http", "unix"} else "legacy")
        for south in SOUTH
    }


async def _city(core: RawCore, peer: str, city: str) -> None:
    result = await core.call(f"{peer}__matrix_structured", {"city": city})
    assert result["structuredContent"]["city"] == city


async def _progress(core: RawCore, peer: str) -> None:
    """The same token is used by everybody at once."""
    before = len(core.notes("notifications/progress"))
    await core.call(f"{peer}__test_tool_with_progress", meta={"progressToken": "token"})
    notes = core.notes("notifications/progress")[before:]
    assert [note["progress"] for note in notes] == [0, 50, 100]
    assert {note["progressToken"] for note in notes} == {"token"}


async def _busy(core: RawCore, peers: list[str], name: str) -> None:
    """Many calls side by side over all peers; then each peer asks, and shows progress."""
    core.answers["sampling/createMessage"] = {**SAMPLED, "content": {"type": "text", "text": name}}
    await asyncio.gather(*(_city(core, peers[n % len(peers)], f"{name} {n}") for n in range(CALLS)))
    asked = await asyncio.gather(
        *(core.call(f"{peer}__test_sampling", {"prompt": f"{name} at {peer}"}) for peer in peers)
    )
    assert [text_of(result) for result in asked] == [f"LLM response: {name}"] * len(peers)
    prompts = {ask["params"]["messages"][0]["content"]["text"] for ask in core.asked}
    assert prompts == {f"{name} at {peer}" for peer in peers}
    for peer in peers:
        await _progress(core, peer)


def test_two_cores_of_different_eras_share_a_listener_with_five_peers_behind_it(house: House) -> None:
    peers = five(house)
    address = house.gateway("several", peers)["http"]

    async def one(era: Era) -> None:
        async with connected(HttpWire(address), era) as core:
            await _busy(core, list(peers), era)
            assert all(count == 1 for count in core.answers_per_id.values())

    async def go() -> None:
        await asyncio.gather(one("legacy"), one("modern"))

    asyncio.run(go())


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_stdio_core_has_peers_over_five_transports_in_one_configuration(era: Era, house: House) -> None:
    peers = five(house)
    path = house.config("five", peers, catalog={"prefix": "always"})
    wire = StdioWire([TIELINE, "run", str(path), "--stdio"], house.folder / "five.log", house.env)

    async def go() -> None:
        async with connected(wire, era) as core:
            listed = (await core.result("tools/list"))["tools"]
            names = {tool["name"] for tool in listed}
            assert len(names) == len(listed)
            assert {name.partition("__")[0] for name in names} == set(peers)
            await _busy(core, list(peers), era)
            for peer in peers:
                await _tells_of_a_change(core, peer)

    asyncio.run(go())


async def _tells_of_a_change(core: RawCore, peer: str) -> None:
    extra = f"{peer}__test_extra_tool"
    before = {tool["name"] for tool in (await core.result("tools/list"))["tools"]}
    subscription = await core.listen(toolsListChanged=True) if core.is_modern else None
    heard = len(core.notes("notifications/tools/list_changed"))
    await core.call(f"{peer}__test_trigger_tool_change")
    await core.until(lambda: len(core.notes("notifications/tools/list_changed")) > heard)
    after = {tool["name"] for tool in (await core.result("tools/list"))["tools"]}
    assert before ^ after == {extra}
    if subscription is not None:
        await core.cancel(subscription)
