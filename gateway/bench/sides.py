"""How the two sides of a comparison are started: a direct connection to the echo server, and a gateway before it.

    with Sides(folder) as sides:                     # ends everything that it started
        direct = sides.direct(Setup())               # a Side: .client, .pid, .start_ms
        gateway = sides.gateway(Setup(peers=10))

A `Setup` says what is between client and server; `Setup().direct` is what the same client meets without a gateway. Owns
the processes, their configuration files and where they listen; sends nothing but a client's greeting. Of the gateway's
own code nothing runs in this process: it is started as people start it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Literal, cast

from gateway.bench.client import (
    PATIENCE_S,
    BenchError,
    Client,
    over_http,
    over_pipes,
    over_unix,
    over_websocket,
)
from gateway.bench.setup import North, Setup

PYTHON = (sys.executable, "-S", "-E")
ECHO = Path(__file__).with_name("echo.py")
EXTENSION = Path(__file__).with_name("extension.py")
TIELINE = (sys.executable, "-c", "import sys; from gateway.cli.main import main; sys.exit(main())")
OTHER_EVENT = "turn_end"
"""What extensions hook that no call asks."""


class Side:
    """One way from a client to the echo server, running."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], client: Client, where: str) -> None:
        self.name = name
        self.where = where
        """A port or the path of a socket; empty for pipes."""
        self.process = process
        self.client = client
        self.start_ms = 0.0
        """Milliseconds from the start of the process to the answer of the first `tools/list`."""

    @property
    def pid(self) -> int:
        """The process whose time and memory count: the gateway's, or the echo server's where there is none."""
        return self.process.pid

    def stop(self) -> None:
        """End it: its client, then its stdin, then by signal."""
        self.client.close()
        _end(self.process)


class Sides(contextlib.AbstractContextManager["Sides"]):
    """Starts sides, and ends them all. `folder` holds their configurations, recordings and sockets."""

    def __init__(self, folder: Path, *, port: int = 0, environment: Mapping[str, str] = os.environ) -> None:
        """`port` is where gateways listen for websockets and HTTP, one after the other; 0 lets the system choose.
        `environment` is that of everything that is started."""
        self._folder = folder
        self._environment = environment
        self._port = port
        self._stack = contextlib.ExitStack()
        self._count = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def direct(self, setup: Setup) -> Side:
        """Start an echo server and connect to it as the client of `setup` would without a gateway.

        Raises:
            BenchError: If it does not start, or does not answer.
        """
        kind = setup.direct
        begun = time.perf_counter()
        place = self._place()
        process, where = self._echo(kind, place, has_schema=setup.validation)
        return self._opened("direct", process, kind, where, begun, place)

    def gateway(self, setup: Setup, *, under: Sequence[str] = ()) -> Side:
        """Start a gateway with everything that `setup` names behind it, and connect to it.

        `under` is a program that runs it and counts, with its arguments; the side's process is that program then.

        Raises:
            BenchError: If it does not start, or does not answer.
        """
        place = self._place()
        path = place / "tieline.toml"
        path.write_text(toml_of(self._settings(setup, place)))
        ready = ["--ready-file", str(place / "ready.json"), "--insecure-loopback"]
        command = [*under, *TIELINE, "run", str(path), *(["--stdio"] if setup.north == "stdio" else ready)]
        return self._served("gateway", command, setup.north, place)

    def command(self, name: str, command: list[str]) -> Side:
        """Start another program that serves MCP on stdio, and connect to it.

        Raises:
            BenchError: If it does not start, or does not answer.
        """
        return self._served(name, command, "stdio", self._place())

    def replay(self, recording: Path, north: North) -> Side:
        """Start a replay in the place of the server, and connect to it.

        Raises:
            BenchError: If it does not start, or does not answer.
        """
        place = self._place()
        command = [*TIELINE, "replay", str(recording), "--gate", "causal"]
        if north != "stdio":
            listen = str(place / "core.sock") if north == "unix" else str(self._port)
            command += [
                f"--{north}",
                listen,
                "--ready-file",
                str(place / "ready.json"),
                "--insecure-loopback",
            ]
        return self._served("replay", command, north, place)

    def program(
        self,
        name: str,
        command: Callable[[Path, int], list[str]],
        *,
        north: Literal["stdio", "http"],
        environment: Callable[[Path], Mapping[str, str]] = lambda _: {},
    ) -> Side:
        """Start somebody else's gateway, and connect to it.

        `command` and `environment` are given a directory of its own, and `command` the port on which it listens, 0 on
        stdio.

        Raises:
            BenchError: If it does not start, or does not answer.
        """
        place = self._place()
        begun = time.perf_counter()
        port = free_port() if north == "http" else 0
        # What a listener prints nobody reads: it would stop when the pipe is full.
        stdout = subprocess.DEVNULL if north == "http" else subprocess.PIPE
        process = self._start(command(place, port), place, environment(place), stdout=stdout)
        if north == "http":
            _await_port(process, port, place)
        return self._opened(name, process, north, str(port), begun, place)

    @contextlib.contextmanager
    def flood(self, side: Side, size: int) -> Generator[subprocess.Popen[bytes]]:
        """Another client of a gateway on a unix socket that makes calls of so many bytes, one after the other."""
        place = self._place()
        process = self._start([sys.executable, "-m", "gateway.bench.flood", side.where, str(size)], place)
        assert process.stdout is not None
        if not process.stdout.readline():
            raise BenchError(f"the second client does not start{_said(place)}")
        yield process
        _end(process)

    def recordings(self) -> list[Path]:
        """The directories of recordings that gateways of this run have made."""
        return sorted(path.parent for path in self._folder.glob("*/recordings/*/recording.json"))

    def _served(self, name: str, command: list[str], north: North, place: Path) -> Side:
        begun = time.perf_counter()
        process = self._start(command, place)
        where = "" if north == "stdio" else self._address(process, place)
        return self._opened(name, process, north, where, begun, place)

    def _opened(
        self, name: str, process: subprocess.Popen[bytes], kind: North, where: str, begun: float, place: Path
    ) -> Side:
        client = self._client(kind, process, where)
        side = Side(name, process, client, where)
        self._stack.callback(client.close)
        try:
            client.open()
        except (BenchError, OSError) as error:
            raise BenchError(f"the {name} side does not answer: {error}{_said(place)}") from error
        side.start_ms = (time.perf_counter() - begun) * 1000
        return side

    def _client(self, kind: North, process: subprocess.Popen[bytes], where: str) -> Client:
        if kind == "unix":
            return over_unix(where)
        if kind == "websocket":
            return over_websocket("127.0.0.1", int(where))
        if kind == "http":
            return over_http("127.0.0.1", int(where))
        assert process.stdin is not None
        assert process.stdout is not None
        return over_pipes(process.stdout.fileno(), process.stdin.fileno())

    def _echo(
        self, kind: North, place: Path, *, has_schema: bool = False
    ) -> tuple[subprocess.Popen[bytes], str]:
        """Start an echo server; where it listens."""
        command = [*_echo_command(has_schema=has_schema), kind]
        if kind == "stdio":
            return self._start(command, place), ""
        process = self._start([*command, str(place / "echo.sock") if kind == "unix" else "0"], place)
        assert process.stdout is not None
        where = process.stdout.readline().decode().strip()
        if not where:
            raise BenchError(f"the echo server does not start{_said(place)}")
        return process, where

    def _settings(self, setup: Setup, place: Path) -> dict[str, Any]:
        """The configuration of a gateway."""
        settings: dict[str, Any] = {
            "record": {"enabled": setup.recording, "dir": str(place / "recordings")},
            "catalog": {"validate_results": "flag" if setup.validation else "off"},
            "limits": {"max_in_flight_per_session": 4096, "max_in_flight_per_peer": 4096},
        }
        if setup.north != "stdio":
            settings["listen"] = {
                setup.north: {"path": str(place / "core.sock")}
                if setup.north == "unix"
                else {"port": self._port}
            }
        if setup.policy:
            settings["extensions"] = {"policy": {"mode": "strict", "deny_caps": ["exec"]}}
        log_file = {"log_file": str(place / "ledger.jsonl")} if setup.ledger else {}
        settings["telemetry"] = {"log": setup.ledger, **log_file}
        command = _echo_command(has_schema=setup.validation)
        if setup.south == "websocket":
            port = self._echo("websocket", self._place(), has_schema=setup.validation)[1]
            peers: dict[str, Any] = {"echo": {"url": f"ws://127.0.0.1:{port}/mcp"}}
        else:
            peers = {"echo": {"command": command}}
        for number in range(1, setup.peers):
            peers[f"echo{number}"] = {"command": command, "start": "eager"}
        for number in range(setup.hooks):
            peers[f"hook{number}"] = _extension(f"hook{number}", OTHER_EVENT, "noop")
        for number in range(setup.asked):
            peers[f"asked{number}"] = _extension(f"asked{number}", "tool_call", "noop")
        if setup.modifies:
            peers["modifies"] = _extension("modifies", "tool_call", "modify")
        settings["peers"] = {
            name: {"start_timeout_s": PATIENCE_S, "era": "legacy", **peer} for name, peer in peers.items()
        }
        return settings

    def _place(self) -> Path:
        self._count += 1
        place = self._folder / str(self._count)
        place.mkdir(0o700, parents=True)
        return place

    def _start(
        self,
        command: list[str],
        place: Path,
        more: Mapping[str, str] = MappingProxyType({}),
        *,
        stdout: int = subprocess.PIPE,
    ) -> subprocess.Popen[bytes]:
        state = {
            **self._environment,
            **more,
            "TIELINE_STATE_DIR": str(place / "state"),
            "PI_EXTENSION_LOG_DIR": str(place / "log"),
        }
        with (place / "stderr").open("wb") as stderr:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                env=state,
                cwd=place,
                # Ctrl-C is for this process alone: it ends the others, after it has said what it has.
                start_new_session=True,
                bufsize=0,
            )
        self._stack.callback(_end, process)
        return process

    @staticmethod
    def _address(process: subprocess.Popen[bytes], place: Path) -> str:
        """Where a gateway listens, as soon as it does: a port, or the path of its socket."""
        ready = place / "ready.json"
        deadline = time.monotonic() + PATIENCE_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"the gateway does not start{_said(place)}")
            time.sleep(0.002)
        found = json.loads(ready.read_bytes())
        (listener,) = found["listeners"]
        return (
            str(place / "core.sock")
            if listener["kind"] == "unix"
            else listener["url"].rpartition(":")[2].partition("/")[0]
        )


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_port(process: subprocess.Popen[bytes], port: int, place: Path) -> None:
    """Wait until something listens."""
    deadline = time.monotonic() + 2 * PATIENCE_S
    while True:
        if process.poll() is not None or time.monotonic() > deadline:
            raise BenchError(f"it does not start{_said(place)}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return


def _echo_command(*, has_schema: bool) -> list[str]:
    return [*PYTHON, str(ECHO), *(["--schema"] if has_schema else [])]


def _extension(name: str, event: str, how: str) -> dict[str, Any]:
    return {"command": [*PYTHON, str(EXTENSION), name, event, how], "dialect": "pi", "start": "eager"}


def toml_of(settings: dict[str, Any]) -> str:
    """Nested tables, texts, numbers, flags and lists of texts as TOML."""

    def value(given: Any) -> str:
        return json.dumps(given)

    def table(name: str, given: dict[str, Any]) -> list[str]:
        lines = [f"[{name}]"] if name else []
        lines += [f"{key} = {value(each)}" for key, each in given.items() if not isinstance(each, dict)]
        tables = {key: cast("dict[str, Any]", each) for key, each in given.items() if isinstance(each, dict)}
        for key, each in tables.items():
            lines += table(f"{name}.{key}" if name else key, each)
        return lines

    return "\n".join(table("", settings)) + "\n"


def _said(place: Path) -> str:
    """The last error that a process has told, or its last line, for an error of ours."""
    lines = [line for line in (place / "stderr").read_text(errors="replace").splitlines() if line.strip()]
    told = [line.partition("error: ")[2] for line in lines if "error: " in line] or lines
    return f": {told[-1].removeprefix(f'{place}/')}" if told else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close its stdin and wait; then by TERM, then by KILL."""
    if process.stdin is not None:
        process.stdin.close()
    for end in (process.terminate, process.kill):
        try:
            process.wait(5)
            break
        except subprocess.TimeoutExpired:
            end()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
