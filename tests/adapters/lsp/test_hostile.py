"""What a server says that makes no sense, and what lies in a workspace that is no source: told, and nothing harmed."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from adapters import kit
from adapters.lsp.answer import Limits
from adapters.lsp.choice import choose
from adapters.lsp.client import Client
from adapters.lsp.readiness import Load
from tests.adapters.lsp.test_service import OFFERS, ONE, SHORT, root, run, server, span
from tests.adapters.lsp.tools import Json, Scripted, over, spots

__all__ = ["root"]

PATIENT = Limits(whole_s=20)


def at(uri: str, where: Json) -> list[Json]:
    return [{"uri": uri, "range": where}]


@pytest.mark.parametrize(
    "answer",
    [
        at("file:///a.x", span(-1, 0, 1)),
        at("file:///a.x", span(0, -2, 1)),
        at("file:///a.x", span(0, 0, -1)),
        [[1]],
        "three",
        7,
        True,
        [{"uri": 7}],
    ],
)
def test_an_answer_of_another_shape_is_a_fault_of_the_server_in_words(root: Path, answer: Any) -> None:
    async def work() -> None:
        scripted = Scripted(lambda method, params: answer, OFFERS)
        async with over(root, [server()], SHORT, scripted.reach) as ask:
            with pytest.raises(kit.ToolError, match="another shape") as met:
                await ask("definition", **ONE)
            assert met.value.code == "io"

    run(work())


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("file://[", "file://["),
        ("file:///etc/%2e%2e/etc/passwd", "/etc/passwd"),
        ("jdt://contents/rt.jar", "jdt://contents/rt.jar"),
        ("", ""),
    ],
)
def test_a_place_that_is_no_file_of_the_root_is_named_and_nothing_of_it_shown(
    root: Path, uri: str, shown: str
) -> None:
    async def work() -> None:
        scripted = Scripted(lambda method, params: at(uri, span(1, 0, 3)), OFFERS)
        async with over(root, [server()], SHORT, scripted.reach) as ask:
            [place] = (await ask("definition", **ONE))["places"]
            assert (place["path"].removeprefix("./"), place["text"]) == (shown, "")

    run(work())


def test_a_way_out_of_the_root_is_shown_as_where_it_leads(root: Path) -> None:
    async def work() -> None:
        uri = f"file://{root}/../../../../../../../../etc/passwd"
        scripted = Scripted(lambda method, params: at(uri, span(0, 0, 3)), OFFERS)
        async with over(root, [server()], SHORT, scripted.reach) as ask:
            [place] = (await ask("definition", **ONE))["places"]
            assert (place["path"], place["text"]) == ("/etc/passwd", "")

    run(work())


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("textDocument/publishDiagnostics", {"uri": "file://[", "diagnostics": []}),
        ("textDocument/publishDiagnostics", None),
        ("$/progress", {"token": 1, "value": [1]}),
        ("$/progress", {"token": {}, "value": None}),
        ("window/logMessage", 7),
    ],
)
def test_what_a_server_tells_by_itself_and_makes_no_sense_is_passed_over(
    root: Path, method: str, params: Any
) -> None:
    async def work() -> None:
        scripted = Scripted(lambda method, params: [], OFFERS)
        async with over(root, [server()], SHORT, scripted.reach) as ask:
            await ask("definition", **ONE)
            scripted.say(method, params)
            assert (await ask("definition", **ONE))["complete"] is True
            assert scripted.starts == 1

    run(work())


def test_a_server_that_wants_to_hear_of_files_that_no_pattern_can_be_is_told_of_all(root: Path) -> None:
    async def work() -> None:
        scripted = Scripted(lambda method, params: [], OFFERS)
        async with over(root, [server()], SHORT, scripted.reach) as ask:
            await ask("definition", **ONE)
            watchers = [{"globPattern": "**/[z-a]*.cfg"}, {"globPattern": 7}]
            options = {"watchers": watchers[:1]}
            wish = {"id": "1", "method": "workspace/didChangeWatchedFiles", "registerOptions": options}
            scripted.say("client/registerCapability", {"registrations": [wish]}, id=99)
            await ask("definition", **ONE)
            (root / "any.cfg").write_text("x")
            await ask("definition", **ONE)
            told = await scripted.until("workspace/didChangeWatchedFiles")
            assert told["params"]["changes"] == [{"uri": f"file://{root}/any.cfg", "type": 1}]

    run(work())


@pytest.mark.parametrize(
    "said",
    [
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":7}}',
        b'{"jsonrpc":"2.0","id":1,"error":[]}',
    ],
)
def test_nobody_waits_for_an_answer_that_has_come_and_cannot_be_read(said: bytes) -> None:
    async def work() -> None:
        client = Client("odd", {}, Load("none", 0.0))
        asking = asyncio.create_task(client.request("x", None, 20))
        await asyncio.sleep(0)
        client.message(b"\xff")
        client.message(b"[" * 100_000)
        client.message(b'{"id":[]}')
        client.message(said)
        with pytest.raises(kit.ToolError, match="odd: an answer of another shape: Expected"):
            await asking

    run(work())


def test_a_cancellation_that_comes_together_with_the_answer_is_not_forgotten() -> None:
    async def work() -> None:
        client = Client("quick", {}, Load("none", 0.0))
        asking = asyncio.create_task(client.request("x", None, 20))
        waiting = asyncio.create_task(client.news(20))
        await asyncio.sleep(0)
        client.message(b'{"jsonrpc":"2.0","id":1,"result":null}')
        client.message(b'{"jsonrpc":"2.0","method":"window/logMessage","params":{}}')
        asking.cancel()
        waiting.cancel()
        for task in (asking, waiting):
            with pytest.raises(asyncio.CancelledError):
                await task

    run(work())


def test_a_server_without_a_name_is_taken_and_gopls_says_which_one_it_is(root: Path) -> None:
    build = (
        '{"GoVersion":"go1.19.5","Path":"p","Main":{"Path":"golang.org/x/tools/gopls","Version":"v0.23.0"}}'
    )

    async def version(info: Json | None) -> str:
        scripted = Scripted(lambda method, params: [], OFFERS)
        scripted.about = info
        async with over(root, [server()], SHORT, scripted.reach) as ask:
            return str((await ask("definition", **ONE))["servers"][0]["version"])

    async def work() -> None:
        assert await version(None) == ""
        assert await version({"name": "gopls", "version": build}) == "v0.23.0"
        assert await version({"name": "x", "version": "x 1.2.3 (linux)"}) == "1.2.3"

    run(work())


def test_a_workspace_may_hold_what_is_no_source_under_the_name_of_one(tmp_path: Path) -> None:
    work_in = tmp_path / "work"
    work_in.mkdir()
    (work_in / "z.py").write_text("class Known: pass\n")
    os.mkfifo(work_in / "a.py")
    (work_in / "b.py").symlink_to("/etc/hostname")
    (work_in / "c.py").write_bytes(b"#" * (9 * 1024 * 1024))
    (work_in / "d.py").write_bytes(bytes(range(256)) * 50)
    (work_in / "e.py").symlink_to("e.py")
    (work_in / "f.py").mkdir()
    Path(os.fsdecode(os.fsencode(work_in) + b"/g\xff.py")).write_text("class Unnamed: pass\n")

    async def work() -> None:
        async with over(work_in, choose(["ty"], None), PATIENT) as ask:
            assert spots({"places": (await ask("workspace_symbols", query="Known"))["symbols"]}) == [
                "z.py:1:7"
            ]
            found = await ask("diagnostics", severity="error")
            assert (found["files"], found["unanswered"], found["complete"]) == (3, ["c.py"], False)
            assert {each["path"] for each in found["diagnostics"]} == {"d.py"}
            for path, code in (
                ("a.py", "invalid_request"), ("b.py", "denied"), ("c.py", "invalid_request"),
                ("e.py", "io"), ("g.py", "io"), ("no\0.py", "invalid_request"),
            ):  # fmt: skip
                with pytest.raises(kit.ToolError) as met:
                    await ask("document_symbols", path=path)
                assert (path, met.value.code) == (path, code)
            shutil.rmtree(work_in)
            for tool, arguments in (("diagnostics", {}), ("workspace_symbols", {"query": "Known"})):
                with pytest.raises(kit.ToolError, match="is not there any more") as met:
                    await ask(tool, **arguments)
                assert met.value.code == "io"

    run(work())


LINES = ("class {0}:", "    pass", "", "x = '\N{GRINNING FACE}e\u0301\x85\u2028\x0b\x0c'; {0}()", "")


@pytest.mark.parametrize("name", ["ty", "basedpyright"])
def test_a_rename_keeps_line_ends_marks_and_everything_else(tmp_path: Path, name: str) -> None:
    cases = {
        f"m{number}.py": (end, mark)
        for number, (end, mark) in enumerate(itertools.product(("\n", "\r\n", "\r"), (b"", b"\xef\xbb\xbf")))
    }
    for file, (end, mark) in cases.items():
        (tmp_path / file).write_bytes(mark + end.join(LINES).format("Old").encode())

    async def work() -> None:
        async with over(tmp_path, choose([name], None), PATIENT) as ask:
            for file, (end, mark) in cases.items():
                plan = await ask("rename", path=file, line=4, symbol="Old", new_name="New")
                await ask("apply_edit", plan=plan["plan"])
                assert (tmp_path / file).read_bytes() == mark + end.join(LINES).format("New").encode()

    run(work())
