"""The start and the end of a gateway as scripts see them: exit codes, the ready file, an address that is taken."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes.gateway_kit import PATIENCE_S, TIELINE, echo, is_alive, marked_by, program, toml_of


def started(directory: Path, *options: str, **sections: Any) -> subprocess.CompletedProcess[str]:
    """Run a gateway that cannot start, to its end."""
    (directory / "tieline.toml").write_text(toml_of({"good": echo()}, **sections))
    return subprocess.run(
        [*TIELINE, "run", "tieline.toml", *options],
        cwd=directory,
        env={**os.environ, "TIELINE_STATE_DIR": str(directory / "state")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_port_that_is_taken_is_told_with_file_key_and_what_to_do(kind: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    ready.write_text('{"pid": 1}')
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = started(tmp_path, "--ready-file", str(ready), listen={kind: {"port": port}})

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"tieline: error: {tmp_path / 'tieline.toml'}: `listen.{kind}.port` is {port}, where another program "
        "listens already: choose another, or 0 for any; `tieline status` shows the gateways that run\n"
    )
    assert not ready.exists(), "the ready file of an earlier gateway was left"


def test_recordings_that_cannot_be_written_keep_a_gateway_from_starting_unless_it_may_serve_without(
    tmp_path: Path,
) -> None:
    (tmp_path / "recordings").touch()
    done = started(tmp_path, "--record", "recordings", listen={"http": {}})

    assert (done.returncode, done.stdout) == (3, "")
    assert f"error: recordings cannot be written to `{tmp_path / 'recordings'}`: " in done.stderr
    assert "`record.dir`" in done.stderr


def test_a_state_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    done = started(tmp_path, listen={"http": {}})

    assert (done.returncode, done.stdout) == (3, "")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", [["run"], ["check"], ["tools", "list"]], ids=" ".join)
def test_a_key_of_a_wrong_size_is_told_with_its_place_and_what_to_do(
    tmp_path: Path, command: list[str]
) -> None:
    key = tmp_path / "state" / "redaction.key"
    key.parent.mkdir()
    key.write_bytes(b"too short")
    (tmp_path / "tieline.toml").write_text(toml_of({"good": echo()}, listen={"http": {}}))
    done = subprocess.run(
        [*TIELINE, *command],
        cwd=tmp_path,
        env={**os.environ, "TIELINE_STATE_DIR": str(tmp_path / "state")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert (done.returncode, done.stdout) == (3, "")
    assert (
        f"error: the key that secrets are marked under, `{key}`, has to have 32 bytes, and has 9: "
        in done.stderr
    )
    assert len(done.stderr.splitlines()) == 1
    assert key.read_bytes() == b"too short"


def test_a_ready_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    done = started(tmp_path, "--ready-file", str(tmp_path / "nowhere" / "ready.json"), listen={"http": {}})

    assert done.returncode == 3
    assert "error: `--ready-file` cannot be written: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_ready_file_is_there_while_the_gateway_is_and_not_after(tmp_path: Path) -> None:
    with program(tmp_path, {"good": echo()}) as gateway:
        assert json.loads((tmp_path / "ready.json").read_text())["pid"] == gateway.pid
    assert gateway.process.returncode == 0
    assert not (tmp_path / "ready.json").exists()


def test_the_ready_file_of_another_gateway_is_left_alone(tmp_path: Path) -> None:
    with program(tmp_path, {"good": echo()}) as gateway:
        (tmp_path / "ready.json").write_text('{"pid": 1}')
    assert gateway.process.returncode == 0
    assert (tmp_path / "ready.json").exists()


def server_that_tells(directory: Path) -> dict[str, Any]:
    """A server that says in a file which process it is, and has to be ended: it does not end with its input."""
    code = "import os, time; open('.pid', 'w').write(str(os.getpid())); os.rename('.pid', 'pid'); time.sleep(600)"
    return {"command": [sys.executable, "-S", "-c", code], "cwd": str(directory)}


@pytest.mark.parametrize(
    ("options", "listens"), [(["--stdio"], False), ([], True)], ids=["asked for", "as configured"]
)
def test_the_one_server_of_an_agent_is_started_before_the_agent_greets_and_does_not_outlive_a_kill(
    tmp_path: Path, options: list[str], *, listens: bool
) -> None:
    peers = {"one": server_that_tells(tmp_path)}
    (tmp_path / "tieline.toml").write_text(toml_of(peers, listen={"stdio": listens}))
    gateway = subprocess.Popen(
        [*TIELINE, "run", "tieline.toml", *options],
        cwd=tmp_path,
        env={**os.environ, "TIELINE_STATE_DIR": str(tmp_path / "state")},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        assert_soon((tmp_path / "pid").exists)
        server = int((tmp_path / "pid").read_text())
        assert is_alive(server)
    finally:
        gateway.kill()
        gateway.wait()
        assert gateway.stdin is not None
        gateway.stdin.close()

    assert_soon(lambda: not is_alive(server))


def test_a_gateway_that_cannot_start_leaves_no_server_that_it_has_started_ahead(tmp_path: Path) -> None:
    (tmp_path / "recordings").touch()
    (tmp_path / "tieline.toml").write_text(toml_of({"one": server_that_tells(tmp_path)}))
    gateway = subprocess.Popen(
        [*TIELINE, "run", "tieline.toml", "--stdio", "--record", "recordings"],
        cwd=tmp_path,
        env={**os.environ, "TIELINE_STATE_DIR": str(tmp_path / "state")},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    assert gateway.wait(PATIENCE_S) == 3
    assert marked_by(gateway.pid) == []


def assert_soon(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it has not come about"
        time.sleep(0.01)
