"""The limits of a whole gateway with real peers and sockets: what each bounds, and what whoever meets it is told."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.processes.gateway_kit import (
    ECHO_PEER,
    PATIENCE_S,
    PYTHON,
    Client,
    Message,
    echo,
    eventually,
    house,
    run,
    text_of,
    told,
)
from transports.base import TransportError
from transports.unix import connect_unix
from transports.ws_client import connect_websocket

INITIALIZE: Message = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    },
}
NOISE = """
import os, sys
sys.argv = [{path!r}]
sys.stderr.write(("n" * 400 + "\\n") * {lines})
sys.stderr.flush()
exec(compile(open({path!r}).read(), {path!r}, "exec"))
"""


def noisy(lines: int) -> Message:
    """A peer that says so many lines of 400 bytes on stderr before it serves."""
    code = NOISE.format(path=ECHO_PEER, lines=lines)
    return echo(command=[*PYTHON, "-c", code], restart={"backoff_s": 0.02}, start="eager")


async def unix_core(path: Path) -> Client:
    client = Client()
    client.link = await connect_unix(path, client)
    return client


def test_a_core_too_many_is_told_so_on_every_listener(tmp_path: Path) -> None:
    socket = tmp_path / "sock" / "core.sock"
    listen: Message = {
        "unix": {"path": str(socket)},
        "websocket": {"insecure_loopback": True},
        "http": {"insecure_loopback": True},
    }

    async def main() -> None:
        async with house(tmp_path, {"calc": echo()}, limits={"max_sessions": 1}, listen=listen) as here:
            first = await here.core()
            urls = {each["kind"]: each["url"] for each in here.gateway.addresses()}

            second = await unix_core(socket)
            data = told(await second.ask("initialize", INITIALIZE["params"]))
            assert (data["code"], data["reason"], data["retryable"]) == ("io", "overloaded", True)
            await second.until(lambda: second.endings)

            third = Client()
            third.link = await connect_websocket(urls["websocket"], third)  # pyright: ignore[reportAttributeAccessIssue]
            assert told(await third.ask("initialize", INITIALIZE["params"])) == data
            await third.until(lambda: third.endings)

            async with httpx2.AsyncClient(timeout=PATIENCE_S, trust_env=False) as web:
                accept = {"accept": "application/json, text/event-stream"}
                answer = await web.post(urls["http"], json=INITIALIZE, headers=accept)
            assert (answer.status_code, answer.json()["error"]["data"]) == (503, data)

            assert text_of(await first.tool("calc__echo", text="still served")) == "still served"
            first.close()
            await first.until(lambda: first.endings)
            again = await unix_core(socket)
            assert "result" in await again.ask("initialize", INITIALIZE["params"])
            again.close()
            await again.until(lambda: again.endings)
        assert len(here.recordings()) == 2

    run(main())


def test_websockets_beyond_the_limit_are_refused_before_they_are_one(tmp_path: Path) -> None:
    listen = {"websocket": {"insecure_loopback": True}}

    async def main() -> None:
        async with house(tmp_path, {"calc": echo()}, limits={"max_sessions": 1}, listen=listen) as here:
            (url,) = [each["url"] for each in here.gateway.addresses()]
            first = Client()
            link = await connect_websocket(url, first)
            with pytest.raises(TransportError) as refused:
                await connect_websocket(url, Client())
            assert refused.value.details["status"] == 503
            link.close()
            await first.until(lambda: first.endings)

    run(main())


def test_a_core_that_reads_nothing_holds_its_peer_back_and_little_waits_for_it(tmp_path: Path) -> None:
    socket = tmp_path / "sock" / "core.sock"
    size, most = 32 * 1024, 256 * 1024

    async def main() -> None:
        sections: Message = {"limits": {"queue_bytes": most}, "listen": {"unix": {"path": str(socket)}}}
        async with house(tmp_path, {"calc": echo()}, **sections) as here:
            slow = await unix_core(socket)
            await slow.shake_hands()
            await slow.tool("calc__echo", text="ready")
            quick = await here.core()
            (core,) = here.gateway.exchange.sessions[0].cores
            assert slow.link is not None
            slow.link.pause()
            calls = [slow.start_tool("calc__echo", size=size)[1] for _ in range(200)]

            await eventually(lambda: core.is_full, "the end of the slow core's room")
            for number in range(20):
                assert text_of(await quick.tool("calc__echo", text=f"{number}")) == f"{number}"
                # What was read from the peer before it was held back may still come: one read of 64 KiB.
                assert core.link.queued_bytes < most + 3 * 64 * 1024

            slow.link.resume()
            for call in calls:
                assert len(text_of(await asyncio.wait_for(call, PATIENCE_S))) == size
            slow.close()
            await slow.until(lambda: slow.endings)

    run(main())


def test_stderr_is_recorded_up_to_its_limit_in_each_life(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"calc": noisy(20)}, limits={"stderr_bytes": 2048}) as here:
            core = await here.core()
            await core.tool("calc__echo", text="first life")
            pid = here.pid("calc")
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await eventually(lambda: here.life("calc") == 2, "the second life")
            assert text_of(await core.tool("calc__echo", text="second life")) == "second life"
        frames = here.frames()
        for life in (1, 2):
            lines = [frame for frame in frames if frame.kind == "raw" and frame.life == life]
            assert 0 < sum(len(bytes(here.recording().body(frame))) for frame in lines) <= 2048
        exits = [frame.x or {} for frame in frames if frame.kind == "exit"]
        assert [facts["stderr_lost"] > 5000 for facts in exits] == [True, True]

    run(main())


@pytest.mark.parametrize("depth", [100, 200])
def test_depth_is_limited_over_http_as_anywhere(depth: int, tmp_path: Path) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    deep = json.dumps({**INITIALIZE, "params": {**INITIALIZE["params"], "x": value}}).encode()

    async def main() -> None:
        sections: Message = {
            "limits": {"max_json_depth": 150},
            "listen": {"http": {"insecure_loopback": True}},
        }
        async with house(tmp_path, {"calc": echo()}, **sections) as here:
            (url,) = [each["url"] for each in here.gateway.addresses()]
            headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
            async with httpx2.AsyncClient(timeout=PATIENCE_S, trust_env=False) as web:
                answer = await web.post(url, content=deep, headers=headers)
            assert answer.status_code == (200 if depth < 150 else 400)
            if depth > 150:
                assert "deeper than 150" in answer.json()["error"]["message"]

    run(main())
