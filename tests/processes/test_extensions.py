"""Extensions that are found, started, used, recorded and replayed: three programs in three languages."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from gateway.config import ServeOptions
from tests.processes.extension_kit import PATIENT, installed
from tests.processes.gateway_kit import ROOT, TIELINE, Client, Message, echo, house, run, text_of, toml_of
from tests.processes.replay_kit import program, report, tieline


async def whole_session(core: Client) -> list[str]:
    """Use the tool of each, and the command of one; return what they said."""
    await core.shake_hands()
    listed = await core.ask("tools/list")
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["guard_rules", "count", "todo_add"]
    said = [text_of(await core.tool("todo_add", what="water the plants"))]
    prompt = await core.ask("prompts/get", {"name": "todo", "arguments": {"args": "buy milk"}})
    said.append(prompt["result"]["messages"][0]["content"]["text"])
    said.append(text_of(await core.tool("guard_rules")))
    counted = await core.tool("count", path="shelf")
    # A hook puts a line below each result.
    said.append(" ".join(block["text"] for block in counted["result"]["content"]))
    said.append(text_of(await core.tool("count", path="nowhere")))
    return said


def played(folder: Path, env: dict[str, str], *arguments: str | Path) -> tuple[list[str], list[Message]]:
    (folder / "tieline.toml").write_text(PATIENT)

    async def main() -> tuple[list[str], list[Message]]:
        async with program(folder, [*TIELINE, *arguments], env) as (core, process):
            said = await whole_session(core)
        assert process.returncode == 0, (folder / "stderr.log").read_text()
        return said, core.messages

    return run(main())


def test_programs_in_three_languages_are_found_used_recorded_and_replayed(tmp_path: Path) -> None:
    env = installed(tmp_path)
    (tmp_path / ".guard").write_text("rm -rf\ncurl\n")
    (tmp_path / "shelf").mkdir()
    for name in "abc":
        (tmp_path / "shelf" / name).touch()

    said, _ = played(tmp_path, env, "run", "--extensions", "--stdio", "--record", tmp_path / "kept")

    assert said[:4] == ["- [ ] water the plants", "- [ ] buy milk", "rm -rf\ncurl", "3 (1 line)"]
    assert "nowhere" in said[4]
    assert (tmp_path / "TODO.md").read_text() == "- [ ] water the plants\n- [ ] buy milk\n"
    (recording,) = (tmp_path / "kept").iterdir()

    (tmp_path / "TODO.md").unlink()
    again, _ = played(tmp_path, env, "replay", recording, "--report", tmp_path / "report.json")
    assert again == said
    assert report(tmp_path / "report.json")["verdict"] == "same"
    driven = tieline("replay", recording, "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr
    assert not (tmp_path / "TODO.md").exists()


def test_one_that_is_broken_or_ends_at_once_is_told_and_costs_the_others_nothing(tmp_path: Path) -> None:
    env = installed(tmp_path)
    for name, members in (
        ("broken", {"version": 1}),
        ("ends", {"command": ["sh", "-c", "echo no such key >&2; exit 4"]}),
        ("missing", {"command": ["./not-there"]}),
    ):
        folder = tmp_path / "agent" / "extensions" / name
        folder.mkdir()
        manifest: dict[str, Any] = {"name": name, "version": "1", "command": ["sh"], **members}
        (folder / "extension.json").write_text(json.dumps(manifest))
    (tmp_path / "shelf").mkdir()

    said, _ = played(tmp_path, env, "run", "--extensions", "--stdio")

    assert said[2:4] == ["rm -rf\nmkfs\ngit push --force", "0 (1 line)"]
    told = (tmp_path / "stderr.log").read_text()
    assert "broken/extension.json:1: `version` must be text" in told
    assert "ends" in told
    assert "missing" in told

    shown = tieline("extensions", "show", "--start", "--json", cwd=tmp_path, env=env)
    facts = json.loads(shown.stdout)
    assert shown.returncode == 1
    assert [one["extension"] for one in facts["registered"]] == ["guard", "stamp", "todo"]
    assert [one["name"] for one in facts["failed"]] == ["ends", "missing"]
    assert "no such key" in facts["failed"][0]["error"]
    todo = facts["registered"][2]
    assert {
        kind: todo[kind] for kind in ("tools", "commands", "hooks", "shortcuts", "flags", "tool_renderers")
    } == {
        "tools": ["todo_add"],
        "commands": ["todo"],
        "hooks": ["before_agent_start"],
        "shortcuts": ["ctrl+shift+y"],
        "flags": ["todo-quiet"],
        "tool_renderers": ["todo_add"],
    }


def test_what_a_project_brings_is_served_once_it_is_trusted_and_no_longer_once_it_is_another(
    tmp_path: Path,
) -> None:
    env = installed(tmp_path, ["guard", "stamp", "todo"])
    agent = Path(env["PI_CODING_AGENT_DIR"])
    (tmp_path / ".pi").mkdir()
    (agent / "extensions").rename(tmp_path / ".pi" / "extensions")
    (tmp_path / "shelf").mkdir()

    nobody = tieline("run", "--extensions", "--stdio", cwd=tmp_path, env=env)
    assert nobody.returncode == 3
    assert nobody.stderr.count("is of the project, and is not served before") == 3

    trusted = tieline("extensions", "trust", "guard", "stamp", "todo", "--yes", cwd=tmp_path, env=env)
    assert trusted.returncode == 0, trusted.stderr
    assert played(tmp_path, env, "run", "--extensions", "--stdio")[0][3] == "0 (1 line)"

    with (tmp_path / ".pi" / "extensions" / "guard" / "guard.mjs").open("a") as file:
        file.write("\n")
    shown = json.loads(tieline("extensions", "show", "--json", cwd=tmp_path, env=env).stdout)
    assert [one["state"] for one in shown["extensions"]] == ["untrusted", "served", "served"]


def test_the_page_leads_from_nothing_to_a_working_extension(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "pi-extensions.md").read_text()
    env = installed(tmp_path, [])
    folder = tmp_path / "agent" / "extensions" / "hello"
    folder.mkdir(parents=True)
    for language, name in (("jsonc", "extension.json"), ("python", "hello.py")):
        [first, *_] = re.findall(rf"^```{language}\n(.*?)^```", page, re.M | re.S)
        (folder / name).write_text(first)

    shown = tieline("extensions", "show", "--start", cwd=tmp_path, env=env)
    assert "hello 1.0.0\n  tools: hello\n" in shown.stdout, shown.stdout + shown.stderr

    async def main() -> str:
        async with program(tmp_path, [*TIELINE, "run", "--extensions", "--stdio"], env) as (core, _):
            await core.shake_hands()
            return text_of(await core.ask("tools/call", {"name": "hello", "arguments": {"name": "Ada"}}))

    assert run(main()) == "Hello, Ada!"


def test_an_extension_that_is_put_there_later_is_served_after_a_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = installed(tmp_path, ["todo"])
    agent = Path(env["PI_CODING_AGENT_DIR"])
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(agent))
    (agent / "extensions").rename(agent / "later")
    (tmp_path / "tieline.toml").write_text(toml_of({"good": echo()}, catalog={"prefix": "auto"}))
    options = ServeOptions(
        record_dir=tmp_path / "recordings", config_path=tmp_path / "tieline.toml", discovers=True
    )

    async def main() -> None:
        async with house(tmp_path, {"good": echo()}, options=options, catalog={"prefix": "auto"}) as here:
            core = await here.core()
            assert "error" in await core.tool("todo_add", what="x")
            (agent / "later").rename(agent / "extensions")
            here.gateway.reload()
            assert text_of(await core.tool("todo_add", what="sow")) == "- [ ] sow"

            (agent / "extensions").rename(agent / "later")
            here.gateway.reload()
            assert "error" in await core.tool("todo_add", what="x")
            assert text_of(await core.tool("echo", text="still here")) == "still here"

    run(main())


def test_a_gateway_without_a_configuration_looks_again_on_sighup(tmp_path: Path) -> None:
    env = installed(tmp_path, ["guard", "todo"])
    extensions = Path(env["PI_CODING_AGENT_DIR"]) / "extensions"
    (extensions / "guard").rename(tmp_path / "guard")

    async def main() -> list[str]:
        async with program(tmp_path, [*TIELINE, "run", "--extensions", "--stdio"], env) as (core, process):
            await core.shake_hands()
            assert [tool["name"] for tool in (await core.ask("tools/list"))["result"]["tools"]] == [
                "todo_add"
            ]
            (tmp_path / "guard").rename(extensions / "guard")
            process.send_signal(signal.SIGHUP)
            await core.until(lambda: core.notes("notifications/tools/list_changed"))
            listed = await core.ask("tools/list")
        assert process.returncode == 0
        return [tool["name"] for tool in listed["result"]["tools"]]

    assert run(main()) == ["guard_rules", "todo_add"]
