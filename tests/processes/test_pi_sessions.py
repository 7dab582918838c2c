"""The session of an extension that is a real process: its file, its end and its way through a replay."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from gateway.sessions import format as session_format
from recordings.reader import open_recording
from tests.gateway.replay.test_drive_sessions import assert_same
from tests.gateway.replay.test_drive_sessions import driven as driven_again
from tests.processes.gateway_kit import Client, Message, echo, eventually, house, run, state
from tests.processes.replay_kit import played, report, tieline
from tests.processes.test_pi import extension
from tests.processes.test_pi_host_calls import asks, policy, recorded

__all__ = ["state"]

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


async def session(core: Client, op: str, **params: Any) -> Message:
    call: Message = {"capability": "session", "method": "session", "params": {"op": op, **params}}
    said = await asks(core, call)
    return json.loads(said) if said.startswith("{") else {"code": said}


def settings(folder: Path) -> Message:
    return {**policy(folder), "sessions": str(folder / "sessions")}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*.jsonl")}


async def talk(core: Client) -> list[str]:
    """Do what changes a session; give the ids of the sessions that there were."""
    user = {"role": "user", "content": "hello", "timestamp": 1}
    entry = (await session(core, "append_message", message=user))["id"]
    first = (await session(core, "appendEntry", customType="todo", data={"items": [1], "key": SECRET}))[
        "session"
    ]
    await session(core, "set_name", name="mine")
    await session(core, "set_label", target_id=entry, label="start")
    forked = (await session(core, "fork", entry_id=entry, position="at"))["session"]
    await session(core, "append_entry", custom_type="forked")
    assert (await session(core, "forget"))["code"] == "invalid_request"
    assert len((await session(core, "list"))["sessions"]) == 2
    back = await session(core, "resume", target=first["id"])
    assert back["session"]["name"] == "mine"
    await session(core, "compact", summary="so far", first_kept_entry_id=entry, tokens_before=5)
    await session(core, "navigate", target_id=entry, summary="left")
    assert (await session(core, "resume", target="none"))["code"] == "invalid_request"
    return [first["id"], forked["id"]]


def test_a_session_is_kept_is_resumed_and_comes_out_of_its_recording_the_same(tmp_path: Path) -> None:
    peers = {"calc": extension(tmp_path), "good": echo()}

    async def main() -> tuple[Path, list[str]]:
        async with house(tmp_path, peers, extensions=settings(tmp_path)) as here:
            core = await here.core()
            ids = await talk(core)
            core.close()
            await eventually((here.recordings()[0] / "sealed").exists, "the recording is sealed")
            return here.recordings()[0], ids

    recording, ids = run(main())
    kept = files(tmp_path / "sessions")
    assert len(kept) == 2
    [first] = [session_format.read(data) for name, data in kept.items() if ids[0] in name]
    assert [entry.type for entry in first.entries] == [
        "message", "custom", "session_info", "label", "compaction", "branch_summary",
    ]  # fmt: skip
    assert first.entries[1].fields["data"] == {"items": [1], "key": SECRET}

    (tmp_path / "sessions").rename(tmp_path / "away")
    driven = tieline("replay", recording, "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr
    assert not (tmp_path / "sessions").exists()
    assert files(tmp_path / "away") == kept
    opened = open_recording(recording)
    frames = list(opened)
    pairing, again = driven_again(opened.header, frames)
    assert_same(pairing, frames)
    pairing, _ = driven_again(opened.header, again)
    assert_same(pairing, again)
    other = [replace(frame, body=Raw(bytes(frame.body).replace(b"so far", b"so fer"))) for frame in frames]
    pairing, _ = driven_again(opened.header, other)
    assert "decision-differs" in {each.cls for each in pairing.divergences}, (
        "another entry is another session"
    )
    ended = [frame.x or {} for frame in frames if frame.kind == "state"][-1]
    assert (ended["event"], ended["entries"], ended["id"]) == ("ended", 6, ids[0])
    assert SECRET.encode() not in b"".join(
        path.read_bytes() for path in recording.rglob("*") if path.is_file()
    )

    (tmp_path / "away").rename(tmp_path / "sessions")

    async def later() -> None:
        async with house(tmp_path, peers, extensions=settings(tmp_path)) as here:
            core = await here.core()
            await session(core, "resume", target=ids[1])
            [entry] = (await session(core, "get_branch"))["entries"][-1:]
            assert entry["customType"] == "forked"
            core.close()

    run(later())


def test_an_extension_of_the_kit_goes_on_in_the_session_that_it_has_gone_to(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(Path(__file__).with_name("kit_extension.py")),
        str(tmp_path / "told"),
        "--dialect",
        "pi",
    ]
    peers: dict[str, Message] = {"kitten": {"command": command, "dialect": "pi"}, "good": echo()}

    async def main() -> list[str]:
        async with house(tmp_path, peers, extensions=settings(tmp_path)) as here:
            core = await here.core()
            answer = (await core.tool("kitten__move"))["result"]
            assert not answer.get("isError"), answer
            core.close()
            return [block["text"] for block in answer["content"]]

    said = json.loads(run(main())[0])
    assert said[0] != said[1] == said[2]


def test_where_no_file_can_be_written_an_extension_hears_so_and_the_session_goes_on(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("no directory")

    async def main() -> Path:
        peers = {"calc": extension(tmp_path), "good": echo()}
        async with house(tmp_path, peers, extensions=settings(tmp_path)) as here:
            core = await here.core()
            assert await session(core, "append_entry", custom_type="x") == {"code": "io"}
            assert (await session(core, "get_entries"))["entries"] == []
            core.close()
            await eventually((here.recordings()[0] / "sealed").exists, "the recording is sealed")
            return here.recordings()[0]

    opened = open_recording(run(main()))
    frames = list(opened)
    pairing, _ = driven_again(opened.header, frames)
    assert_same(pairing, frames)


def test_a_replay_for_a_live_agent_gives_recorded_answers_and_touches_no_session(tmp_path: Path) -> None:
    def op(op: str, **params: Any) -> Message:
        return {"capability": "session", "method": "session", "params": {"op": op, **params}}

    calls: list[Message] = [
        op("append_entry", custom_type="todo", data=[1]),
        op("set_name", name="mine"),
        op("get_branch"),
        op("new"),
        op("append_entry", custom_type="x"),
    ]
    recording, live = recorded(tmp_path, *calls)
    kept = files(tmp_path / "state" / "sessions")
    assert len(kept) == 2
    assert json.loads(live[2])["entries"][0]["data"] == [1]

    asked = [("calc__ask", call) for call in calls]
    arguments = ["replay", recording, "--report", tmp_path / "report.json", "--record", tmp_path / "again"]
    again = played(tmp_path, arguments, *asked, guard=tmp_path / "log")
    assert again.texts == live, again.said
    assert report(tmp_path / "report.json")["verdict"] == "same"
    assert files(tmp_path / "state" / "sessions") == kept
    verified = tieline("verify", recording, "--config", tmp_path / "tieline.toml", cwd=tmp_path)
    assert verified.returncode in (0, 1), verified.stdout + verified.stderr
    assert files(tmp_path / "state" / "sessions") == kept
    (second,) = (tmp_path / "again").iterdir()
    for each in (recording, second):
        driven = tieline("replay", each, "--drive", cwd=tmp_path)
        assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr
    assert files(tmp_path / "state" / "sessions") == kept
