"""Servers that other people wrote, behind a gateway: one peer and one era of the core a test.

The raw core is the client, since it hides nothing. Owns what each server has to offer; the servers themselves are
installed by `tooling` or are a few lines of ours on other people's libraries.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests import tooling
from tests.e2e.features import text_of
from tests.e2e.house import House
from tests.e2e.raw_core import ROOTS, Era, RawCore, connected
from tests.e2e.wires import UnixWire

HERE = Path(__file__).parent
NODE_SERVER = str(tooling.HERE / "sdk_server.mjs")
PYTHON_SERVER = str(HERE / "fastmcp_server.py")

Check = Callable[[RawCore, Path], Awaitable[None]]


def node(*arguments: str) -> list[str]:
    return [str(tooling.node()), *arguments]


def settings(house: House, peer: str) -> dict[str, Any]:
    """The settings of a peer; what it needs is started on the way."""
    program, _, carrier = peer.partition("/")
    folder = house.folder / "files"
    match program, carrier:
        case "server-everything", "stdio":
            return {"command": node(str(tooling.script("server-everything")), "stdio")}
        case "server-everything", _:
            kind = "streamableHttp" if carrier == "http" else carrier
            command = node(str(tooling.script("server-everything")), kind)
            port = house.served(peer.replace("/", "-"), command, tooling.environment())
            if carrier == "sse":
                return {"url": f"http://127.0.0.1:{port}/sse", "type": "sse"}
            return {"url": f"http://127.0.0.1:{port}/mcp"}
        case "server-filesystem", _:
            folder.mkdir(exist_ok=True)
            return {"command": node(str(tooling.script("server-filesystem")), str(folder))}
        case "server-memory", _:
            memory = str(house.folder / "memory.json")
            return {
                "command": node(str(tooling.script("server-memory"))),
                "env": {"MEMORY_FILE_PATH": memory},
            }
        case "mcp-1", _:
            return {"command": [str(tooling.old_python()), str(HERE / "mcp1_server.py")]}
        case "node-sdk", "stdio":
            return {"command": node(NODE_SERVER)}
        case "node-sdk", _:
            return {"url": json.loads(house.announced("node-sdk-http", node(NODE_SERVER, "http")))["address"]}
        case "fastmcp", "stdio":
            return {"command": [sys.executable, PYTHON_SERVER]}
        case "fastmcp-as-legacy", _:
            return {"command": [sys.executable, PYTHON_SERVER], "era": "legacy"}
        case _:
            command = [sys.executable, PYTHON_SERVER, "http"]
            return {"url": json.loads(house.announced("fastmcp-http", command))["address"]}


async def everything(core: RawCore, folder: Path) -> None:
    names = {tool["name"] for tool in (await core.result("tools/list"))["tools"]}
    assert names >= {"echo", "trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"}
    assert text_of(await core.call("echo", {"message": "hé"})) == "Echo: hé"
    weather = await core.call("get-structured-content", {"location": "Chicago"})
    assert weather["structuredContent"]["conditions"] == "Light rain / drizzle"
    work = {"duration": 0.06, "steps": 3}
    await core.call("trigger-long-running-operation", work, meta={"progressToken": "work"})
    notes = [n for n in core.notes("notifications/progress") if n["progressToken"] == "work"]
    assert [note["progress"] for note in notes] == [1, 2, 3]
    assert '"Paris"' in text_of(await core.call("trigger-sampling-request", {"prompt": "Capital?"}))
    assert "User provided" in text_of(await core.call("trigger-elicitation-request"))
    assert ROOTS["roots"][0]["uri"] in text_of(await core.call("get-roots-list"))
    prompt = await core.result("prompts/get", {"name": "args-prompt", "arguments": {"city": "Bern"}})
    assert prompt["messages"][0]["content"]["text"] == "What's weather in Bern?"
    reference = {"type": "ref/prompt", "name": "completable-prompt"}
    argument = {"name": "department", "value": "E"}
    found = await core.result("completion/complete", {"ref": reference, "argument": argument})
    assert found["completion"]["values"] == ["Engineering"]
    read = await core.result("resources/read", {"uri": "demo://resource/dynamic/text/1"})
    assert read["contents"][0]["text"].startswith("Resource 1:")


async def filesystem(core: RawCore, folder: Path) -> None:
    path = str(folder / f"{core.era}.txt")
    await core.call("write_file", {"path": path, "content": "öl\n"})
    assert Path(path).read_text() == "öl\n"
    assert text_of(await core.call("read_text_file", {"path": path})) == "öl\n"
    outside = await core.call("read_text_file", {"path": "/etc/passwd"})
    assert outside["isError"] is True
    assert "Access denied" in text_of(outside)


async def memory(core: RawCore, folder: Path) -> None:
    name = f"Ada {core.era}"
    entity = {"name": name, "entityType": "person", "observations": ["counts"]}
    made = await core.call("create_entities", {"entities": [entity]})
    assert made["structuredContent"]["entities"] == [entity]
    found = await core.call("open_nodes", {"names": [name]})
    assert found["structuredContent"]["entities"] == [entity]


async def fastmcp(core: RawCore, folder: Path) -> None:
    """It speaks both eras, but cannot ask in the stateless one, and says so; `era = "legacy"` lets it."""
    if not core.is_modern:
        await ours(core, folder)
        return
    refused = await core.call("ask")
    assert refused["isError"] is True
    assert "unavailable on 2026-07-28 connections" in text_of(refused)
    assert core.asked == []
    await everything_but_asking(core)


async def ours(core: RawCore, folder: Path) -> None:
    await everything_but_asking(core)
    assert text_of(await core.call("ask")) == "Hello, Ada!"
    assert [ask["method"] for ask in core.asked] == ["elicitation/create"]


async def everything_but_asking(core: RawCore) -> None:
    listed = {tool["name"]: tool for tool in (await core.result("tools/list"))["tools"]}
    assert listed.keys() >= {"add", "ask"}
    assert "sum" in listed["add"]["outputSchema"]["properties"]
    result = await core.call("add", {"a": 2, "b": 3.5})
    assert result["structuredContent"] == {"sum": 5.5}
    read = await core.result("resources/read", {"uri": "note://one"})
    assert read["contents"][0]["text"] == "A note"
    prompt = await core.result("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}})
    assert prompt["messages"][0]["content"]["text"] == "Greet Ada"


PEERS: dict[str, Check] = {
    "server-everything/stdio": everything,
    "server-everything/http": everything,
    "server-everything/sse": everything,
    "server-filesystem/stdio": filesystem,
    "server-memory/stdio": memory,
    "fastmcp/stdio": fastmcp,
    "fastmcp/http": fastmcp,
    "fastmcp-as-legacy/stdio": ours,
    "mcp-1/stdio": ours,
    "node-sdk/stdio": ours,
    "node-sdk/http": ours,
}


@pytest.mark.parametrize(
    ("peer", "era"), [pytest.param(p, e, id=f"{p}/{e}") for p in PEERS for e in ("legacy", "modern")]
)
@pytest.mark.xdist_group("real-peers")
def test_a_server_does_what_it_does_without_a_gateway(peer: str, era: Era, house: House) -> None:
    async def go(address: str) -> None:
        async with connected(UnixWire(address), era) as core:
            await PEERS[peer](core, house.folder / "files")

    name = f"real-{peer.replace('/', '-')}"
    if name not in house.names:
        # Some take seconds of processor time to start, and others want the processor too.
        house.gateway(name, {"it": {**settings(house, peer), "start_timeout_s": 30}})
    asyncio.run(go(house.gateway(name, {})["unix"]))
