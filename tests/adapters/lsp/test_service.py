"""One server over its life, played by a script in memory: loading, pushing, hanging, dying, wanting things."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adapters import kit
from adapters.lsp.answer import Limits
from adapters.lsp.channel import Listener
from adapters.lsp.servers import Server
from tests.adapters.kit_client import run as bounded
from tests.adapters.lsp.tools import SILENCE, Heard, Json, Refusal, Scripted, over

run = partial(bounded, seconds=30.0)
SHORT = Limits(answer_s=0.2, whole_s=0.4)
OFFERS = {
    "definitionProvider": True,
    "referencesProvider": {},
    "hoverProvider": True,
    "renameProvider": True,
    "codeActionProvider": {"resolveProvider": False},
    "textDocumentSync": 1,
}


def server(**members: Any) -> Server:
    given: Json = {"wait": "none"} | members
    return Server(name="scripted", program="none", languages={".x": "x"}, **given)


def span(line: int, begin: int, end: int) -> Json:
    return {"start": {"line": line, "character": begin}, "end": {"line": line, "character": end}}


def found(root: Path, *lines: int) -> list[Json]:
    return [{"uri": f"file://{root}/a.x", "range": span(line, 0, 3)} for line in lines]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.x").write_text("one\ntwo\nthree\n")
    (tmp_path / "b.x").write_text("four\n")
    return tmp_path.resolve()


ONE: Json = {"path": "a.x", "line": 1, "symbol": "one"}


def test_a_server_that_reports_work_is_waited_for_and_its_work_is_passed_on(root: Path) -> None:
    async def work() -> None:
        loaded = False
        peer = Scripted(lambda method, params: found(root, 0, 1) if loaded else [], OFFERS)
        async with over(root, [server(wait="progress")], reach=peer.reach) as ask:
            heard = Heard()
            call = asyncio.create_task(ask("references", heard, **ONE))
            await peer.until("textDocument/didOpen")
            progress: Json = {"token": 7, "value": {"kind": "begin", "title": "Indexing", "percentage": 0}}
            peer.say("$/progress", progress)
            progress["value"] = {"kind": "report", "message": "a.x", "percentage": 50}
            peer.say("$/progress", progress)
            await peer.until("textDocument/didOpen")
            loaded = True
            progress["value"] = {"kind": "end"}
            peer.say("$/progress", progress)
            result = await call
            assert (result["total"], result["complete"]) == (2, True)
            assert heard.lines == [
                "starting scripted",
                "scripted: Indexing 0 %",
                "scripted: Indexing: a.x 50 %",
            ]
            assert heard.marks == sorted(set(heard.marks))

    run(work())


def test_a_server_that_does_not_finish_loading_gives_a_part_that_says_so(root: Path) -> None:
    async def work() -> None:
        peer = Scripted(lambda method, params: found(root, 0), OFFERS)
        async with over(root, [server(wait="progress")], SHORT, peer.reach) as ask:
            call = asyncio.create_task(ask("references", **ONE))
            await peer.until("textDocument/didOpen")
            peer.say("$/progress", {"token": 7, "value": {"kind": "begin", "title": "Indexing"}})
            result = await call
            [said] = result["servers"]
            assert (result["complete"], said["readiness"], said["version"]) == (False, "loading", "1.1")
            assert "scripted is still loading (Indexing): there may be more" in result["shown"]

    run(work())


def test_a_server_that_registers_once_it_has_loaded_is_given_no_file_before(root: Path) -> None:
    async def work() -> None:
        peer = Scripted(lambda method, params: found(root, 0), OFFERS)
        loads = server(wait="registration", sign="workspace/didChangeWatchedFiles")
        async with over(root, [loads], reach=peer.reach) as ask:
            call = asyncio.create_task(ask("references", **ONE))
            await peer.until("initialized")
            progress = {"token": 7, "value": {"kind": "begin", "title": "Never ends"}}
            peer.say("$/progress", progress)
            await asyncio.sleep(0)
            peer.say(
                "client/registerCapability", {"registrations": [{"id": "1", "method": loads.sign}]}, id=9
            )
            result = await call
            answered = peer.heard.index({"jsonrpc": "2.0", "id": 9, "result": None})
            opened = next(
                at for at, each in enumerate(peer.heard) if each.get("method") == "textDocument/didOpen"
            )
            assert answered < opened
            assert (result["complete"], result["servers"][0]["readiness"]) == (True, "ready")

    run(work())


def test_a_call_that_is_cancelled_is_cancelled_at_the_server_which_need_not_answer(root: Path) -> None:
    async def work() -> None:
        peer = Scripted(lambda method, params: SILENCE, OFFERS)
        async with over(root, [server()], reach=peer.reach) as ask:
            call = asyncio.create_task(ask("hover", **ONE))
            asked = await peer.until("textDocument/hover")
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            told = await peer.until("$/cancelRequest")
            assert told["params"] == {"id": asked["id"]}

    run(work())


def test_a_server_that_hangs_is_cancelled_then_ended_and_started_again_with_its_documents(root: Path) -> None:
    async def work() -> None:
        hangs = True
        peer = Scripted(lambda method, params: SILENCE if hangs else found(root, 1), OFFERS)
        async with over(root, [server()], SHORT, peer.reach) as ask:
            with pytest.raises(
                kit.ToolError, match=r"did not answer .* within 0.2 s; it was cancelled$"
            ) as met:
                await ask("definition", **ONE)
            assert met.value.code == "timeout"
            with pytest.raises(kit.ToolError, match="it was ended; the next call starts it again"):
                await ask("definition", **ONE)
            assert peer.methods().count("$/cancelRequest") == 2
            hangs = False
            peer.heard.clear()
            result = await ask("definition", path="b.x", line=1, symbol="four")
            assert (result["total"], result["servers"][0]["version"], peer.starts) == (1, "1.2", 2)
            opened = [
                each["params"]["textDocument"]["uri"].rpartition("/")[2]
                for each in peer.heard
                if each["method"] == "textDocument/didOpen"
            ]
            assert opened == ["a.x", "b.x"]

    run(work())


def test_a_server_that_dies_fails_its_calls_at_once_and_is_started_again_but_not_for_ever(root: Path) -> None:
    async def work() -> None:
        peer = Scripted(lambda method, params: SILENCE, OFFERS)
        async with over(root, [server()], reach=peer.reach) as ask:
            for _ in range(4):
                peer.heard.clear()
                call = asyncio.create_task(ask("definition", **ONE))
                await peer.until("textDocument/definition")
                peer.die()
                with pytest.raises(
                    kit.ToolError, match="scripted exited with code 1 before it answered"
                ) as met:
                    await call
                assert met.value.details["stderr"] == ["last words"]
            with pytest.raises(kit.ToolError, match="ended again and again, last it exited with code 1"):
                await ask("definition", **ONE)
            assert peer.starts == 4

    run(work())


def test_an_outdated_answer_is_asked_for_again_and_a_refusal_is_passed_on(root: Path) -> None:
    async def work() -> None:
        faults = [Refusal(-32801, "content modified"), Refusal(-32802, "server cancelled")]

        def answers(method: str, params: Any) -> Any:
            if faults:
                raise faults.pop(0)
            return found(root, 2)

        peer = Scripted(answers, OFFERS)
        async with over(root, [server()], reach=peer.reach) as ask:
            assert (await ask("definition", **ONE))["total"] == 1
            faults.append(Refusal(-32603, "Traceback\n" + "x" * 5000 + "\nKeyError: 'y'"))
            with pytest.raises(kit.ToolError) as met:
                await ask("definition", **ONE)
            assert len(str(met.value)) < 700
            assert str(met.value).endswith("KeyError: 'y'")

    run(work())


WRONG = {"range": span(0, 0, 3), "message": "wrong"}


def test_pushed_diagnostics_of_an_older_text_are_not_taken_for_those_of_the_new_one(root: Path) -> None:
    async def work() -> None:
        peer = Scripted(lambda method, params: None, OFFERS)
        pushed = server(push_quiet_s=0.0)
        async with over(root, [pushed], Limits(answer_s=5.0, whole_s=10.0), peer.reach) as ask:
            call = asyncio.create_task(ask("diagnostics", path="a.x"))
            about = (await peer.until("textDocument/didOpen"))["params"]["textDocument"]
            uri = about["uri"]
            peer.say(
                "textDocument/publishDiagnostics",
                {"uri": uri, "version": about["version"], "diagnostics": [WRONG]},
            )
            assert (await call)["diagnostics"][0]["message"] == "wrong"

            (root / "a.x").write_text("none\n")
            call = asyncio.create_task(ask("diagnostics", path="a.x"))
            change = (await peer.until("textDocument/didChange"))["params"]["textDocument"]
            old: Json = {"uri": uri, "version": about["version"], "diagnostics": [WRONG, WRONG]}
            peer.say("textDocument/publishDiagnostics", old)
            peer.say(
                "textDocument/publishDiagnostics",
                {"uri": uri, "version": change["version"], "diagnostics": []},
            )
            result = await call
            assert (result["diagnostics"], result["complete"], result["unanswered"]) == ([], True, [])

    run(work())


def test_a_server_that_pushes_nothing_in_time_has_not_said_that_nothing_is_wrong(root: Path) -> None:
    async def work() -> None:
        peer = Scripted(lambda method, params: None, OFFERS)
        async with over(root, [server()], SHORT, peer.reach) as ask:
            result = await ask("diagnostics", path="a.x")
            assert (result["complete"], result["unanswered"]) == (False, ["a.x"])
            assert "nothing wrong" not in result["shown"]
            assert "scripted has said nothing about a.x" in result["shown"]

    run(work())


def test_a_server_that_registers_for_being_asked_is_asked(root: Path) -> None:
    async def work() -> None:
        peer = Scripted(lambda method, params: {"kind": "full", "items": [WRONG]}, OFFERS)
        async with over(root, [server()], reach=peer.reach) as ask:
            call = asyncio.create_task(ask("diagnostics", path="a.x"))
            await peer.until("textDocument/didOpen")
            registration: Json = {"id": "d", "method": "textDocument/diagnostic", "registerOptions": {}}
            peer.say("client/registerCapability", {"registrations": [registration]}, id=1)
            assert (await call)["total"] == 1

    run(work())


def test_questions_of_a_server_are_all_answered(root: Path) -> None:
    async def work() -> None:
        peer = Scripted(lambda method, params: found(root, 0), OFFERS)
        settings = {"x": {"deep": 1}, "a.b": 2}
        async with over(root, [server(settings=settings)], reach=peer.reach) as ask:
            await ask("definition", **ONE)
            peer.heard.clear()
            sections: list[Json] = [{"section": "x.deep"}, {"section": "a.b"}, {"section": "no"}, {}]
            peer.say("workspace/configuration", {"items": sections}, id=1)
            peer.say("window/workDoneProgress/create", {"token": "t"}, id=2)
            peer.say("window/showMessageRequest", {"type": 3, "message": "?"}, id="three")
            peer.say("no/such", None, id=4)
            while len(peer.heard) < 4:
                await asyncio.sleep(0)
            answers = {
                each["id"]: each.get("result", each.get("error", {}).get("code")) for each in peer.heard
            }
            assert answers == {1: [1, 2, None, settings], 2: None, "three": None, 4: -32601}

    run(work())


def test_a_command_is_carried_out_only_when_it_is_asked_for_and_what_it_wants_is_only_shown(
    root: Path,
) -> None:
    async def work() -> None:
        def answers(method: str, params: Any) -> Any:
            if method == "textDocument/codeAction":
                return [{"title": "Shout", "command": "shout", "arguments": [1]}]
            if method == "workspace/executeCommand":
                assert params == {"command": "shout", "arguments": [1]}
                edit = {"changes": {f"file://{root}/a.x": [{"range": span(0, 0, 3), "newText": "ONE"}]}}
                peer.say("workspace/applyEdit", {"edit": edit}, id=99)
                return None
            return {"items": []}

        peer = Scripted(answers, OFFERS | {"diagnosticProvider": {}})
        async with over(root, [server()], reach=peer.reach) as ask:
            [offer] = (await ask("code_action", path="a.x", line=1))["actions"]
            assert (offer["known"], offer["plan"]) == (False, "")
            assert "workspace/executeCommand" not in peer.methods()
            [offer] = (await ask("code_action", path="a.x", line=1, title="Shout"))["actions"]
            assert "-one\n+ONE" in offer["diff"]
            [told] = [each for each in peer.heard if each.get("id") == 99]
            assert told["result"]["applied"] is False
            assert (root / "a.x").read_text().startswith("one")
            done = await ask("apply_edit", plan=offer["plan"])
            assert done["files"] == ["a.x"]
            assert (root / "a.x").read_text().startswith("ONE")
            with pytest.raises(kit.ToolError, match="applied already"):
                await ask("apply_edit", plan=offer["plan"])

    run(work())


def test_an_edit_of_a_file_outside_of_the_root_is_refused_as_a_whole(root: Path) -> None:
    async def work() -> None:
        edit = {"range": span(0, 0, 1), "newText": "X"}
        both = {f"file://{root}/a.x": [edit], "file:///etc/hosts": [edit]}
        peer = Scripted(lambda method, params: {"changes": both}, OFFERS)
        async with over(root, [server()], reach=peer.reach) as ask:
            with pytest.raises(kit.ToolError, match=r"'/etc/hosts' is outside of the root"):
                await ask("rename", new_name="new", **ONE)

    run(work())


def test_a_rename_is_asked_for_again_where_a_file_changes_meanwhile(root: Path) -> None:
    async def work() -> None:
        texts: list[str] = []

        def answers(method: str, params: Any) -> Any:
            texts.append((root / "a.x").read_text())
            if len(texts) == 1:
                # Somebody puts a line before what the server knows.
                (root / "a.x").write_text("zero\none\ntwo\nthree\n")
            line = 0 if len(texts) == 1 else 1
            return {"changes": {f"file://{root}/a.x": [{"range": span(line, 0, 3), "newText": "uno"}]}}

        peer = Scripted(answers, OFFERS)
        async with over(root, [server()], reach=peer.reach) as ask:
            result = await ask("rename", new_name="uno", **ONE)
            assert "-one\n+uno" in result["diff"]
            assert peer.methods().count("textDocument/rename") == 2

    run(work())


def test_a_simulated_edit_is_taken_back_and_nobody_else_sees_it(root: Path) -> None:
    async def work() -> None:
        shown = {"a.x": "", "b.x": ""}

        def answers(method: str, params: Any) -> Any:
            about = params["textDocument"]
            if method == "textDocument/diagnostic":
                text = current(peer, about["uri"])
                return {"items": [WRONG] if "bad" in text else [{**WRONG, "message": "old"}]}
            shown["a.x"] = current(peer, about["uri"])
            return None

        peer = Scripted(answers, OFFERS | {"diagnosticProvider": True})
        async with over(root, [server()], reach=peer.reach) as ask:
            simulated, _ = await asyncio.gather(
                ask("simulate_edit", path="a.x", old="two", new="bad"), ask("hover", **ONE)
            )
            assert [each["message"] for each in simulated["added"]] == ["wrong"]
            assert [each["message"] for each in simulated["removed"]] == ["old"]
            assert "-two\n+bad" in simulated["diff"]
            assert "bad" not in shown["a.x"]
            assert current(peer, f"file://{root}/a.x") == (root / "a.x").read_text() == "one\ntwo\nthree\n"
            for old, count in (("o", 2), ("no", 0)):
                with pytest.raises(kit.ToolError, match=f"holds `old` {count} times"):
                    await ask("simulate_edit", path="a.x", old=old, new="")

    run(work())


def current(peer: Scripted, uri: str) -> str:
    """The text that a server has of a document."""
    text = ""
    for each in peer.heard:
        params: Json = each.get("params") or {}
        about: Json = params.get("textDocument", {})
        if about.get("uri") == uri and each["method"] == "textDocument/didOpen":
            text = about["text"]
        elif about.get("uri") == uri and each["method"] == "textDocument/didChange":
            text = each["params"]["contentChanges"][0]["text"]
    return text


def test_changes_on_the_disk_are_told_also_of_files_that_only_the_server_cares_for(root: Path) -> None:
    async def work() -> None:
        peer = Scripted(lambda method, params: found(root, 0), OFFERS)
        async with over(root, [server(configs=("x.toml",))], reach=peer.reach) as ask:
            await ask("definition", **ONE)
            watch: Json = {
                "id": "w",
                "method": "workspace/didChangeWatchedFiles",
                "registerOptions": {
                    "watchers": [
                        {"globPattern": "**/*.lock"},
                        {"globPattern": {"baseUri": f"file://{root}/sub", "pattern": "*.y"}},
                    ]
                },
            }
            peer.say("client/registerCapability", {"registrations": [watch]}, id=1)
            while peer.heard[-1] != {"jsonrpc": "2.0", "id": 1, "result": None}:
                await asyncio.sleep(0)
            await ask("definition", **ONE)
            (root / "sub").mkdir()
            for name in ("x.toml", "z.lock", "sub/s.y", "other.txt"):
                (root / name).write_text("")
            (root / "b.x").unlink()
            peer.heard.clear()
            await ask("definition", **ONE)
            [told] = [each for each in peer.heard if each.get("method") == "workspace/didChangeWatchedFiles"]
            changed = {
                each["uri"].removeprefix(f"file://{root}/"): each["type"]
                for each in told["params"]["changes"]
            }
            assert changed == {"x.toml": 1, "z.lock": 1, "sub/s.y": 1, "b.x": 3}

    run(work())


@pytest.mark.parametrize("save", [True, {"includeText": False}, False, None])
def test_a_server_that_judges_what_is_saved_is_told_of_it(root: Path, save: object) -> None:
    async def work() -> None:
        peer = Scripted(lambda method, params: found(root, 0), OFFERS | {"textDocumentSync": {"save": save}})
        async with over(root, [server()], reach=peer.reach) as ask:
            await ask("definition", **ONE)
            (root / "a.x").write_text("one more\n")
            await ask("definition", **ONE)
            told = [method for method in peer.methods() if method.startswith("textDocument/did")]
            saved = ["textDocument/didSave"] if save else []
            assert told == ["textDocument/didOpen", "textDocument/didChange", *saved]

    run(work())


def test_a_server_that_cannot_be_reached_does_not_keep_another_from_answering(root: Path) -> None:
    async def work() -> None:
        peer = Scripted(lambda method, params: found(root, 0), OFFERS)

        async def reach(wanted: Server, directory: str, listener: Listener) -> Any:
            if wanted.name == "missing":
                raise kit.ToolError("io", "missing is not installed")
            return await peer.reach(wanted, directory, listener)

        missing = Server(name="missing", program="x", languages={".x": "x"}, wait="none")
        async with over(root, [missing, server()], SHORT, reach) as ask:
            assert (await ask("definition", **ONE))["servers"][0]["name"] == "scripted"
            checked = await ask("diagnostics", path="a.x")
            assert checked["complete"] is False
            assert "missing is not installed" in checked["shown"]
        async with over(root, [missing], SHORT, reach) as ask:
            for name in ("definition", "rename"):
                with pytest.raises(kit.ToolError, match="missing is not installed"):
                    await ask(name, **ONE | ({"new_name": "x"} if name == "rename" else {}))

    run(work())
