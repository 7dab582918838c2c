"""Starts everything servers on stdio in a blink: a parent that has everything imported, forked once a start.

`python -m tests.conformance.prefork SOCKET` is the parent. `launch.py SOCKET ERA` is the command that a gateway is
given: it hands its three standard streams to the parent, whose fork then serves on them, and ends with it.
Importing the protocol library takes a second and more; a suite that opens thirty sessions and waits 600 ms for
some of them should not measure that.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, cast

from mcp.server.lowlevel.server import Server

from tests.conformance import carriers
from tests.conformance.everything_server import EverythingServer


def main() -> None:
    """Serve launchers of the everything server until killed."""
    path = Path(sys.argv[1])
    listen(path, EverythingServer, announce=lambda: carriers.announce(f"unix:{path}"))


def listen(path: Path, make: Callable[[], Server[Any]], *, announce: Callable[[], None]) -> None:
    """Fork for each launcher that comes to `path`; the fork serves what `make` makes. Does not return."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        announce()
        while True:
            launcher, _ = listener.accept()
            era, streams, _, _ = socket.recv_fds(launcher, 32, 3)
            if os.fork() == 0:
                listener.close()
                _serve(launcher, make, era.decode(), streams)
            for stream in streams:
                os.close(stream)
            launcher.close()


def _serve(
    launcher: socket.socket, make: Callable[[], Server[Any]], era: str, streams: list[int]
) -> NoReturn:
    """Be the server that the launcher stands for, until its core or the launcher itself has gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115 - ours for life

    def end_with_launcher() -> None:
        launcher.recv(1)
        os._exit(0)

    threading.Thread(target=end_with_launcher, daemon=True).start()
    code = 1
    try:
        asyncio.run(carriers.serve(make(), "stdio", cast("carriers.Era", era)))
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
