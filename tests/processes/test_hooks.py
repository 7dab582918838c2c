"""Extensions with hooks as real processes: agents of both dialects are guarded, edited, and never frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.processes.gateway_kit import PYTHON, TIELINE, Message, echo, run, toml_of
from tests.processes.replay_kit import Served, played, program, report, tieline
from tests.processes.test_pi_core import Script

EXTENSION = str(Path(__file__).parent / "hook_extension.py")


def hooked(folder: Path, **sections: Any) -> Path:
    """Write the configuration of a server and two extensions, which write down what they hear."""
    peers = {
        role: {"command": [*PYTHON, EXTENSION, role, str(folder / "told")], "dialect": "pi"}
        for role in ("editor", "guard")
    }
    path = folder / "tieline.toml"
    path.write_text(toml_of({"good": echo(), **peers}, **sections))
    return path


def heard(folder: Path, *events: str) -> list[str]:
    """Return what the extensions have heard of these events, in order."""
    return [word for word in (folder / "told").read_text().split() if word.split(":")[1] in events]


def calls(*texts: str) -> list[tuple[str, Message]]:
    return [("good__echo", {"text": text}) for text in texts]


def recording(folder: Path) -> Path:
    [found] = (folder / "kept").iterdir()
    return found


def test_an_mcp_core_is_guarded_and_edited_and_its_session_is_played_again(tmp_path: Path) -> None:
    config = hooked(tmp_path, listen={"stdio": True}, **{"extensions.hooks": {"timeout_ms": 2000}})
    texts = ("one", "rm two", "hang", "garbage", "last")
    live = played(tmp_path, ["run", config, "--stdio", "--record", tmp_path / "kept"], *calls(*texts))

    assert live.code == 0, live.said
    assert live.texts[0] == "dear one, said the editor"
    assert live.texts[1] == "Blocked by the extension guard: it says rm"
    assert live.texts[2] == "Blocked: the hook of guard for `tool_call` has not answered within 2000 ms"
    assert "the hook of guard for `tool_call` has given an answer that cannot be taken" in live.texts[3]
    assert live.texts[4] == "dear last, said the editor"
    assert heard(tmp_path, "session_start", "session_shutdown").count("guard:session_start") == 1
    assert heard(tmp_path, "tool_call")[:2] == ["editor:tool_call", "guard:tool_call"]

    driven = tieline("replay", recording(tmp_path), "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr
    again: Served = played(
        tmp_path, ["replay", recording(tmp_path), "--report", tmp_path / "report.json"], *calls(*texts)
    )
    assert again.texts == live.texts
    assert report(tmp_path / "report.json")["verdict"] == "same"


def test_a_guard_that_dies_blocks_its_call_and_guards_again_when_it_is_back(tmp_path: Path) -> None:
    config = hooked(tmp_path, listen={"stdio": True}, **{"extensions.hooks": {"timeout_ms": 20_000}})
    live = played(tmp_path, ["run", config, "--stdio"], *calls("die", "rm it", "one"))
    assert "the hook of guard for `tool_call` has failed" in live.texts[0]
    assert live.texts[1] == "Blocked by the extension guard: it says rm"
    assert live.texts[2] == "dear one, said the editor"
    started = heard(tmp_path, "session_start")
    assert (started.count("guard:session_start"), started.count("editor:session_start")) == (2, 1)


@pytest.mark.parametrize(("profile", "passes"), [("safe", False), ("full-auto", True)])
def test_a_hung_guard_stops_a_call_under_safe_and_lets_it_pass_under_full_auto(
    tmp_path: Path, profile: str, passes: bool
) -> None:
    sections = {"extensions.hooks": {"timeout_ms": 1500}, "extensions.policy": {"profile": profile}}
    config = hooked(tmp_path, listen={"stdio": True}, **sections)
    live = played(tmp_path, ["run", config, "--stdio", "--record", tmp_path / "kept"], *calls("hang"))
    assert (live.texts[0] == "dear hang, said the editor") is passes
    frames = tieline("frames", recording(tmp_path), "--kind", "hook", "--json", cwd=tmp_path).stdout
    assert ("the profile full-auto lets it pass" in frames) is passes


def scripted(folder: Path, *arguments: str | Path) -> tuple[list[Message], str]:
    """Play a Pi core that asks about what it does, as a host has to; return the answers and what was said on stderr."""

    async def main() -> tuple[list[Message], str]:
        async with program(folder, [*TIELINE, *arguments]) as (client, process):
            script = Script(client)
            await script.starts()
            for number, text in enumerate(("one", "rm two")):
                call = {"toolName": "good__echo", "toolCallId": f"t{number}", "input": {"text": text}}
                answer = await script.answer(script.says("event_hook", {"event": "tool_call", "data": call}))
                decision = answer["data"].get("result", {})
                if decision.get("block"):
                    continue
                given = {"call_id": f"t{number}", "name": "good__echo", "input": decision["input"]}
                await script.answer(script.says("tool_call", given))
            script.says("event_hook", {"event": "turn_end", "data": {"reply": False}})
            prompt = {"event": "before_agent_start", "data": {"prompt": "p", "systemPrompt": "s"}}
            await script.answer(script.says("event_hook", prompt))
            script.says("event_hook", {"event": "session_shutdown", "data": {"reply": False}})
        said = (folder / "stderr.log").read_text()
        assert process.returncode == 0, said
        return [message["payload"] for message in script.heard], said

    return run(main())


def test_a_pi_core_is_blocked_changed_and_injected_by_two_extensions_and_played_again(tmp_path: Path) -> None:
    config = hooked(tmp_path, listen={"stdio": True, "stdio_dialect": "pi"})
    heard_live, _ = scripted(tmp_path, "run", config, "--stdio", "--record", tmp_path / "kept")
    changed, called, blocked, injected = heard_live
    assert changed["data"]["result"] == {"input": {"text": "dear one"}}
    assert called["output"]["content"][0]["text"] == "dear one"
    assert blocked["data"]["result"] == {"block": True, "reason": "it says rm"}
    assert injected["data"]["result"]["message"]["content"] == "be kind"
    told = heard(tmp_path, "tool_call", "turn_end", "before_agent_start")
    assert told == [
        *("editor:tool_call", "guard:tool_call") * 2,
        "editor:turn_end",
        "editor:before_agent_start",
    ]
    assert heard(tmp_path, "session_start").count("guard:session_start") == 1

    driven = tieline("replay", recording(tmp_path), "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr
    heard_again, said = scripted(
        tmp_path, "replay", recording(tmp_path), "--report", tmp_path / "report.json"
    )
    assert heard_again == heard_live, said
    assert report(tmp_path / "report.json")["verdict"] == "same"
