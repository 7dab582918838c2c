"""A recorded session with host calls of an extension, and the log that belongs to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from gateway.policy.decide import Answer, Facts, answered, decide
from gateway.policy.model import Policy
from gateway.policy.record import x_of
from gateway.policy.rules import Rules
from gateway.protocol.log import line
from gateway.telemetry.ledger import Writer, entries_of
from recordings.frame import Frame
from recordings.store import open_recording
from tests.gateway.policy.kit import EXEC, READ, changed
from tests.recordings.recording_kit import frame, recorded

POLICY = changed(Policy(), deny_caps=("env",), default_caps=("read",))
WRITER = Writer(scenario_id="scn-001", run_id="run-1", host="box", pid=1)
READING = {"op": "read", "path": "src/a.py"}
RUNNING = {"command": "make", "args": ["all"]}


class Frames(list[Frame]):
    """The frames of a session, written as what happened."""

    def say(self, kind: str, way: str, body: Any = None, **fields: Any) -> int:
        data = msgspec.json.encode(body) if body is not None else b""
        self.append(frame(len(self), data, kind, way=way, peer="notes", **fields))
        return len(self) - 1

    def calls(self, method: str, params: dict[str, Any], capability: str) -> int:
        payload = {
            "call_id": f"host-{len(self)}",
            "capability": capability,
            "method": method,
            "params": params,
        }
        body = {"jsonrpc": "2.0", "id": len(self), "method": "pi/host_call", "params": payload}
        return self.say("request", "peer>", body, id=len(self), method="pi/host_call", name=method)

    def decides(self, call: int, need: Any, policy: Policy = POLICY, *, answer: bool | None = True) -> None:
        facts = Facts(extension="notes", need=need, standing="declared", has_ui=True)
        decision = decide(Rules(policy), facts)
        first = self.say("policy", "inside", parent=call, x=x_of(decision))
        if decision.verdict == "ask":
            made = answered(decision, Answer(allowed=answer, by="core"))
            self.say("policy", "inside", parent=call, re=first, x=x_of(made))

    def gives(self, call: int, **output: Any) -> None:
        body = {"jsonrpc": "2.0", "id": call, "result": {"output": output}}
        self.say("response", ">peer", body, id=call, re=call, flags=["synthetic"])

    def refuses(self, call: int, code: str = "denied") -> None:
        error = {"code": -32000, "message": "no", "data": {"code": code, "reason": "deny_caps"}}
        body = {"jsonrpc": "2.0", "id": call, "error": error}
        self.say("error", ">peer", body, id=call, re=call, flags=["synthetic"])


def usual() -> Frames:
    """A call that is allowed, one that a person allows, and one that is denied."""
    frames = Frames()
    one = frames.calls("fs", READING, "read")
    frames.decides(one, READ)
    frames.gives(one, content="x")
    two = frames.calls("exec", RUNNING, "exec")
    frames.decides(two, EXEC)
    frames.gives(two, code=0)
    three = frames.calls("env", {"name": "HOME"}, "env")
    frames.decides(three, msgspec.structs.replace(EXEC, capability="env", method="env", env=("HOME",)))
    frames.refuses(three)
    return frames


def session(path: Path, frames: Frames | None = None) -> Path:
    """The recording of these frames, by default the usual ones."""
    return recorded(path, usual() if frames is None else frames)


def log_of(recording: Path) -> list[bytes]:
    """The lines that a gateway has written for a recording."""
    return [line(entry) for entry in entries_of(open_recording(recording), WRITER)]
