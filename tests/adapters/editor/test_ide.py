"""The websocket protocol of editor plugins, from both ends: a real Neovim offered by it, and used through it."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from adapters import kit
from adapters.editor import ide_lock
from adapters.editor.ide_client import IdeEditor
from adapters.editor.ide_lock import Lock
from adapters.editor.ide_server import HEADER, IdeServer
from adapters.editor.neovim import Neovim
from adapters.editor.root import Root
from adapters.editor.server import build
from adapters.editor.shapes import Event
from adapters.kit.testing import Testing
from tests.adapters.editor.kit import NVIM, Person, eventually, named, person
from tests.adapters.kit_client import run
from transports.base import Hello, Link, Origin, TransportError
from transports.ws_client import connect_websocket
from transports.ws_listener import WebSocketListener

Json = dict[str, Any]


@asynccontextmanager
async def offered(folder: Path) -> AsyncGenerator[tuple[IdeServer, Person, Path]]:
    """A Neovim in `work`, offered by a lock file in `ide`."""
    work = folder / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\n")
    async with person(work) as somebody:
        servers: list[IdeServer] = []
        root = Root(str(work))

        def happened(event: Event, data: Json) -> None:
            for each in servers:
                each.happened(event, data)

        editor = Neovim(root, happened, socket=somebody.socket)
        server = IdeServer(editor, root, directory=str(folder / "ide"), name="Neovim")
        servers.append(server)
        await editor.about()
        await server.start()
        yield server, somebody, work
        await server.stop()
        await editor.close()


@asynccontextmanager
async def used(folder: Path) -> AsyncGenerator[tuple[Testing, Person, Path]]:
    """The tools of the adapter over that Neovim, reached as a plugin's."""
    async with offered(folder) as (_, somebody, work):
        app, table = build("1", Root(str(work)))
        table.editor = IdeEditor(Root(str(work)), table.happened, directory=str(folder / "ide"))
        async with app.testing("mcp") as ext:
            assert await table.editor.about() == "Neovim"
            yield ext, somebody, work


class Heard:
    """A receiver that keeps what it hears."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self.is_closed = False

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        self.messages.append(json.loads(data))

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        raise AssertionError(why)

    def failed(self, fault: TransportError) -> None:
        raise fault

    def writable(self, ready: bool) -> None:
        del ready

    def closed(self, fault: TransportError | None) -> None:
        self.is_closed = True


def test_a_lock_file_is_private_found_by_its_folders_and_gone_at_the_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with offered(tmp_path) as (server, _, folder):
            [path] = (tmp_path / "ide").iterdir()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            said = json.loads(path.read_text())
            assert (said["pid"], said["workspaceFolders"], said["transport"]) == (
                os.getpid(),
                [str(folder)],
                "ws",
            )
            assert len(said["authToken"]) == 64
            for root, count in ((folder, 1), (folder / "deeper", 1), (tmp_path, 1), (tmp_path / "else", 0)):
                assert len(ide_lock.find(str(tmp_path / "ide"), str(root))) == count
            assert server.app.name == "Neovim"
        assert list((tmp_path / "ide").iterdir()) == []

    run(work())


def test_a_lock_file_that_cannot_be_read_is_passed_over_and_left_where_it_is(tmp_path: Path) -> None:
    good = msgspec.json.encode(Lock(workspace_folders=[str(tmp_path)], auth_token="t"))
    files = {
        "1.lock": b"{", "2.lock": b"[]", "x.lock": good, "99999.lock": good, "3.txt": good, "4.lock": good,
        "5.lock": msgspec.json.encode(Lock(workspace_folders=[str(tmp_path)], transport="sse")),
        "6.lock": b'{"workspaceFolders": "/"}',
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert [port for port, _ in ide_lock.find(str(tmp_path), str(tmp_path))] == [4]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(files)
    assert ide_lock.find(str(tmp_path / "none"), "/") == []


def test_whoever_has_not_the_token_or_is_a_web_page_is_not_let_in(tmp_path: Path) -> None:
    async def work() -> None:
        async with offered(tmp_path):
            [(port, lock)] = ide_lock.find(str(tmp_path / "ide"), str(tmp_path))
            token = (HEADER, lock.auth_token)
            url = f"ws://127.0.0.1:{port}/"
            refused: list[tuple[list[tuple[str, str]], str | None]] = [
                ([], None),
                ([(HEADER, "x" * 64)], None),
                ([(HEADER, "")], None),
                ([token, token], None),
                ([("Authorization", f"Bearer {lock.auth_token}")], None),
                ([token], "https://example.com"),
                ([token], f"http://127.0.0.1:{port}"),
            ]
            for headers, origin in refused:
                with pytest.raises(TransportError) as caught:
                    await connect_websocket(url, Heard(), headers=headers, origin=origin)
                assert caught.value.reason == "denied"
                assert lock.auth_token not in str(caught.value)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            head = f"GET / HTTP/1.1\r\nHost: example.com\r\n{upgrade}{key}{HEADER}: {lock.auth_token}\r\n\r\n"
            writer.write(head.encode())
            assert b" 403 " in await reader.readline()
            writer.close()
            heard = Heard()
            link = await connect_websocket(url, heard, headers=[token])
            link.send(
                b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}'
            )
            await eventually(lambda: heard.messages)
            assert heard.messages[0]["result"]["protocolVersion"] == "2024-11-05"
            link.send(b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}')
            await eventually(lambda: len(heard.messages) == 2)
            tools = {tool["name"]: tool for tool in heard.messages[1]["result"]["tools"]}
            assert tools.keys() == {
                "openFile", "openDiff", "getCurrentSelection", "getLatestSelection", "getOpenEditors",
                "getWorkspaceFolders", "getDiagnostics", "checkDocumentDirty", "saveDocument", "closeAllDiffTabs",
                "close_tab",
            }  # fmt: skip
            assert "startText" in tools["openFile"]["inputSchema"]["properties"]
            assert "old_file_path" in tools["openDiff"]["inputSchema"]["properties"]
            link.close()
            await eventually(lambda: heard.is_closed)

    run(work())


def test_the_tools_of_the_adapter_work_through_a_plugin(tmp_path: Path) -> None:
    async def work() -> None:
        async with used(tmp_path) as (ext, somebody, folder):
            await ext.call("open_file", path="a.txt", line=2)
            assert await somebody.see("[line('.'), expand('%:t')]") == [2, "a.txt"]
            await somebody.type("<Esc>gglvl")
            selected = (await ext.call("selection")).data
            assert (selected["content"], selected["start_column"], selected["end_column"]) == ("ne", 2, 4)
            await eventually(
                lambda: [each for each in named(ext, "selection_changed") if each["content"] == "ne"]
            )
            await somebody.type("<Esc>G")
            assert (await ext.call("selection")).data["is_current"] is False
            await somebody.type(":1,2TielineMention<CR>")
            await eventually(lambda: named(ext, "mentioned"))
            assert named(ext, "mentioned") == [{"path": "a.txt", "start_line": 1, "end_line": 2}]
            await somebody.type("ix<Esc>")
            [file] = (await ext.call("open_files")).data["files"]
            assert (file["path"], file["modified"], file["active"]) == ("a.txt", True, True)
            assert (await ext.call("show_diff", path="a.txt", text="new\n")).code == "invalid_request"
            assert (await ext.call("save_file", path="a.txt")).text == "a.txt is saved"
            assert (await ext.call("save_file", path="b.txt")).code == "invalid_request"
            assert (folder / "a.txt").read_text() == "one\ntwxo\n"
            problem = "{{lnum=1, col=1, message='bad', severity=2}}"
            lua = f"vim.diagnostic.set(vim.api.nvim_create_namespace('x'), 0, {problem})"
            await somebody.rpc.request("nvim_exec_lua", lua, [])
            assert (await ext.call("diagnostics")).text == "a.txt:2:2: warning: bad"
            assert (await ext.call("diagnostics", path="a.txt")).text == "a.txt:2:2: warning: bad"
            assert (await ext.call("open_file", path="../x")).code == "denied"

    run(work())


@pytest.mark.parametrize(
    ("keys", "decision", "content"),
    [
        (":w<CR>", "accepted", "new\n"),
        (":q<CR>", "rejected", "one\ntwo\n"),
        ("Gomine<Esc>:w<CR>", "accepted", "new\nmine\n"),
    ],
)
def test_a_proposal_through_a_plugin_is_decided_by_the_person(
    tmp_path: Path, keys: str, decision: str, content: str
) -> None:
    async def work() -> None:
        async with used(tmp_path) as (ext, somebody, folder):
            call = asyncio.create_task(ext.call("show_diff", path="a.txt", text="new\n"))
            await somebody.until("&diff && bufname() =~ '^tieline'")
            await somebody.type(keys)
            verdict = (await call).data
            assert (verdict["decision"], verdict["saved"]) == (decision, decision == "accepted")
            assert (folder / "a.txt").read_text() == content

    run(work())


def test_a_proposal_through_a_plugin_can_be_taken_back(tmp_path: Path) -> None:
    async def work() -> None:
        async with used(tmp_path) as (ext, somebody, folder):
            call = asyncio.create_task(ext.call("show_diff", path="a.txt", text="new\n"))
            await somebody.until("&diff && bufname() =~ '^tieline'")
            call.cancel()
            await asyncio.wait([call])
            await somebody.until("tabpagenr('$') == 1 && !&diff")
            late = await ext.call("show_diff", path="a.txt", text="new\n", timeout_s=0.2)
            assert late.data["decision"] == "undecided"
            await somebody.until("tabpagenr('$') == 1 && !&diff")
            assert (folder / "a.txt").read_text() == "one\ntwo\n"

    run(work())


def test_an_agent_that_goes_takes_its_proposal_from_the_screen_and_a_plugin_that_goes_ends_the_call(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with offered(tmp_path) as (server, somebody, folder):
            editor = IdeEditor(Root(str(folder)), lambda _event, _data: None, directory=str(tmp_path / "ide"))
            call = asyncio.create_task(editor.show_diff("a.txt", "new\n", save=True))
            await somebody.until("&diff")
            await editor.close()
            with pytest.raises(kit.ToolError):
                await call
            await somebody.until("tabpagenr('$') == 1 && !&diff")
            again = asyncio.create_task(editor.show_diff("a.txt", "new\n", save=True))
            await somebody.until("&diff")
            await server.stop()
            with pytest.raises(kit.ToolError) as caught:
                await again
            assert caught.value.code == "io"
            with pytest.raises(kit.ToolError, match="no lock file"):
                await editor.open_files()

    run(work())


class Plugin:
    """Answers each tool with a text, as real plugins do, each in its own way."""

    def __init__(self, answers: Json) -> None:
        self.answers = answers
        self.link: Link

    def accept(self, link: Link, hello: Hello) -> Plugin:
        del hello
        self.link = link
        return self

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        message = json.loads(data)
        if "id" not in message:
            return
        answer: Json = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] != "tools/call":
            answer["result"] = {
                "protocolVersion": "2024-11-05",
                "capabilities": {},
                "serverInfo": {"name": "x"},
            }
        else:
            found = self.answers[message["params"]["name"]]
            if isinstance(found, Exception):
                answer["error"] = {"code": -32001, "message": str(found)}
            else:
                texts = (
                    list(cast("tuple[str, ...]", found)) if isinstance(found, tuple) else [json.dumps(found)]
                )
                answer["result"] = {"content": [{"type": "text", "text": text} for text in texts]}
        self.link.send(json.dumps(answer).encode())

    def stray(self, data: bytes, why: str, *, size: int) -> None: ...
    def failed(self, fault: TransportError) -> None: ...
    def writable(self, ready: bool) -> None: ...
    def closed(self, fault: TransportError | None) -> None: ...


def test_results_are_read_in_the_several_ways_in_which_plugins_write_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    uri = (tmp_path / "a.txt").as_uri()
    place = {"start": {"line": 3, "character": 4}, "end": {"line": 3, "character": 9}}
    one = {"message": "bad", "severity": "Error", "range": place, "source": "lint"}
    flat = {"filePath": str(tmp_path / "a.txt"), "line": 3, "character": 4, "severity": 2, "message": "bad"}
    answers: Json = {
        "getDiagnostics": [
            {"uri": uri, "diagnostics": [one]},
            {"uri": "file:///etc/passwd", "diagnostics": [one]},
        ],
        "getOpenEditors": {"tabs": [{"uri": uri, "isActive": True, "isDirty": True}, {"uri": "untitled:1"}]},
        "getCurrentSelection": {"success": False, "message": "No active editor found"},
        "getLatestSelection": {
            "success": True,
            "text": "z",
            "filePath": str(tmp_path / "a.txt"),
            "selection": place,
        },
        "checkDocumentDirty": {"success": False},
        "openDiff": ("TAB_CLOSED",),
        "openFile": LookupError("File not found"),
    }
    plugin = Plugin(answers)

    async def work() -> None:
        listener = WebSocketListener(plugin.accept)
        await listener.start()
        ide_lock.write(
            str(tmp_path / "ide"), listener.port, Lock(workspace_folders=[str(tmp_path)], auth_token="t" * 16)
        )
        # A dead one, and newer.
        ide_lock.write(str(tmp_path / "ide"), 1, Lock(workspace_folders=[str(tmp_path)], ide_name="dead"))
        editor = IdeEditor(Root(str(tmp_path)), lambda _event, _data: None, directory=str(tmp_path / "ide"))
        [problem] = await editor.diagnostics("")
        assert (problem.path, problem.line, problem.column, problem.severity) == ("a.txt", 4, 5, "error")
        answers["getDiagnostics"] = [flat]
        [problem] = await editor.diagnostics("a.txt")
        assert (problem.line, problem.severity) == (4, "warning")
        files = await editor.open_files()
        assert ([file.path for file in files.files], files.elsewhere) == (["a.txt"], 1)
        selection = await editor.selection()
        assert selection is not None
        assert (selection.content, selection.end_column, selection.is_current) == ("z", 10, False)
        assert (await editor.show_diff("a.txt", "y", save=True)).decision == "undecided"
        answers["openDiff"] = ("FILE_SAVED", "y\n")
        assert (await editor.show_diff("a.txt", "y", save=False)).final == "y\n"
        assert (tmp_path / "a.txt").read_text() == "x"
        with pytest.raises(kit.ToolError, match="the editor refuses: File not found"):
            await editor.open_file("a.txt", 0, 0, 0)
        answers["getOpenEditors"] = ("no JSON",)
        with pytest.raises(kit.ToolError, match="no JSON"):
            await editor.open_files()
        await editor.close()
        await listener.stop()

    run(work())


def test_the_program_offers_its_editor_to_other_agents_and_takes_the_lock_file_away(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "a.txt").write_text("one\n")
        environment = {**os.environ, "CLAUDE_CONFIG_DIR": str(tmp_path)}
        command = ["-m", "adapters.editor", "--root", str(tmp_path), "--embed", "--nvim", NVIM, "--offer"]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        await eventually(lambda: list((tmp_path / "ide").glob("*.lock")))
        editor = IdeEditor(Root(str(tmp_path)), lambda _event, _data: None, directory=str(tmp_path / "ide"))
        await editor.open_file("a.txt", 1, 0, 0)
        assert [file.path for file in (await editor.open_files()).files] == ["a.txt"]
        assert process.stdin is not None
        process.stdin.close()
        assert await process.wait() == 0
        assert list((tmp_path / "ide").glob("*.lock")) == []

    run(work())
