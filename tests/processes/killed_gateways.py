"""Gateways that are killed by the dozen: a parent that has everything imported, forked once for each of them.

`python -m tests.processes.killed_gateways` reads command lines of `tieline` as JSON, one a line, with the file that
takes what is said on stderr; it answers with the process id, then with how the process has ended. Two hundred starts
of an interpreter would take minutes. What is forked is the program as it is, in a process of its own.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from tests.processes.gateway_kit import ROOT

IMPORTED = (
    "gateway.cli.run",
    "gateway.config.load",
    "gateway.runtime.connection",
    "gateway.runtime.control",
    "gateway.runtime.supervisor",
    "gateway.serve",
    "recordings.sealing",
    "recordings.store",
    "transports.unix",
)
"""What a gateway with a unix socket, a process and a recording imports."""


class Parent:
    """The parent, as a test sees it: one gateway at a time."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def start(self, arguments: list[str], log: Path, state: Path) -> int:
        """Start a gateway; return its process id."""
        assert self._process.stdin is not None
        line = json.dumps({"arguments": arguments, "log": str(log), "state": str(state)})
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        return self._read()

    def ended(self) -> int:
        """Wait for the gateway's end; return its exit code, negative for a signal."""
        return self._read()

    def _read(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the parent of the gateways has ended"
        return int(line)


@contextmanager
def parent() -> Generator[Parent]:
    """Run the parent; it ends with its stdin."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "tests.processes.killed_gateways"]
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe) as process:
        try:
            yield Parent(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(10)


def main() -> None:
    """Fork for each line of stdin, one after the other."""
    for module in IMPORTED:
        importlib.import_module(module)
    gc.freeze()
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            _be(asked["arguments"], asked["log"], asked["state"])
        _tell(child)
        _, status = os.waitpid(child, 0)
        _tell(os.waitstatus_to_exitcode(status))


def _be(arguments: list[str], log: str, state: str) -> NoReturn:
    """Be a gateway."""
    from gateway.cli.main import main as tieline

    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        said = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.dup2(said, 2)
        os.environ["TIELINE_STATE_DIR"] = state
        sys.argv = ["tieline", *arguments]
        code = tieline()
    finally:
        os._exit(code)


def _tell(number: int) -> None:
    os.write(1, b"%d\n" % number)


if __name__ == "__main__":
    main()
