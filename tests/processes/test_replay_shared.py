"""Recordings of sessions that found a shared peer ready: they hold its greeting, and can be driven and replayed."""

from __future__ import annotations

from pathlib import Path

from gateway.replay.driven import driven
from gateway.testing import Replay
from recordings.reader import open_recording
from recordings.report import text as report_text
from tests.processes.gateway_kit import Client, echo, house, run, text_of
from transports.memory import connect_memory


def test_sessions_at_a_shared_peer_are_driven_and_replayed_each_by_itself(tmp_path: Path) -> None:
    async def live() -> None:
        async with house(tmp_path, {"all": echo(scope="shared")}) as here:
            cores = [await here.core() for _ in range(3)]
            for number in range(3):
                for core in cores:
                    assert text_of(await core.tool("echo", text=f"{number}")) == f"{number}"
            for core in cores:
                core.close()

    run(live())
    recordings = [open_recording(each.parent) for each in tmp_path.rglob("recording.json")]
    assert len(recordings) == 3
    greeted = [sum(frame.kind == "ready" and bool(frame.body) for frame in one) for one in recordings]
    assert sorted(greeted) == [0, 1, 1]
    for recording in recordings:
        report = driven(recording)
        assert report.verdict == "same", report_text(report)

    async def replayed(path: Path) -> None:
        async with Replay(path) as replay:
            client = Client()
            assert replay.gateway is not None
            client.link = connect_memory(replay.gateway.accept, client)
            await client.shake_hands()
            for number in range(3):
                assert text_of(await client.tool("echo", text=f"{number}")) == f"{number}"
            client.close()
            await client.until(lambda: client.endings)

    for recording in recordings:
        run(replayed(recording.path))
