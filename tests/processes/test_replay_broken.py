"""What nobody should give a replay, and what agents should not do: a clear end each time, and never a trace of code."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from recordings.files import put_in_place
from tests.processes.gateway_kit import TIELINE
from tests.processes.replay_kit import Call, ask, played, program, recorded, report, tieline, tree, varied

SESSION: tuple[Call, ...] = (("tools/list", {}), ("get", {"key": "a"}), ("elicit", {}), ("get", {"key": "b"}))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording that no test changes."""
    folder = tmp_path_factory.mktemp("kept")
    return recorded(folder, folder / "peer", *SESSION)


def _settings(name: str, value: object) -> Callable[[Path], None]:
    def damage(recording: Path) -> None:
        header = json.loads((recording / "recording.json").read_bytes())
        header["settings"][name] = value
        (recording / "recording.json").write_text(json.dumps(header))

    return damage


def _directory(name: str) -> Callable[[Path], None]:
    def damage(recording: Path) -> None:
        (recording / name).unlink()
        (recording / name).mkdir()

    return damage


@pytest.mark.parametrize("command", [("replay", "--drive"), ("diff",)])
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        pytest.param(_settings("peers", []), "settings in `recording.json`", id="peers"),
        pytest.param(_settings("catalog", []), "settings in `recording.json`", id="catalog"),
        pytest.param(_settings("roots", {"a": {}}), "settings in `recording.json`", id="roots"),
        pytest.param(_directory("recording.json"), "cannot be read: Is a directory", id="header"),
        pytest.param(_directory("frames.jsonl.zst"), "is not a file", id="frames"),
        pytest.param(_directory("sealed"), "cannot be read: Is a directory", id="seal"),
    ],
)
def test_a_recording_that_cannot_be_used_says_why_and_ends_with_3(
    kept: Path, tmp_path: Path, command: tuple[str, ...], damage: Callable[[Path], None], says: str
) -> None:
    session = Path(shutil.copytree(kept, tmp_path / "session"))
    damage(session)
    arguments = (command[0], session, kept) if command[0] == "diff" else (command[0], session, *command[1:])
    ended = tieline(*arguments, cwd=tmp_path)
    assert "Traceback" not in ended.stderr
    assert says in ended.stderr
    assert ended.returncode == 3


def test_a_core_that_pings_more_often_than_recorded_is_no_divergence(kept: Path, tmp_path: Path) -> None:
    async def main() -> int | None:
        async with program(tmp_path, [*TIELINE, "replay", kept]) as (client, process):
            await client.shake_hands()
            for call in SESSION:
                await ask(client, call, modern=False)
                assert (await client.ask("ping"))["result"] == {}
        return process.returncode

    code = asyncio.run(asyncio.wait_for(main(), 50))
    assert code == 0, (tmp_path / "stderr.log").read_text()


@pytest.mark.parametrize(
    ("command", "option"), [("replay", "--junit"), ("replay", "--report"), ("verify", "--junit")]
)
def test_a_report_that_cannot_be_written_is_an_error_and_no_traceback(
    kept: Path, tmp_path: Path, command: str, option: str
) -> None:
    place = tmp_path / "nowhere" / "report"
    what = ["--drive"] if command == "replay" else ["--", *varied(tmp_path / "peer")]
    ended = tieline(command, kept, option, place, *what, cwd=tmp_path)
    assert "Traceback" not in ended.stderr
    assert f"`{place}` cannot be written" in ended.stderr
    assert ended.returncode == 3


@pytest.mark.skipif(sys.platform != "linux", reason="two names are exchanged at once on Linux alone")
def test_a_recording_is_there_at_every_moment_while_a_new_one_takes_its_place(tmp_path: Path) -> None:
    path, stop = tmp_path / "session", threading.Event()
    missing: list[str] = []

    def look() -> None:
        while not stop.is_set():
            if not path.exists():
                missing.append("it was gone")

    def made(name: str) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name / "recording.json").write_text(name)
        return tmp_path / name

    made("session")
    reader = threading.Thread(target=look)
    reader.start()
    try:
        for number in range(200):
            put_in_place(made(f".{number}.new"), path, aside=".old")
    finally:
        stop.set()
        reader.join()
    assert missing == []
    assert (path / "recording.json").read_text() == ".199.new"
    assert [one.name for one in tmp_path.iterdir()] == ["session"]


def test_a_rewrite_that_is_killed_leaves_the_recording_as_it_was_and_the_next_one_tidies_up(
    kept: Path, tmp_path: Path
) -> None:
    session = Path(shutil.copytree(kept, tmp_path / "session"))
    before = tree(session)
    command = [*TIELINE, "replay", session, "--mode", "rewrite", "--", *varied(tmp_path / "peer")]

    async def main(*, kill: bool) -> None:
        async with program(tmp_path, command) as (client, process):
            await client.shake_hands()
            await ask(client, SESSION[1], modern=False)
            if kill:
                process.kill()

    asyncio.run(asyncio.wait_for(main(kill=True), 50))
    assert tree(session) == before
    assert [one for one in tmp_path.iterdir() if one.suffix == ".new"]

    asyncio.run(asyncio.wait_for(main(kill=False), 50))
    assert tree(session) != before
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")]
    assert tieline("replay", session, "--drive", cwd=tmp_path).returncode == 0


def test_a_modern_core_answers_questions_of_a_recording_of_a_legacy_one(kept: Path, tmp_path: Path) -> None:
    """The answer of before is `accept` without words; here it has a name, which is the one difference."""
    out = tmp_path / "report.json"
    served = played(tmp_path, ["replay", kept, "--report", out], *SESSION[1:], modern=True)
    assert served.texts == ["value of a", "hello null", "value of b"]
    (divergence,) = report(out)["divergences"]
    assert (divergence["class"], divergence["method"]) == ("answer-differs", "elicitation/create")
