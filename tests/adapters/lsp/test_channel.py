"""Processes as servers that misbehave: each is small, and ends with the channel."""

from __future__ import annotations

import asyncio
import sys
from functools import partial

import psutil
import pytest

from adapters import kit
from adapters.lsp import channel as channels
from adapters.lsp.channel import MAX_BODY_BYTES, Ended, ProcessChannel
from tests.adapters.kit_client import run as bounded

run = partial(bounded, seconds=40.0)


class Notes:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.end: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._news = asyncio.Event()

    def message(self, body: bytes) -> None:
        self.bodies.append(body)
        self._news.set()

    def ended(self, why: Ended) -> None:
        self.end.set_result(why)

    async def first(self) -> bytes:
        await asyncio.wait_for(self._news.wait(), 20)
        return self.bodies[0]


async def started(script: str) -> tuple[ProcessChannel, Notes]:
    notes = Notes()
    return await ProcessChannel.open([sys.executable, "-Sc", script], "/", notes), notes


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """How a program ends by itself is seen, however long a busy machine takes for it."""
    monkeypatch.setattr(channels, "GRACE_S", 30.0)


ECHO = "import sys\nwhile data := sys.stdin.buffer.read1(65536): sys.stdout.buffer.write(data); sys.stdout.flush()"


@pytest.mark.usefixtures("patient")
def test_messages_go_there_and_back_and_the_end_is_told_once() -> None:
    async def work() -> None:
        channel, notes = await started(ECHO)
        channel.send(b'{"large":"' + b"x" * 200_000 + b'"}')
        assert len(await notes.first()) == 200_012
        await channel.close()
        assert notes.end.result() == Ended("exited with code 0", 0, [])
        channel.send(b"{}")

    run(work())


@pytest.mark.usefixtures("patient")
def test_a_program_that_fails_at_once_is_told_with_its_last_words() -> None:
    async def work() -> None:
        script = "import sys\nfor n in range(9000): print('line', n, file=sys.stderr)\nsys.exit(3)"
        channel, notes = await started(script)
        why = await notes.end
        assert (why.how, why.code, why.stderr[-1]) == ("exited with code 3", 3, "line 8999")
        assert len(why.stderr) == 5
        await channel.close()

    run(work())


def test_a_message_that_is_too_large_ends_the_server_before_it_is_read() -> None:
    async def work() -> None:
        header = f"Content-Length: {MAX_BODY_BYTES + 1}\\r\\n\\r\\n"
        script = f"import time\nprint('{header}', flush=True)\ntime.sleep(600)"
        channel, notes = await started(script)
        why = await notes.end
        assert f"sent a message of {MAX_BODY_BYTES + 1} bytes" in why.how
        await channel.close()
        assert not psutil.pid_exists(channel.pid)

    run(work())


def test_a_server_that_ignores_its_input_and_its_signals_is_killed_with_its_children() -> None:
    async def work() -> None:
        script = (
            "import signal, subprocess, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "child = subprocess.Popen([sys.executable, '-Sc', 'import time; time.sleep(600)'])\n"
            "body = str(child.pid)\nprint(f'Content-Length: {len(body)}\\r\\n\\r\\n{body}', end='', flush=True)\n"
            "time.sleep(600)"
        )
        channel, notes = await started(script)
        child = psutil.Process(int(await notes.first()))
        await channel.close()
        assert notes.end.result().how == "was ended by SIGKILL"
        gone, alive = await asyncio.to_thread(psutil.wait_procs, [child], 10)
        assert (len(gone), alive) == (1, [])

    run(work())


def test_a_program_that_is_not_there_is_named() -> None:
    async def work() -> None:
        with pytest.raises(kit.ToolError, match=r"/no/such could not be started: No such file") as met:
            await ProcessChannel.open(["/no/such"], "/", Notes())
        assert met.value.code == "io"

    run(work())
