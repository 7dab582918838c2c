"""One life of a peer: what it says reaches the peer, until its connection is hung up."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import os
import sys
from typing import Any, cast

import pytest

from gateway.config.model import Config
from gateway.config.peer import PeerConfig
from gateway.runtime.connection import Connection
from gateway.runtime.life import Life
from tests.transports.wire_kit import eventually
from transports.stdio import connect_pipes


class Heard:
    """A peer that keeps what it hears; stands for its connection too."""

    stderr_bytes = 0

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def message(self, *what: Any) -> None:
        self.heard.append(what)

    stray = failed = writable = hook_answered = hooks_answered = message

    def together(self, many: list[bytes]) -> int:
        self.heard.append(tuple(many))
        return len(many)


def test_a_life_that_was_hung_up_is_not_taken_for_the_next_one() -> None:
    peer = Heard()
    life = Life(cast("Any", peer), cast("Any", peer))
    life.hear_hooks()
    life.message(b"before")
    life.mute()
    life.message(b"after", None)
    life.stray(b"after", "binary", size=5)
    life.writable(False)
    life.answered(1, b"{}")
    assert life.together([b"after", b"after"]) == 2

    assert peer.heard == [(b"before",)]


def test_lines_of_a_life_that_was_hung_up_are_not_taken_for_those_of_the_next_one() -> None:
    class Ending(Heard):
        def __init__(self) -> None:
            super().__init__()
            self.ended = asyncio.Event()

        def closed(self, *_: object) -> None:
            self.ended.set()

    async def main() -> list[Any]:
        peer = Ending()
        life = Life(cast("Any", peer), cast("Any", peer))
        read_fd, says = os.pipe()
        hears, write_fd = os.pipe()
        life.link = connect_pipes(life, read_fd=read_fd, write_fd=write_fd)
        os.write(says, b'{"said":"before"}\n')
        await eventually(lambda: peer.heard)
        life.mute()
        os.write(says, b'{"said":"after"}\n')
        os.close(says)
        await peer.ended.wait()
        os.close(hears)
        return peer.heard

    assert asyncio.run(main()) == [(b'{"said":"before"}',)]


def test_answers_to_hooks_are_passed_on_by_a_life_that_hears_them_alone() -> None:
    peer = Heard()
    life = Life(cast("Any", peer), cast("Any", peer))
    life.answered(1, b"{}")
    life.hear_hooks()
    life.answered(2, b"{}")
    life.answered_all([(3, b"{}")])

    assert peer.heard == [(2, b"{}"), ([(3, b"{}")],)]


def test_what_a_connection_says_that_is_made_when_nobody_wants_it_any_more_is_not_heard() -> None:
    class Peer(Heard):
        config = PeerConfig(command=["true"])
        state = "stopped"

    class World:
        config = Config()

    class Link:
        def __init__(self, life: Life) -> None:
            self._life = life

        def close(self) -> None:
            self._life.message(b"goodbye")

    async def main() -> list[Any]:
        peer = Peer()
        connection = Connection(cast("Any", World()), cast("Any", peer))

        async def reach(_: Connection, life: Life) -> Any:
            return Link(life)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Connection, "_reach", reach)
            await connection._open()
        return peer.heard

    assert asyncio.run(main()) == []


def test_a_peer_that_ends_is_to_be_started_again_also_where_nothing_can_be_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unloadable:
        """An import system without descriptors."""

        def find_spec(self, *_: object) -> None:
            raise OSError(24, "Too many open files")

    class World:
        news = None

        def now(self) -> int:
            return 0

    class Peer(Heard):
        config = PeerConfig(command=["true"])
        sessions = ()

    async def main() -> str:
        connection = Connection(cast("Any", World()), cast("Any", Peer()))
        connection._machine.start(0)
        monkeypatch.delitem(sys.modules, "random", raising=False)
        monkeypatch.setattr(sys, "meta_path", [Unloadable()])
        connection._retry("it has ended")
        state = connection._machine.state
        if connection._timer is not None:
            connection._timer.cancel()
        return state

    assert asyncio.run(main()) == "backing_off"


def test_a_timer_that_rings_too_early_is_set_anew() -> None:
    class World:
        news = None
        time = 0

        def now(self) -> int:
            return self.time

    class Peer(Heard):
        config = PeerConfig(command=["true"])
        sessions = ()
        state = "starting"

    def begin(connection: Connection) -> None:
        begun.append(connection)

    def is_set(connection: Connection) -> bool:
        timer = connection._timer
        if timer is not None:
            timer.cancel()
        return timer is not None

    begun: list[Connection] = []

    async def main() -> None:
        world = World()
        connection = Connection(cast("Any", world), cast("Any", Peer()))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Connection, "_begin", begin)
            connection._machine.start(0)
            connection._retry("it has ended")
            at = connection._machine.wake_at_ns
            assert at is not None
            assert is_set(connection)
            world.time = at - 1
            connection._wake()
            assert is_set(connection)
            assert begun == []
            world.time = at
            connection._wake()
        assert not is_set(connection)
        assert begun == [connection]

    asyncio.run(main())
