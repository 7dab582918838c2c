"""Files, buffers and plugins that are not as one would have them: told as what they are, and nobody is kept waiting."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from adapters import kit
from adapters.editor import ide_lock
from adapters.editor.ide_client import IdeEditor
from adapters.editor.ide_lock import Lock
from adapters.editor.root import Root
from tests.adapters.editor.test_ide import Plugin
from tests.adapters.editor.test_neovim import desk, named, nobody, proposed
from tests.adapters.kit_client import run
from transports.base import Origin
from transports.ws_listener import WebSocketListener

Json = dict[str, Any]


def test_bytes_that_are_no_text_are_shown_as_far_as_they_are(tmp_path: Path) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            folder = tmp_path / "work"
            (folder / "bin.dat").write_bytes(b"a\0b\xff\ncd\n")
            with open(os.fsencode(folder) + b"/n\xff.txt", "w") as file:
                file.write("x\n")
            await ext.call("open_file", path="bin.dat")
            await somebody.type("ggVj")
            found = (await ext.call("selection")).data
            assert (found["path"], found["end_line"], found["content"][:1]) == ("bin.dat", 2, "a")
            await somebody.until("mode() ==# 'V'")
            await somebody.type("<Esc>")
            await somebody.rpc.request("nvim_command", "edit n\udcff.txt")
            await somebody.type("viw")
            found = (await ext.call("selection")).data
            assert (found["path"], found["content"]) == ("n\ufffd.txt", "x")
            while not any(each["path"] == "n\ufffd.txt" for each in named(ext, "selection_changed")):
                await asyncio.sleep(0.01)
            await somebody.type("<Esc>")
            paths = [each["path"] for each in (await ext.call("open_files")).data["files"]]
            assert "n\ufffd.txt" in paths

    run(work())


@pytest.mark.parametrize("tool", ["open_file", "show_diff"])
def test_what_has_no_text_is_neither_shown_nor_proposed_for(tmp_path: Path, tool: str) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, _):
            (tmp_path / "work" / "sub").mkdir()
            os.mkfifo(tmp_path / "work" / "pipe")
            more = {"text": "x\n"} if tool == "show_diff" else {}
            for path in ("sub", "pipe"):
                failed = await ext.call(tool, path=path, **more)
                assert (failed.code, failed.text) == ("invalid_request", f"{path} is no regular file")

    run(work())


def test_a_file_that_may_not_be_written_to_stays_as_it_is_in_the_editor_too(tmp_path: Path) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            path = tmp_path / "work" / "ro.txt"
            path.write_text("old\n")
            path.chmod(0o444)
            async with proposed(ext, somebody, path="ro.txt", text="new\n") as call:
                await somebody.type(":w<CR>")
                told = (await call).text
            assert told == (
                "ro.txt: rejected (it could not be saved: E45: 'readonly' option is set (add ! to override))"
            )
            assert path.read_text() == "old\n"
            assert await somebody.see("getbufline('ro.txt', 1, '$')") == ["old"]
            assert not await somebody.see("getbufvar('ro.txt', '&modified')")

    run(work())


def test_a_proposal_is_for_the_text_on_the_disk_as_it_was_when_it_was_made(tmp_path: Path) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            folder = tmp_path / "work"
            (folder / "link.txt").symlink_to("b.txt")
            await ext.call("open_file", path="b.txt")
            (folder / "b.txt").write_text("another\nprogram\n")
            async with proposed(ext, somebody, path="link.txt", text="new\n") as call:
                assert await somebody.see("getbufline('b.txt', 1, '$')") == ["another", "program"]
                (folder / "b.txt").write_text("once more\n")
                await somebody.type(":w<CR>")
                assert (await call).text == "link.txt: rejected (the file was changed meanwhile)"
            assert (folder / "b.txt").read_text() == "once more\n"
            assert (folder / "link.txt").is_symlink()

    run(work())


def test_a_file_in_a_folder_that_is_not_there_makes_the_folder_once_it_is_accepted(tmp_path: Path) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            async with proposed(ext, somebody, path="x/y/new.txt", text="hello\n") as call:
                assert not (tmp_path / "work" / "x").exists()
                await somebody.type(":w<CR>")
                assert (await call).data["saved"] is True
            assert (tmp_path / "work" / "x" / "y" / "new.txt").read_text() == "hello\n"

    run(work())


class Garbler(Plugin):
    """Shakes hands, and then answers with the same whatever it is asked."""

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        message = json.loads(data)
        if message.get("method") != "tools/call":
            return super().message(data, origin)
        self.link.send(b"[" * 50_000)
        self.link.send(b'{"id":[]}')
        self.link.send(b'{"method":"selection_changed","params":[1]}')
        self.link.send(b'{"method":"selection_changed","params":{"filePath":7,"selection":7}}')
        answer = {"jsonrpc": "2.0", "id": message["id"], **self.answers}
        return self.link.send(json.dumps(answer).encode())


@pytest.mark.parametrize(
    "answer",
    [
        {"result": []},
        {"result": "x"},
        {"result": {"content": 7}},
        {"result": {"content": [7]}},
        {"result": {"content": [{"type": "text", "text": 7}]}},
        {"result": {"content": [{"type": "text", "text": "{"}]}},
        {"result": {"content": [{"type": "text", "text": '{"tabs":[7],"diagnostics":[7]}'}]}},
        {"result": {"content": [{"type": "text", "text": '{"tabs":"x","diagnostics":{"x":1}}'}]}},
        {"error": "x"},
        {"error": {"message": ["x"]}},
    ],
)
def test_what_a_plugin_answers_that_makes_no_sense_is_its_fault_in_words(
    tmp_path: Path, answer: Json
) -> None:
    async def work() -> None:
        listener = WebSocketListener(Garbler(answer).accept)
        await listener.start()
        lock = Lock(workspace_folders=["", "\0", "relative", str(tmp_path)], auth_token="t" * 16)
        ide_lock.write(str(tmp_path / "ide"), listener.port, lock)
        editor = IdeEditor(Root(str(tmp_path)), nobody, directory=str(tmp_path / "ide"))
        for asks in (editor.open_files, lambda: editor.diagnostics("")):
            with pytest.raises(kit.ToolError, match=r"the editor (has answered|refuses)") as met:
                await asks()
            assert met.value.code == "io"
        await editor.close()
        await listener.stop()

    run(work())
