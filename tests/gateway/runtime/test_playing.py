"""Recorded peers on a real loop, towards a core that is a list."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.calls.core_state import Core
from gateway.calls.exchange import Exchange
from gateway.config.recorded import config_of
from gateway.protocol import mcp
from gateway.replay.misses import MissPolicy
from gateway.runtime.replay_world import ReplayOptions, ReplayWorld
from recordings.divergence import Report
from recordings.frame import Frame
from recordings.held import Held
from recordings.profile import BUILT_IN
from recordings.script import Script
from tests.gateway.replay.scene import ASKABLE, LEGACY, MODERN, End, Message
from tests.gateway.replay.sessions import Acting, Plan, Step
from tests.transports.wire_kit import run
from transports.base import Hello

BOUND_S = 20.0


def session(
    *steps: Step, era: mcp.Era = "legacy", peer: mcp.Era = "legacy", lanes: int = 2
) -> tuple[list[Frame], Any]:
    scene = Acting(Plan(era, False, ((peer, False, False),), 1, lanes, True, steps)).play()
    return scene.frames, scene.header


class LiveCore:
    """A core, and everything that it is given."""

    def __init__(self, world: ReplayWorld, exchange: Exchange) -> None:
        self.world = world
        self._given: asyncio.Queue[Message] = asyncio.Queue()
        link = End(lambda data: self._given.put_nowait(msgspec.json.decode(data)))
        self.core: Core = exchange.accept(link, Hello(transport="stdio", remote="test"))

    def says(self, **message: Any) -> None:
        self.core.message(msgspec.json.encode({"jsonrpc": "2.0", **message}))

    def calls(self, id_: int, lane: str = "turn0", *, modern: bool = False, **arguments: Any) -> None:
        meta: Message = {mcp.META_LANE: lane}
        if modern:
            meta |= {mcp.META_VERSION: MODERN, mcp.META_CAPABILITIES: ASKABLE}
        params = {"name": "t0", "arguments": arguments, "_meta": meta}
        self.says(id=id_, method="tools/call", params=params)

    async def gets(self) -> Message:
        """The next answer or question; what is told unasked is passed over."""
        while True:
            message = await self._given.get()
            if "id" in message:
                return message

    async def greets(self) -> None:
        params = {
            "protocolVersion": LEGACY,
            "capabilities": ASKABLE,
            "clientInfo": {"name": "core", "version": "1"},
        }
        self.says(id="hello", method="initialize", params=params)
        assert (await self.gets())["id"] == "hello"
        self.says(method="notifications/initialized")

    @property
    def is_quiet(self) -> bool:
        return self._given.empty()


def played(
    recorded: tuple[list[Frame], Any],
    act: Callable[[LiveCore], Awaitable[None]],
    *,
    patience_s: float = 10.0,
    pace: float = 0.0,
    misses: MissPolicy | None = None,
) -> Report:
    """Replay a session to a core that does something and leaves; return the report."""
    frames, header = recorded
    reports: list[Report] = []

    async def main() -> None:
        options = ReplayOptions(
            path=Path("session"), patience_s=patience_s, pace=pace, misses=misses or MissPolicy()
        )
        config, _ = config_of(header.settings, list(header.peers))
        script = Script(Held(frames), BUILT_IN)
        world = ReplayWorld(config, record_dir=None, script=script, options=options, on_report=reports.append)
        exchange = Exchange(config, world, version="1")
        core = LiveCore(world, exchange)
        async with asyncio.timeout(BOUND_S):
            await act(core)
        core.core.closed(None)
        await world.finish()

    run(main())
    [report] = reports
    return report


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))


def content(answer: Message) -> str:
    return answer["result"]["content"][0]["text"]


TWO_LANES = (("call", 0, 0), ("call", 1, 0), ("answer", 1, 0), ("answer", 0, 0))
"""Two lanes ask the same; the second one is answered first, and otherwise."""


def test_lanes_that_come_in_another_order_get_their_own_answers() -> None:
    async def act(core: LiveCore) -> None:
        await core.greets()
        core.calls(8, "turn1", n=0)
        assert content(await core.gets()) == "p0 tools/call 1"
        core.calls(9, "turn0", n=0)
        assert content(await core.gets()) == "p0 tools/call 2"

    report = played(session(*TWO_LANES), act)
    assert (report.verdict, report.exit_code) == ("same", 0)


def test_a_core_of_another_era_gets_the_same_answers() -> None:
    async def act(core: LiveCore) -> None:
        core.calls(1, "turn1", modern=True, n=0)
        assert content(await core.gets()) == "p0 tools/call 1"
        core.calls(2, "turn0", modern=True, n=0)
        assert content(await core.gets()) == "p0 tools/call 2"

    report = played(session(*TWO_LANES), act)
    assert (report.verdict, report.divergences) == ("same", ())


def test_one_call_too_many_is_refused_at_once_and_the_rest_goes_on() -> None:
    async def act(core: LiveCore) -> None:
        await core.greets()
        core.calls(7, "turn0", n=1)
        assert (await core.gets())["error"]["data"]["reason"] == "not_recorded"
        for id_, lane in ((8, "turn1"), (9, "turn0")):
            core.calls(id_, lane, n=0)
            assert "result" in await core.gets()

    report = played(session(*TWO_LANES), act)
    assert ([each.cls for each in report.divergences], report.exit_code) == (["changed-params"], 1)


def test_a_core_that_leaves_early_is_incomplete() -> None:
    async def act(core: LiveCore) -> None:
        await core.greets()
        core.calls(8, "turn1", n=0)
        await core.gets()

    report = played(session(*TWO_LANES), act)
    assert (report.verdict, report.exit_code) == ("incomplete", 2)
    assert report.unplayed == {"turn0": 2}


ASKED = (("call", 0, 0), ("ask", 0, 1), ("reply", 0, 4), ("answer", 0, 0))


def test_a_question_is_asked_again_and_its_answer_waited_for() -> None:
    async def act(core: LiveCore) -> None:
        await core.greets()
        core.calls(2, n=0)
        question = await core.gets()
        assert question["method"] == "roots/list"
        for _ in range(5):
            await asyncio.sleep(0)
        assert core.is_quiet
        core.says(id=question["id"], result={"roots": [{"uri": "file:///r4"}]})
        assert content(await core.gets()) == "p0 tools/call 1"

    report = played(session(*ASKED), act)
    assert report.verdict == "same"


def test_another_answer_than_the_recorded_one_is_told() -> None:
    async def act(core: LiveCore) -> None:
        await core.greets()
        core.calls(2, n=0)
        question = await core.gets()
        core.says(id=question["id"], result={"roots": []})
        assert content(await core.gets()) == "p0 tools/call 1"

    report = played(session(*ASKED), act)
    assert [each.cls for each in report.divergences] == ["answer-differs"]


def test_an_answer_that_waits_for_a_request_comes_without_it_once_patience_is_lost() -> None:
    recorded = session(("call", 0, 0), ("call", 0, 5), ("answer", 0, 0), lanes=1)

    async def act(core: LiveCore) -> None:
        await core.greets()
        core.calls(2, n=0)
        assert content(await core.gets()) == "p0 tools/call 1"

    report = played(recorded, act, patience_s=0.05)
    assert report.exit_code == 1
    assert report.divergences[0].cls == "timeout"


def test_a_call_in_the_middle_of_which_the_recording_ends_is_told_so() -> None:
    recorded = session(("call", 0, 0), ("call", 0, 5), ("answer", 0, 0), lanes=1)
    frames, header = recorded
    cut = next(at for at, one in enumerate(frames) if one.kind == "close" and one.way == "core>")

    async def act(core: LiveCore) -> None:
        await core.greets()
        core.calls(2, n=0)
        core.calls(3, n=frames_n(frames), at=5)
        answers = {one["id"]: one for one in (await core.gets(), await core.gets())}
        assert "result" in answers[2]
        assert answers[3]["error"]["data"]["reason"] == "recording_ends"

    report = played((frames[:cut], header), act)
    assert report.verdict == "same"


def frames_n(frames: list[Frame]) -> int:
    """The number in the arguments of the last call."""
    last = [one for one in frames if one.method == "tools/call" and one.way == "core>"][-1]
    return msgspec.json.decode(bytes(last.body))["params"]["arguments"]["n"]


def test_a_peer_that_died_in_a_call_does_so_again_and_is_there_for_the_next() -> None:
    recorded = session(
        ("call", 0, 0), ("dies", 0, 0), ("renews", 0, 0), ("call", 0, 0), ("answer", 0, 0), lanes=1
    )

    async def act(core: LiveCore) -> None:
        await core.greets()
        core.calls(2, n=0)
        assert (await core.gets())["error"]["data"]["reason"] == "peer_exited"
        core.calls(3, n=0)
        assert content(await core.gets()) == "p0 tools/call 1"

    report = played(recorded, act)
    assert report.verdict == "same"


def test_recorded_pauses_are_made_where_that_is_asked_for() -> None:
    recorded = session(("call", 0, 0), ("renews", 0, 0), ("answer", 0, 0), lanes=1)

    async def act(core: LiveCore) -> None:
        await core.greets()
        core.calls(2, n=0)
        for _ in range(5):
            await asyncio.sleep(0)
        assert core.is_quiet
        assert content(await core.gets()) == "p0 tools/call 1"

    report = played(recorded, act, pace=1.0)
    assert report.verdict == "same"


def test_several_sessions_are_played_beside_each_other_from_one_recording() -> None:
    frames, header = session(*TWO_LANES)
    reports: list[Report] = []

    async def main() -> None:
        config, _ = config_of(header.settings, list(header.peers))
        options = ReplayOptions(path=Path("session"))
        script = Script(Held(frames), BUILT_IN)
        world = ReplayWorld(config, record_dir=None, script=script, options=options, on_report=reports.append)
        exchange = Exchange(config, world, version="1")
        cores = [LiveCore(world, exchange) for _ in range(3)]
        async with asyncio.timeout(BOUND_S):
            for core in cores:
                await core.greets()
            for lane, text in (("turn1", "p0 tools/call 1"), ("turn0", "p0 tools/call 2")):
                for core in cores:
                    core.calls(5, lane, n=0)
                for core in cores:
                    assert content(await core.gets()) == text
        for core in cores:
            core.core.closed(None)
        await world.finish()

    run(main())
    assert [report.verdict for report in reports] == ["same"] * 3
