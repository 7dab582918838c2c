"""A whole gateway for tests: in this process or as `tieline run`, raw clients of it, and what it has recorded.

Owns starting and ending, the raw JSON-RPC client (no SDK), the bystander whose calls must succeed meanwhile, and
the proof that nothing is left running. What a fault comes to is the tests' business.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import psutil
import pytest

from gateway.config.load import parse
from gateway.config.model import Config
from gateway.config.options import ServeOptions
from gateway.serve import Gateway
from recordings.frame import Frame
from recordings.store import Recording, open_recording
from transports.base import Id, Origin, TransportError
from transports.lines import LineLink
from transports.memory import MemoryLink, connect_memory
from transports.stdio import connect_pipes
from transports.unix import connect_unix

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BAD_PEER = str(HERE / "bad_peers" / "bad_peer.py")
ECHO_PEER = str(HERE / "echo_peer.py")
PYTHON = (sys.executable, "-S", "-E")
TIELINE = (sys.executable, "-c", "import sys; from gateway.cli.main import main; sys.exit(main())")
PATIENT_TIELINE = (
    sys.executable,
    "-c",
    "import sys; from gateway.calls import leaving; leaving.LEAVING_S = 20.0; "
    "from gateway.cli.main import main; sys.exit(main())",
)
"""With time for a server that starts on a busy machine once all was said. It ends with the last answer all the same."""
PATIENCE_S = 25.0
"""No wait of a test is longer; only a failing one takes it."""
LEGACY = "2025-11-25"
CAPABILITIES: dict[str, Any] = {"roots": {}, "elicitation": {"form": {}}, "sampling": {}}

T = TypeVar("T")
Message = dict[str, Any]


class SendingLink(Protocol):
    """What a client needs of its link."""

    def send(self, message: bytes) -> None: ...
    def close(self, code: int = 1000, reason: str = "") -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Client:
    """A raw client: sends what it is told, keeps everything that comes, answers what a server asks."""

    def __init__(self) -> None:
        self.link: LineLink | MemoryLink | None = None
        self.messages: list[Message] = []
        self.raw: list[bytes] = []
        self.answered: Counter[tuple[str, Id]] = Counter()
        """How often each of our requests was answered, by type and value of its id."""
        self.endings: list[TransportError | None] = []
        self.answers_asks = True
        self.words: Message = {"action": "accept"}
        """What a question is answered with, but for one about roots."""
        self._waiting: dict[tuple[str, Id], asyncio.Future[Message]] = {}
        self._changed = asyncio.Event()
        self._next = 0

    # what the transport calls

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        message: Message = json.loads(data)
        self.messages.append(message)
        if "method" not in message:
            key = key_of(message.get("id"))
            self.answered[key] += 1
            waiting = self._waiting.pop(key, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif "id" in message and self.answers_asks:
            body: Message = {"roots": []} if message["method"] == "roots/list" else self.words
            self.send({"id": message["id"], "result": body})
        self._changed.set()

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        self.raw.append(data)
        self._changed.set()

    def failed(self, fault: TransportError) -> None:
        self.raw.append(str(fault).encode())

    def writable(self, ready: bool) -> None:
        pass

    def closed(self, fault: TransportError | None) -> None:
        self.endings.append(fault)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the gateway has gone"))
        self._changed.set()

    # what tests call

    def send(self, message: Message) -> None:
        """Send one message; `jsonrpc` is filled in."""
        self.send_raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def send_raw(self, data: bytes) -> None:
        assert self.link is not None
        self.link.send(data)

    def start(
        self, method: str, params: Message | None = None, *, id_: Id | None = None
    ) -> tuple[Id, asyncio.Future[Message]]:
        """Send a request; give its id and what will hold its answer."""
        if id_ is None:
            self._next += 1
            id_ = self._next
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[key_of(id_)] = future
        self.send({"id": id_, "method": method, "params": params or {}})
        return id_, future

    async def ask(
        self, method: str, params: Message | None = None, *, id_: Id | None = None, within: float = PATIENCE_S
    ) -> Message:
        """Send a request and wait for its answer, result or error."""
        _, future = self.start(method, params, id_=id_)
        return await asyncio.wait_for(future, within)

    async def tool(self, name: str, *, within: float = PATIENCE_S, **arguments: Any) -> Message:
        """Call a tool and wait for its answer."""
        return await self.ask("tools/call", {"name": name, "arguments": arguments}, within=within)

    def start_tool(self, name: str, **arguments: Any) -> tuple[Id, asyncio.Future[Message]]:
        """Call a tool; give the call's id and what will hold its answer."""
        return self.start("tools/call", {"name": name, "arguments": arguments})

    async def shake_hands(self, version: str = LEGACY) -> Message:
        """Do the handshake."""
        info = {"name": "raw-client", "version": "1"}
        params = {"protocolVersion": version, "capabilities": CAPABILITIES, "clientInfo": info}
        answer = await self.ask("initialize", params)
        self.send({"method": "notifications/initialized"})
        return answer

    def notes(self, method: str) -> list[Message]:
        """The notifications of one method that have come."""
        return [m.get("params", {}) for m in self.messages if m.get("method") == method and "id" not in m]

    async def until(self, condition: Callable[[], T]) -> T:
        """Wait until `condition` holds; it is looked at after every event."""
        async with asyncio.timeout(PATIENCE_S):
            while not (value := condition()):
                self._changed.clear()
                await self._changed.wait()
            return value

    def close(self) -> None:
        if self.link is not None:
            self.link.close()


def key_of(id_: Any) -> tuple[str, Any]:
    """Ids of different types are different ids."""
    return type(id_).__name__, id_


def text_of(answer: Message) -> str:
    """The text of a tool's result."""
    assert "result" in answer, answer
    return answer["result"]["content"][0]["text"]


def told(answer: Message) -> Message:
    """The `data` of an error of the gateway's own."""
    assert "error" in answer, answer
    return answer["error"]["data"]


# ---- peers


def bad(fault: str, *, env: Mapping[str, str] | None = None, **settings: Any) -> Message:
    """The configuration of a peer with this fault."""
    return {
        "command": [*PYTHON, BAD_PEER, fault],
        "env": {"BAD_PEER_LIFE": "120", **(env or {})},
        "stop_grace_s": 0.2,
        "restart": {"backoff_s": 0.02, "backoff_max_s": 0.1},
        **settings,
    }


def echo(**settings: Any) -> Message:
    """The configuration of a peer that behaves."""
    return {"command": [*PYTHON, ECHO_PEER], "era": "legacy", "stop_grace_s": 0.2, **settings}


def config_of(directory: Path, peers: Mapping[str, Message], **sections: Any) -> Config:
    """Return a configuration as it would be read from a file in `directory`."""
    return parse(toml_of(peers, **sections), path=directory / "tieline.toml", environ=dict(os.environ))


def toml_of(peers: Mapping[str, Message], **sections: Any) -> str:
    """Write a configuration. Tables are written inline; JSON's words are TOML's."""
    tables: Message = {
        **sections,
        "catalog": {"prefix": "always", **sections.get("catalog", {})},
        "listen": {"stdio": False, **sections.get("listen", {})},
    }
    lines: list[str] = []
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    for name, table in peers.items():
        lines += [f"[peers.{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return "{ " + ", ".join(f'"{key}" = {_toml(item)}' for key, item in table.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in cast("Sequence[Any]", value)) + "]"
    return json.dumps(value)


# ---- a gateway in this process


@dataclass
class House:
    """A gateway in this process and its clients."""

    gateway: Gateway
    directory: Path
    clients: list[Client] = field(default_factory=list[Client])
    problems: list[Message] = field(default_factory=list[Message])

    async def core(self, *, shake: bool = True, synchronous: bool = False) -> Client:
        """Connect a client."""
        client = Client()
        client.link = connect_memory(self.gateway.accept, client, synchronous=synchronous)
        self.clients.append(client)
        if shake:
            await client.shake_hands()
        return client

    def frames(self, which: int = 0) -> list[Frame]:
        """The frames of one session's recording, as they are now."""
        return list(self.recording(which))

    def recording(self, which: int = 0) -> Recording:
        return open_recording(self.recordings()[which])

    def recordings(self) -> list[Path]:
        """Where the sessions' recordings are, in the order in which they began."""
        directory = self.gateway.world.recordings.directory
        found = list(Path(directory).iterdir()) if directory and Path(directory).exists() else []
        return sorted(found, key=lambda path: open_recording(path).header.started)

    def pid(self, peer: str) -> int | None:
        """The process of a peer, if it runs."""
        for one in self.gateway.exchange.peers_named(peer):
            if (pid := self.gateway.world.pid(one)) is not None:
                return pid
        return None

    def life(self, peer: str) -> int:
        """How often a peer has been started."""
        return max((one.life for one in self.gateway.exchange.peers_named(peer)), default=0)


@asynccontextmanager
async def house(
    directory: Path, peers: Mapping[str, Message], *, options: ServeOptions | None = None, **sections: Any
) -> AsyncGenerator[House]:
    """Run a gateway in this process. At the end it is stopped, and nothing of it may be left or have raised."""
    before = children()
    gateway = Gateway(
        config_of(directory, peers, **sections), options or ServeOptions(record_dir=directory / "recordings")
    )
    here = House(gateway, directory)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: here.problems.append(context))
    await gateway.start()
    try:
        yield here
    finally:
        for client in here.clients:
            client.close()
        await asyncio.sleep(0)
        await asyncio.wait_for(gateway.stop(), PATIENCE_S)
    assert here.problems == [], here.problems
    await nothing_left(before)


def run(main: Coroutine[Any, Any, T], *, seconds: float = 55.0) -> T:
    """Run `main` on a fresh loop."""

    async def bounded() -> T:
        return await asyncio.wait_for(main, seconds)

    return asyncio.run(bounded())


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep every gateway's state in the test's own directory."""
    home = tmp_path / "state"
    monkeypatch.setenv("TIELINE_STATE_DIR", str(home))
    monkeypatch.setenv("PI_EXTENSION_LOG_DIR", str(home / "logs"))
    return home


async def eventually(condition: Callable[[], T], what: str = "the condition") -> T:
    """Return what `condition` returns once that is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true within {PATIENCE_S} s"
        await asyncio.sleep(0.01)
    return value


# ---- the bystander


@asynccontextmanager
async def bystander(client: Client, tool: str = "good__echo", within: float = 10.0) -> AsyncGenerator[None]:
    """Call an innocent peer all the while; every call is answered rightly and within its own bound."""
    over = asyncio.Event()
    count = 0

    async def go_on() -> None:
        nonlocal count
        while not over.is_set() or count == 0:
            count += 1
            text = f"still here {count}"
            assert text_of(await client.tool(tool, within=within, text=text)) == text
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), 0.02)

    task = asyncio.create_task(go_on())
    try:
        yield
    finally:
        over.set()
        await task


# ---- processes


def children() -> set[int]:
    """The processes below this one that live."""
    return {process.pid for process in psutil.Process().children(recursive=True) if is_alive(process.pid)}


async def nothing_left(before: set[int]) -> None:
    """Wait until no process is left that was not there before."""
    await eventually(lambda: children() <= before, "the end of every process")


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def marked_by(gateway: int) -> list[int]:
    """The living processes that were started by the gateway with this process id."""
    from gateway.runtime.processes import Owner, every_process, read_mark

    found: list[int] = []
    for stat in every_process():
        mark = read_mark(stat.id.pid) if stat.alive else None
        owner = Owner.of_mark(mark) if mark else None
        if owner is not None and owner.id.pid == gateway:
            found.append(stat.id.pid)
    return found


def peak_memory(pid: int) -> int:
    """The most memory that a process has taken, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


# ---- a gateway as a program


@dataclass
class Program:
    """`tieline run` in a process of its own."""

    process: subprocess.Popen[bytes]
    directory: Path
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def recordings(self) -> list[Path]:
        found = self.directory / "recordings"
        return sorted(found.iterdir()) if found.is_dir() else []

    def said(self) -> str:
        return self.log.read_text()

    async def core(self, *, shake: bool = True) -> Client:
        """Connect over the unix socket."""
        client = Client()
        client.link = await connect_unix(self.directory / "sock" / "core.sock", client)
        if shake:
            await client.shake_hands()
        return client

    async def ended(self) -> int:
        """Wait for the end; return the exit code, negative for a signal."""
        return await eventually_not_none(self.process.poll)


async def eventually_not_none(poll: Callable[[], int | None]) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while (code := poll()) is None:
        assert time.monotonic() < deadline, "the gateway has not ended"
        await asyncio.sleep(0.01)
    return code


@contextmanager
def program(
    directory: Path,
    peers: Mapping[str, Message],
    *,
    wrap: Sequence[str] = (),
    options: Sequence[str] = (),
    **sections: Any,
) -> Generator[Program]:
    """Run `tieline run` with a unix socket; afterwards all that it started is ended, whatever the test found."""
    sections.setdefault("listen", {})["unix"] = {"path": str(directory / "sock" / "core.sock")}
    path = directory / "tieline.toml"
    path.write_text(toml_of(peers, **sections))
    ready = directory / "ready.json"
    log = directory / "stderr.log"
    command = [
        *wrap,
        *(*TIELINE, "run", str(path)),
        *("--ready-file", str(ready), "--record", str(directory / "recordings"), *options),
    ]
    env = {**os.environ, "TIELINE_STATE_DIR": str(directory / "state")}
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, env=env
        ) as process,
    ):
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not ready.exists():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, "the gateway has not started"
                time.sleep(0.01)
            yield Program(process, directory, log)
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.wait()
            for pid in marked_by(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def stdio_program(
    directory: Path, arguments: Sequence[str]
) -> AsyncGenerator[tuple[Client, subprocess.Popen[bytes]]]:
    """Run a command of `tieline` that speaks on its stdin and stdout."""
    log = directory / "stderr.log"
    env = {**os.environ, "TIELINE_STATE_DIR": str(directory / "state")}
    command = [*TIELINE, *arguments]
    pipe = subprocess.PIPE
    with (
        log.open("wb") as stderr,
        subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=stderr, env=env) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        client = Client()
        read_fd, write_fd = os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno())
        process.stdin.close()
        process.stdout.close()
        client.link = connect_pipes(client, read_fd=read_fd, write_fd=write_fd)
        try:
            yield client, process
        finally:
            client.close()
            try:
                await eventually_not_none(process.poll)
            finally:
                if process.poll() is None:
                    process.kill()
                await client.until(lambda: client.endings)
