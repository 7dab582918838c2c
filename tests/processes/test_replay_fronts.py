"""A replay behind every front: HTTP, websocket, unix socket and in memory, of one recording and with its peer gone."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client as SdkClient
from websockets.asyncio.client import connect

from gateway.replay.player import Asked, Player
from gateway.testing import Replay, ReplayFailedError
from recordings.matching import Line
from tests.processes.gateway_kit import PATIENCE_S, TIELINE, Client, Message, eventually, run
from tests.processes.replay_kit import MODERN, Call, ask, environment, recorded, report, starts, text
from transports.unix import connect_unix

SESSION: tuple[Call, ...] = (("get", {"key": "a"}), ("elicit", {}), ("get", {"key": "b"}))
LISTED: Call = ("tools/list", {})
SAID = ["value of a", 'hello {"name":"Ada"}', "value of b"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of the modern era, over stdio."""
    folder = tmp_path_factory.mktemp("kept")
    return recorded(folder, folder / "peer", LISTED, *SESSION, modern=True)


@asynccontextmanager
async def serving(folder: Path, kept: Path, *options: str) -> AsyncGenerator[dict[str, Any]]:
    """Run a replay with a listener; give its address, token, and at the end its exit code."""
    ready = folder / "ready.json"
    command = [*TIELINE, "replay", str(kept), *options, "--ready-file", str(ready), "--report", "report.json"]
    with (
        (folder / "stderr.log").open("wb") as stderr,
        subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stderr=stderr, env=environment(folder)
        ) as process,
    ):
        found: dict[str, Any] = {}
        try:
            await eventually(lambda: ready.exists() or process.poll() is not None, "the listener")
            assert process.poll() is None, (folder / "stderr.log").read_text()
            (address,) = json.loads(ready.read_bytes())["listeners"]
            token = folder / "state" / "token"
            found |= {"url": address["url"], "token": token.read_text().strip() if token.exists() else ""}
            yield found
        finally:
            process.terminate()
            found["code"] = await asyncio.to_thread(process.wait, PATIENCE_S)


def same(folder: Path, found: dict[str, Any], kept: Path) -> None:
    """The whole recording was played, and nothing was started."""
    told = report(folder / "report.json")
    assert (told["verdict"], told["served"], found["code"]) == ("same", told["of"], 0), told
    assert starts(kept.parent / "peer") == 1


def test_over_http(kept: Path, tmp_path: Path) -> None:
    async def main() -> None:
        said: list[str] = []
        async with serving(tmp_path, kept, "--http", "0") as found:
            headers = {
                "Authorization": f"Bearer {found['token']}",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28",
            }
            async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as client:
                for number, (name, arguments) in enumerate(SESSION):
                    params: Message = {"name": name, "arguments": arguments, "_meta": MODERN}
                    answer = await posted(client, found["url"], number, params)
                    if answer["result"].get("resultType") == "input_required":
                        told = {"action": "accept", "content": {"name": "Ada"}}
                        params["requestState"] = answer["result"]["requestState"]
                        params["inputResponses"] = dict.fromkeys(answer["result"]["inputRequests"], told)
                        answer = await posted(client, found["url"], number + 100, params)
                    said.append(text(answer))
        assert said == SAID
        # Each request is a session of its own here, as far as a stateless client says: the report is of the last.
        assert found["code"] in (0, 2)

    run(main())


def test_agents_at_once_have_a_replay_each_where_they_say_which_of_them_asks(
    kept: Path, tmp_path: Path
) -> None:
    async def agent(url: str, headers: dict[str, str], name: str) -> list[str]:
        async with httpx2.AsyncClient(
            headers=headers | {"X-Tieline-Session": name}, timeout=PATIENCE_S
        ) as client:
            calls = [call for call in SESSION if call[0] == "get"]
            return [
                text(
                    await posted(client, url, number, {"name": tool, "arguments": arguments, "_meta": MODERN})
                )
                for number, (tool, arguments) in enumerate(calls)
            ]

    async def main() -> None:
        async with serving(tmp_path, kept, "--http", "0", "--gate", "free") as found:
            headers = {
                "Authorization": f"Bearer {found['token']}",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28",
            }
            agents = await asyncio.gather(*(agent(found["url"], headers, f"agent {n}") for n in range(4)))
            same = await asyncio.gather(*(agent(found["url"], headers, "one") for _ in range(2)))
        assert agents == [["value of a", "value of b"]] * 4
        # Two that say nothing, or the same, are one agent, whose calls are recorded once.
        assert sorted(said.startswith("Replay: ") for each in same for said in each) == [
            False,
            False,
            True,
            True,
        ]

    run(main())


async def posted(client: httpx2.AsyncClient, url: str, number: int, params: Message) -> Message:
    """Post one request; give its answer, be it JSON or a stream of events."""
    body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": params["name"]}
    reply = await client.post(url, json=body, headers=headers)
    data = reply.text
    if "event-stream" in reply.headers["content-type"]:
        data = next(line[5:] for line in reversed(data.splitlines()) if line.startswith("data:"))
    return json.loads(data)


def test_over_a_websocket(kept: Path, tmp_path: Path) -> None:
    async def main() -> None:
        said: list[str] = []
        async with serving(tmp_path, kept, "--websocket", "0") as found:
            headers = {"Authorization": f"Bearer {found['token']}"}
            async with connect(found["url"], additional_headers=headers, subprotocols=["mcp"]) as socket:  # pyright: ignore[reportArgumentType]
                for number, (name, arguments) in enumerate(SESSION):
                    params: Message = {"name": name, "arguments": arguments, "_meta": MODERN}
                    answer: Message = {}
                    for leg in range(2):
                        body = {
                            "jsonrpc": "2.0",
                            "id": 2 * number + leg,
                            "method": "tools/call",
                            "params": params,
                        }
                        await socket.send(json.dumps(body))
                        answer = json.loads(await socket.recv())
                        if answer["result"].get("resultType") != "input_required":
                            break
                        told = {"action": "accept", "content": {"name": "Ada"}}
                        params["requestState"] = answer["result"]["requestState"]
                        params["inputResponses"] = dict.fromkeys(answer["result"]["inputRequests"], told)
                    said.append(text(answer))
                await eventually(lambda: len(said) == len(SESSION))
            await eventually((tmp_path / "stderr.log").read_bytes, "the report")
        assert said == SAID
        same(tmp_path, found, kept)

    run(main())


def test_over_a_unix_socket(kept: Path, tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "core.sock"
        async with serving(tmp_path, kept, "--unix", str(path)) as found:
            client = Client()
            client.link = await connect_unix(path, client)
            said = [text(await ask(client, call, modern=True)) for call in SESSION]
            client.close()
            await client.until(lambda: client.endings)
            await eventually((tmp_path / "stderr.log").read_bytes, "the report")
        assert said == SAID
        same(tmp_path, found, kept)

    run(main())


def test_in_memory_for_the_client_of_the_sdk(kept: Path) -> None:
    async def main() -> None:
        async with Replay(kept, unplayed="ignore") as replay, SdkClient(replay.connect()) as client:
            result = await client.call_tool("get", {"key": "a"})
            assert result.structured_content == {"key": "a", "value": "value of a", "size": 1}

    run(main())
    assert starts(kept.parent / "peer") == 1


def test_in_memory_a_difference_is_raised(kept: Path) -> None:
    async def main() -> None:
        async with Replay(kept) as replay, SdkClient(replay.connect()) as client:
            with pytest.raises(Exception, match="the recording has no answer left"):
                await client.call_tool("get", {"key": "z"})

    with pytest.raises(ReplayFailedError, match="DIVERGED"):
        run(main())


def test_in_memory_a_replay_that_fails_itself_answers_so_and_tells_why(
    kept: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = Player.asked

    def line_of(self: Player, peer: str, method: str, name: str, params: bytes) -> Line:
        raise ZeroDivisionError

    def asked(self: Player, live: int, **request: Any) -> Asked:
        if request["method"] == "tools/call":
            raise ZeroDivisionError
        return whole(self, live, **request)

    # Whether a call goes straight or not, it comes to the same fault.
    monkeypatch.setattr(Player, "line_of", line_of)
    monkeypatch.setattr(Player, "asked", asked)

    async def main() -> None:
        async with Replay(kept) as replay, SdkClient(replay.connect()) as client:
            with pytest.raises(Exception, match="The replay has failed at this request"):
                await client.call_tool("get", {"key": "a"})

    with pytest.raises(ReplayFailedError, match="the replay itself has failed"):
        run(main())
    assert "the replay has failed at a request" in caplog.text


def test_a_port_that_is_taken_is_a_sentence(kept: Path, tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, kept, "--http", "0") as found:
            port = found["url"].split(":")[2].split("/")[0]
            command = [*TIELINE, "replay", str(kept), "--http", port]
            done = await asyncio.to_thread(
                subprocess.run, command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True,
                timeout=PATIENCE_S,
            )  # fmt: skip
            assert done.returncode == 3
            assert "another program listens already" in done.stderr

    run(main())
