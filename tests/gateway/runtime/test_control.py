"""The control socket: a question, an answer, and nothing that a stranger or a hanging gateway could spoil."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.runtime.control import (
    ControlError,
    GatewayStatus,
    PeerStatus,
    ask,
    run_dir,
    serve_control,
    sockets,
)

STATUS = GatewayStatus(pid=7, version="1", peers=[PeerStatus(name="db", kind="stdio", state="ready")])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    return path


def served(directory: Path, work: Callable[[Path], Any]) -> Any:
    """Run `work` in a thread, as another process would, while a gateway answers."""

    async def both() -> Any:
        server = await serve_control({"status": lambda: STATUS}, directory=directory)
        try:
            return await asyncio.wait_for(asyncio.to_thread(work, server.path), 10)
        finally:
            await server.close()

    return asyncio.run(both())


def test_a_running_gateway_says_how_it_fares(directory: Path) -> None:
    answer = served(directory, lambda path: ask(path, "status"))

    assert answer["pid"] == 7
    assert answer["peers"][0]["state"] == "ready"


def test_the_socket_is_its_owners_alone_and_goes_with_the_gateway(directory: Path) -> None:
    found = served(directory, lambda path: (sockets(directory), stat.S_IMODE(path.stat().st_mode)))

    assert found == ([directory / f"{os.getpid()}.sock"], 0o600)
    assert sockets(directory) == []


def test_an_unknown_question_is_refused_by_name(directory: Path) -> None:
    with pytest.raises(ControlError, match="no such question: stop") as caught:
        served(directory, lambda path: ask(path, "stop"))
    assert caught.value.reason == "refused"


@pytest.mark.parametrize("line", [b"nonsense\n", b"[]\n", b"\n", b"\xff\n", b"x" * 5000])
def test_what_is_no_question_gets_an_error_and_no_more(directory: Path, line: bytes) -> None:
    def send(path: Path) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(path))
            connection.sendall(line)
            return b"".join(iter(lambda: connection.recv(4096), b""))

    assert served(directory, send) == b'{"error":"the question is no JSON object"}\n'


def test_somebody_who_connects_and_says_nothing_holds_up_neither_others_nor_the_end(directory: Path) -> None:
    def ask_beside(path: Path) -> Any:
        silent = socket.socket(socket.AF_UNIX)
        silent.connect(str(path))
        try:
            return ask(path, "status")["pid"]
        finally:
            silent.close()

    assert served(directory, ask_beside) == 7


def test_a_socket_that_a_killed_gateway_left_is_told_as_gone_and_removed(directory: Path) -> None:
    path = directory / "99.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    with pytest.raises(ControlError) as caught:
        ask(path, "status")
    assert caught.value.reason == "gone"
    assert sockets(directory) == []


def test_a_gateway_that_hangs_is_told_as_silent_and_keeps_its_socket(directory: Path) -> None:
    path = directory / "99.sock"
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(path))
        hanging.listen()
        with pytest.raises(ControlError) as caught:
            ask(path, "status", timeout_s=0.05)
    assert caught.value.reason == "silent"
    assert sockets(directory) == [path]


def test_a_directory_that_others_may_enter_is_refused(directory: Path) -> None:
    directory.chmod(0o755)

    with pytest.raises(ControlError, match=r"is open to other users; run `chmod 700 .*run`"):
        served(directory, lambda path: None)


def test_a_state_directory_too_deep_for_a_socket_has_its_sockets_elsewhere(tmp_path: Path) -> None:
    assert run_dir(state=Path("/short")) == Path("/short/run")
    deep = run_dir(state=tmp_path / ("x" * 100))
    assert len(str(deep)) < 90
    assert deep != run_dir(state=tmp_path / ("y" * 100))
