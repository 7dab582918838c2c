"""How the golden recording of format 1 was made, once: `python tests/recordings/golden/make.py OUT`.

Plays a core against `tieline run` with two servers (`peer.py`, one of each era): once to the end, which seals the
recording, and once until the gateway is killed. Writes both and `expected.json`, which says what every frame must be
read as. To be run again only for a format that has none yet, into a directory of its own, and never over what is there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from recordings.frame import FORMAT, Frame
from recordings.reader import Recording, open_recording

Message = dict[str, Any]

HERE = Path(__file__).parent
TIELINE = (sys.executable, "-c", "import sys; from gateway.cli.main import main; sys.exit(main())")
PATIENCE_S = 30.0
CONFIG = """
[catalog]
prefix = "always"
[peers.files]
command = ["python3", "peer.py"]
restart = { backoff_s = 0.02, backoff_max_s = 0.1 }
[peers.notes]
command = ["python3", "peer.py", "--modern"]
"""
ANSWERS: dict[str, Message] = {
    "roots/list": {"roots": [{"uri": "file:///home/ada/project", "name": "project"}]},
    "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
    "sampling/createMessage": {
        "role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "none", "stopReason": "endTurn",
    },
}  # fmt: skip


class Core:
    """An MCP client on a gateway's stdin and stdout, which answers what it is asked."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._answers: dict[int, Message] = {}
        self._changed = threading.Condition()
        self._count = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message: Message = json.loads(line)
            if "method" in message and "id" in message:
                self.send({"id": message["id"], "result": ANSWERS[message["method"]]})
            elif "id" in message:
                with self._changed:
                    self._answers[message["id"]] = message
                    self._changed.notify_all()

    def send(self, message: Message) -> None:
        """Send one message."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def start(self, method: str, params: Message) -> int:
        """Send a request; its id."""
        self._count += 1
        self.send({"id": self._count, "method": method, "params": params})
        return self._count

    def answer(self, call: int) -> Message:
        """Wait for the answer to a request."""
        with self._changed:
            assert self._changed.wait_for(lambda: call in self._answers, PATIENCE_S), call
            return self._answers.pop(call)

    def ask(self, method: str, params: Message | None = None) -> Message:
        """Send a request and wait for its answer."""
        return self.answer(self.start(method, params or {}))

    def start_tool(self, name: str, lane: str = "", token: str = "", **arguments: Any) -> int:
        """Call a tool; the call's id."""
        params: Message = {"name": name, "arguments": arguments}
        meta = {"io.tieline/lane": lane, "progressToken": token}
        if any(meta.values()):
            params["_meta"] = {key: value for key, value in meta.items() if value}
        return self.start("tools/call", params)

    def tool(self, name: str, lane: str = "", token: str = "", **arguments: Any) -> Message:
        """Call a tool and wait for its answer."""
        return self.answer(self.start_tool(name, lane, token, **arguments))


def greet(core: Core) -> None:
    """Do the handshake and list the tools."""
    capabilities: Message = {"roots": {}, "elicitation": {"form": {}}, "sampling": {}}
    info = {"name": "golden-core", "version": "1"}
    core.ask(
        "initialize", {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info}
    )
    core.send({"method": "notifications/initialized"})
    assert len(core.ask("tools/list")["result"]["tools"]) == 24


def whole_session(core: Core) -> None:
    """Everything that may happen in a session."""
    greet(core)
    # Three lanes at once; what is asked first is answered last. Two of them say the same.
    calls = [
        core.start_tool("files__echo", f"turn1/tool{number}", text=words, delay_ms=delay)
        for number, (words, delay) in enumerate((("same", 120), ("other", 80), ("same", 40)), 1)
    ]
    for call in calls:
        core.answer(call)
    core.tool("files__echo", text="no lane — ünïcode", n=1.0, big=2**60)
    core.tool("files__large", "turn1/tool1")
    core.tool("files__echo", "turn1/tool2", text="x", password="correct horse battery staple")
    core.tool("files__stray", "turn1/tool3")
    core.tool("files__fail")
    core.tool("files__refuse")
    core.tool("files__nothing")
    for tool in ("ask", "sample", "where"):
        core.tool(f"files__{tool}", "turn2/tool1")
    core.tool("notes__ask", "turn2/tool2")
    core.tool("files__steps", token="steps-1")
    call = core.start_tool("files__never", "turn2/tool3")
    core.tool("notes__echo", text="while another one waits")
    core.send(
        {"method": "notifications/cancelled", "params": {"requestId": call, "reason": "no longer wanted"}}
    )
    core.tool("files__echo", text="after the cancellation")
    core.tool("files__grow")
    core.ask("tools/list")
    core.tool("files__leave", "turn3/tool1")
    core.tool("files__echo", "turn3/tool1", text="in another life")
    core.ask("ping")


def broken_session(core: Core) -> None:
    """A session that ends in the middle of two calls."""
    greet(core)
    core.tool("files__echo", "turn1/tool1", text="before the end")
    core.start_tool("files__never", "turn1/tool2")
    core.start_tool("notes__never", "turn1/tool3")
    core.tool("files__echo", "turn1/tool1", text="the last that was answered")


def record(play: Callable[[Core], None], out: Path, *, kill: bool) -> None:
    """Play a session against a gateway in a directory of its own, and bring the recording out of there."""
    with tempfile.TemporaryDirectory(prefix="golden-") as place:
        directory = Path(place)
        shutil.copy(HERE / "peer.py", directory)
        (directory / "tieline.toml").write_text(CONFIG)
        environ = {
            "PATH": os.defpath,
            "HOME": "/home/ada",
            "LANG": "C.UTF-8",
            "TIELINE_STATE_DIR": str(directory / "state"),
            "PYTHONPATH": str(HERE.parents[2]),
        }
        command = [*TIELINE, "run", "tieline.toml", "--record", "recordings"]
        with subprocess.Popen(
            command, cwd=directory, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            play(Core(process))
            if kill:
                process.send_signal(signal.SIGKILL)
            elif process.stdin is not None:
                process.stdin.close()
            process.wait(PATIENCE_S)
        [found] = (directory / "recordings").iterdir()
        shutil.move(found, out)


def told(recording: Recording, frame: Frame) -> Message:
    """A frame as `expected.json` has it: its fields, and the hash of its body."""
    fields = {name: getattr(frame, name) for name in Frame.__struct_fields__ if name != "body"}
    fields = {name: value for name, value in fields.items() if value not in (None, msgspec.UNSET, ())}
    fields["body"] = hashlib.sha256(recording.body(frame)).hexdigest()
    return msgspec.to_builtins(fields)


def expected(path: Path) -> Message:
    """What must be read of a recording, and the hashes of its files."""
    recording = open_recording(path)
    return {
        "state": recording.state,
        "warnings": recording.warnings,
        "header": msgspec.to_builtins(recording.header),
        "frames": [told(recording, frame) for frame in recording],
        "files": {
            str(each.relative_to(path)): hashlib.sha256(each.read_bytes()).hexdigest()
            for each in sorted(path.rglob("*"))
            if each.is_file()
        },
    }


def main() -> None:
    """Make both recordings in a new directory."""
    out = Path(sys.argv[1])
    out.mkdir()
    record(whole_session, out / "sealed", kill=False)
    record(broken_session, out / "unsealed", kill=True)
    facts = {kind: expected(out / kind) for kind in ("sealed", "unsealed")}
    (out / "expected.json").write_text(
        json.dumps({"format": FORMAT, **facts}, indent=1, ensure_ascii=False) + "\n"
    )


if __name__ == "__main__":
    main()
