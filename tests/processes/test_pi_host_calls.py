"""Host calls of an extension that is a real process, behind a real gateway: policy, files, people, the recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.processes.gateway_kit import (
    HERE,
    PYTHON,
    Client,
    Message,
    echo,
    eventually,
    house,
    run,
    state,
    text_of,
    toml_of,
)
from tests.processes.replay_kit import played, report, tieline
from tests.processes.test_pi import extension

__all__ = ["state"]

READ = {"capability": "read", "method": "fs", "params": {"op": "read", "path": "notes.txt"}}
LIST = {"capability": "read", "method": "fs", "params": {"op": "list", "path": "."}}


def policy(folder: Path, **rules: Any) -> Message:
    return {"policy": {"mode": "permissive", "deny_caps": [], **rules}, "roots": [str(folder)]}


async def asks(core: Client, call: Message) -> str:
    return text_of(await core.tool("calc__ask", **call))


def test_a_host_call_is_decided_served_recorded_and_driven_again(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk")

    async def main() -> Path:
        peers = {"calc": extension(tmp_path), "good": echo()}
        async with house(tmp_path, peers, extensions=policy(tmp_path, deny_caps=["exec"])) as here:
            core = await here.core()
            assert json.loads(await asks(core, READ))["content"] == "remember the milk"
            assert await asks(core, {}) == "denied"
            assert await asks(core, {**READ, "capability": "write"}) == "invalid_request"
            assert await asks(core, {**READ, "params": {"op": "read", "path": "none"}}) == "io"
            core.close()
            await eventually((here.recordings()[0] / "sealed").exists, "the recording is sealed")
            return here.recordings()[0]

    recording = run(main())
    (tmp_path / "notes.txt").unlink()

    driven = tieline("replay", recording, "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr


def test_a_session_under_which_the_gateway_has_ended_is_driven_again(tmp_path: Path) -> None:
    async def main() -> Path:
        peers = {"calc": extension(tmp_path)}
        async with house(tmp_path, peers, extensions=policy(tmp_path)) as here:
            core = await here.core()
            assert await asks(core, {**READ, "params": {"op": "read", "path": "none"}}) == "io"
            here.clients.remove(core)  # which so stays connected until the gateway has stopped
            return here.recordings()[0]

    recording = run(main())

    frames = tieline("frames", recording, "--json", cwd=tmp_path).stdout
    kinds = [(frame["kind"], frame["way"]) for frame in map(json.loads, frames.splitlines())]
    assert kinds[-2:] == [("state", "inside"), ("exit", "inside")]
    assert ("close", "core>") not in kinds
    driven = tieline("replay", recording, "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr


def test_what_the_world_or_a_secret_has_made_fail_fails_again_when_it_is_driven(
    tmp_path: Path, state: Path
) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk")
    state.mkdir()
    secret = {**READ, "params": {"op": "read", "path": "notes.txt", "token": "hunter2"}}
    url = {"capability": "http", "method": "http", "params": {"url": "http://me:hunter2@a.example/"}}

    async def main() -> Path:
        async with house(tmp_path, {"calc": extension(tmp_path)}, extensions=policy(tmp_path)) as here:
            core = await here.core()
            (state / "grants.toml").mkdir()
            assert await asks(core, secret) == "denied"
            (state / "grants.toml").rmdir()
            assert await asks(core, url) == "invalid_request"
            assert "content" in json.loads(await asks(core, {**READ, "timeout_ms": 5e3}))
            core.close()
            await eventually((here.recordings()[0] / "sealed").exists, "the recording is sealed")
            return here.recordings()[0]

    driven = tieline("replay", run(main()), "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr


def recorded(
    folder: Path, *calls: Message, words: Message | None = None, **rules: Any
) -> tuple[Path, list[str]]:
    """A recording of these host calls, and what each came to."""
    peers = {"calc": extension(folder), "good": echo()}
    (folder / "tieline.toml").write_text(toml_of(peers, extensions=policy(folder, **rules)))
    command = ["run", folder / "tieline.toml", "--stdio", "--record", folder / "kept"]
    served = played(folder, command, *(("calc__ask", call) for call in calls), words=words)
    assert served.code == 0, served.said
    (recording,) = (folder / "kept").iterdir()
    return recording, served.texts


WRITE = {
    "capability": "write", "method": "fs", "params": {"op": "write", "path": "made.txt", "content": "x"},
}  # fmt: skip
YES: Message = {"action": "accept", "content": {"value": "Allow for this session"}}


def test_a_replay_gives_recorded_answers_and_does_nothing(tmp_path: Path) -> None:
    calls: tuple[Message, ...] = (WRITE, READ, {}, {**WRITE, "capability": "read"})
    (tmp_path / "notes.txt").write_text("remember the milk")
    recording, live = recorded(tmp_path, *calls, words=YES, mode="prompt", default_caps=["read"])
    assert [json.loads(live[0])["created"], json.loads(live[1])["content"]] == [True, "remember the milk"]
    (tmp_path / "notes.txt").unlink()
    (tmp_path / "made.txt").unlink()

    asked = [("calc__ask", call) for call in calls]
    again = played(
        tmp_path,
        ["replay", recording, "--report", tmp_path / "report.json"],
        *asked,
        words=YES,
        guard=tmp_path / "log",
    )
    assert again.texts == live, again.said
    assert report(tmp_path / "report.json")["verdict"] == "same"
    assert not (tmp_path / "made.txt").exists()
    assert not (tmp_path / "log").read_text()

    no: Message = {"action": "decline"}
    other = played(tmp_path, ["replay", recording, "--report", tmp_path / "other.json"], *asked, words=no)
    assert other.texts == live, "the extension is a recording, and says what it said"
    found = report(tmp_path / "other.json")
    assert found["verdict"] == "diverged"
    assert "decision-differs" in json.dumps(found)

    driven = tieline("replay", recording, "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr
    assert not (tmp_path / "made.txt").exists()


def test_verify_serves_the_host_calls_of_a_live_extension_under_the_live_policy(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk")
    recording, _ = recorded(tmp_path, READ, WRITE, words=YES, mode="prompt", default_caps=["read"])
    (tmp_path / "made.txt").unlink()

    same = tieline("verify", recording, "--config", tmp_path / "tieline.toml", cwd=tmp_path)
    assert same.returncode == 0, same.stdout + same.stderr
    assert (tmp_path / "made.txt").read_text() == "x"

    peers = {"calc": extension(tmp_path), "good": echo()}
    (tmp_path / "strict.toml").write_text(
        toml_of(peers, extensions=policy(tmp_path, mode="strict", default_caps=[]))
    )
    strict = tieline("verify", recording, "--config", tmp_path / "strict.toml", cwd=tmp_path)
    assert strict.returncode == 1, strict.stdout + strict.stderr


BREAKS = {
    "loading": "invalid_request", "spoof": "invalid_request", "shape": "invalid_request invalid_request",
    "forged": "", "same": "invalid_request timeout", "deadline": "timeout", "race": "one end",
    "flood": "io io timeout timeout timeout timeout", "long": "invalid_request",
}  # fmt: skip


def test_whatever_an_extension_breaks_gets_its_code_and_its_frame_and_touches_nobody_else(
    tmp_path: Path,
) -> None:
    bad = {"command": [*PYTHON, str(HERE / "bad_extension.py")], "dialect": "pi"}
    allowed = {**policy(tmp_path, default_caps=["read", "exec"]), "max_host_calls": 4}

    async def main() -> Path:
        async with house(tmp_path, {"bad": bad, "good": echo()}, extensions=allowed) as here:
            core = await here.core()
            for how, codes in BREAKS.items():
                assert (how, text_of(await core.tool("bad__breaks", how=how))) == (how, codes)
                assert text_of(await core.tool("good__echo", text=how)) == how
            gone = await core.tool("bad__breaks", how="dies")
            assert gone["error"]["data"]["code"] == "io"
            assert text_of(await core.tool("good__echo", text="still there")) == "still there"
            core.close()
            await eventually((here.recordings()[0] / "sealed").exists, "the recording is sealed")
            return here.recordings()[0]

    recording = run(main())

    frames = [
        json.loads(line) for line in tieline("frames", recording, "--json", cwd=tmp_path).stdout.splitlines()
    ]
    ended = {
        frame["re"]: frame for frame in frames if frame.get("re") is not None and frame["way"] != "inside"
    }
    calls = [frame for frame in frames if frame.get("method") == "pi/host_call" and frame["way"] == "peer>"]
    outcomes: dict[str, list[str]] = {}
    for call in calls:
        answer = ended.get(call["seq"])
        outcomes.setdefault(call["id"], []).append(answer["kind"] if answer is not None else "none")
    assert outcomes["spoof"] == outcomes["deadline"] == outcomes["same"] == ["error"]
    assert outcomes["dies"] == ["none"]
    assert "peer_closed" in [frame["x"]["reason"] for frame in frames if frame["kind"] == "drop"]
    driven = tieline("replay", recording, "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr
