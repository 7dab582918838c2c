"""A server is in step with the disk at every question, whatever happens in between: edits, deaths, cancelled calls."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters import kit
from adapters.lsp.answer import Limits
from adapters.lsp.choice import choose
from adapters.lsp.servers import Server
from adapters.lsp.uris import path_of
from tests.adapters.lsp.test_documents import Strict
from tests.adapters.lsp.tools import Json, Scripted, Tools, over

FILES = st.sampled_from(["a.x", "b.x", "sub/c.x"])
STEPS = st.one_of(
    st.tuples(st.just("write"), FILES, st.sampled_from(["one\n", "one\ntwo\n", "one 😀\n"])),
    st.tuples(
        st.sampled_from(["delete", "ask", "ask", "simulate", "cancel", "rename", "die"]), FILES, st.just("")
    ),
)
NOWHERE: Json = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}
SERVER = Server(name="scripted", program="none", languages={".x": "x"}, wait="none")
OFFERS = {"definitionProvider": True, "diagnosticProvider": True, "renameProvider": True}


class InStep(Scripted):
    """A server that checks at each question that it has what is on the disk, and refuses what confuses real ones."""

    def __init__(self, root: Path) -> None:
        super().__init__(self.answer, OFFERS)
        self.root, self.strict, self.asked, self.simulated = root, Strict(), 0, ""
        self.faults: list[str] = []

    def take(self, body: bytes) -> None:
        before = len(self.heard)
        try:
            super().take(body)
            message = self.heard[before]
            if message["method"] == "initialize":
                self.strict = Strict()
            if message["method"].startswith(("textDocument/did", "workspace/did")):
                self.strict.told([(message["method"], message["params"])])
        except (AssertionError, LookupError) as fault:
            # Raised here, it would be a failed call like any other.
            self.faults.append(repr(fault))

    def answer(self, method: str, params: Any) -> Any:
        self.asked += 1
        uri = params["textDocument"]["uri"]
        has, disk = self.strict.texts[uri], Path(path_of(uri)).read_text()
        if method == "textDocument/diagnostic":
            assert has in (disk, disk + self.simulated)
            # Not nothing, which is asked for a second time after a while.
            return {"items": [{"range": NOWHERE, "message": "as ever"}]}
        assert has == disk
        span: Json = {"start": NOWHERE["start"], "end": {"line": 0, "character": 3}}
        if method == "textDocument/rename":
            return {"changes": {uri: [{"range": span, "newText": "uno"}]}}
        return [{"uri": uri, "range": span}]


async def step(ask: Tools, peer: InStep, what: str, path: str, text: str) -> None:
    file = peer.root / path
    try:
        match what:
            case "write":
                file.write_text(text)
            case "delete":
                file.unlink(missing_ok=True)
            case "ask":
                result = await ask("definition", path=path, line=1, column=1)
                assert result["places"][0]["text"] == file.read_text().splitlines()[0]
            case "simulate":
                peer.simulated = "more\n"
                await ask("simulate_edit", path=path, text=file.read_text() + peer.simulated)
                peer.simulated = ""
            case "rename":
                result = await ask("rename", path=path, line=1, column=1, new_name="uno")
                if result["plan"]:
                    await ask("apply_edit", plan=result["plan"])
                    assert file.read_text().startswith("uno")
            case "cancel":
                call = asyncio.create_task(ask("definition", path=path, line=1, column=1))
                await asyncio.sleep(0)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
            case _:
                peer.die()
    except (kit.ToolError, FileNotFoundError):
        # A file that is not there, or a server that has died too often: said, and not what is looked at here.
        peer.simulated = ""


@settings(max_examples=25, deadline=None)
@given(st.lists(STEPS, min_size=5, max_size=25))
def test_a_server_has_what_is_on_the_disk_at_every_question(steps: list[tuple[str, str, str]]) -> None:
    async def work(root: Path) -> None:
        (root / "sub").mkdir()
        peer = InStep(root)
        async with over(root, [SERVER], reach=peer.reach) as ask:
            for path in ("a.x", "b.x", "sub/c.x"):
                (root / path).write_text("one\n")
            await step(ask, peer, "ask", "a.x", "")
            for each in steps:
                await step(ask, peer, *each)
            (root / "a.x").write_text("last\n")
            asked = peer.asked
            await step(ask, peer, "ask", "a.x", "")
            assert peer.faults == []
            assert peer.asked > asked or sum(what == "die" for what, _, _ in steps) > 3

    with tempfile.TemporaryDirectory() as place:
        asyncio.run(asyncio.wait_for(work(Path(place).resolve()), 30))


def test_a_real_server_that_is_stopped_is_cancelled_then_ended_and_started_again(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f() -> None: ...\n")

    async def work() -> None:
        limits = Limits(answer_s=4.0, whole_s=4.0)
        async with over(tmp_path, choose(["ruff", "ty"], None), limits) as ask:
            asked: Json = {"path": "a.py", "symbol": "f"}
            await ask("hover", **asked)
            [stopped] = [each for each in psutil.Process().children() if each.name() == "ty"]
            stopped.send_signal(signal.SIGSTOP)
            with pytest.raises(kit.ToolError, match=r"did not answer .* it was cancelled"):
                await ask("hover", **asked)
            # The other server of the same files goes on.
            judged = await ask("diagnostics", path="a.py")
            assert (judged["complete"], judged["unanswered"]) == (False, [])
            assert "ty did not answer textDocument/diagnostic within 4 s" in judged["shown"]
            assert "so it was ended" in judged["shown"]
            result = await ask("hover", **asked)
            assert "def f" in result["content"]
            assert not stopped.is_running()

    asyncio.run(asyncio.wait_for(work(), 55))
