"""A directory of recordings replayed: each session is played from the one that began as it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.gateway_kit import Client, eventually, run
from tests.processes.replay_kit import Call, ask, recorded, starts, text, tieline
from tests.processes.test_replay_fronts import serving
from transports.unix import connect_unix

A: Call = ("get", {"key": "a"})
B: Call = ("get", {"key": "b"})


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three recordings of the legacy era: two that begin alike but for the call after the handshake, and one more."""
    folder = tmp_path_factory.mktemp("several")
    (folder / "all").mkdir()
    for name, calls in {"first": (A, B), "second": (B, A), "third": (A,)}.items():
        recorded(folder, folder / "peer", *calls, name=f"all/{name}")
    return folder


async def session(path: Path, *calls: Call) -> list[str]:
    """One session over a unix socket, to its end."""
    client = Client()
    client.link = await connect_unix(path, client)
    await client.shake_hands()
    said = [text(await ask(client, call, modern=False)) for call in calls]
    client.close()
    await client.until(lambda: client.endings)
    return said


def reports(folder: Path) -> list[str]:
    """Which recordings were played, and how that went, in the order in which the sessions ended."""
    lines = (folder / "stderr.log").read_text().splitlines()
    heads = [line.split() for line in lines if "  recording /" in line]
    return [f"{words[0]} {Path(words[2]).name}" for words in heads]


def test_a_session_is_played_from_the_recording_that_goes_on_as_it_does(
    several: Path, tmp_path: Path
) -> None:
    async def main() -> None:
        path = tmp_path / "core.sock"
        async with serving(tmp_path, several / "all", "--unix", str(path)) as found:
            assert await session(path, B, A) == ["value of b", "value of a"]
            assert await session(path, A, B) == ["value of a", "value of b"]
            assert await session(path, A) == ["value of a"]
            await eventually(lambda: len(reports(tmp_path)) == 3, "three reports")
        assert reports(tmp_path) == ["SAME second", "SAME first", "SAME third"]
        assert found["code"] == 0

    before = starts(several / "peer")
    run(main())
    assert starts(several / "peer") == before


def test_recordings_that_nobody_played_are_named_and_a_recording_serves_more_than_one_session(
    several: Path, tmp_path: Path
) -> None:
    async def main() -> None:
        path = tmp_path / "core.sock"
        async with serving(tmp_path, several / "all", "--unix", str(path)) as found:
            assert await session(path, B, A) == ["value of b", "value of a"]
            assert await session(path, B, A) == ["value of b", "value of a"]
            await eventually(lambda: len(reports(tmp_path)) == 2, "two reports")
        assert reports(tmp_path) == ["SAME second", "SAME second"]
        assert found["code"] == 2
        assert "not played: 2 of 3 recordings (first, third)" in (tmp_path / "stderr.log").read_text()

    run(main())


@pytest.mark.parametrize("mode", ["rewrite", "extend", "shadow"])
def test_a_mode_that_writes_a_recording_wants_one_and_touches_none(
    mode: str, several: Path, tmp_path: Path
) -> None:
    before = sorted(one.name for one in (several / "all").iterdir())
    found = tieline("replay", several / "all", "--mode", mode, "--", "true", cwd=tmp_path)
    assert "holds 3" in found.stderr
    assert sorted(one.name for one in (several / "all").iterdir()) == before
