"""A real session recorded twice gives the same text, byte for byte, and the text can stand in for the recording."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import uuid
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main
from recordings.export_text import TextFiles, write_text_form
from recordings.importers.messages import LANE_KEY
from recordings.incoming import write_recording
from recordings.store import Recording, open_recording
from recordings.textback import read_session
from recordings.textform import text_files
from tests.processes.gateway_kit import ECHO_PEER, PATIENCE_S, PYTHON, TIELINE

Message = dict[str, Any]
HELLO: Message = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {"form": {}}},
    "clientInfo": {"name": "core", "version": "1"},
}


class Core:
    """A core on the stdio of a gateway: its calls may overlap, and it answers what it is asked."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._waiting: dict[int, asyncio.Future[Message]] = {}

    def say(self, message: Message) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def ask(self, method: str, params: Message) -> Message:
        number = len(self._waiting) + 1
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self.say({"id": number, "method": method, "params": params})
        return await self._waiting[number]

    async def call(self, tool: str, arguments: Message, *, lane: str = "", **meta: object) -> Message:
        told = {**meta, **({LANE_KEY: lane} if lane else {})}
        params: Message = {"name": tool, "arguments": arguments}
        return await self.ask("tools/call", {**params, "_meta": told} if told else params)

    async def listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message: Message = json.loads(line)
            if "method" not in message:
                self._waiting[message["id"]].set_result(message)
            elif "id" in message:
                self.say({"id": message["id"], "result": {"action": "accept", "content": {"name": "Ada"}}})


Work = Callable[[Core], Coroutine[Any, Any, None]]


def recorded(place: Path, work: Work, *, peers: tuple[str, ...] = ("one", "two")) -> Recording:
    """Record what a core does with real peers behind a real gateway."""
    place.mkdir()
    command = json.dumps([*PYTHON, ECHO_PEER])
    config = "".join(f"[peers.{name}]\ncommand = {command}\n" for name in peers)
    (place / "tieline.toml").write_text(config)

    async def run() -> None:
        process = await asyncio.create_subprocess_exec(
            *TIELINE, "run", str(place / "tieline.toml"), "--stdio", "--record", str(place / "recordings"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, limit=1 << 20,
        )  # fmt: skip
        core = Core(process)
        listening = asyncio.create_task(core.listen())
        try:
            await core.ask("initialize", HELLO)
            core.say({"method": "notifications/initialized"})
            await core.ask("tools/list", {})
            await work(core)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
            await listening

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    (found,) = (place / "recordings").iterdir()
    return open_recording(found)


def text_of(recording: Recording) -> dict[str, bytes]:
    return dict(text_files(recording.header, recording, recording.body))


async def two_lanes(core: Core) -> None:
    """Two lanes at once, whose calls meet in another order each time: plain calls, progress, questions, errors."""

    async def lane(name: str, peer: str) -> None:
        run = str(uuid.uuid4())
        for number in range(4):
            await asyncio.sleep(random.random() / 100)
            now = datetime.now(UTC).isoformat()
            text = f"{number} of {run} at {now}"
            await core.call(f"{peer}__echo", {"text": text, "delay_ms": 3 * number}, lane=name)
        await core.call(f"{peer}__progress", {"n": 3}, lane=name, progressToken=uuid.uuid4().hex)
        await core.call(f"{peer}__elicit", {"message": "who?"}, lane=name)
        await core.call(f"{peer}__nothing", {}, lane=name)
        await core.call(f"{peer}__echo", {"text": "long", "size": 50_000}, lane=name)

    await asyncio.gather(lane("turn1/tool1", "one"), lane("turn1/tool2", "two"))
    # A question on a pipe that serves several calls at once is refused or not, as they happen to meet.
    await lane("turn1/tool10", "two")


async def all_at_once(core: Core) -> None:
    """Many calls in flight, without lanes, sent in another order each time."""
    numbers = list(range(12))
    random.shuffle(numbers)
    calls = [core.call("echo", {"text": f"call {number}", "delay_ms": 5}) for number in numbers]
    await asyncio.gather(*calls)
    await core.call("elicit", {"message": "and now?"})


@pytest.mark.parametrize(("work", "peers"), [(two_lanes, ("one", "two")), (all_at_once, ("one",))])
def test_a_session_recorded_twice_gives_the_same_text(
    tmp_path: Path, work: Work, peers: tuple[str, ...]
) -> None:
    first = text_of(recorded(tmp_path / "1", work, peers=peers))
    second = text_of(recorded(tmp_path / "2", work, peers=peers))

    assert sorted(first) == sorted(second)
    for path in first:
        assert first[path].decode() == second[path].decode()


@pytest.mark.parametrize(("work", "peers"), [(two_lanes, ("one", "two")), (all_at_once, ("one",))])
def test_what_is_read_from_the_text_gives_that_text_again_and_runs_as_the_session_did(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    work: Work,
    peers: tuple[str, ...],
) -> None:
    recording = recorded(tmp_path / "1", work, peers=peers)
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))

    write_text_form(tmp_path / "text", text_files(recording.header, recording, recording.body))
    monkeypatch.setattr(
        sys, "argv", ["tieline", "import", str(tmp_path / "text"), "--out", str(tmp_path / "back")]
    )
    assert main() == 0
    back = open_recording(tmp_path / "back")

    assert back.frames == recording.frames
    assert text_of(back) == text_of(recording)
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["tieline", "replay", str(tmp_path / "back"), "--drive"])
    assert (main(), capsys.readouterr().out.partition(" ")[0]) == (0, "SAME")


def test_a_core_is_served_from_the_text_alone(tmp_path: Path) -> None:
    """With another progress token than was recorded, and with nobody behind the gateway."""
    recording = recorded(tmp_path / "1", two_lanes)
    write_text_form(tmp_path / "text", text_files(recording.header, recording, recording.body))
    header, frames = read_session(TextFiles(tmp_path / "text"))
    write_recording(tmp_path / "back", header, frames)

    async def run() -> list[Message]:
        process = await asyncio.create_subprocess_exec(
            *TIELINE, "replay", str(tmp_path / "back"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, limit=1 << 20,
        )  # fmt: skip
        core = Core(process)
        listening = asyncio.create_task(core.listen())
        await core.ask("initialize", HELLO)
        core.say({"method": "notifications/initialized"})
        await core.ask("tools/list", {})
        token = uuid.uuid4().hex
        answers = [
            await core.call("two__progress", {"n": 3}, lane="turn1/tool2", progressToken=token),
            await core.call("two__elicit", {"message": "who?"}, lane="turn1/tool2"),
        ]
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await listening
        return answers

    progress, question = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))

    assert progress["result"]["content"][0]["text"] == "3 steps"
    assert question["result"]["content"][0]["text"] == 'accept {"name":"Ada"}'
