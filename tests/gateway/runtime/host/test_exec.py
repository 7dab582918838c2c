"""The host call `exec`: what a command answers, how much it may take, and that nothing of it is ever left."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.calls.host.bounds import Bounds
from gateway.protocol.errors import Fault
from gateway.runtime.host.base import HostFault, serve
from gateway.runtime.host.beneath import Folders
from gateway.runtime.host.registry import Ports
from gateway.runtime.keeping import keeper_works
from gateway.runtime.processes import every_process
from tests.gateway.runtime.host.kit import Session
from tests.gateway.runtime.process_kit import until

needs_keeper = pytest.mark.skipif(not keeper_works(), reason="only a keeper counts processes")

DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        open(sys.argv[1], "w").write(str(os.getpid()))
        os.closerange(0, 3)
        while True:
            time.sleep(60)
    os._exit(0)
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read():
    time.sleep(0.005)
"""
"""Leaves a process that has left group and session and has no parent of ours."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "out").symlink_to("/tmp")
    return tmp_path


def execute(session: Session, *command: str, deadline_s: float = 20.0, **options: Any) -> dict[str, Any]:
    return asyncio.run(
        session.call("exec", deadline_s, cmd=command[0], args=list(command[1:]), options=options)
    )


def fault(session: Session, *command: str, deadline_s: float = 20.0, **options: Any) -> Fault:
    return asyncio.run(
        session.fault("exec", deadline_s, cmd=command[0], args=list(command[1:]), options=options)
    )


def is_alive(pid: int) -> bool:
    return any(stat.id.pid == pid and stat.alive for stat in every_process())


def test_a_command_answers_with_its_output_and_its_code(session: Session) -> None:
    assert execute(session, "sh", "-c", "echo out; echo err >&2; exit 3") == {
        "stdout": "out\n",
        "stderr": "err\n",
        "code": 3,
        "killed": False,
        "truncated": False,
    }


def test_arguments_are_no_shell_line(session: Session) -> None:
    assert execute(session, "printf", "%s", "a b; $HOME `id`")["stdout"] == "a b; $HOME `id`"


def test_a_command_has_nothing_to_read(session: Session) -> None:
    assert execute(session, "cat")["code"] == 0


def test_an_end_by_a_signal_is_a_code_above_128(session: Session) -> None:
    found = execute(session, "sh", "-c", "kill -KILL $$")
    assert (found["code"], found["killed"]) == (137, False)


def test_a_command_runs_in_the_first_root_or_a_folder_of_it(session: Session, place: Path) -> None:
    assert execute(session, "pwd", "-P")["stdout"] == f"{place.resolve()}\n"
    assert execute(session, "pwd", "-P", cwd="src")["stdout"] == f"{place.resolve() / 'src'}\n"
    assert execute(session, "pwd", "-P", cwd=str(place.resolve() / "src"))["code"] == 0


@pytest.mark.parametrize(
    ("cwd", "code", "errno"),
    [("..", "invalid_request", ""), ("/", "invalid_request", ""), ("out", "denied", ""),
     ("nothing", "io", "ENOENT")],
)  # fmt: skip
def test_a_command_runs_nowhere_else(session: Session, cwd: str, code: str, errno: str) -> None:
    found = fault(session, "true", cwd=cwd)
    assert (found.code, found.details.get("errno", "")) == (code, errno)


def test_a_command_gets_no_secret_of_the_gateway(folders: Folders) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": "/home/me", "API_TOKEN": "hidden"}
    session = Session(folders, ports=Ports(environ=environ))
    lines = execute(session, "env", env={"MINE": "yes"})["stdout"].splitlines()
    names = {line.partition("=")[0] for line in lines}
    assert names == {"PATH", "HOME", "MINE", "TIELINE_OWNER"}


def test_what_cannot_be_started_has_its_posix_name(session: Session, place: Path) -> None:
    (place / "script").write_text("#!/nowhere/sh\n")
    assert (fault(session, "no-such-program").code, fault(session, "no-such-program").details["errno"]) == (
        "io",
        "ENOENT",
    )
    assert fault(session, "./script").details["errno"] == "EACCES"
    (place / "script").chmod(0o755)
    assert fault(session, "./script").details["errno"] == "ENOENT"


@pytest.mark.parametrize("options", [{"env": {"A=B": "x"}}, {"env": {"A": "\0"}}, {"timeout": "1"}])
def test_params_that_cannot_be_read_are_an_invalid_request(session: Session, options: dict[str, Any]) -> None:
    assert fault(session, "true", **options).code == "invalid_request"


def test_a_command_over_its_time_is_ended_and_what_it_said_is_kept(session: Session) -> None:
    found = execute(session, "sh", "-c", "echo begun; exec sleep 600", timeout=2000)
    assert (found["stdout"], found["code"], found["killed"], found["limit"]) == ("begun\n", 143, True, "time")


def test_a_command_that_will_not_end_is_killed(session: Session) -> None:
    found = execute(session, "sh", "-c", "trap '' TERM; while :; do sleep 1; done", timeout=1500)
    assert (found["code"], found["killed"]) == (137, True)


def test_a_call_past_its_deadline_is_a_timeout(session: Session) -> None:
    found = fault(session, "sleep", "600", deadline_s=0.2)
    assert found.code == "timeout"


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_flood_is_cut_and_its_command_ended(folders: Folders, stream: str) -> None:
    found = execute(Session(folders, bounds=Bounds(output_bytes=100_000)), "sh", "-c", f"yes 1>&{stream}")
    said = found["stdout"] + found["stderr"]
    assert (len(said), found["truncated"], found["killed"], found["limit"]) == (100_000, True, True, "output")
    assert found["code"] != 0


def test_a_call_may_ask_for_less_output_and_never_for_more(folders: Folders) -> None:
    session = Session(folders, bounds=Bounds(output_bytes=2000))
    for wanted, kept in ((10, 10), (10**9, 2000)):
        found = execute(session, "sh", "-c", "printf '%5000d' 1", maxBuffer=wanted)
        assert (len(found["stdout"]), found["truncated"]) == (kept, True)


def test_all_that_was_said_before_the_end_is_there(session: Session) -> None:
    found = execute(
        session, sys.executable, "-c", "import os; os.write(1, b'x' * 60000); os.write(2, b'y' * 60000)"
    )
    assert (found["stdout"], found["stderr"]) == ("x" * 60000, "y" * 60000)


@needs_keeper
def test_a_fork_bomb_is_ended_at_its_number_of_processes(folders: Folders) -> None:
    session = Session(folders, bounds=Bounds(processes=8))
    found = execute(session, "sh", "-c", "for i in $(seq 40); do sleep 600 & done; wait")
    assert (found["killed"], found["limit"]) == (True, "processes")


def test_a_daemon_that_left_group_and_session_ends_with_its_command(session: Session, tmp_path: Path) -> None:
    found = execute(session, sys.executable, "-c", DAEMON, str(tmp_path / "pid"))
    assert found["code"] == 0
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_job_left_in_the_background_ends_with_its_command_and_holds_up_nothing(session: Session) -> None:
    found = execute(session, "sh", "-c", "sleep 600 & echo $!")
    assert found["code"] == 0
    assert not is_alive(int(found["stdout"]))


def test_a_cancelled_command_leaves_nothing_running(session: Session, tmp_path: Path) -> None:
    async def scene() -> int:
        pid = tmp_path / "pid"
        params = {"cmd": sys.executable, "args": ["-c", DAEMON + "\ntime.sleep(600)", str(pid)]}
        call = asyncio.create_task(serve(session.connectors, session.work("exec", params), session.emit))
        found = await until(lambda: pid.exists() and pid.read_text(), "the daemon")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return int(found)

    assert not is_alive(asyncio.run(scene()))


def test_output_comes_in_chunks_while_the_command_runs(session: Session, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)

    async def scene() -> dict[str, Any]:
        params = {
            "cmd": "sh",
            "args": ["-c", f"echo one; cat {go}; echo two >&2"],
            "options": {"stream": True},
        }
        call = asyncio.create_task(serve(session.connectors, session.work("exec", params), session.emit))
        await until(lambda: session.chunks, "the first chunk")
        assert (session.chunks, call.done()) == ([{"stdout": "one\n"}], False)
        go.write_text("")
        return await call

    found = asyncio.run(scene())
    assert session.chunks == [{"stdout": "one\n"}, {"stderr": "two\n"}]
    assert (found["stdout"], found["stderr"], found["code"]) == ("", "", 0)


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_reader_that_gives_no_credit_holds_the_command_back(
    session: Session, tmp_path: Path, stream: str
) -> None:
    """Far more than is held and than pipes take is never written while nobody takes the first chunk."""
    written = tmp_path / "written"
    code = (
        "import os, sys\n"
        "fd = int(sys.argv[1])\n"
        "for count in range(64):\n"
        "    os.write(fd, b'x' * 65536)\n"
        "    open(sys.argv[2], 'a').write('.')\n"
    )

    async def scene() -> None:
        taken = asyncio.Event()

        async def emit(output: dict[str, Any]) -> None:
            await taken.wait()

        work = session.work(
            "exec",
            {"cmd": sys.executable, "args": ["-c", code, stream, str(written)], "options": {"stream": True}},
        )
        call = asyncio.create_task(serve(session.connectors, work, emit))
        await until(lambda: written.exists() and written.stat().st_size >= 8, "what is held")
        # It cannot be further than what is held, what is being handed over and what two pipes take.
        for _ in range(200):
            await asyncio.sleep(0)
        assert written.stat().st_size <= 24
        taken.set()
        assert (await call)["truncated"] is False

    asyncio.run(scene())
    assert written.stat().st_size == 64


def test_no_descriptor_is_left_open(session: Session) -> None:
    execute(session, "true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        execute(session, "sh", "-c", "echo x")
        fault(session, "no-such-program")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_connector_called_without_a_verdict_starts_nothing(session: Session, place: Path) -> None:
    work = session.work("exec", {"cmd": "touch", "args": ["made"]})
    object.__setattr__(work, "extension", "other")
    with pytest.raises(HostFault):
        asyncio.run(session.connectors["exec"].serve(work, session.emit))
    assert not (place / "made").exists()
