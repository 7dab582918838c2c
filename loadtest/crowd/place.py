"""The gateway that a load test is driven against: one that is started for it, or one that runs already.

Owns its configuration, start and end, and the words about what went wrong with these. What is asked of it is the
users' business.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import SplitResult, urlsplit

ROOT = Path(__file__).parents[2]
TIELINE = (sys.executable, "-c", "import sys; from gateway.cli.main import main; sys.exit(main())")
ECHO = ROOT / "gateway" / "bench" / "echo.py"
BAD_PEER = ROOT / "tests" / "processes" / "bad_peers" / "bad_peer.py"
START_S = 30.0
STOP_S = 20.0
CHAOS_TIMEOUT_S = 0.5
"""How long a call at a misbehaving peer may take."""

Transport: TypeAlias = Literal["ws", "http", "stdio"]
FAULTS = {
    "stall": "never-answers",
    "freeze": "stops-itself",
    "crash": "killed-in-call",
    "flood": "flood-notifications",
}
"""What a peer does when it is told to, in our words and in those of the peers that misbehave."""
GOOD = "good__echo"
"""The tool of a server that behaves, as `chaos_peers` and users call it."""


class PlaceError(Exception):
    """There is no gateway to drive; `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def in_words(fault: PlaceError) -> str:
    """What is said of it on stderr."""
    return f"error: {fault}\n" + (f"\nhint: {fault.hint}\n" if fault.hint else "")


def tool_of(fault: str) -> str:
    """What the tool is called whose server then does this."""
    return f"{fault}__fault"


def faults_of(text: str) -> tuple[str, ...]:
    """The faults that are named, with commas between them.

    Raises:
        PlaceError: None is named, or one that nobody knows.
    """
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    unknown = [word for word in found if word not in FAULTS]
    if unknown or not found:
        what = f"no fault is called {unknown[0]}" if unknown else "no fault is named"
        raise PlaceError(what, f"there are {', '.join(FAULTS)}")
    return found


def address_of(url: str) -> SplitResult:
    """The parts of a gateway's address.

    Raises:
        PlaceError: It is none.
    """
    with contextlib.suppress(ValueError):
        place = urlsplit(url)
        if place.scheme in ("ws", "wss", "http", "https") and place.hostname and place.port != 0:
            return place
    raise PlaceError(
        f"`{url}` is no address of a gateway", "write ws://HOST:PORT/mcp or http://HOST:PORT/mcp"
    )


def port_of(place: SplitResult) -> int:
    """The port of an address, or the usual one."""
    return place.port or (443 if place.scheme in ("wss", "https") else 80)


def unreached(url: str, fault: Exception) -> str:
    """Why there is no connection to a gateway, in words: it may be for want of descriptors on our side."""
    if isinstance(fault, OSError) and fault.errno in (errno.EMFILE, errno.ENFILE):
        what = f"the load generator may open no further connection ({fault.strerror})"
        return f"{what}: raise `ulimit -n`, or take more --workers"
    why = fault.strerror if isinstance(fault, OSError) else ""
    return f"no gateway answers at {url}: {why or fault}"


def token_of(path: Path) -> dict[str, str]:
    """The header with the bearer token in a file.

    Raises:
        PlaceError: It cannot be read.
    """
    try:
        return {"Authorization": f"Bearer {path.read_text(encoding='utf-8').strip()}"}
    except (OSError, UnicodeDecodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise PlaceError(f"`{path}` cannot be read: {why}") from None


def transport_of(url: str) -> Transport:
    """How users reach a gateway at that address."""
    return "ws" if url.startswith(("ws:", "wss:")) else "http"


@dataclass
class Place:
    """Where users connect to."""

    transport: Transport
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    command: list[str] = field(default_factory=list[str])
    """With `stdio`: what each user starts for itself."""
    state: str = ""
    """The state directory of gateways that users start."""

    @property
    def about(self) -> str:
        """In words."""
        if self.transport == "stdio":
            return "Each agent has a gateway of its own, on stdio."
        return f"All agents are connected to {self.url}."

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a gateway that a user starts."""
        return {**os.environ, "TIELINE_STATE_DIR": self.state}

    def encode(self) -> str:
        """As one word, for other processes."""
        return json.dumps(self.__dict__)

    @staticmethod
    def decode(text: str) -> Place:
        """From such a word."""
        return Place(**json.loads(text))


def echo_peers() -> dict[str, dict[str, Any]]:
    """One echo server that all sessions share."""
    return {"echo": {"command": [sys.executable, "-S", "-E", str(ECHO)], "era": "legacy", "scope": "shared"}}


def chaos_peers(faults: Sequence[str], *, flood: int) -> dict[str, dict[str, Any]]:
    """One server that behaves, and one for each fault, of every session's own."""
    peers: dict[str, dict[str, Any]] = {"good": {**echo_peers()["echo"], "prefix": "good"}}
    for fault in faults:
        peers[fault] = {
            "command": [sys.executable, "-S", "-E", str(BAD_PEER), FAULTS[fault]],
            "env": {"BAD_PEER_COUNT": str(flood)},
            "era": "legacy",
            "prefix": fault,
            "call_timeout_s": CHAOS_TIMEOUT_S,
            "stop_grace_s": 0.2,
            "restart": {"backoff_s": 0.05, "backoff_max_s": 0.2, "budget": 1000},
        }
    return peers


def toml_of(peers: Mapping[str, Mapping[str, Any]], listen: Mapping[str, Mapping[str, Any]]) -> str:
    """A `tieline.toml`."""
    lines = ["[listen]", f"stdio = {'false' if listen else 'true'}"]
    for table, values in [(f"listen.{name}", table) for name, table in listen.items()] + [
        (f"peers.{name}", table) for name, table in peers.items()
    ]:
        lines += ["", f"[{table}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return "{ " + ", ".join(f'"{key}" = {_toml(item)}' for key, item in items) + " }"
    return json.dumps(value)


@dataclass
class Running:
    """A gateway that was started for a load test."""

    process: subprocess.Popen[bytes]
    log: Path
    url: str

    @property
    def trouble(self) -> str | None:
        """What it said when it ended by itself; None while it runs."""
        code = self.process.poll()
        return None if code is None else f"the gateway ended with exit code {code}: {last_words(self.log)}"


def last_words(log: Path) -> str:
    """The end of what a program has said."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-3:]) or "it said nothing"


@contextlib.contextmanager
def running(config: Path, kind: str, out: Path, *, records: bool) -> Generator[Running]:
    """`tieline run` with this configuration, for the length of a block; `kind` is the listener that is wanted.

    Raises:
        PlaceError: It does not start.
    """
    ready, log = out / "gateway.ready", out / "gateway.log"
    ready.unlink(missing_ok=True)
    command = [*TIELINE, "run", str(config), "--ready-file", str(ready)]
    if records:
        command += ["--record", str(out / "recordings")]
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, "TIELINE_STATE_DIR": str(out / "state")},
            start_new_session=True,
        )
    try:
        url = _wait_for(process, ready, log, kind)
        yield Running(process, log, url)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(out / "state", ignore_errors=True)


def _wait_for(process: subprocess.Popen[bytes], ready: Path, log: Path, kind: str) -> str:
    deadline = time.monotonic() + START_S
    while not ready.exists():
        if process.poll() is not None:
            raise PlaceError(f"the gateway does not start: {last_words(log)}", f"all it said is in {log}")
        if time.monotonic() > deadline:
            process.kill()
            raise PlaceError(f"the gateway was not ready in {START_S:g} s", f"what it said is in {log}")
        time.sleep(0.02)
    listeners: list[dict[str, str]] = json.loads(ready.read_text())["listeners"]
    urls = [listener["url"] for listener in listeners if listener["kind"] == kind]
    if not urls:
        raise PlaceError(
            f"the gateway of {ready.parent} has no {kind} listener",
            f"add [listen.{kind}] to its configuration, or choose another --transport",
        )
    return urls[0]
