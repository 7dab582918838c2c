"""Servers that are begun before the gateway is loaded, and what becomes of them."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec
import pytest

from gateway.config.model import Config
from gateway.config.peer import PeerConfig
from gateway.runtime.ahead import Ahead, first_needed
from gateway.runtime.keeping import keeper_works
from gateway.runtime.processes import living, read_stat
from gateway.runtime.spawning import SpawnError, spec_of
from gateway.runtime.supervisor import PeerProcess
from tests.gateway.runtime.process_kit import Listener, run

pytestmark = pytest.mark.skipif(not keeper_works(), reason="needs Linux with /proc")


def peer(code: str = "", **settings: object) -> PeerConfig:
    return msgspec.structs.replace(PeerConfig(command=[sys.executable, "-S", "-c", code]), **settings)


def process_that_says(path: Path) -> str:
    """Code of a server that says two things, writes its pid into a file, and ends with its stdin."""
    return (
        "import os, sys; os.write(1, b'early\\n'); os.write(2, b'a word\\n'); "
        f"open({str(path)!r} + '.new', 'w').write(str(os.getpid())); "
        f"os.rename({str(path)!r} + '.new', {str(path)!r}); "
        "sys.stdin.read()"
    )


def pid_in(path: Path) -> int:
    until = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < until, "it was not started"
        time.sleep(0.005)
    return int(path.read_text())


@pytest.mark.parametrize(
    ("peers", "first"),
    [
        ({"one": peer()}, ["one"]),
        ({"one": peer(), "two": peer()}, []),
        ({"one": peer(start="eager"), "two": peer(), "three": peer(start="eager")}, ["one", "three"]),
        ({"one": peer(), "off": peer(disabled=True)}, ["one"]),
        ({"extension": peer(dialect="pi", start="eager")}, []),
        ({"waiting": peer(warm=2)}, []),
        ({"far": PeerConfig(url="http://127.0.0.1:1/mcp", start="eager")}, []),
    ],
)
def test_what_a_greeting_would_start_is_begun_ahead_and_no_extension(
    peers: dict[str, PeerConfig], first: list[str]
) -> None:
    assert first_needed(Config(peers=peers)) == first


def test_a_process_that_was_begun_ahead_is_taken_with_all_that_it_has_said(tmp_path: Path) -> None:
    async def main() -> None:
        config = Config(peers={"one": peer(process_that_says(tmp_path / "pid"))})
        ahead = Ahead(config)
        pid = pid_in(tmp_path / "pid")
        spec = spec_of(config.peers["one"])
        listener = Listener()

        begun = ahead.take("one", spec)
        assert begun is not None
        assert ahead.take("one", spec) is None
        process = await PeerProcess.start(spec, listener, begun=begun)
        assert listener.lines == []  # its start is told first
        read_end, write_end = process.take_pipes()
        os.set_blocking(read_end, True)
        said = await asyncio.to_thread(os.read, read_end, 100)
        os.close(write_end)
        how = await process.wait()
        os.close(read_end)
        report = await process.stop()

        assert process.pid == pid
        assert said == b"early\n"
        assert b"a word\n" in process.stderr_tail
        assert listener.lines[0].data == b"a word"
        assert (how.code, report.left) == (0, ())
        ahead.close()

    run(main())


def test_a_process_that_has_ended_before_it_was_taken_is_told_with_its_exit(tmp_path: Path) -> None:
    async def main() -> None:
        config = Config(peers={"one": peer("import os; os.write(2, b'no'); os._exit(3)")})
        ahead = Ahead(config)
        spec = spec_of(config.peers["one"])
        begun = ahead.take("one", spec)
        assert begun is not None
        await asyncio.to_thread(os.waitid, os.P_PID, begun.kept.keeper.pid, os.WEXITED | os.WNOWAIT)

        process = await PeerProcess.start(spec, Listener(), begun=begun)
        how = await process.wait()
        await process.stop()

        assert (how.code, how.stderr_tail) == (3, b"no")

    run(main())


def test_what_nobody_takes_ends_with_everything_that_it_has_started(tmp_path: Path) -> None:
    child = "import sys, time; time.sleep(600)"
    code = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {child!r}]); "
        + process_that_says(tmp_path / "pid")
    )
    ahead = Ahead(Config(peers={"one": peer(code)}))
    stat = read_stat(pid_in(tmp_path / "pid"))
    assert stat is not None

    ahead.close()

    assert living([stat.id]) == []


def test_a_process_that_was_begun_with_other_settings_is_not_taken_and_ends(tmp_path: Path) -> None:
    config = Config(peers={"one": peer(process_that_says(tmp_path / "pid"))})
    ahead = Ahead(config)
    stat = read_stat(pid_in(tmp_path / "pid"))
    assert stat is not None
    other = msgspec.structs.replace(config.peers["one"], env={"ANOTHER": "1"})

    assert ahead.take("one", spec_of(other)) is None
    ahead.close()

    assert living([stat.id]) == []


def test_what_cannot_be_begun_is_left_to_who_needs_it_and_told_there() -> None:
    async def main() -> None:
        config = Config(peers={"one": PeerConfig(command=["/nowhere/at-all"])})
        ahead = Ahead(config)
        spec = spec_of(config.peers["one"])

        assert ahead.take("one", spec) is None
        with pytest.raises(SpawnError, match="no such file"):
            await PeerProcess.start(spec, Listener())
        ahead.close()

    run(main())


def test_a_program_that_the_system_refuses_is_refused_with_the_same_words(tmp_path: Path) -> None:
    async def main() -> None:
        script = tmp_path / "server"
        script.write_text("#!/nowhere/interpreter\n")
        script.chmod(0o755)
        config = Config(peers={"one": PeerConfig(command=[str(script)])})
        spec = spec_of(config.peers["one"])
        ahead = Ahead(config)

        told: list[str] = []
        for begun in (ahead.take("one", spec), None):
            with pytest.raises(SpawnError) as refused:
                await PeerProcess.start(spec, Listener(), begun=begun)
            told.append(str(refused.value))

        assert told[0] == told[1]
        assert "its interpreter" in told[0]
        ahead.close()

    run(main())
