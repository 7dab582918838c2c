"""Stdio with real processes: what happens to our own streams, and children as somebody else spawns them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tty
from pathlib import Path

import pytest

from tests.transports.wire_kit import Recorder, run
from transports.lines import LineLink
from transports.stdio import connect_pipes, grow_pipe

MIB = 1 << 20


def test_a_pipe_is_grown_where_the_system_lets_it() -> None:
    ours, theirs = os.pipe()
    try:
        grow_pipe(ours, 1 << 17)
        assert fcntl.fcntl(ours, 1032) == 1 << 17
    finally:
        os.close(ours)
        os.close(theirs)
    with open(os.devnull) as null:
        grow_pipe(null.fileno(), 4096)


# -- our own stdin and stdout, in a process of their own --

SERVER = """
import asyncio, os, subprocess, sys
from transports.stdio import serve_stdio

class Echo:
    def __init__(self, link, done): self.link, self.done = link, done
    def message(self, data, origin=None):
        print("a stray print")
        os.write(1, b"a stray write\\n")
        if data == b"child":
            subprocess.run(["sh", "-c", "echo from a child; cat"], check=True)
        self.link.send(data)
    def stray(self, data, why, *, size): self.link.send(b"stray %d" % size)
    def failed(self, fault): pass
    def writable(self, ready): pass
    def closed(self, fault): self.done.set_result(fault)

async def main():
    done = asyncio.get_running_loop().create_future()
    serve_stdio(lambda link, hello: Echo(link, done))
    fault = await done
    print("ended:", fault, file=sys.stderr)

asyncio.run(main())
"""
ROOT = Path(__file__).parents[2]


def serve(**streams: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SERVER], cwd=ROOT, stderr=subprocess.PIPE, **streams)  # type: ignore[call-overload, no-any-return]


def test_stray_prints_and_children_cannot_touch_our_streams() -> None:
    with serve(stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        out, err = process.communicate(b"one\nchild\ntwo\n", timeout=30)
    assert out == b"one\nchild\ntwo\n"
    assert err.count(b"a stray write") == 3
    assert err.count(b"a stray print") == 3
    assert b"from a child" in err
    assert b"ended: None" in err
    assert process.returncode == 0


def test_what_is_queued_is_written_after_the_end_of_stdin() -> None:
    with serve(stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        lines = b"".join(b"%d" % n * 1000 + b"\n" for n in range(1000, 1400))
        out, _err = process.communicate(lines, timeout=30)
    assert out == lines


def test_stdin_and_stdout_may_be_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"one\n" + b"x" * 300_000 + b"\n{}")
    with (
        (tmp_path / "in").open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        serve(stdin=stdin, stdout=stdout) as process,
    ):
        _out, err = process.communicate(timeout=30)
    assert b"ended: None" in err
    assert (tmp_path / "out").read_bytes() == b"one\n" + b"x" * 300_000 + b"\n{}\n"


def test_an_empty_stdin_ends_the_connection() -> None:
    with serve(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=30)
    assert out == b""
    assert b"ended: None" in err


def test_stdin_and_stdout_may_be_a_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, serve(stdin=theirs, stdout=theirs) as process:
        theirs.close()
        ours.sendall(b"one\n")
        ours.settimeout(30)
        assert ours.recv(100) == b"one\n"
        ours.shutdown(socket.SHUT_WR)
        _out, err = process.communicate(timeout=30)
    assert b"ended: None" in err


def test_stdin_and_stdout_may_be_a_terminal() -> None:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    try:
        with serve(stdin=theirs, stdout=theirs, start_new_session=True) as process:
            flags = fcntl.fcntl(theirs, fcntl.F_GETFL)
            os.write(ours, b"one\n")
            assert os.read(ours, 100) == b"one\n"
            # The open file is shared with whoever started us: it must block as before.
            assert fcntl.fcntl(theirs, fcntl.F_GETFL) == flags
            os.close(theirs)
            theirs = -1
            os.close(ours)
            ours = -1
            _out, err = process.communicate(timeout=30)
        assert b"ended: None" in err
    finally:
        for fd in {ours, theirs} - {-1}:
            os.close(fd)


def test_a_pipe_that_we_share_with_others_stays_blocking_for_them() -> None:
    reading, writing = os.pipe()
    try:
        with serve(stdin=subprocess.PIPE, stdout=writing) as process:
            assert process.stdin is not None
            process.stdin.write(b"one\n")
            process.stdin.flush()
            assert os.read(reading, 100) == b"one\n"
            assert os.get_blocking(writing)
            process.communicate(timeout=30)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(("closed", "name"), [("<&-", b"stdin"), (">&-", b"stdout")])
def test_a_closed_stream_is_refused_by_name(closed: str, name: bytes) -> None:
    script = f'exec "$0" -c "$1" {closed}'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable, SERVER], cwd=ROOT, capture_output=True, timeout=30, check=False
    )
    assert done.returncode != 0
    assert b"Cannot use " + name in done.stderr


def test_a_parent_that_stops_reading_costs_bounded_memory_and_its_end_ends_us() -> None:
    with serve(stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"one\n" * 10)
            process.stdin.flush()
        assert process.stderr is not None
        err = process.stderr.read()
        process.stdin.close()
    assert b"ended: The other side closed its input" in err


# -- a child as somebody else spawns it --


def adopt(process: subprocess.Popen[bytes], receiver: Recorder, pipe_bytes: int | None = None) -> LineLink:
    assert process.stdin is not None
    assert process.stdout is not None
    read_fd, write_fd = os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno())
    process.stdout.close()
    process.stdin.close()
    return connect_pipes(receiver, read_fd=read_fd, write_fd=write_fd, pipe_bytes=pipe_bytes)


def test_a_child_answers_and_ends_when_its_stdin_is_closed() -> None:
    async def main() -> None:
        receiver = Recorder()
        cat = shutil.which("cat")
        assert cat is not None
        with subprocess.Popen([cat], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            link = adopt(process, receiver, pipe_bytes=1 * MIB)
            for n in range(100):
                link.send(b"%d" % n)
            await receiver.count(100)
            assert receiver.messages == [b"%d" % n for n in range(100)]
            link.close()
            assert await receiver.end() is None
            assert process.wait(30) == 0

    run(main())


def test_a_killed_child_is_told_at_once() -> None:
    async def main() -> None:
        receiver = Recorder()
        with subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            adopt(process, receiver)
            process.send_signal(signal.SIGKILL)
            fault = await receiver.end()
            assert fault is not None
            assert fault.reason == "closed"

    run(main())


def test_the_time_of_one_call_is_two_system_calls_on_our_side(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    trace = tmp_path / "trace"
    command = [
        strace,
        "-f",
        "-e",
        "trace=read,write,epoll_wait",
        "-o",
        str(trace),
        sys.executable,
        "-c",
        SERVER,
    ]
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    quiet = SERVER.replace('print("a stray print")', "pass").replace(
        'os.write(1, b"a stray write\\n")', "pass"
    )
    command[-1] = quiet
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(50):
            process.stdin.write(b"a message of ours\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"a message of ours\n"
        process.stdin.close()
        process.wait(30)
    text = trace.read_text()
    first, last = text.index("a message of ours"), text.rindex("a message of ours")
    calls = re.findall(r"^\d+ +(read|write|epoll_wait)\(", text[first:last], re.MULTILINE)
    assert len(calls) == 49 * 3 + 1
