"""Tests of the watch of many descriptors through one."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import weakref
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeAlias

import pytest

from tests.transports.wire_kit import run
from transports.watch import Watch, watch_of


class Each:
    """Who does something whenever told."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.noticed: Callable[[], Any] = call


Play: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
def pipes() -> Generator[list[tuple[int, int]]]:
    """Three pipes, closed in the end where that has not been done."""
    made = [os.pipe2(os.O_NONBLOCK) for _ in range(3)]
    yield made
    for end in (end for pipe in made for end in pipe):
        try:
            os.close(end)
        except OSError:
            continue


@pytest.fixture(params=["through one descriptor", "each by the loop", "without a descriptor to spare"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has `epoll`, where it has none, and where it has no more descriptors."""

    def none() -> None:
        raise OSError(24, "too many open files")

    if request.param == "each by the loop":
        monkeypatch.delattr(select, "epoll", raising=False)
    elif request.param == "without a descriptor to spare":
        monkeypatch.setattr(select, "epoll", none, raising=False)


@pytest.fixture(params=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Play:
    """What runs a test on each kind of loop."""
    return lambda main: run(main, loop=request.param, seconds=20)


async def _turns(count: int = 4) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.usefixtures("way")
def test_who_watches_is_called_for_their_own_descriptor(play: Play, pipes: list[tuple[int, int]]) -> None:
    async def main() -> None:
        watch = Watch(asyncio.get_running_loop())
        heard: list[bytes] = []
        for reader, _ in pipes:
            watch.add(reader, Each(lambda reader=reader: heard.append(os.read(reader, 9))))
        os.write(pipes[1][1], b"second")
        await _turns()
        os.write(pipes[0][1], b"first")
        await _turns()
        assert heard == [b"second", b"first"]
        for reader, _ in pipes:
            watch.remove(reader)

    play(main())


@pytest.mark.usefixtures("way")
def test_who_has_not_read_all_is_called_again(play: Play, pipes: list[tuple[int, int]]) -> None:
    async def main() -> None:
        watch = Watch(asyncio.get_running_loop())
        heard: list[bytes] = []
        (reader, writer), *_ = pipes
        watch.add(reader, Each(lambda: heard.append(os.read(reader, 2))))
        os.write(writer, b"abcd")
        await _turns(8)
        assert heard == [b"ab", b"cd"]
        watch.remove(reader)

    play(main())


@pytest.mark.usefixtures("way")
def test_the_end_of_a_writer_and_the_end_of_a_reader_are_told(
    play: Play, pipes: list[tuple[int, int]]
) -> None:
    async def main() -> None:
        watch = Watch(asyncio.get_running_loop())
        told: list[str] = []

        def ended(what: str, descriptor: int) -> None:
            told.append(what)
            watch.remove(descriptor)

        reader, writer = pipes[0][0], pipes[1][1]
        watch.add(reader, Each(lambda: ended("writer", reader)))
        watch.add(writer, Each(lambda: ended("reader", writer)))
        await _turns()
        assert told == []
        os.close(pipes[0][1])
        await _turns()
        os.close(pipes[1][0])
        await _turns()
        assert told == ["writer", "reader"]

    play(main())


@pytest.mark.usefixtures("way")
def test_what_is_removed_is_not_called_any_more_and_may_be_removed_twice(
    play: Play, pipes: list[tuple[int, int]]
) -> None:
    async def main() -> None:
        watch = Watch(asyncio.get_running_loop())
        heard: list[int] = []
        (reader, writer), (other, _), _ = pipes
        watch.add(reader, Each(lambda: heard.append(reader)))
        watch.add(other, Each(lambda: heard.append(other)))
        watch.remove(reader)
        watch.remove(reader)
        os.write(writer, b"x")
        await _turns()
        assert heard == []
        watch.remove(other)
        watch.add(reader, Each(lambda: (heard.append(reader), watch.remove(reader))))
        await _turns()
        assert heard == [reader]

    play(main())


@pytest.mark.usefixtures("way")
def test_what_was_removed_beside_others_may_be_watched_again(
    play: Play, pipes: list[tuple[int, int]]
) -> None:
    async def main() -> None:
        watch = Watch(asyncio.get_running_loop())
        heard: list[bytes] = []
        (reader, writer), (other, _), _ = pipes
        watch.add(other, Each(lambda: None))
        for _ in range(2):
            watch.add(reader, Each(lambda: heard.append(os.read(reader, 9))))
            os.write(writer, b"x")
            await _turns()
            watch.remove(reader)
        assert heard == [b"x", b"x"]
        watch.remove(other)

    play(main())


@pytest.mark.usefixtures("way")
def test_who_watches_what_is_watched_takes_the_others_place(play: Play, pipes: list[tuple[int, int]]) -> None:
    async def main() -> None:
        watch = Watch(asyncio.get_running_loop())
        told: list[str] = []
        reader, writer = pipes[0]
        for name in ("first", "second"):
            watch.add(reader, Each(lambda name=name: (told.append(name), watch.remove(reader))))
        os.write(writer, b"x")
        await _turns()
        assert told == ["second"]

    play(main())


def test_what_is_watched_while_there_is_no_descriptor_to_spare_stays_with_the_loop_once_there_is_one(
    play: Play, pipes: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ways at once would each look for the other's."""

    async def main() -> None:
        def none() -> None:
            raise OSError(24, "too many open files")

        watch = Watch(asyncio.get_running_loop())
        before = len(os.listdir("/proc/self/fd"))
        heard: list[bytes] = []
        with monkeypatch.context() as patched:
            patched.setattr(select, "epoll", none)
            watch.add(pipes[0][0], Each(lambda: heard.append(os.read(pipes[0][0], 9))))
        watch.add(pipes[1][0], Each(lambda: heard.append(os.read(pipes[1][0], 9))))
        os.write(pipes[0][1], b"first")
        await _turns()
        os.write(pipes[1][1], b"second")
        await _turns()
        assert heard == [b"first", b"second"]
        watch.remove(pipes[0][0])
        watch.remove(pipes[1][0])
        watch.add(pipes[2][0], Each(lambda: None))
        assert len(os.listdir("/proc/self/fd")) == before + 1
        watch.remove(pipes[2][0])

    play(main())


def test_a_number_that_is_anothers_by_now_is_not_taken_for_what_was_ready(
    play: Play, pipes: list[tuple[int, int]]
) -> None:
    """Two are ready; the first to be called closes the second's pipe, whose number a new one gets."""

    async def main() -> None:
        watch = Watch(asyncio.get_running_loop())
        called: list[str] = []
        numbers = [pipes[0][0], pipes[1][0]]
        fresh: list[int] = []

        def replace(other: int) -> None:
            called.append("first")
            for number in numbers:
                watch.remove(number)
            os.close(other)
            ours, theirs = os.pipe2(os.O_NONBLOCK)
            fresh.extend((ours, theirs))
            watch.add(ours, Each(lambda: called.append("new")))

        watch.add(numbers[0], Each(lambda: replace(numbers[1])))
        watch.add(numbers[1], Each(lambda: replace(numbers[0])))
        os.write(pipes[0][1], b"x")
        os.write(pipes[1][1], b"x")
        await _turns()
        assert called == ["first"]
        assert fresh[0] in numbers
        watch.remove(fresh[0])
        os.close(fresh[1])

    play(main())


def test_a_fault_of_one_is_told_and_the_others_are_called(play: Play, pipes: list[tuple[int, int]]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        watch = Watch(loop)
        told: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: told.append(context))
        heard: list[int] = []

        def fail(reader: int) -> None:
            watch.remove(reader)
            raise RuntimeError("no")

        def hear(reader: int) -> None:
            watch.remove(reader)
            heard.append(reader)

        for number, (reader, writer) in enumerate(pipes):
            watch.add(
                reader, Each(lambda reader=reader, number=number: (fail if number == 1 else hear)(reader))
            )
            os.write(writer, b"x")
        await _turns()
        assert sorted(heard) == sorted([pipes[0][0], pipes[2][0]])
        assert [str(context["exception"]) for context in told] == ["no"]

    play(main())


def test_no_descriptor_is_held_once_nothing_is_watched(play: Play, pipes: list[tuple[int, int]]) -> None:
    async def main() -> None:
        watch = watch_of(asyncio.get_running_loop())
        assert watch is watch_of(asyncio.get_running_loop())
        before = len(os.listdir("/proc/self/fd"))
        for reader, _ in pipes:
            watch.add(reader, Each(lambda: None))
        assert len(os.listdir("/proc/self/fd")) == before + 1
        for reader, _ in pipes:
            watch.remove(reader)
        assert len(os.listdir("/proc/self/fd")) == before

    play(main())


def test_a_loop_that_has_ended_is_held_by_no_watch_of_it() -> None:
    loop = asyncio.new_event_loop()
    watch_of(loop)
    loop.close()
    gone = weakref.ref(loop)
    del loop
    gc.collect()

    assert gone() is None
