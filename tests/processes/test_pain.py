"""The complaints that users of MCP gateways have, asked of this one, through stdio and streamable HTTP.

The eighteen symptoms are those of `loadtest/peers/symptoms.py`. What else a broker can get wrong, and where it is
tested (a name without a folder is in `tests/processes`):

| complaint | test |
| --- | --- |
| one-shot calls leave processes behind | here, `short_sessions` |
| a server that ignores the end of its input and SIGTERM, with a family | `test_faults_in_calls` (family rows) |
| closing a session, by DELETE or by TCP, leaves its server running | here, `closed_session`; `test_faults_of_a_core` |
| a client that never reads, or vanishes | `test_faults_of_a_core`; `tests/gateway/runtime/test_http_limits` |
| every reconnection starts one more server | here, `fifty_reconnections`; `tests/gateway/calls/test_faults` |
| a restart under load fails what it need not | here, `killed_under_load` |
| a changed command line leaves the old server running | here, `reload_with_another_command` |
| a call in flight keeps the gateway from ending | `test_faults_of_the_gateway` (stdio core leaves) |
| a server instance for each call | here, `a_thousand_calls` |
| server dies or never completes `initialize` | `test_faults_in_calls`, `test_faults_at_start` |
| half a line, a pause, then a valid one | `test_faults_in_calls` (framing rows); `tests/transports/test_framing` |
| call timeout ignored on some transports | `test_faults_in_calls`, `test_faults_of_the_network` |
| stderr not drained, without end of line, flooding the probe | `test_faults_at_start`, `test_faults_in_calls` |
| banners on stdout | `test_faults_at_start` |
| notifications lost, doubled, undeclared, in another order | `tests/gateway/calls`; here, `ten_thousand_in_order` |
| a server's question dropped, or its answer refused | symptoms; `tests/gateway/calls` |
| late progress, invented tokens | symptoms; `tests/gateway/calls` |
| pipelined `initialize`, `initialized`, `tools/list` | here, `pipelined_handshakes` |
| cancellation lost, late, under another id | symptoms; `test_faults_of_a_core` |
| cursors lost, repeated, endless | symptoms; `tests/gateway/calls` |
| equal, long and odd names | `test_faults_of_the_gateway` |
| ids crossed between clients, types and directions | symptoms; `test_faults_in_calls` (id rows); `test_many_peers` |
| dropped fields | symptoms; `tests/gateway/calls` |
| memory of abandoned sessions | `tests/gateway/runtime/test_http_limits`; `test_many_peers` |
| messages of 1 to 64 MiB; invalid UTF-8, U+2028, NUL, a mark | symptoms; here, `odd_text`; `test_faults_in_calls` |
| secrets in logs, recordings, argv | `tests/recordings/test_canaries`; `test_faults_at_start` |
| serial connecting; one slow peer delays all | here, `slow_peer` |
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import psutil
import pytest

from gateway.runtime.keeping import keeper_works
from loadtest.peers.http_client import HEADERS, HttpClient, greeting
from loadtest.peers.symptoms import SERVER, SYMPTOMS, Client, Symptom
from tests.processes import gateway_kit as kit
from tests.processes.gateway_kit import (
    PATIENCE_S,
    PYTHON,
    Message,
    bystander,
    echo,
    eventually,
    house,
    marked_by,
    program,
    run,
    text_of,
    toml_of,
)

pytestmark = pytest.mark.skipif(not keeper_works(), reason="needs Linux with /proc")


def pain(log: Path) -> Message:
    return {
        "command": [*PYTHON, str(SERVER), str(log)],
        "stop_grace_s": 0.3,
        "restart": {"backoff_s": 0.02, "backoff_max_s": 0.1},
    }


class StdioClient:
    """A session of the symptoms over a gateway's stdin and stdout."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.raw = kit.Client()
        self.process = process
        self.raw.answers_asks = False
        self._asks: set[str] = set()
        self._count = itertools.count(1000)

    @property
    def messages(self) -> list[Message]:
        for message in list(self.raw.messages):
            if "method" in message and "id" in message and str(message["id"]) not in self._asks:
                self._asks.add(str(message["id"]))
                self.raw.send(
                    {"id": message["id"], "result": {"action": "accept", "content": {"name": "Ada"}}}
                )
        return self.raw.messages

    async def ask(
        self, method: str, params: Message, *, id_: int | str | None = None, within: float = PATIENCE_S
    ) -> Message:
        _, future = self.raw.start(method, params, id_=next(self._count) if id_ is None else id_)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while not future.done() and loop.time() < deadline:
            assert self.messages is not None
            await asyncio.wait([future], timeout=0.02)
        return future.result() if future.done() else {}

    async def tell(self, method: str, params: Message) -> None:
        self.raw.send({"method": method, "params": params})

    async def close(self) -> None:
        self.raw.close()
        await asyncio.to_thread(self.process.wait, PATIENCE_S)


class StdioStage:
    """A gateway for each client, as a client of stdio servers starts them."""

    def __init__(self, directory: Path, stack: contextlib.AsyncExitStack) -> None:
        self.log = directory / "pain.log"
        self._directory = directory
        self._stack = stack
        self._clients: list[StdioClient] = []
        (directory / "tieline.toml").write_text(
            toml_of({"pain": pain(self.log)}, catalog={"prefix": "never"})
        )

    async def client(self) -> Client:
        directory = self._directory / f"client{len(self._clients)}"
        directory.mkdir()
        command = [
            "run",
            str(self._directory / "tieline.toml"),
            "--stdio",
            "--record",
            str(directory / "rec"),
        ]
        raw, process = await self._stack.enter_async_context(kit.stdio_program(directory, command))
        client = StdioClient(process)
        client.raw.link = raw.link
        assert raw.link is not None
        # The kit's client is the receiver; this one answers questions its own way.
        raw.answers_asks = False
        client.raw = raw
        await client.raw.shake_hands()
        self._clients.append(client)
        return client

    def pids(self) -> list[int]:
        return [client.process.pid for client in self._clients]

    async def knock(self, headers: dict[str, str]) -> int | None:
        return None

    async def end(self) -> bool:
        for client in self._clients:
            client.process.send_signal(signal.SIGTERM)
        return await gone(self.pids())


class HttpStage:
    """One gateway with a streamable HTTP listener."""

    def __init__(self, gateway: kit.Program) -> None:
        self.log = gateway.directory / "pain.log"
        self._gateway = gateway
        ready = json.loads((gateway.directory / "ready.json").read_text())
        self.url = next(one["url"] for one in ready["listeners"] if one["kind"] == "http")
        self._clients: list[HttpClient] = []

    async def client(self) -> Client:
        client = HttpClient(self.url)
        await client.open()
        self._clients.append(client)
        return client

    def pids(self) -> list[int]:
        return [self._gateway.pid]

    async def knock(self, headers: dict[str, str]) -> int | None:
        async with httpx2.AsyncClient(trust_env=False) as http:
            answer = await http.post(self.url, headers={**HEADERS, **headers}, content=json.dumps(greeting()))
            return answer.status_code

    async def end(self) -> bool:
        self._gateway.process.send_signal(signal.SIGTERM)
        return await gone(self.pids())

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


async def gone(pids: list[int]) -> bool:
    await eventually(lambda: not any(map(kit.is_alive, pids)), "the end of the gateway")
    return True


@asynccontextmanager
async def http_stage(directory: Path) -> AsyncGenerator[HttpStage]:
    peers = {"pain": pain(directory / "pain.log")}
    listen: Message = {"http": {"port": 0, "insecure_loopback": True}}
    with program(directory, peers, listen=listen, catalog={"prefix": "never"}) as gateway:
        stage = HttpStage(gateway)
        try:
            yield stage
        finally:
            await stage.close()


SHARED = list(SYMPTOMS)[:12]
"""Symptoms that leave the gateway as it was: one serves them all."""


@pytest.mark.parametrize("third", range(3))
@pytest.mark.parametrize("front", ["stdio", "http"])
def test_symptoms_that_leave_the_gateway_running(front: str, third: int, tmp_path: Path) -> None:
    wrong: dict[str, str] = {}

    async def ask_all(stage: HttpStage | StdioStage) -> None:
        for name in SHARED[third::3]:
            client = await stage.client()
            verdict = await SYMPTOMS[name](stage, client)
            if not verdict.right:
                wrong[name] = verdict.said
            await client.close()

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            if front == "http":
                await ask_all(await stack.enter_async_context(http_stage(tmp_path)))
            else:
                await ask_all(StdioStage(tmp_path, stack))

    run(main())
    assert wrong == {}


@pytest.mark.parametrize("front", ["stdio", "http"])
@pytest.mark.parametrize("symptom", list(SYMPTOMS.values())[12:], ids=lambda one: one.__name__)
def test_symptoms_of_an_end(symptom: Symptom, front: str, tmp_path: Path) -> None:
    if front == "stdio" and symptom.__name__ == "foreign_pages":
        pytest.skip("stdio opens no port")

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            stage = (
                await stack.enter_async_context(http_stage(tmp_path))
                if front == "http"
                else StdioStage(tmp_path, stack)
            )
            verdict = await symptom(stage, await stage.client())
            assert verdict.right, verdict.said

    run(main())


def servers_of(gateway: int) -> list[int]:
    """The servers that a gateway has running, without their keepers."""
    found: list[int] = []
    for pid in marked_by(gateway):
        with contextlib.suppress(psutil.NoSuchProcess):
            words = psutil.Process(pid).cmdline()
            if "-c" not in words and any(word.endswith(("echo_peer.py", "pain_server.py")) for word in words):
                found.append(pid)
    return found


def test_fifty_short_sessions_leave_no_process_behind(tmp_path: Path) -> None:
    async def main() -> None:
        with program(tmp_path, {"good": echo()}) as gateway:

            async def visit(number: int) -> None:
                core = await gateway.core()
                assert text_of(await core.tool("good__echo", text=str(number))) == str(number)
                core.close()

            for start in range(0, 50, 5):
                await asyncio.gather(*(visit(number) for number in range(start, start + 5)))
            await eventually(lambda: marked_by(gateway.pid) == [], "the end of every server")
            assert gateway.process.poll() is None

    run(main())


def test_fifty_reconnections_to_a_shared_server_are_one_process(tmp_path: Path) -> None:
    async def main() -> None:
        with program(tmp_path, {"good": echo(scope="shared")}) as gateway:
            servers: set[int] = set()
            for number in range(50):
                core = await gateway.core()
                assert text_of(await core.tool("good__echo", text=str(number))) == str(number)
                core.close()
                found = servers_of(gateway.pid)
                assert len(found) == 1
                servers.update(found)
            assert len(servers) == 1

    run(main())


def test_a_server_that_is_killed_under_load_fails_at_most_what_is_in_flight(tmp_path: Path) -> None:
    callers, kills = 8, 3

    async def main() -> None:
        settings: Message = {"restart": {"backoff_s": 0.05}}
        async with house(tmp_path, {"good": echo(**settings)}) as here:
            core = await here.core()
            over = asyncio.Event()
            served, failed = 0, list[Message]()

            async def go_on(caller: int) -> None:
                nonlocal served
                number = 0
                while not over.is_set():
                    number += 1
                    answer = await core.tool("good__echo", text=f"{caller}/{number}")
                    if "error" in answer:
                        failed.append(answer["error"]["data"])
                    else:
                        assert text_of(answer) == f"{caller}/{number}"
                        served += 1

            calls = [asyncio.ensure_future(go_on(caller)) for caller in range(callers)]
            for kill in range(1, kills + 1):
                so_far = served
                await eventually(lambda so_far=so_far: served > so_far + 50, "calls that are served")
                pid = here.pid("good")
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
                await eventually(lambda kill=kill: here.life("good") > kill, "the next life")
            so_far = served
            await eventually(lambda: served > so_far + 50, "calls that are served again")
            over.set()
            await asyncio.gather(*calls)

        assert len(failed) <= callers * kills
        assert {(data["code"], data["outcome"]) for data in failed} <= {("io", "unknown"), ("io", "not_sent")}

    run(main())


def test_a_closed_session_ends_its_server(tmp_path: Path) -> None:
    async def main() -> None:
        async with http_stage(tmp_path) as stage:
            client = await stage.client()
            assert (await client.ask("tools/call", {"name": "echo", "arguments": {"text": "up"}}))["result"]
            assert len(servers_of(stage.pids()[0])) == 1
            await client.close()
            await eventually(lambda: servers_of(stage.pids()[0]) == [], "the end of the server")

    run(main())


def test_a_thousand_calls_are_one_process(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"good": echo()}) as here:
            core = await here.core()
            await core.tool("good__echo", text="up")
            pid = here.pid("good")
            calls = [core.start_tool("good__echo", text=str(number))[1] for number in range(1000)]
            assert [text_of(await call) for call in calls] == [str(number) for number in range(1000)]
            assert here.pid("good") == pid
            assert here.life("good") == 1

    run(main())


def test_a_reload_with_another_command_ends_the_old_server(tmp_path: Path) -> None:
    async def main() -> None:
        with program(tmp_path, {"good": echo()}) as gateway:
            core = await gateway.core()
            await core.tool("good__echo", text="up")
            [before] = servers_of(gateway.pid)
            changed: Message = {**echo(), "command": [*echo()["command"], "--era", "legacy"]}
            listen = {"unix": {"path": str(tmp_path / "sock" / "core.sock")}}
            (tmp_path / "tieline.toml").write_text(toml_of({"good": changed}, listen=listen))
            gateway.process.send_signal(signal.SIGHUP)
            await eventually(lambda: not kit.is_alive(before), "the end of the old server")
            assert text_of(await core.tool("good__echo", text="new")) == "new"
            [after] = servers_of(gateway.pid)
            assert after != before

    run(main())


def test_pipelined_handshakes_are_answered_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"good": echo(scope="shared")}) as here:
            for _ in range(100):
                core = await here.core(shake=False)
                params: Message = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "x", "version": "1"},
                }
                core.send({"id": 1, "method": "initialize", "params": params})
                core.send({"method": "notifications/initialized"})
                core.send({"id": 2, "method": "tools/list"})
                core.send(
                    {
                        "id": 3,
                        "method": "tools/call",
                        "params": {"name": "good__echo", "arguments": {"text": "x"}},
                    }
                )
                await core.until(lambda core=core: {("int", n) for n in (1, 2, 3)} <= set(core.answered))
                assert all("result" in message for message in core.messages if "method" not in message)
                core.close()

    run(main())


def test_ten_thousand_notifications_come_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"good": echo()}) as here:
            core = await here.core()
            params: Message = {
                "name": "good__progress",
                "arguments": {"n": 10_000},
                "_meta": {"progressToken": "mine"},
            }
            answer = await core.ask("tools/call", params)
            assert text_of(answer) == "10000 steps"
            notes = core.notes("notifications/progress")
            assert [note["progress"] for note in notes] == list(range(1, 10_001))
            assert {note["progressToken"] for note in notes} == {"mine"}
            assert core.messages[-1] == answer

    run(main())


@pytest.mark.parametrize(
    "text",
    [
        "\u2028 and \u2029 and \x85",
        "\ufeff first",
        "nul \x00 inside",
        "\U0001f600 e\u0301 \u200d",
        "lone \ud83d here",
        "tab\tand\r\nlines",
    ],
    ids=["separators", "mark", "nul", "wide", "lone surrogate", "controls"],
)
def test_odd_text_passes_or_is_refused_and_never_hangs(text: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"good": echo()}) as here:
            core = await here.core()
            answer = await core.tool("good__echo", text=text)
            assert "error" in answer or text_of(answer) == text
            assert text_of(await core.tool("good__echo", text="after")) == "after"
        assert here.recording().unanswered == []

    run(main())


def test_a_slow_peer_does_not_delay_the_others(tmp_path: Path) -> None:
    sleepy: Message = {
        "command": [sys.executable, "-S", "-E", "-c", "import time; time.sleep(60)"],
        "start_timeout_s": 30.0,
        "stop_grace_s": 0.1,
    }

    async def main() -> None:
        async with house(tmp_path, {"slow": sleepy, "good": echo(), "more": echo()}) as here:
            core = await here.core()
            _, waiting = core.start_tool("slow__echo", text="x")
            async with bystander(core):
                assert text_of(await core.tool("more__echo", text="y")) == "y"
            assert not waiting.done()

    run(main())
