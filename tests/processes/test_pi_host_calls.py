"""Host calls of an extension that is a real process, behind a real gateway: policy, files, people, the recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.processes.gateway_kit import Client, Message, echo, eventually, house, run, state, text_of
from tests.processes.replay_kit import tieline
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
