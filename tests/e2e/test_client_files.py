"""The configuration files of other clients, as those clients write them, run by a gateway as they are.

What `docs/howto/clients.md` says is done here with real servers: before one server, before all of them, and a
change while it runs. Owns one file in the manner of each client that the page names.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import tooling
from tests.e2e.features import text_of
from tests.e2e.house import ROOT, TIELINE, House
from tests.e2e.raw_core import RawCore, connected
from tests.e2e.wires import StdioWire

pytestmark = pytest.mark.xdist_group("client-files")

HOWTO = (ROOT / "docs" / "howto" / "clients.md").read_text()

CLAUDE_DESKTOP = """{
  "globalShortcut": "Ctrl+Space",
  "preferences": {"menuBarEnabled": false},
  "mcpServers": {
    "one": {"command": "$PROGRAM", "args": $ARGS, "env": {"KEY": "value"}}
  }
}"""
CLAUDE_CODE = """{
  "mcpServers": {
    "one": {"type": "stdio", "command": "${NOT_SET:-$PROGRAM}", "args": $ARGS, "env": {}},
    "two": {"type": "http", "url": "$URL", "headers": {"Authorization": "Bearer ${TEST_TOKEN}"}}
  }
}"""
CURSOR = """{
  "mcpServers": {
    "one": {"command": "$PROGRAM", "args": $ARGS, "env": {"TOKEN": "${env:TEST_TOKEN}"}},
    "two": {"url": "$URL", "headers": {"X-Key": "${env:TEST_TOKEN}"}}
  }
}"""
VS_CODE = """{
  // As the editor writes it
  "inputs": [],
  "servers": {
    "one": {"type": "stdio", "command": "$PROGRAM", "args": $ARGS, "cwd": "${workspaceFolder}"},
    "two": {"type": "http", "url": "$URL",}, /* with a comma too many */
  },
}"""
WINDSURF = """{
  "mcpServers": {
    "one": {"command": "$PROGRAM", "args": $ARGS, "disabledTools": ["test_error_handling"]},
    "two": {"serverUrl": "$URL", "headers": {}},
    "off": {"command": "no-such-program", "disabled": true}
  }
}"""
CLINE = """{
  "mcpServers": {
    "one": {"command": "$PROGRAM", "args": $ARGS, "disabled": false, "autoApprove": [], "timeout": 60},
    "two": {"type": "streamableHttp", "url": "$URL", "alwaysAllow": ["test_simple_text"]}
  }
}"""
GEMINI = """{
  "theme": "Default",
  "mcpServers": {
    "one": {"command": "$PROGRAM", "args": $ARGS, "trust": true, "timeout": 30000},
    "two": {"httpUrl": "$URL", "includeTools": ["test_simple_text", "test_sampling"]}
  }
}"""
FILES = {
    "claude_desktop_config.json": CLAUDE_DESKTOP,
    ".mcp.json": CLAUDE_CODE,
    ".cursor/mcp.json": CURSOR,
    ".vscode/mcp.json": VS_CODE,
    "mcp_config.json": WINDSURF,
    "cline_mcp_settings.json": CLINE,
    ".gemini/settings.json": GEMINI,
}


def written(house: House, name: str, folder: Path) -> Path:
    """The file of one client, about two of the matrix's peers."""
    program, *arguments = house.matrix_peer("stdio", "legacy")["command"]
    text = FILES[name].replace("$PROGRAM", program).replace("$ARGS", json.dumps(arguments))
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.replace("$URL", house.matrix_peer("http", "modern")["url"]))
    return path


def wire(house: House, folder: Path, *command: str) -> StdioWire:
    return StdioWire([TIELINE, *command], folder / "tieline.log", {**house.env, "TEST_TOKEN": "a-long-token"})


async def _works(core: RawCore, peers: int) -> None:
    names = {tool["name"] for tool in (await core.result("tools/list"))["tools"]}
    offered = {name for name in names if name.endswith("test_simple_text")}
    if peers == 1:
        assert offered == {"test_simple_text"}
    else:
        assert offered == {"one__test_simple_text", "two__test_simple_text"}
    for name in offered:
        assert text_of(await core.call(name)) == "This is a simple text response for testing."
        asked = await core.call(name.replace("simple_text", "sampling"), {"prompt": "Capital?"})
        assert text_of(asked) == "LLM response: Paris"


@pytest.mark.parametrize("name", FILES)
def test_the_file_of_a_client_is_run_as_it_is(name: str, house: House, tmp_path: Path) -> None:
    path = written(house, name, tmp_path)

    async def go() -> None:
        async with connected(wire(house, tmp_path, "run", str(path), "--stdio"), "legacy") as core:
            await _works(core, peers=1 if name.startswith("claude_desktop") else 2)

    asyncio.run(go())
    assert not re.search(r"^(tieline: )?error", (tmp_path / "tieline.log").read_text(), re.M)


def test_the_filters_of_a_client_hold(house: House, tmp_path: Path) -> None:
    async def names(file: str) -> set[str]:
        path = written(house, file, tmp_path)
        async with connected(wire(house, tmp_path, "run", str(path), "--stdio"), "legacy") as core:
            return {tool["name"] for tool in (await core.result("tools/list"))["tools"]}

    windsurf = asyncio.run(names("mcp_config.json"))
    # Only one of the two still offers it, so that it needs no prefix.
    assert {name for name in windsurf if "test_error_handling" in name} == {"test_error_handling"}
    gemini = asyncio.run(names(".gemini/settings.json"))
    assert {name for name in gemini if name.startswith("two__")} == {
        "two__test_simple_text",
        "two__test_sampling",
    }


def test_before_one_server_as_the_page_has_it(house: House, tmp_path: Path) -> None:
    [entry] = json.loads(re.findall(r"```json\n(.*?)```", HOWTO, re.S)[0])["mcpServers"].values()
    # The page lets npx fetch the server; here it is installed already.
    at = entry["args"].index("npx")
    assert entry["args"][at:] == ["npx", "-y", "@modelcontextprotocol/server-memory"]
    server = [str(tooling.node()), str(tooling.script("server-memory"))]
    memory = tmp_path / "memory.json"
    environment = {**house.env, **{name: str(memory) for name in entry["env"]}}
    arguments = [*entry["args"][:at], *server]

    async def go() -> None:
        line = StdioWire([TIELINE, *arguments], tmp_path / "tieline.log", environment)
        async with connected(line, "legacy") as core:
            entity: dict[str, Any] = {"name": "Ada", "entityType": "person", "observations": []}
            await core.call("create_entities", {"entities": [entity]})

    assert entry["command"] == "tieline"
    asyncio.run(go())
    assert "Ada" in memory.read_text()


def test_before_all_of_them_as_the_page_has_it(house: House, tmp_path: Path) -> None:
    [entry] = json.loads(re.findall(r"```json\n(.*?)```", HOWTO, re.S)[1])["mcpServers"].values()
    path = written(house, ".cursor/mcp.json", tmp_path)
    arguments = [str(path) if arg.endswith("servers.json") else arg for arg in entry["args"]]

    async def go() -> None:
        async with connected(wire(house, tmp_path, *arguments), "modern") as core:
            await _works(core, peers=2)

    assert (entry["command"], entry["args"][0]) == ("tieline", "run")
    asyncio.run(go())


def test_check_says_of_each_server_whether_it_answers(house: House, tmp_path: Path) -> None:
    path = written(house, ".vscode/mcp.json", tmp_path)

    def check() -> subprocess.CompletedProcess[bytes]:
        command = [TIELINE, "check", str(path), "--json"]
        return subprocess.run(command, env=house.env, capture_output=True, timeout=50, check=False)

    good = check()
    assert good.returncode == 0, good.stderr
    path.write_text('{"servers": {"gone": {"command": "no-such-program-anywhere"}}}')
    bad = check()
    assert bad.returncode == 1
    assert b"no-such-program-anywhere" in bad.stdout


def test_a_file_is_read_again_on_sighup_and_its_other_servers_go_on(house: House, tmp_path: Path) -> None:
    path = written(house, ".cursor/mcp.json", tmp_path)
    line = wire(house, tmp_path, "run", str(path), "--stdio")

    async def go() -> None:
        async with connected(line, "legacy") as core:
            await core.result("tools/list")
            key = {"key": "over the change"}
            params = {"name": "one__matrix_wait", "arguments": key, "_meta": {"progressToken": 1}}
            _, waiting = await core.begin("tools/call", params)
            await core.until(lambda: core.notes("notifications/progress"))
            document = json.loads(path.read_text())
            del document["mcpServers"]["two"]
            path.write_text(json.dumps(document))
            line.signal(signal.SIGHUP)
            await core.until(lambda: core.notes("notifications/tools/list_changed"))
            names = {tool["name"] for tool in (await core.result("tools/list"))["tools"]}
            assert "matrix_was_cancelled" in names
            assert not [name for name in names if name.startswith("two__")]
            assert text_of(await core.call("matrix_was_cancelled", key)) == "no"
            assert not waiting.done()

    asyncio.run(go())
