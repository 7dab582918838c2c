"""The extension log and the decisions of a real session: a real extension, a real gateway, the commands over both."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.gateway.protocol.test_log import VALIDATOR
from tests.processes.gateway_kit import ROOT, TIELINE, Message, echo, eventually, house, run, state, text_of
from tests.processes.test_pi import extension

__all__ = ["state"]

SECRET = "hunter2-in-a-file"
READ = {
    "capability": "read",
    "method": "fs",
    "params": {"op": "read", "path": "private.txt"},
    "timeout_ms": 2500,
}
CALLS: list[tuple[Message, str]] = [
    (READ, ""),
    ({**READ, "params": {"op": "read", "path": "none"}}, "io"),
    ({**READ, "capability": "write"}, "invalid_request"),
    ({"capability": "env", "method": "env", "params": {"name": "HOME"}}, "denied"),
]


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TIELINE, *map(str, arguments)], capture_output=True, text=True, timeout=50, cwd=ROOT, check=False
    )


def test_every_host_call_of_a_session_is_in_the_log_with_its_decision_and_can_be_decided_again(
    tmp_path: Path, state: Path
) -> None:
    (tmp_path / "private.txt").write_text(SECRET)

    async def main() -> Path:
        settings = {"policy": {"mode": "permissive", "deny_caps": ["env"]}, "roots": [str(tmp_path)]}
        async with house(
            tmp_path, {"calc": extension(tmp_path), "good": echo()}, extensions=settings
        ) as here:
            core = await here.core()
            for call, code in CALLS:
                answer = text_of(await core.tool("calc__ask", **call))
                assert answer == code if code else SECRET in answer
            core.close()
            await eventually((here.recordings()[0] / "sealed").exists, "the recording is sealed")
            return here.recordings()[0]

    recording = run(main())

    # Without any setting the log lies where the protocol says, one file a session.
    (log,) = (state / "logs").glob("*.jsonl")
    assert log.stem == json.loads((recording / "recording.json").read_text())["session"]
    assert log.stat().st_mode & 0o777 == 0o600
    entries: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    for entry in entries:
        VALIDATOR.validate(entry)
    said = log.read_text()
    assert SECRET not in said
    assert "private.txt" not in said
    assert str(tmp_path) not in said

    calls = [entry for entry in entries if "host_call_id" in entry["correlation"]]
    by_id: dict[str, list[str]] = {}
    for entry in calls:
        by_id.setdefault(entry["correlation"]["host_call_id"], []).append(entry["event"])
        assert entry["correlation"]["tool_call_id"].startswith("tool-")
    assert list(by_id.values()) == [["host_call.start", "policy.decision", "host_call.end"]] * len(CALLS)
    ends = [entry["data"] for entry in calls if entry["event"] == "host_call.end"]
    assert [end.get("error", {}).get("code", "") for end in ends] == [code for _, code in CALLS]
    starts = [entry["data"] for entry in calls if entry["event"] == "host_call.start"]
    assert [start.get("timeout_ms") for start in starts] == [2500, 2500, 2500, None]

    verified = command("audit", "--verify", recording)
    assert (verified.returncode, "say the same" in verified.stdout) == (0, True), verified.stdout
    denied = command("audit", log, "--denied", "--json")
    ids = [json.loads(line)["correlation"]["host_call_id"] for line in denied.stdout.splitlines()]
    assert ids == ["h2", "h3", "h3"]

    again = command("policy", "replay", recording)
    assert (again.returncode, again.stdout.count("0 changed")) == (0, 1), again.stdout
    strict = tmp_path / "strict.toml"
    strict.write_text('mode = "strict"\ndefault_caps = []\n')
    other = command("policy", "replay", recording, "--policy", strict)
    assert other.returncode == 1
    assert "2 changed: 2 from allow to deny" in other.stdout

    # A replay is nothing that has happened: it adds no line and no log.
    driven = command("replay", recording, "--drive")
    assert driven.returncode == 0, driven.stdout + driven.stderr
    assert [path.name for path in (state / "logs").iterdir()] == [log.name]
    assert log.read_text() == said
