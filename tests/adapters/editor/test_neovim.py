"""The editor's tools against a real Neovim, and a person who types there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from adapters import kit
from adapters.editor import rpc
from adapters.editor.neovim import Neovim
from adapters.editor.root import Root
from adapters.editor.server import build
from adapters.editor.shapes import Event
from adapters.kit.testing import Testing
from adapters.lsp.edits import Change, diff
from tests.adapters.editor.kit import NVIM, Person, eventually, named, person
from tests.adapters.kit_client import run

Json = dict[str, Any]
TEXT = "first line\n\N{GRINNING FACE}e\N{COMBINING ACUTE ACCENT} second\nthird\n"


@asynccontextmanager
async def desk(folder: Path, dialect: Any = "mcp") -> AsyncGenerator[tuple[Testing, Person]]:
    """A workspace, a Neovim on it, and the adapter that is connected to it."""
    root = folder / "work"
    root.mkdir()
    (root / "a.txt").write_text(TEXT)
    (root / "b.txt").write_text("other\n")
    (folder / "secret.txt").write_text("outside\n")
    async with person(root) as somebody:
        app, table = build("1", Root(str(root)))
        table.editor = Neovim(Root(str(root)), table.happened, socket=somebody.socket)
        async with app.testing(dialect) as ext:
            assert "Neovim 0.11" in await table.editor.about()
            yield ext, somebody


def nobody(event: Event, data: Json) -> None:
    """Listens to no event."""


def test_the_selection_is_told_in_characters_while_it_lasts_and_afterwards(tmp_path: Path) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            assert "no file" in (await ext.call("selection")).text
            await somebody.type(":edit a.txt<CR>jl")
            # The face is one character, the letter with its accent two.
            assert (await ext.call("selection")).data == {
                "path": "a.txt", "start_line": 2, "start_column": 2, "end_line": 2, "end_column": 2, "content": "",
                "is_current": True,
            }  # fmt: skip
            await somebody.type("vj")
            selected = (await ext.call("selection")).data
            assert selected["content"] == "e\N{COMBINING ACUTE ACCENT} second\nthi"
            assert (selected["start_column"], selected["end_line"], selected["end_column"]) == (2, 3, 4)
            await somebody.type("<Esc>gg")
            last = (await ext.call("selection")).data
            assert (last["content"], last["is_current"]) == (selected["content"], False)
            await somebody.type("ggVj")
            lines = (await ext.call("selection")).data
            assert lines["content"] == TEXT[: TEXT.index("third")]
            assert (lines["start_column"], lines["end_line"]) == (1, 2)

    run(work())


def test_what_the_person_does_is_told_as_it_happens(tmp_path: Path) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            await ext.side.ask("resources/subscribe", {"uri": "editor://selection"})
            await somebody.type(":edit a.txt<CR>")
            await somebody.type("jj")
            await eventually(
                lambda: [each for each in named(ext, "selection_changed") if each["start_line"] == 3]
            )
            await eventually(lambda: "editor://selection" in ext.changed)
            assert "a.txt" in await ext.read("editor://selection")
            await somebody.type("ggx:write<CR>")
            await eventually(lambda: named(ext, "saved"))
            await somebody.type(":2,3TielineMention<CR>")
            [mentioned] = await eventually(lambda: named(ext, "mentioned"))
            assert mentioned == {"path": "a.txt", "start_line": 2, "end_line": 3}
            before = len(ext.logs)
            await somebody.type(f":edit {tmp_path}/secret.txt<CR>jx:write<CR>")
            await somebody.type(":edit b.txt<CR>")
            await eventually(
                lambda: [each for each in named(ext, "selection_changed") if each["path"] == "b.txt"]
            )
            assert "secret" not in str(ext.logs[before:])

    run(work())


def test_open_files_are_listed_shown_and_saved_and_none_outside_of_the_root(tmp_path: Path) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            await ext.call("open_file", path="a.txt", line=2, column=2)
            assert await somebody.see("[line('.'), expand('%:t')]") == [2, "a.txt"]
            assert await somebody.see("charcol('.')") == 2
            await somebody.type("inew <Esc>")
            await somebody.type(f":edit {tmp_path}/secret.txt<CR>")
            await ext.call("open_file", path="b.txt")
            assert (await ext.call("open_files")).data == {
                "files": [
                    {
                        "path": "a.txt",
                        "language": "text",
                        "modified": True,
                        "visible": False,
                        "active": False,
                    },
                    {"path": "b.txt", "language": "text", "modified": False, "visible": True, "active": True},
                ],
                "elsewhere": 1,
            }
            assert (await ext.call("save_file", path="a.txt")).text == "a.txt is saved"
            assert (await ext.call("save_file", path="a.txt")).text == "a.txt had nothing to save"
            assert "new " in (tmp_path / "work" / "a.txt").read_text()
            await ext.call("open_file", path="a.txt", line=1, end_line=2)
            assert (await ext.call("selection")).data["end_line"] == 2
            (tmp_path / "work" / "link.txt").symlink_to(tmp_path / "secret.txt")
            for path in ("../secret.txt", "/etc/passwd", "link.txt"):
                for tool in ("open_file", "save_file", "diagnostics"):
                    assert (await ext.call(tool, path=path)).code == "denied"
                assert (await ext.call("show_diff", path=path, text="")).code == "denied"
            assert (await ext.call("save_file", path="c.txt")).code == "invalid_request"

    run(work())


def test_diagnostics_are_those_that_the_editor_shows(tmp_path: Path) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            await ext.call("open_file", path="a.txt")
            lua = (
                "vim.diagnostic.set(vim.api.nvim_create_namespace('x'), 0, {{lnum=1, col=4, message='bad', "
                "severity=vim.diagnostic.severity.WARN, source='lint'}})"
            )
            await somebody.rpc.request("nvim_exec_lua", lua, [])
            found = (await ext.call("diagnostics")).data["problems"]
            wanted = {
                "path": "a.txt",
                "line": 2,
                "column": 2,
                "severity": "warning",
                "message": "bad",
                "source": "lint",
            }
            assert found == [wanted]
            assert (await ext.call("diagnostics", path="a.txt")).text == "a.txt:2:2: warning: bad"
            assert (await ext.call("diagnostics", path="b.txt")).code == "invalid_request"
            await eventually(lambda: named(ext, "diagnostics_changed"))
            assert "bad" in await ext.read("editor://diagnostics/a.txt")

    run(work())


@asynccontextmanager
async def proposed(ext: Testing, somebody: Person, **arguments: Any) -> AsyncGenerator[asyncio.Task[Any]]:
    """A proposal that is on the screen."""
    call = asyncio.create_task(ext.call("show_diff", **arguments))
    await somebody.until("&diff && bufname() =~ '^tieline'")
    yield call
    await gone(somebody)


async def gone(somebody: Person) -> None:
    """Wait until a proposal has left the screen, and see that it has left nothing behind."""
    assert await somebody.until("tabpagenr('$') == 1")
    assert await somebody.see("len(filter(getbufinfo(), {_, b -> b.name =~ '^tieline'}))") == 0
    assert not await somebody.see("&diff")
    assert await somebody.see("&winbar") == ""


def test_a_proposal_is_accepted_by_writing_it_with_what_the_person_changed(tmp_path: Path) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            async with proposed(ext, somebody, path="a.txt", text=TEXT.replace("third", "3rd")) as call:
                assert ext.progress[0]["message"].startswith("waiting")
                await somebody.type("Gomine<Esc>")
                assert not call.done()
                await somebody.type(":wq<CR>")
                verdict = (await call).data
            final = TEXT.replace("third", "3rd") + "mine\n"
            assert (verdict["decision"], verdict["final"], verdict["saved"]) == ("accepted", final, True)
            assert (tmp_path / "work" / "a.txt").read_text() == final

    run(work())


@pytest.mark.parametrize("keys", [":q<CR>", ":tabclose<CR>", "ix<Esc>:q!<CR>", ":bwipeout<CR>"])
def test_a_proposal_is_rejected_by_closing_it(tmp_path: Path, keys: str) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            async with proposed(ext, somebody, path="a.txt", text="new\n") as call:
                await somebody.type(keys)
                assert (await call).data == {
                    "decision": "rejected",
                    "path": "a.txt",
                    "reason": "",
                    "final": "",
                    "saved": False,
                }
            assert (tmp_path / "work" / "a.txt").read_text() == TEXT
            assert not await somebody.see("getbufvar('a.txt', '&modified')")

    run(work())


@pytest.mark.parametrize("text", ["", "no end", "a\r\nb\r\n", "\N{GRINNING FACE}\n\n"])
def test_an_accepted_text_is_written_to_the_byte(tmp_path: Path, text: str) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            (tmp_path / "work" / "dos.txt").write_bytes(b"x\r\n" if "\r" in text else b"x\n")
            async with proposed(ext, somebody, path="dos.txt", text=text) as call:
                await somebody.type(":w<CR>")
                assert (await call).data["decision"] == "accepted"
            assert (tmp_path / "work" / "dos.txt").read_bytes() == text.encode()

    run(work())


def test_a_proposal_can_be_a_patch(tmp_path: Path) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            new = TEXT.replace("third", "3rd")
            patch = diff([Change("b.txt", "x\n", "y\n"), Change("a.txt", TEXT, new)])
            async with proposed(ext, somebody, path="a.txt", patch=patch) as call:
                await somebody.type(":w<CR>")
                assert (await call).data["final"] == new
            again = await ext.call("show_diff", path="a.txt", patch=patch)
            assert (again.code, "part 1 does not fit" in again.text) == ("invalid_request", True)
            assert (await ext.call("show_diff", path="a.txt")).code == "invalid_request"
            assert (await ext.call("show_diff", path="a.txt", text="", patch="")).code == "invalid_request"

    run(work())


def test_a_proposal_can_make_a_file_and_one_that_is_not_to_be_saved_touches_none(tmp_path: Path) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            async with proposed(ext, somebody, path="new.txt", text="hello\n") as call:
                await somebody.type(":w<CR>")
                assert (await call).data["saved"] is True
            assert (tmp_path / "work" / "new.txt").read_text() == "hello\n"
            async with proposed(ext, somebody, path="b.txt", text="hello\n", save=False) as call:
                await somebody.type(":w<CR>")
                verdict = (await call).data
            assert (verdict["decision"], verdict["final"], verdict["saved"]) == ("accepted", "hello\n", False)
            assert (tmp_path / "work" / "b.txt").read_text() == "other\n"

    run(work())


def test_a_file_with_changes_of_the_persons_is_not_overwritten(tmp_path: Path) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            await somebody.type(":edit a.txt<CR>ix<Esc>")
            refused = await ext.call("show_diff", path="a.txt", text="new\n")
            assert (refused.code, "save it first" in refused.text) == ("invalid_request", True)
            await somebody.type(":write<CR>")
            async with proposed(ext, somebody, path="a.txt", text="new\n") as call:
                await somebody.type("<C-w>hiy<Esc><C-w>l:w<CR>")
                verdict = (await call).data
            assert (verdict["decision"], verdict["reason"]) == ("rejected", "the file was changed meanwhile")
            assert (tmp_path / "work" / "a.txt").read_text() == "x" + TEXT

    run(work())


def test_a_cancelled_proposal_goes_from_the_screen_and_one_that_nobody_decides_is_undecided(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            async with proposed(ext, somebody, path="a.txt", text="new\n") as call:
                call.cancel()
                await asyncio.wait([call])
            # It may be gone from the screen before anybody looks.
            late = await ext.call("show_diff", path="a.txt", text="new\n", timeout_s=0.2)
            assert late.data["decision"] == "undecided"
            await gone(somebody)

    run(work())


def test_two_proposals_are_decided_each_for_itself(tmp_path: Path) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            first = asyncio.create_task(ext.call("show_diff", path="a.txt", text="A\n"))
            await somebody.until("&diff")
            second = asyncio.create_task(ext.call("show_diff", path="b.txt", text="B\n"))
            await somebody.until("tabpagenr('$') == 3")
            await somebody.type(":q<CR>")
            assert (await second).data["decision"] == "rejected"
            await somebody.until("tabpagenr('$') == 2 && bufname() =~ '^tieline'")
            await somebody.type(":w<CR>")
            assert (await first).data["decision"] == "accepted"

    run(work())


def test_an_editor_that_waits_for_a_key_is_told_of_and_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            monkeypatch.setattr(rpc, "ANSWER_S", 1.0)
            await somebody.rpc.request("nvim_input", "r")
            blocked = await ext.call("open_files")
            assert (blocked.code, "waits for a key" in blocked.text) == ("timeout", True)
            monkeypatch.undo()
            await somebody.rpc.request("nvim_input", "x")
            assert not (await ext.call("open_files")).is_error

    run(work())


@pytest.mark.parametrize("how", ["quit", "killed"])
def test_an_editor_that_goes_ends_what_waits_for_it_and_one_that_comes_back_is_found(
    tmp_path: Path, how: str
) -> None:
    async def work() -> None:
        async with desk(tmp_path) as (ext, somebody):
            async with asyncio.timeout(20):
                call = asyncio.create_task(ext.call("show_diff", path="a.txt", text="new\n"))
                await somebody.until("&diff")
                if how == "quit":
                    await somebody.rpc.request("nvim_input", ":qall!<CR>")
                    assert (await call).data["decision"] == "undecided"
                else:
                    somebody.process.kill()
                    assert (await call).code == "io"
                    os.unlink(somebody.socket)
            await eventually(lambda: "closed" in str(ext.logs))
            assert (await ext.call("open_files")).code == "io"
            again = await asyncio.create_subprocess_exec(
                NVIM, "--clean", "--headless", "--listen", somebody.socket
            )
            await eventually(lambda: os.path.exists(somebody.socket))
            while (found := await ext.call("open_files")).is_error:
                await asyncio.sleep(0.01)
            assert found.data == {"files": [], "elsewhere": 0}
            again.kill()
            await again.wait()

    run(work())


def test_an_adapter_that_goes_takes_its_proposals_with_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with person(tmp_path) as somebody:
            (tmp_path / "a.txt").write_text(TEXT)
            editor = Neovim(Root(str(tmp_path)), nobody, socket=somebody.socket)
            call = asyncio.create_task(editor.show_diff("a.txt", "new\n", save=True))
            await somebody.until("&diff")
            assert editor.rpc is not None
            await editor.rpc.close()
            with pytest.raises(kit.ToolError):
                await call
            await somebody.type(":w<CR>")
            await somebody.until("tabpagenr('$') == 1")
            assert (tmp_path / "a.txt").read_text() == TEXT

    run(work())


def test_an_editor_of_our_own_is_started_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "a.txt").write_text(TEXT)
        app, table = build("1", Root(str(tmp_path)))
        table.editor = Neovim(Root(str(tmp_path)), table.happened, command=[NVIM, "--clean"])
        async with app.testing("pi") as ext:
            before = set(psutil.Process().children())
            await ext.call("open_file", path="a.txt")
            assert (await ext.call("open_files")).data["files"][0]["active"] is True
            [child] = set(psutil.Process().children()) - before
            assert (await ext.call("open_file", path="../x")).code == "denied"
        assert not child.is_running()

    run(work())


def test_an_editor_that_is_not_there_is_told_with_what_to_do(tmp_path: Path) -> None:
    async def work() -> None:
        for made, says in (
            ({"socket": str(tmp_path / "none")}, "nvim --listen"),
            ({"command": ["no-such-nvim"]}, "cannot start no-such-nvim"),
        ):
            arguments: Any = made
            editor = Neovim(Root(str(tmp_path)), nobody, **arguments)
            with pytest.raises(kit.ToolError, match=says):
                await editor.open_files()

    run(work())
