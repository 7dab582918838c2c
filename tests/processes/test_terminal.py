"""`tieline run --ui` on a real terminal: a person answers there, and the recording answers for that person."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.processes.gateway_kit import (
    TIELINE,
    Message,
    Program,
    program,
    run,
    stdio_program,
    text_of,
    toml_of,
)
from tests.processes.replay_kit import tieline
from tests.processes.test_pi import extension

CHOOSE: Message = {
    "capability": "ui",
    "method": "ui",
    "params": {"kind": "select", "title": "Which \x1b[31mcolour?", "options": ["red", "blue"]},
}
LIST: Message = {"capability": "read", "method": "fs", "params": {"op": "list", "path": "."}}
ON_TERMINAL = (
    "import os, sys\nos.setsid()\nos.open(sys.argv[1], os.O_RDWR)\nos.execv(sys.argv[2], sys.argv[2:])\n"
)
"""Makes a terminal that of a command."""


class Person:
    """Someone before a terminal."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.seen = ""

    async def sees(self, text: str) -> None:
        async with asyncio.timeout(20):
            loop = asyncio.get_running_loop()
            while text not in self.seen:
                ready = asyncio.Event()
                loop.add_reader(self._master, ready.set)
                await ready.wait()
                loop.remove_reader(self._master)
                self.seen += os.read(self._master, 65536).decode()

    def types(self, text: str) -> None:
        self.seen = ""
        os.write(self._master, text.encode())


@contextmanager
def terminal() -> Generator[tuple[Person, list[str]]]:
    """Return who sits before a new terminal, and the words before a command that make it that command's."""
    master, slave = pty.openpty()
    try:
        yield Person(master), [sys.executable, "-c", ON_TERMINAL, os.ttyname(slave)]
    finally:
        os.close(master)
        os.close(slave)


def test_a_person_answers_at_the_terminal_and_the_recording_answers_for_them(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk")
    rules = {"policy": {"mode": "prompt", "default_caps": ["ui"], "deny_caps": []}, "roots": [str(tmp_path)]}

    async def main(gateway: Program, person: Person) -> None:
        core = await gateway.core()
        _, chosen = core.start("tools/call", {"name": "calc__ask", "arguments": CHOOSE})
        await person.sees("May the extension calc use `ui`?")
        await person.sees("1 to 7, Ctrl-D for none: ")
        person.types("2\n")
        await person.sees("1 to 2, Ctrl-D for none: ")
        assert "calc: Which \\x1b[31mcolour?" in person.seen
        person.types("blue\n")
        await person.sees("Type a number from 1 to 2.")
        person.types("2\n")
        assert json.loads(text_of(await chosen)) == {"value": "blue"}

        _, listed = core.start("tools/call", {"name": "calc__ask", "arguments": LIST})
        await person.sees("May the extension calc use `read`?")
        await person.sees("1 to 7, Ctrl-D for none: ")
        person.types("2\n")
        assert "notes.txt" in text_of(await listed)
        again = await core.tool("calc__ask", **LIST)
        assert "notes.txt" in text_of(again), "it was allowed for the session"

        _, none = core.start("tools/call", {"name": "calc__ask", "arguments": CHOOSE})
        await person.sees("1 to 2, Ctrl-D for none: ")
        person.types("\x04")
        assert json.loads(text_of(await none)) == {"cancelled": True}
        core.close()
        await core.until(lambda: core.endings)

    with terminal() as (person, wrap):
        started = program(
            tmp_path, {"calc": extension(tmp_path)}, wrap=wrap, options=["--ui"], extensions=rules
        )
        with started as gateway:
            run(main(gateway, person))
        assert gateway.process.returncode == 0
    [recording] = (tmp_path / "recordings").iterdir()
    (tmp_path / "notes.txt").unlink()

    driven = tieline("replay", recording, "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr
    frames = tieline("frames", recording, cwd=tmp_path)
    for told in ("select at the terminal", "select answered", "fs ask (", "fs allow ("):
        assert told in frames.stdout, frames.stdout

    async def replayed() -> None:
        async with stdio_program(tmp_path, ["replay", str(recording)]) as (core, _):
            await core.shake_hands()
            chosen = await core.tool("calc__ask", **CHOOSE)
            assert json.loads(text_of(chosen)) == {"value": "blue"}
            assert "notes.txt" in text_of(await core.tool("calc__ask", **LIST))

    run(replayed())


def test_without_a_terminal_the_gateway_says_so_and_does_not_start(tmp_path: Path) -> None:
    config = tmp_path / "tieline.toml"
    config.write_text(toml_of({"calc": extension(tmp_path)}, listen={"unix": {"path": str(tmp_path / "s")}}))
    alone = [sys.executable, "-c", "import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])"]
    ended = subprocess.run(
        [*alone, *TIELINE, "run", str(config), "--ui"],
        cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30, check=False,
    )  # fmt: skip
    assert ended.returncode == 3
    assert "there is none" in ended.stderr
