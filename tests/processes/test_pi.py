"""An extension that speaks the Pi protocol, as a real process behind a real gateway, called by an MCP core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.config import ConfigError, parse
from tests.processes.gateway_kit import (
    PATIENCE_S,
    PYTHON,
    Client,
    House,
    Message,
    echo,
    eventually,
    house,
    run,
    state,
    text_of,
)
from tests.processes.replay_kit import tieline

__all__ = ["state"]

EXTENSION = str(Path(__file__).parent / "pi_extension.py")


def extension(folder: Path, *faults: str, **settings: Any) -> Message:
    return {"command": [*PYTHON, EXTENSION, str(folder / "told"), *faults], "dialect": "pi", **settings}


def told(folder: Path) -> list[str]:
    return (folder / "told").read_text().split() if (folder / "told").exists() else []


async def whole_session(core: Client) -> list[str]:
    """Use everything that the extension has, but for its death; return what it said."""
    listed = await core.ask("tools/list")
    names = [tool["name"] for tool in listed["result"]["tools"] if tool["name"].startswith("calc")]
    assert names == [f"calc__{name}" for name in ("add", "slow", "ask", "die", "twice", "late", "huge")]
    said = [text_of(await core.tool("calc__add", a=2, b=3))]
    prompt = await core.ask("prompts/get", {"name": "calc__greet", "arguments": {"args": "to you"}})
    said.append(prompt["result"]["messages"][0]["content"]["text"])
    params = {"name": "calc__slow", "arguments": {}, "_meta": {"progressToken": "p"}}
    id_, answer = core.start("tools/call", params)
    await core.until(lambda: len(core.notes("notifications/progress")) == 2)
    core.send({"method": "notifications/cancelled", "params": {"requestId": id_}})
    said += [text_of(await core.tool(f"calc__{name}")) for name in ("ask", "twice", "late")]
    await core.until(lambda: core.notes("notifications/tools/list_changed"))
    again = await core.ask("tools/list")
    assert "calc__more" in [tool["name"] for tool in again["result"]["tools"]]
    assert not answer.done()
    return said


def test_an_mcp_core_uses_a_pi_extension_and_the_session_can_be_replayed(tmp_path: Path) -> None:
    async def main() -> Path:
        async with house(tmp_path, {"calc": extension(tmp_path), "good": echo()}) as here:
            core = await here.core()
            assert await whole_session(core) == ["5", "hello to you", "denied", "once", "registered"]
            assert [note["progress"] for note in core.notes("notifications/progress")] == [1, 2]
            events = [note["data"]["event"] for note in core.notes("notifications/message")]
            assert events == ["pi.dropped"]
            core.close()
            await eventually((here.recordings()[0] / "sealed").exists, "the recording is sealed")
            return here.recordings()[0]

    recording = run(main())

    assert told(tmp_path) == ["session_start", "cancel", "session_shutdown"]
    driven = tieline("replay", recording, "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr


def test_an_answer_that_is_too_long_ends_its_call_and_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        peers = {"calc": extension(tmp_path, limits={"max_message_bytes": 4000}), "good": echo()}
        async with house(tmp_path, peers) as here:
            core = await here.core()
            error = (await core.tool("calc__huge"))["error"]
            assert (error["data"]["code"], error["data"]["reason"]) == ("io", "message_too_large")
            assert text_of(await core.tool("calc__add", a=1, b=1)) == "2"
            assert here.life("calc") == 1

    run(main())


def test_an_extension_that_dies_ends_its_call_and_lives_again(tmp_path: Path) -> None:
    async def main(here: House) -> None:
        core = await here.core()
        error = (await core.tool("calc__die"))["error"]
        assert error["data"]["code"] == "io"
        assert "3" in error["message"]
        assert text_of(await core.tool("good__echo", text="still here")) == "still here"
        assert text_of(await core.tool("calc__add", a=1, b=1)) == "2"

    async def around() -> None:
        peers = {"calc": extension(tmp_path, restart={"backoff_s": 0.01}), "good": echo()}
        async with house(tmp_path, peers) as here:
            await main(here)

    run(around())


@pytest.mark.parametrize(
    ("fault", "within", "code", "says"),
    [
        ("silent", 1.0, "timeout", "has not answered"),
        ("version", PATIENCE_S, "invalid_request", "spoken here: 1.0"),
    ],
)
def test_an_extension_that_cannot_be_talked_to_is_told_and_others_go_on(
    fault: str, within: float, code: str, says: str, tmp_path: Path
) -> None:
    async def main() -> None:
        peers = {"calc": extension(tmp_path, fault, start_timeout_s=within), "good": echo()}
        async with house(tmp_path, peers) as here:
            core = await here.core()
            assert "error" in await core.tool("calc__add", a=1, b=1)
            assert text_of(await core.tool("good__echo", text="x")) == "x"
            faults = [
                frame.x or {} for frame in here.frames() if (frame.peer, frame.kind) == ("calc", "fault")
            ]
            assert faults[0]["code"] == code
            assert says in faults[0]["message"]

    run(main())


@pytest.mark.parametrize(
    "settings",
    [
        'url = "http://127.0.0.1:1"',
        'unix = "/x"',
        'command = ["x"]\nera = "modern"',
        'command = ["x"]\nversion = "2026-07-28"',
    ],
)
def test_a_pi_extension_is_a_process_and_of_no_modern_era(settings: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="dialect"):
        parse(f'[peers.calc]\ndialect = "pi"\n{settings}\n', path=tmp_path / "tieline.toml", environ={})
