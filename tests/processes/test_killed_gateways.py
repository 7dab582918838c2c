"""Two hundred gateways are killed at random points: every recording opens, and nothing that was given is missing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gateway.runtime.keeping import keeper_works
from recordings.store import open_recording
from tests.processes.fault_kit import check_answers
from tests.processes.gateway_kit import (
    Client,
    Message,
    echo,
    eventually,
    marked_by,
    run,
    text_of,
    toml_of,
)
from tests.processes.killed_gateways import Parent, parent
from transports.unix import connect_unix

pytestmark = pytest.mark.skipif(not keeper_works(), reason="needs Linux with /proc")

KILLS = 200
BATCHES = 10
LANES = 4
MOST_ANSWERS = 60


class Victim:
    """One gateway under `barrier`, its core, and what that core was given."""

    def __init__(self, parent: Parent, directory: Path, dice: random.Random) -> None:
        self._parent = parent
        self._directory = directory
        self._dice = dice
        self._pid = 0
        self._killed = False

    async def live(self) -> str:
        """Start, be used and be killed; return what the recording says of itself, or that there is none."""
        when = self._dice.choices(("greeting", "calls", "end"), weights=(1, 8, 1))[0]
        core = await self._start()
        try:
            if when == "greeting":
                await self._during_the_greeting(core)
            elif when == "calls":
                await self._during_calls(core)
            else:
                await self._at_the_end(core)
        finally:
            self._kill()
            assert await asyncio.to_thread(self._parent.ended) == -signal.SIGKILL
        await core.until(lambda: core.endings)
        await eventually(lambda: marked_by(self._pid) == [], "the end of what it had started")
        return self._look(core, may_be_missing=when == "greeting")

    async def _start(self) -> Client:
        place = self._directory
        place.mkdir(mode=0o700)
        config, ready, socket = place / "tieline.toml", place / "ready.json", place / "core.sock"
        sections: Message = {"listen": {"unix": {"path": str(socket)}}, "record": {"durability": "barrier"}}
        config.write_text(toml_of({"good": echo()}, **sections))
        arguments = ["run", str(config), "--ready-file", str(ready), "--record", str(place / "recordings")]
        self._pid = self._parent.start(arguments, place / "stderr.log", place / "state")
        await eventually(ready.exists, "the start")
        core = Client()
        core.link = await connect_unix(socket, core)
        return core

    def _kill(self) -> None:
        if not self._killed:
            self._killed = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    async def _during_the_greeting(self, core: Client) -> None:
        greeting = asyncio.create_task(core.shake_hands())
        await self._a_moment(0.05)
        self._kill()
        with contextlib.suppress(ConnectionError):
            await greeting

    async def _during_calls(self, core: Client) -> None:
        await core.shake_hands()
        last = self._dice.randrange(MOST_ANSWERS)
        moment = self._dice.choice((0.0, 0.0005, 0.005))

        async def load(lane: int) -> None:
            for turn in itertools.count():
                if core.endings:
                    return
                text = f"call {lane} {turn}"
                assert text_of(await core.tool("good__echo", text=text)) == text
                if sum(core.answered.values()) > last and not self._killed:
                    await self._a_moment(moment)
                    self._kill()

        results = await asyncio.gather(*(load(lane) for lane in range(LANES)), return_exceptions=True)
        assert all(result is None or isinstance(result, ConnectionError) for result in results), results

    async def _at_the_end(self, core: Client) -> None:
        await core.shake_hands()
        for turn in range(self._dice.randrange(1, 8)):
            assert text_of(await core.tool("good__echo", text=str(turn))) == str(turn)
        core.close()
        await self._a_moment(0.02)

    async def _a_moment(self, most_s: float) -> None:
        """Let a random time pass, to hit another point each time; nothing is expected of it."""
        await asyncio.sleep(self._dice.uniform(0.0, most_s))

    def _look(self, core: Client, *, may_be_missing: bool) -> str:
        check_answers(core)
        found = self._directory / "recordings"
        paths = [path for path in found.iterdir() if not path.name.startswith(".")] if found.is_dir() else []
        given = {message["id"]: message for message in core.messages if "method" not in message}
        if not paths or not (paths[0] / "recording.json").exists():
            assert may_be_missing
            assert not given
            return "none"
        [path] = paths
        recording = open_recording(path)
        frames = list(recording)
        requests = {f.seq: f.id for f in frames if f.kind == "request" and f.way == "core>"}
        answers: dict[Any, Message] = {}
        for frame in frames:
            if frame.kind in ("response", "error") and frame.re in requests:
                answers[requests[frame.re]] = json.loads(bytes(frame.body))
        for id_, message in given.items():
            assert answers[id_].get("result") == message.get("result"), message
        lost = {requests.get(f.re) for f in frames if f.kind == "lost" and f.re is not None}
        assert not lost & given.keys()
        return recording.state


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_recording_of_a_killed_gateway_opens_with_all_that_its_core_was_given(
    batch: int, tmp_path: Path
) -> None:
    dice = random.Random(batch)
    states: Counter[str] = Counter()

    async def main() -> None:
        with parent() as mother:
            for number in range(KILLS // BATCHES):
                states[await Victim(mother, tmp_path / str(number), dice).live()] += 1

    run(main())
    assert sum(states.values()) == KILLS // BATCHES
    # Most have died in the middle of calls, or this proves little.
    assert states["broken-off"] > KILLS // BATCHES // 2, states
