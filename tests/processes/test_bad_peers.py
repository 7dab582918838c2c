"""Each bad peer, driven raw: it behaves until it is told not to, and then really shows its fault."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.runtime.processes import every_process, read_stat, send_signal, tree

BAD_PEER = str(Path(__file__).parent / "bad_peers" / "bad_peer.py")
PATIENCE_S = 20.0
FAULT_ID = 7

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


class Raw:
    """A peer and all that it has said."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.out = b""
        self.err = b""
        self.ends = {process.stdout.fileno(): "out", process.stderr.fileno(): "err"}
        self.to = process.stdin.fileno()

    def send(self, method: str, params: dict[str, Any] | None = None, call: int | None = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if call is not None:
            message["id"] = call
        os.write(self.to, json.dumps(message).encode() + b"\n")

    def tool(self, name: str, call: int) -> None:
        self.send("tools/call", {"name": name, "arguments": {"text": "hello"}}, call)

    def pump(self, seconds: float) -> None:
        """Take what has been said, waiting for a moment at most."""
        for end in select.select(list(self.ends), [], [], seconds)[0]:
            data = os.read(end, 1 << 20)
            if not data:
                del self.ends[end]
            elif end == self.process.stdout.fileno():  # type: ignore[union-attr]
                self.out += data
            else:
                self.err += data

    def until(self, condition: Callable[[Raw], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition(self):
            assert time.monotonic() < deadline, (
                f"not shown; stdout {self.out[-300:]!r} stderr {self.err[-300:]!r}"
            )
            self.pump(0.02)

    def said(self) -> list[dict[str, Any]]:
        """The whole lines of stdout that are JSON objects."""
        found: list[dict[str, Any]] = []
        for line in self.out.split(b"\n")[:-1]:
            with contextlib.suppress(ValueError, RecursionError):
                value: Any = json.loads(line)
                if isinstance(value, dict):
                    found.append(cast("dict[str, Any]", value))
        return found

    def answers(self, call: object) -> list[str]:
        return [
            message["result"]["content"][0]["text"]
            for message in self.said()
            if "result" in message and message.get("id") == call and type(message["id"]) is type(call)
        ]

    def family(self) -> dict[str, int]:
        self.until(lambda raw: raw.answers(FAULT_ID))
        return json.loads(self.answers(FAULT_ID)[0])

    @property
    def ended(self) -> int | None:
        return self.process.poll()


@contextlib.contextmanager
def peer(fault: str, **environment: str) -> Generator[Raw]:
    mark = f"raw:{os.getpid()}:{time.monotonic_ns()}"
    env = {"PATH": os.environ["PATH"], "BAD_PEER_LIFE": "60", "TIELINE_OWNER": mark, **environment}
    command = [sys.executable, "-S", "-E", BAD_PEER, fault]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env, bufsize=0) as process:
        try:
            yield Raw(process)
        finally:
            left = tree((process.pid,), mark)
            process.kill()
            for member in left:
                send_signal(member, signal.SIGKILL)


def begin(raw: Raw) -> None:
    """Shake hands and see that `echo` works, so that the peer is a good one until now."""
    raw.send("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}, 0)
    raw.send("notifications/initialized")
    raw.tool("echo", 1)
    raw.until(lambda raw: raw.answers(1) == ["hello"])


def lines(raw: Raw) -> list[bytes]:
    """What was said after the two good answers."""
    return raw.out.split(b"\n")[2:]


def state(pid: int) -> str:
    stat = read_stat(pid)
    return stat.state if stat else ""


def alive(pid: int) -> bool:
    return state(pid) not in {"", "Z"}


def has_echo(raw: Raw) -> bool:
    raw.tool("echo", 8)
    raw.until(lambda raw: raw.answers(8) == ["hello"])
    return True


def is_silent(raw: Raw, seconds: float = 0.3) -> bool:
    before = raw.out
    raw.pump(seconds)
    return raw.out == before


START: dict[str, Callable[[Raw], object]] = {
    "exit-0": lambda raw: raw.ended == 0,
    "exit-3": lambda raw: raw.ended == 3 and b"cannot open the database" in raw.err,
    "killed-at-start": lambda raw: raw.ended == -signal.SIGKILL,
    "segfault-at-start": lambda raw: raw.ended == -signal.SIGSEGV,
    "no-handshake": lambda raw: raw.ended is None and raw.out == b"" and is_silent(raw),
    "wrong-version": lambda raw: any(
        m.get("result", {}).get("protocolVersion") == "1999-12-31" for m in raw.said()
    ),
    "banner": lambda raw: raw.out.startswith(b"Loading model...") and raw.answers(1) == ["hello"],
    "bom": lambda raw: raw.out.startswith(b'\xef\xbb\xbf{"jsonrpc"') and raw.answers(1) == ["hello"],
    "stderr-before-handshake": lambda raw: len(raw.err) >= 1024 * 1024 and raw.answers(1) == ["hello"],
    "many-tools": lambda raw: any(len(m.get("result", {}).get("tools", ())) == 10_002 for m in raw.said()),
    "exits-idle": lambda raw: raw.ended == 0 and raw.answers(1) == ["hello"],
}
"""What is seen after a handshake, a call of `echo` (id 1) and a list of tools were sent."""

CALL: dict[str, Callable[[Raw], object]] = {
    "garbage-line": lambda raw: b"\xff" in lines(raw)[0] and raw.answers(FAULT_ID) == ["after garbage"],
    "garbage-only": lambda raw: lines(raw)[:10] == [b"{]"] * 10 and is_silent(raw),
    "invalid-utf8": lambda raw: b'"id":7' in lines(raw)[0] and b"bad \xff\xfe bytes" in lines(raw)[0],
    "truncated-line": lambda raw: len(lines(raw)) == 2 and not raw.answers(FAULT_ID) and has_echo(raw),
    "partial-then-stall": lambda raw: lines(raw)[0].startswith(b'{"jsonrpc"') and is_silent(raw),
    "partial-then-exit": lambda raw: len(lines(raw)[0]) > 20 and raw.ended == 0 and len(lines(raw)) == 1,
    "no-final-newline": lambda raw: (
        raw.ended == 0 and not raw.ends and json.loads(lines(raw)[0])["id"] == FAULT_ID
    ),
    "bom-line": lambda raw: lines(raw)[0].startswith(b"\xef\xbb\xbf{") and len(lines(raw)) > 1,
    "crlf": lambda raw: lines(raw)[0].endswith(b"}\r"),
    "two-in-one-line": lambda raw: lines(raw)[0].count(b'"jsonrpc"') == 2 and b"}{" in lines(raw)[0],
    "blank-lines": lambda raw: (
        lines(raw)[:4] == [b"", b"", b"  \t", b""]
        or (lines(raw)[:3] == [b"", b"", b"  \t"] and raw.answers(FAULT_ID) == ["after blanks"])
    ),
    "batch": lambda raw: lines(raw)[0].startswith(b"[{"),
    "huge-line": lambda raw: len(raw.answers(FAULT_ID)) == 1 and len(raw.answers(FAULT_ID)[0]) == 3_000_000,
    "endless-line": lambda raw: len(lines(raw)[0]) > 3_000_000 and len(lines(raw)) == 1,
    "depth-bomb": lambda raw: b"[" * 100_000 + b"]" * 100_000 in lines(raw)[0],
    "huge-number": lambda raw: b"9" * 1_000_000 in lines(raw)[0],
    "not-a-number": lambda raw: b"NaN" in lines(raw)[0],
    "duplicate-keys": lambda raw: lines(raw)[0].count(b'"id"') == 2,
    "byte-a-second": lambda raw: raw.answers(FAULT_ID) == ["slow"],
    "reads-slowly": lambda raw: raw.answers(FAULT_ID) and alive(raw.process.pid) and write_blocks(raw),
    "tiny-writes": lambda raw: raw.answers(FAULT_ID) == ["x" * 2000],
    "never-answers": lambda raw: has_echo(raw) and not raw.answers(FAULT_ID),
    "answers-twice": lambda raw: raw.answers(FAULT_ID) == ["same", "same"],
    "answers-twice-differently": lambda raw: raw.answers(FAULT_ID) == ["first", "second"],
    "wrong-id": lambda raw: raw.answers(FAULT_ID + 100_000) == ["to nobody"],
    "id-of-other-type": lambda raw: raw.answers("7") == ["wrong type"],
    "float-id": lambda raw: raw.answers(7.0) == ["float"],
    "null-id": lambda raw: raw.answers(None) == ["null"],
    "result-and-error": lambda raw: any({"result", "error"} <= m.keys() for m in raw.said()),
    "neither-result-nor-error": lambda raw: raw.said()[-1] == {"jsonrpc": "2.0", "id": FAULT_ID},
    "answers-cancelled": lambda raw: cancelled(raw) and raw.answers(FAULT_ID) == ["too late"],
    "answers-late": lambda raw: raw.answers(FAULT_ID) == ["late"],
    "answers-before-asked": lambda raw: raw.answers(FAULT_ID) and raw.answers(8) == ["not asked yet"],
    "asks-under-pending-id": lambda raw: (
        answered(raw) and raw.answers(FAULT_ID) == ['asked and got ["id", "jsonrpc", "result"]']
    ),
    "request-storm": lambda raw: (
        sum(m.get("method") == "roots/list" for m in raw.said()) == 1000 and raw.answers(FAULT_ID)
    ),
    "flood-notifications": lambda raw: noted(raw, "notifications/tools/list_changed") == 2000,
    "flood-logs": lambda raw: noted(raw, "notifications/message") == 2000,
    "flood-progress": lambda raw: noted(raw, "notifications/progress") == 2000,
    "flood-stderr": lambda raw: len(raw.err) == 128 * 2000 and raw.answers(FAULT_ID),
    "stderr-without-newline": lambda raw: len(raw.err) == 3_000_000 and b"\n" not in raw.err,
    "never-reads": lambda raw: raw.answers(FAULT_ID) and alive(raw.process.pid) and write_blocks(raw),
    "dies-in-call": lambda raw: raw.ended == 3 and b"panic" in raw.err and not raw.answers(FAULT_ID),
    "killed-in-call": lambda raw: raw.ended == -signal.SIGKILL,
    "segfault-in-call": lambda raw: raw.ended == -signal.SIGSEGV,
    "stops-itself": lambda raw: state(raw.process.pid) == "T",
    "closes-stdout": lambda raw: "out" not in raw.ends.values() and raw.ended is None,
    "closes-stdin": lambda raw: raw.answers(FAULT_ID) and pipe_is_broken(raw) and raw.ended is None,
    "ignores-eof-and-term": lambda raw: raw.answers(FAULT_ID) and survives_a_stop(raw, {}),
    "grandchild": lambda raw: survives_a_stop(raw, raw.family(), but_the_peer=True),
    "setsid-grandchild": lambda raw: (
        survives_a_stop(raw, raw.family(), but_the_peer=True)
        and session(raw.family()["setsid"]) == raw.family()["setsid"]
    ),
    "daemon": lambda raw: (
        survives_a_stop(raw, raw.family(), but_the_peer=True)
        and parent(raw.family()["daemon"]) != raw.process.pid
    ),
    "whole-family": lambda raw: survives_a_stop(raw, raw.family()) and len(raw.family()) == 4,
    "exits-before-grandchild": lambda raw: (
        raw.ended == 0 and alive(raw.family()["grandchild"]) and "out" in raw.ends.values()
    ),
    "memory-hog": lambda raw: raw.answers(FAULT_ID) == ["took 50 MiB"],
    "cpu-spin": lambda raw: cpu_ticks(raw.process.pid) > 20,
    "fork-bomb": lambda raw: sum(in_tree(stat.id.pid, raw) for stat in every_process()) == 8,
}
"""What is seen after the tool `fault` was called with id 7."""

ENVIRONMENT: dict[str, dict[str, str]] = {
    "huge-line": {"BAD_PEER_COUNT": "3000000"},
    "byte-a-second": {"BAD_PEER_PAUSE": "0.001"},
    "reads-slowly": {"BAD_PEER_PAUSE": "5"},
    "tiny-writes": {"BAD_PEER_COUNT": "2000"},
    "answers-late": {"BAD_PEER_PAUSE": "0.1"},
    "flood-notifications": {"BAD_PEER_COUNT": "2000"},
    "flood-logs": {"BAD_PEER_COUNT": "2000"},
    "flood-progress": {"BAD_PEER_COUNT": "2000"},
    "flood-stderr": {"BAD_PEER_COUNT": "2000"},
    "stderr-without-newline": {"BAD_PEER_COUNT": "3000000"},
    "memory-hog": {"BAD_PEER_COUNT": "50"},
    "fork-bomb": {"BAD_PEER_COUNT": "8"},
}


def write_blocks(raw: Raw) -> bool:
    os.set_blocking(raw.to, False)
    try:
        while True:
            os.write(raw.to, b" " * 65536)
    except BlockingIOError:
        return not select.select([], [raw.to], [], 0.2)[1]


def pipe_is_broken(raw: Raw) -> bool:
    try:
        os.write(raw.to, b"\n")
    except BrokenPipeError:
        return True
    return False


def cancelled(raw: Raw) -> bool:
    if not raw.answers(FAULT_ID):
        raw.send("notifications/cancelled", {"requestId": FAULT_ID})
        raw.until(lambda raw: raw.answers(FAULT_ID))
    return True


def answered(raw: Raw) -> bool:
    asked = [m for m in raw.said() if m.get("method") == "roots/list" and m["id"] == FAULT_ID]
    if asked and not raw.answers(FAULT_ID):
        os.write(raw.to, b'{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}\n')
        raw.until(lambda raw: raw.answers(FAULT_ID))
    return bool(asked)


def noted(raw: Raw, method: str) -> int:
    return sum(m.get("method") == method for m in raw.said()) if raw.answers(FAULT_ID) else 0


def survives_a_stop(raw: Raw, family: dict[str, int], *, but_the_peer: bool = False) -> bool:
    """Close stdin and send SIGTERM to all; the peer itself may go if it is not the stubborn one."""
    assert raw.process.stdin is not None
    raw.process.stdin.close()
    for pid in [*family.values(), raw.process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    raw.pump(0.2)
    assert but_the_peer or alive(raw.process.pid)
    return all(map(alive, family.values()))


def session(pid: int) -> int:
    stat = read_stat(pid)
    return stat.session if stat else 0


def parent(pid: int) -> int:
    stat = read_stat(pid)
    return stat.parent if stat else 0


def in_tree(pid: int, raw: Raw) -> bool:
    while pid > 1:
        if pid == raw.process.pid:
            return True
        pid = parent(pid)
    return False


def cpu_ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rsplit(b")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("fault", START)
def test_a_peer_that_is_bad_from_the_start(fault: str) -> None:
    with peer(fault, **ENVIRONMENT.get(fault, {})) as raw:
        with contextlib.suppress(BrokenPipeError):
            raw.send("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}, 0)
            raw.tool("echo", 1)
            raw.send("tools/list", {}, 2)
        raw.until(START[fault])


@pytest.mark.parametrize("fault", CALL)
def test_a_peer_that_turns_bad_in_a_call(fault: str) -> None:
    with peer(fault, **ENVIRONMENT.get(fault, {})) as raw:
        begin(raw)
        raw.tool("fault", FAULT_ID)
        raw.until(CALL[fault])


def test_every_fault_of_the_table_is_shown_here() -> None:
    with peer("no-such-fault") as raw:
        raw.until(lambda raw: raw.ended == 1 and not raw.ends)
        assert set(raw.err.decode().split("one of: ")[1].split()) == {*START, *CALL}


def test_a_peer_without_its_fault_called_is_a_good_server() -> None:
    with peer("never-answers") as raw:
        begin(raw)
        for method, call in (("ping", 2), ("tools/list", 3), ("logging/setLevel", 4), ("nonsense", 5)):
            raw.send(method, {}, call)
        raw.until(lambda raw: len(raw.said()) == 6)
        assert [message["id"] for message in raw.said()] == [0, 1, 2, 3, 4, 5]
        assert raw.said()[-1]["error"]["code"] == -32601
        assert raw.process.stdin is not None
        raw.process.stdin.close()
        raw.until(lambda raw: raw.ended == 0)
