"""`tieline-editor` as a process behind a real gateway, with a real Neovim and a person at it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.adapters.editor.kit import person
from tests.processes.gateway_kit import Message, house, run


def test_an_agent_asks_a_person_through_the_gateway_and_takes_a_question_back(tmp_path: Path) -> None:
    async def main() -> None:
        work = tmp_path / "work"
        work.mkdir()
        (work / "a.txt").write_text("old\n")
        async with person(work) as somebody:
            command = [
                sys.executable,
                "-m",
                "adapters.editor",
                "--root",
                str(work),
                "--socket",
                somebody.socket,
            ]
            peers: dict[str, Message] = {"editor": {"command": command}}
            async with house(tmp_path, peers) as here:
                core = await here.core()
                await core.tool("editor__open_file", path="a.txt")
                await somebody.type("viw")
                selected = await core.tool("editor__selection")
                assert selected["result"]["structuredContent"]["content"] == "old"
                await somebody.type("<Esc>")
                _, answer = core.start_tool("editor__show_diff", path="a.txt", text="new\n")
                await somebody.until("&diff && bufname() =~ '^tieline'")
                await somebody.type(":w<CR>")
                assert (await answer)["result"]["structuredContent"]["decision"] == "accepted"
                assert (work / "a.txt").read_text() == "new\n"
                id_, unanswered = core.start_tool("editor__show_diff", path="a.txt", text="newer\n")
                await somebody.until("&diff && bufname() =~ '^tieline'")
                core.send({"method": "notifications/cancelled", "params": {"requestId": id_}})
                unanswered.cancel()
                await somebody.until("tabpagenr('$') == 1 && !&diff")
                _, left = core.start_tool("editor__show_diff", path="a.txt", text="newest\n")
                await somebody.until("&diff && bufname() =~ '^tieline'")
                left.cancel()
            await somebody.until("tabpagenr('$') == 1 && !&diff")
            assert (work / "a.txt").read_text() == "new\n"

    run(main())
