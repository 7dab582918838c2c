"""The processes of the end-to-end tests: gateways as programs, and the warm peers behind them.

Starts each one when it is first asked for and ends all of them, by process id, at the end. Owns their files in one
folder; knows nothing of what is said.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

ROOT: Final = Path(__file__).parents[2]
LAUNCH: Final = str(ROOT / "tests" / "conformance" / "launch.py")
TIELINE: Final = str(Path(sys.executable).with_name("tieline"))
START_S: Final = 30.0


def toml(value: Any) -> str:
    """A value as TOML; tables are written inline."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in items) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(item) for item in cast("Sequence[Any]", value)) + "]"
    return json.dumps(value)


class House:
    """Everything that runs for a session of tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self._children: list[subprocess.Popen[bytes]] = []
        self._addresses: dict[str, str] = {}
        self._gateways: dict[str, dict[str, str]] = {}

    @property
    def names(self) -> set[str]:
        """The gateways that run."""
        return set(self._gateways)

    @property
    def env(self) -> dict[str, str]:
        """The environment of a gateway: ours, with the state and the compiled code in our folder.

        Where the environment forbids compiled code, compiling would be most of a gateway's start.
        """
        ours = {"TIELINE_STATE_DIR": str(self.state), "PYTHONPYCACHEPREFIX": str(self.folder / "pycache")}
        rest = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        return rest | ours

    # ---- peers

    def matrix_peer(self, carrier: str, era: str) -> dict[str, Any]:
        """The settings of the matrix's peer on one carrier, in one era."""
        if not self._addresses:
            command = [sys.executable, "-m", "tests.e2e.matrix_server", str(self.folder)]
            self._addresses = json.loads(self.announced("matrix_server", command))
        if carrier == "stdio":
            return {"command": [sys.executable, "-S", LAUNCH, str(self.folder / "prefork.sock"), era]}
        address = self._addresses[f"{carrier}/{era}"]
        if carrier == "unix":
            return {"unix": address.removeprefix("unix:")}
        return {"url": address, **({"type": "sse"} if carrier == "sse" else {})}

    def announced(self, name: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        """Start a program that ends with its stdin, and give the first line that it prints."""
        child = self._start(name, command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None
        readable, _, _ = select.select([child.stdout], [], [], START_S)
        line = child.stdout.readline() if readable else b""
        assert line, f"{name} has not started: {self.log(name)}"
        return line.decode()

    def served(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> int:
        """Start a program that listens on the port in `$PORT` and does not say when; give the port."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        child = self._start(name, command, env={**env, "PORT": str(port)})
        deadline = time.monotonic() + START_S
        while True:
            assert child.poll() is None, self.log(name)
            assert time.monotonic() < deadline, f"{name} has not started: {self.log(name)}"
            with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), START_S):
                return port
            time.sleep(0.02)

    # ---- gateways

    def config(self, name: str, peers: Mapping[str, Mapping[str, Any]], **sections: Any) -> Path:
        """Write the configuration `name` with these peers."""
        path = self.folder / f"{name}.toml"
        tables = {"record": {"dir": str(self.folder / "recordings" / name)}, **sections}
        lines: list[str] = []
        for title, table in [*tables.items(), *((f"peers.{peer}", table) for peer, table in peers.items())]:
            lines += [f"[{title}]", *(f"{key} = {toml(value)}" for key, value in table.items())]
        path.write_text("\n".join(lines) + "\n")
        return path

    def gateway(self, name: str, peers: Mapping[str, Mapping[str, Any]], **sections: Any) -> dict[str, str]:
        """The addresses of a gateway, by kind of listener; started when it is first asked for."""
        if name not in self._gateways:
            listen = {
                "unix": {"path": str(self.folder / f"{name}-core.sock")},
                "websocket": {"insecure_loopback": True},
                "http": {"insecure_loopback": True},
            }
            sections.setdefault("listen", listen)
            path = self.config(name, peers, **sections)
            self._gateways[name] = self.run_gateway(name, path)
        return self._gateways[name]

    def run_gateway(self, name: str, path: Path, *options: str) -> dict[str, str]:
        """Start a gateway from a file; give its addresses."""
        ready = self.folder / f"{name}-ready.json"
        child = self._start(
            name, [TIELINE, "run", str(path), "--ready-file", str(ready), *options], env=self.env
        )
        deadline = time.monotonic() + START_S
        while not ready.exists():
            assert child.poll() is None, self.log(name)
            assert time.monotonic() < deadline, f"{name} has not started: {self.log(name)}"
            time.sleep(0.01)
        return {one["kind"]: one["url"] for one in json.loads(ready.read_bytes())["listeners"]}

    # ---- processes

    def _start(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as stderr:
            child = subprocess.Popen(command, cwd=ROOT, stdin=stdin, stdout=stdout, stderr=stderr, env=env)
        self._children.append(child)
        return child

    def log(self, name: str) -> str:
        """What a program has said on stderr."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        """End everything, the youngest first; no gateway may have met an exception of its own."""
        for child in reversed(self._children):
            if child.stdin is not None:
                child.stdin.close()
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(START_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if child.stdout is not None:
                child.stdout.close()
        for log in self.folder.glob("*.log"):
            said = log.read_text(errors="replace")
            assert log.stem == "matrix_server" or "Traceback" not in said, f"{log.stem} said: {said[-3000:]}"
