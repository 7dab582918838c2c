"""One extension of the kit behind a real gateway, in both dialects: a core sees and gets the same."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.processes.gateway_kit import Client, Message, echo, eventually, house, run, text_of
from transports.base import TransportError
from transports.unix import connect_unix
from transports.ws_client import connect_websocket

EXTENSION = str(Path(__file__).parent / "kit_extension.py")
DIALECTS = ("mcp", "pi")


async def use(core: Client, dialect: str) -> list[Any]:
    """Use everything that the extension has; return what it gave, less what a dialect has no form for."""
    tools = (await core.ask("tools/list"))["result"]["tools"]
    given: list[Any] = [tools, (await core.ask("prompts/list"))["result"]["prompts"][0]["name"]]
    calls: list[Message] = [{"a": 2, "unit": "km"}, {"a": "2"}, {"a": 2, "c": 3}]
    given += [(await core.tool("kitten__add", **arguments))["result"] for arguments in calls]
    given.append((await core.tool("kitten__crash"))["result"])
    denied = (await core.tool("kitten__ask"))["result"]
    assert denied["isError"] is True
    name = "words" if dialect == "mcp" else "args"
    prompt = await core.ask("prompts/get", {"name": "kitten__greet", "arguments": {name: "to you"}})
    given.append(prompt["result"]["messages"])
    params = {"name": "kitten__wait", "arguments": {}, "_meta": {"progressToken": "p"}}
    id_, unanswered = core.start("tools/call", params)
    await core.until(lambda: len(core.notes("notifications/progress")) == 2)
    core.send({"method": "notifications/cancelled", "params": {"requestId": id_}})
    unanswered.cancel()
    given.append(core.notes("notifications/progress"))
    return given


def test_a_core_gets_the_same_of_an_extension_in_either_dialect(tmp_path: Path) -> None:
    async def main(dialect: str) -> list[Any]:
        folder = tmp_path / dialect
        folder.mkdir()
        told = folder / "told"
        command = [sys.executable, EXTENSION, str(told), "--dialect", dialect]
        peers: dict[str, Message] = {"kitten": {"command": command, "dialect": dialect}}
        async with house(folder, peers) as here:
            core = await here.core()
            given = await use(core, dialect)
            await eventually(lambda: "cancelled" in told.read_text(), "the cancellation")
        assert told.read_text().split() == ["session_start", "cancelled", "session_shutdown"]
        return given

    by_mcp, by_pi = run(main("mcp")), run(main("pi"))

    for result in by_pi[2:6]:
        # What a Pi host reads its code from; MCP has it in `_meta` alone, and Pi has that too.
        result.pop("error", None)
    assert by_pi == by_mcp
    assert by_mcp[2]["structuredContent"] == {"sum": "3 km"}
    assert by_mcp[5]["_meta"]["tieline/error"] == {"code": "internal"}


def test_a_hook_of_an_extension_blocks_and_changes_the_calls_of_others(tmp_path: Path) -> None:
    async def main() -> None:
        command = [sys.executable, EXTENSION, str(tmp_path / "told"), "--dialect", "pi"]
        peers: dict[str, Message] = {"kitten": {"command": command, "dialect": "pi"}, "good": echo()}
        async with house(tmp_path, peers) as here:
            core = await here.core()
            blocked = await core.tool("good__echo", text="no")
            assert "good__echo is not for today" in str(blocked)
            assert text_of(await core.tool("good__echo", text="change")) == "changed"
            assert text_of(await core.tool("good__echo", text="yes")) == "yes"

    run(main())


@asynccontextmanager
async def listening(folder: Path, dialect: str, where: str) -> AsyncGenerator[str]:
    """The extension with a listener; gives its address."""
    command = [sys.executable, EXTENSION, str(folder / "told"), "--dialect", dialect, "--listen", where]
    process = await asyncio.create_subprocess_exec(
        *command, "--token-file", str(folder / "token"), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        first = (await process.stderr.readline()).decode()
        assert f": {dialect} at " in first, first
        yield first.split(" at ")[1].strip()
    finally:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


def test_many_connections_over_a_unix_socket_are_served_apart(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "run").mkdir(mode=0o700)
        async with listening(tmp_path, "mcp", f"unix:{tmp_path}/run/kit.sock") as address:
            cores = [Client(), Client()]
            for core in cores:
                core.link = await connect_unix(address, core)
                await core.shake_hands()
            for number, core in enumerate(cores):
                assert text_of(await core.tool("add", a=number)) == f'{{"sum":"{number + 1} m"}}'
            for core in cores:
                core.close()

    run(main())


@pytest.mark.parametrize("where", ["unix", "ws"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_either_dialect_is_spoken_wherever_it_listens(tmp_path: Path, dialect: str, where: str) -> None:
    async def main() -> None:
        (tmp_path / "run").mkdir(mode=0o700)
        at = f"unix:{tmp_path}/run/kit.sock" if where == "unix" else "ws://127.0.0.1:0/ext"
        async with listening(tmp_path, dialect, at) as address:
            core = Client()
            if where == "unix":
                core.link = await connect_unix(address, core)
            else:
                bearer = ("Authorization", f"Bearer {(tmp_path / 'token').read_text().strip()}")
                core.link = await connect_websocket(address, core, headers=[bearer])  # pyright: ignore[reportAttributeAccessIssue]
            if dialect == "pi":
                [register] = await core.until(lambda: core.messages)
                assert "add" in {tool["name"] for tool in register["payload"]["tools"]}
                payload = {"call_id": "c", "name": "add", "input": {"a": 1}}
                assert core.link is not None
                core.link.send(
                    json.dumps(
                        {"id": "m", "version": "1.0", "type": "tool_call", "payload": payload}
                    ).encode()
                )
                result = (await core.until(lambda: core.messages[1:]))[0]
                assert (result["type"], result["payload"]["is_error"]) == ("tool_result", False)
            else:
                await core.shake_hands()
                assert text_of(await core.tool("add", a=1)) == '{"sum":"2 m"}'
            core.close()

    run(main())


def test_a_websocket_takes_who_has_the_token_and_no_web_page(tmp_path: Path) -> None:
    async def main() -> None:
        async with listening(tmp_path, "pi", "ws://127.0.0.1:0/ext") as address:
            token = (tmp_path / "token").read_text().strip()
            assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
            bearer = ("Authorization", f"Bearer {token}")
            core = Client()
            core.link = await connect_websocket(address, core, headers=[bearer])  # pyright: ignore[reportAttributeAccessIssue]
            [register] = await core.until(lambda: core.messages)
            assert (register["type"], register["payload"]["name"]) == ("register", "kitten")
            core.close()
            for headers, origin in (([], None), ([bearer], "https://example.com")):
                with pytest.raises(TransportError):
                    await connect_websocket(address, Client(), headers=headers, origin=origin)

    run(main())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--dialect", "morse"], "invalid choice"),
        (["--listen", "tcp:1"], "say stdio, unix:PATH, or ws://127.0.0.1:PORT"),
        (["--listen", "ws://127.0.0.1:0"], "say --token-file FILE"),
        (["--listen", "ws://0.0.0.0:1", "--token-file", "t"], "only loopback is listened at"),
        (["--listen", "ws://127.0.0.1:0", "--token-file", "open"], "others can read it"),
        (["--listen", "unix:/proc/none/x"], "Cannot listen at"),
    ],
)
def test_a_wrong_option_is_told_with_what_to_do(options: list[str], says: str, tmp_path: Path) -> None:
    (tmp_path / "open").write_text("x" * 32)
    os.chmod(tmp_path / "open", 0o644)
    command = [sys.executable, EXTENSION, "told", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode != 0, says in done.stderr) == (True, True), done.stderr
    assert "Traceback" not in done.stderr


PAGE = Path(__file__).parents[2] / "docs" / "howto" / "write-an-extension.md"


def allowed(folder: Path) -> Message:
    """A policy under which an extension may do anything in a folder."""
    return {"policy": {"mode": "permissive", "deny_caps": []}, "roots": [str(folder)]}


def test_the_extension_of_the_page_has_the_gateway_write_its_file(tmp_path: Path) -> None:
    [extension, _] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    (tmp_path / "todo.py").write_text(extension)

    async def main() -> None:
        command = [sys.executable, str(tmp_path / "todo.py"), "--dialect", "pi"]
        peers: dict[str, Message] = {"todo": {"command": command, "dialect": "pi"}}
        async with house(tmp_path, peers, extensions=allowed(tmp_path)) as here:
            core = await here.core()
            for text in ("rest", "sleep"):
                added = await core.tool("todo__add", text=text)
                assert added["result"]["structuredContent"] == {"priority": 1}
            assert (tmp_path / "todo.txt").read_text() == "1 rest\n1 sleep\n"

    run(main())


def test_the_test_of_the_page_imports_its_extension_and_passes(tmp_path: Path) -> None:
    [extension, test] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    (tmp_path / "todo.py").write_text(extension)
    (tmp_path / "test_todo.py").write_text(test)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        f"--rootdir={tmp_path}",
        ".",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_an_extension_asks_a_person_and_runs_a_command_through_the_gateway_as_in_a_test_in_memory(
    tmp_path: Path,
) -> None:
    async def main(dialect: str) -> list[Any]:
        folder = tmp_path / dialect
        folder.mkdir()
        command = [sys.executable, EXTENSION, str(folder / "told"), "--dialect", dialect]
        peers: dict[str, Message] = {"kitten": {"command": command, "dialect": dialect}}
        async with house(folder, peers, extensions=allowed(folder)) as here:
            core = await here.core()
            given: list[Any] = []
            for answer in ({"action": "accept", "content": {"value": "b"}}, {"action": "decline"}):
                core.words = answer
                given.append((await core.tool("kitten__chat"))["result"]["structuredContent"])
            given.append((await core.tool("kitten__shell"))["result"])
        return given

    by_mcp, by_pi = run(main("mcp")), run(main("pi"))

    assert by_pi[:2] == by_mcp[:2] == [{"result": [True, "b", "b"]}, {"result": [False, None, None]}]
    assert by_pi[2]["structuredContent"] == {"result": ["one\ntwo\n", 3]}
    assert by_mcp[2]["_meta"]["tieline/error"]["code"] == "denied"
