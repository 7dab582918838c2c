"""The unix listener: who may connect, what happens to files that are in the way, and that it stops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.transports.wire_kit import Recorder, eventually, run
from transports.base import Acceptor, Hello, Link, Receiver, TransportError
from transports.unix import UnixListener, connect_unix


class Switch:
    """An acceptor that echoes, and keeps every connection."""

    def __init__(self) -> None:
        self.hellos: list[Hello] = []
        self.links: list[Link] = []
        self.receivers: list[Recorder] = []

    def __call__(self, link: Link, hello: Hello) -> Receiver:
        self.hellos.append(hello)
        self.links.append(link)
        self.receivers.append(Recorder(link.send))
        return self.receivers[-1]


@contextlib.asynccontextmanager
async def listening(path: Path, acceptor: Acceptor, **options: object) -> AsyncGenerator[UnixListener]:
    listener = UnixListener(path, acceptor, **options)  # type: ignore[arg-type]
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "own" / "gateway.sock"


def test_messages_go_both_ways(path: Path) -> None:
    async def main() -> None:
        switch, receiver = Switch(), Recorder()
        async with listening(path, switch) as listener:
            assert listener.address == str(path)
            link = await connect_unix(path, receiver)
            messages = [b"%d" % n * 5000 for n in range(300)]
            for message in messages:
                link.send(message)
            await receiver.count(300)
            assert receiver.messages == messages
            hello = switch.hellos[0]
            assert hello.transport == "unix"
            assert hello.principal == f"uid:{os.geteuid()}"
            assert str(os.getpid()) in hello.remote
            link.close()
            assert await receiver.end() is None
            assert await switch.receivers[0].end() is None

    run(main())


def test_eight_mebibytes_go_both_ways(path: Path) -> None:
    async def main() -> None:
        switch, receiver = Switch(), Recorder()
        async with listening(path, switch):
            link = await connect_unix(path, receiver)
            link.send(b"x" * (8 << 20))
            await receiver.count(1)
            assert receiver.messages == [b"x" * (8 << 20)]
            link.close()

    run(main())


def test_the_socket_is_for_its_user_alone(path: Path) -> None:
    async def main() -> None:
        async with listening(path, Switch()):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    run(main())
    assert not path.exists()


def test_a_directory_that_is_open_to_others_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    async def main() -> None:
        with pytest.raises(TransportError, match="open to others") as caught:
            await UnixListener(tmp_path / "s", Switch()).start()
        assert caught.value.reason == "denied"

    run(main())


def test_a_socket_file_that_nobody_listens_at_is_replaced(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))

    async def main() -> None:
        async with listening(path, Switch()):
            receiver = Recorder()
            link = await connect_unix(path, receiver)
            link.send(b"{}")
            await receiver.count(1)
            link.close()

    run(main())


def test_a_live_socket_is_refused_and_goes_on_working(path: Path) -> None:
    async def main() -> None:
        async with listening(path, Switch()):
            with pytest.raises(TransportError, match="already listening") as caught:
                await UnixListener(path, Switch()).start()
            assert caught.value.reason == "refused"
            receiver = Recorder()
            link = await connect_unix(path, receiver)
            link.send(b"{}")
            await receiver.count(1)
            link.close()

    run(main())


def test_a_file_that_is_no_socket_is_left_alone(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_text("precious")

    async def main() -> None:
        with pytest.raises(TransportError, match="no socket"):
            await UnixListener(path, Switch()).start()

    run(main())
    assert path.read_text() == "precious"


def test_a_path_that_is_too_long_is_refused_with_its_limit(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(TransportError, match="107"):
            await UnixListener(tmp_path / ("x" * 120), Switch()).start()

    run(main())


def test_another_user_is_refused_before_the_acceptor_hears_of_it(path: Path) -> None:
    async def main() -> None:
        switch, receiver = Switch(), Recorder()
        async with listening(path, switch, allowed_uids={os.geteuid() + 1}):
            await connect_unix(path, receiver)
            assert (await receiver.end()) is not None
        assert switch.hellos == []

    run(main())


def test_an_acceptor_that_raises_loses_that_connection_alone(path: Path) -> None:
    problems: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _l, context: problems.append(context))
        switch, refusing = Switch(), [True]

        def acceptor(link: Link, hello: Hello) -> Receiver:
            if refusing.pop():
                raise ValueError("not this one")
            return switch(link, hello)

        refusing.insert(0, False)
        async with listening(path, acceptor):
            first, second = Recorder(), Recorder()
            await connect_unix(path, first)
            await first.end()
            link = await connect_unix(path, second)
            link.send(b"{}")
            await second.count(1)
            link.close()

    run(main())
    assert len(problems) == 1


def test_an_acceptor_may_send_at_once(path: Path) -> None:
    async def main() -> None:
        def acceptor(link: Link, hello: Hello) -> Receiver:
            link.send(b"welcome")
            return Recorder()

        receiver = Recorder()
        async with listening(path, acceptor):
            link = await connect_unix(path, receiver)
            await receiver.count(1)
            assert receiver.messages == [b"welcome"]
            link.close()

    run(main())


def test_stop_ends_every_connection_and_removes_the_socket(path: Path) -> None:
    async def main() -> None:
        switch = Switch()
        receivers = [Recorder() for _ in range(5)]
        async with listening(path, switch):
            for receiver in receivers:
                await connect_unix(path, receiver)
            await eventually(lambda: len(switch.links) == 5)
        for receiver in switch.receivers:
            assert await receiver.end() is None
        for receiver in receivers:
            assert (await receiver.end()) is not None
        assert not path.exists()

    run(main())


def test_stop_leaves_the_socket_of_a_successor_alone(path: Path) -> None:
    async def main() -> None:
        first, second = UnixListener(path, Switch()), UnixListener(path, Switch())
        await first.start()
        path.unlink()
        await second.start()
        await first.stop()
        assert path.exists()
        await second.stop()
        assert not path.exists()

    run(main())


def test_nobody_at_the_path_is_refused(path: Path) -> None:
    async def main() -> None:
        with pytest.raises(TransportError) as caught:
            await connect_unix(path, Recorder())
        assert caught.value.reason == "refused"
        assert str(path) in caught.value.message

    run(main())


def test_a_client_that_is_cut_off_in_mid_line_leaves_a_partial_stray(path: Path) -> None:
    async def main() -> None:
        switch = Switch()
        async with listening(path, switch):
            with socket.socket(socket.AF_UNIX) as raw:
                raw.connect(str(path))
                raw.sendall(b'{"a":1}\n{"b"')
            await eventually(lambda: switch.receivers and switch.receivers[0].endings)
            receiver = switch.receivers[0]
            assert receiver.messages == [b'{"a":1}']
            assert receiver.strays == [(b'{"b"', "partial", 4)]

    run(main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_what_was_said_before_a_reset_is_all_read(path: Path, loop: str) -> None:
    async def main() -> None:
        receiver = Recorder()

        def acceptor(link: Link, hello: Hello) -> Receiver:
            link.send(b"nobody reads this")
            return receiver

        async with listening(path, acceptor):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                client.sendall((b"x" * 999 + b"\n") * 150)
                assert await asyncio.to_thread(client.recv, 1, socket.MSG_PEEK)
            await receiver.count(150)
            assert await receiver.end() is None

    run(main(), loop=loop)
