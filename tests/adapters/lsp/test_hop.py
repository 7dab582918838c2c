"""Language servers as hops: what crosses is told, and a host stands in for one that is not installed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from adapters import kit
from adapters.kit.hops import Hops
from adapters.lsp.channel import Channel, Ended, Listener
from adapters.lsp.hop import reach_over
from adapters.lsp.reach import start_process
from adapters.lsp.servers import Server
from gateway.protocol.hops import START

SERVER = Server(name="x", program="no-such-program", languages={".x": "x"})
OPENED: dict[str, Any] = {"result": {}}
HELLO, WORLD = b'{"jsonrpc":"2.0","method":"hello"}', b'{"jsonrpc":"2.0","method":"world"}'


class Ear:
    """Who listens to a server."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.why: list[Ended] = []

    def message(self, body: bytes) -> None:
        self.heard.append(body)

    def ended(self, why: Ended) -> None:
        self.why.append(why)


class Echo:
    """A server that says the world to whatever it hears."""

    pid = 7

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.got: list[bytes] = []

    def crash(self) -> None:
        self._listener.ended(Ended("exited with code 3", 3, ["oh no"]))

    def send(self, body: bytes) -> None:
        self.got.append(body)
        self._listener.message(WORLD)

    async def close(self) -> None:
        self._listener.ended(Ended("was closed", 0))


async def echo(server: Server, root: str, listener: Listener) -> Channel:
    return Echo(listener)


def connected(mode: Any, start: dict[str, Any] = OPENED) -> tuple[Hops, list[dict[str, Any]]]:
    """Hops, and what their host is told; how servers could be started, to whoever asks for that."""
    hops, told = kit.Hops(mode), list[dict[str, Any]]()

    def take(message: bytes) -> None:
        params = json.loads(message)["params"]
        said = params.get("message", {})
        if said.get("method") == START:
            starts.append(params)
            if mode == "play":
                answer = {"jsonrpc": "2.0", "id": said["id"], **start}
                crossing = {"hop": params["hop"], "way": "in", "message": answer}
                asyncio.get_running_loop().call_soon(hops.heard, json.dumps(crossing).encode())
        elif any(said.get("id") == one["message"]["id"] for one in starts):
            starts.append(params)
        else:
            told.append(params)

    starts: list[dict[str, Any]] = []
    hops.connect(take)
    return hops, told


def test_what_crosses_is_told_in_order_and_reaches_who_it_is_for() -> None:
    async def main() -> None:
        (hops, told), ear = connected("record"), Ear()
        channel = await reach_over(hops, echo)(SERVER, "/", ear)
        channel.send(HELLO)
        await channel.close()
        assert [(each["hop"], each["way"], each["message"]["method"]) for each in told] == [
            ("lsp:x", "out", "hello"),
            ("lsp:x", "in", "world"),
        ]
        assert (ear.heard, [each.how for each in ear.why], channel.pid) == ([WORLD], ["was closed"], 7)

    asyncio.run(main())


def test_a_host_stands_in_for_a_server_that_is_not_installed() -> None:
    async def main() -> None:
        (hops, told), ear = connected("play"), Ear()
        channel = await reach_over(hops)(SERVER, "/", ear)
        channel.send(HELLO)
        assert [each["message"]["method"] for each in told] == ["hello"]
        hops.heard(b'{"hop":"lsp:x","way":"in","message":%b}' % WORLD)
        assert ear.heard == []
        await asyncio.sleep(0)
        assert ear.heard == [WORLD]
        await channel.close()
        await channel.close()
        hops.heard(b'{"hop":"lsp:x","way":"in","message":%b}' % WORLD)
        await asyncio.sleep(0)
        assert (len(ear.heard), len(ear.why)) == (1, 1)

    asyncio.run(main())


def test_a_server_that_could_not_be_started_is_told_of_and_cannot_be_where_it_is_played_either() -> None:
    async def main() -> None:
        hops, told = kit.Hops("record"), list[dict[str, Any]]()
        hops.connect(lambda message: told.append(json.loads(message)["params"]))
        with pytest.raises(kit.ToolError, match="no-such-program is not installed") as live:
            await reach_over(hops, start_process)(SERVER, "/", Ear())
        [asked, answer] = [each["message"] for each in told]
        assert (asked["method"], answer["id"]) == (START, asked["id"])

        playing, said = connected("play", {"error": answer["error"]})
        with pytest.raises(kit.ToolError) as again:
            await reach_over(playing)(SERVER, "/", Ear())
        assert (
            (again.value.code, str(again.value))
            == (live.value.code, str(live.value))
            == ("io", str(live.value))
        )
        assert said == []

    asyncio.run(main())


def test_who_waits_for_a_start_is_told_that_the_host_has_gone() -> None:
    async def main() -> None:
        hops = kit.Hops("play")
        hops.connect(lambda message: None)
        waiting = asyncio.ensure_future(reach_over(hops)(SERVER, "/", Ear()))
        await asyncio.sleep(0)
        hops.left()
        for one in (waiting, reach_over(hops)(SERVER, "/", Ear())):
            with pytest.raises(kit.ToolError, match="the host has gone"):
                await one

    asyncio.run(main())


def test_the_end_of_a_server_is_told_where_nobody_has_asked_for_it_and_comes_again_where_it_is_played() -> (
    None
):
    async def main() -> None:
        (hops, told), ear = connected("record"), Ear()
        opened: list[Echo] = []

        async def reach(server: Server, root: str, listener: Listener) -> Channel:
            opened.append(Echo(listener))
            return opened[-1]

        await reach_over(hops, reach)(SERVER, "/", ear)
        opened[0].crash()
        closed = await reach_over(hops, reach)(SERVER, "/", ear)
        await closed.close()
        assert [(each["hop"], each["way"]) for each in told] == [("lsp:x", "in")]

        (playing, _), other = connected("play"), Ear()
        await reach_over(playing)(SERVER, "/", other)
        playing.heard(json.dumps(told[0]).encode())
        await asyncio.sleep(0)
        assert other.why == ear.why[:1] == [Ended("exited with code 3", 3, ["oh no"])]

    asyncio.run(main())


def test_a_server_that_is_played_has_gone_when_the_host_has() -> None:
    async def main() -> None:
        (hops, told), ear = connected("play"), Ear()
        channel = await reach_over(hops)(SERVER, "/", ear)
        hops.left()
        channel.send(HELLO)
        await asyncio.sleep(0)
        assert ([each.how for each in ear.why], told) == (["has gone with the host"], [])

    asyncio.run(main())


def test_a_host_that_wants_nothing_changes_nothing() -> None:
    assert reach_over(kit.Hops()) is start_process
