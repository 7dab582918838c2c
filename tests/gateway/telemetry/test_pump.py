"""Frames on their way from the path of messages: in order, bounded, and none forgotten at the end."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gateway.telemetry import pump as subject
from gateway.telemetry.aside import Aside
from gateway.telemetry.facts import BIG_BYTES, Facts, Item
from gateway.telemetry.pump import Pump, Stream
from recordings.frame import Frame


class Plain:
    generation = 0

    def suspects(self, data: bytes) -> bool:
        return False

    def frame(self, frame: Frame) -> Frame:
        return frame


class Kept:
    """A handler that keeps what it is given."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.facts: list[Facts] = []
        self.kinds: list[str] = []
        self.missed: int | None = None

    def take(self, facts: Facts) -> None:
        if facts.method == "explode":
            raise RuntimeError("a mistake of ours")
        self.seqs.append(facts.seq)
        self.facts.append(facts)

    def passed(self, kind: str) -> None:
        self.kinds.append(kind)

    plain = None

    def renewed(self) -> None: ...

    def finish(self, missed: int) -> None:
        self.missed = missed


def put(
    stream: Stream, seq: int, *, size: int = 10, kind: str = "request", method: str = "tools/call"
) -> None:
    body = json.dumps({"method": method, "params": {"a": "x" * size}}).encode()
    rest: dict[str, Any] = {"method": method, "peer": "db", "id": seq}
    stream.put((seq, seq, kind, "core>", body, rest))


def test_frames_are_looked_at_later_in_order_with_big_ones_among_them() -> None:
    async def main() -> tuple[list[int], list[str], int, int]:
        handler, flushes = Kept(), [0]

        def flush() -> None:
            flushes[0] += 1

        pump = Pump(Plain(), hashed=True, flush=flush)
        stream = pump.stream(handler)
        for seq in range(60):
            put(stream, seq, size=BIG_BYTES if seq % 7 == 0 else 10)
        put(stream, 60, kind="notification", method="notifications/progress")
        assert handler.seqs == []
        async with asyncio.timeout(25):
            while len(handler.seqs) < 60 or not handler.kinds:
                await asyncio.sleep(0.01)
        stream.ended()
        await pump.close()
        assert handler.missed == 0
        assert pump.streams == set()
        assert all(len(facts.params_hash) == 64 for facts in handler.facts)
        return handler.seqs, handler.kinds, pump.load.bytes, flushes[0]

    seqs, kinds, held, flushes = asyncio.run(main())
    assert seqs == list(range(60))
    assert kinds == ["notification"]
    assert held == 0
    assert flushes


class Quick(Kept):
    """A handler that is told of every frame by its item."""

    def plain(self, items: deque[Item], most: int) -> int:
        taken = [items.popleft() for _ in range(min(most, len(items)))]
        self.seqs += [item[0] for item in taken]
        return sum(len(item[4]) for item in taken)


def test_long_bodies_that_wait_are_looked_at_before_they_take_much_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subject, "TICK_S", 3600.0)
    monkeypatch.setattr(subject, "SOON_BYTES", 4 * BIG_BYTES)
    monkeypatch.setattr(subject, "KEEP_BYTES", BIG_BYTES)

    async def main() -> tuple[list[int], int]:
        handler, flushes = Quick(), [0]
        pump = Pump(Plain(), hashed=True, flush=lambda: flushes.append(1))
        stream = pump.stream(handler)
        for seq in range(3):
            put(stream, seq, size=BIG_BYTES)
        await asyncio.sleep(0)
        assert handler.seqs == []
        for seq in range(3, 9):
            put(stream, seq, size=BIG_BYTES)
        assert handler.seqs == []
        async with asyncio.timeout(25):
            while pump.load.bytes:
                await asyncio.sleep(0)
        assert flushes == [0]
        put(stream, 9)
        await pump.close()
        put(stream, 10, size=5 * BIG_BYTES)
        await asyncio.sleep(0)
        return handler.seqs, pump.failures

    assert asyncio.run(main()) == (list(range(10)), 0)


def test_at_the_end_everything_is_looked_at_even_of_sessions_that_did_not_end() -> None:
    async def main() -> Kept:
        handler = Kept()
        pump = Pump(Plain(), hashed=False, flush=lambda: None)
        stream = pump.stream(handler)
        for seq in range(500):
            put(stream, seq, size=BIG_BYTES if seq == 3 else 10)
        await pump.close()
        put(stream, 500)
        return handler

    handler = asyncio.run(main())
    assert handler.seqs == list(range(500))
    assert handler.missed == 0


@pytest.mark.parametrize("bound", ["MOST_ITEMS", "MOST_BYTES"])
def test_what_comes_too_fast_is_left_out_and_counted(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, bound, 5)

    async def main() -> Kept:
        handler = Kept()
        pump = Pump(Plain(), hashed=False, flush=lambda: None)
        stream = pump.stream(handler)
        for seq in range(20):
            put(stream, seq)
        stream.ended()
        await pump.close()
        return handler

    handler = asyncio.run(main())
    kept = 5 if bound == "MOST_ITEMS" else 1
    assert handler.seqs == list(range(kept))
    assert handler.missed == 20 - kept


def test_one_frame_that_cannot_be_told_of_takes_no_other_with_it() -> None:
    problems: list[Any] = []

    async def main() -> tuple[Kept, int]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        handler = Kept()
        pump = Pump(Plain(), hashed=False, flush=lambda: None)
        stream = pump.stream(handler)
        for seq in range(6):
            put(
                stream,
                seq,
                method="explode" if seq in (1, 4) else "tools/call",
                size=BIG_BYTES if seq == 4 else 1,
            )
        stream.ended()
        await pump.close()
        return handler, pump.failures

    handler, failures = asyncio.run(main())
    assert handler.seqs == [0, 2, 3, 5]
    assert handler.missed == 0
    assert failures == 2
    assert len(problems) == 1


def test_jobs_aside_run_in_order_and_one_that_fails_is_told() -> None:
    done: list[int] = []
    faults: list[Exception] = []
    aside = Aside(faults.append)

    def fail() -> None:
        raise OSError("no")

    for number in range(5):
        aside.do(lambda number=number: done.append(number))
    aside.do(fail)
    aside.do(lambda: done.append(5))

    assert aside.close(10)
    assert done == [0, 1, 2, 3, 4, 5]
    assert [str(fault) for fault in faults] == ["no"]


class Marking(Plain):
    """A redactor that knows one secret, and later another one."""

    def __init__(self) -> None:
        self.secret = b"first"

    def suspects(self, data: bytes) -> bool:
        return self.secret in data

    def frame(self, frame: Frame) -> Frame:
        return msgspec.structs.replace(frame, name="hidden")


def test_only_frames_that_may_hold_a_secret_are_looked_into_and_names_again_once_there_are_more() -> None:
    async def play() -> None:
        redactor, kept = Marking(), Kept()
        pump = Pump(redactor, hashed=False, flush=lambda: None)
        stream = pump.stream(kept)

        def put(name: str, body: bytes = b"{}", **more: Any) -> str:
            stream.put((0, 0, "request", "core>", body, {"name": name, "method": "tools/call", **more}))
            pump.drain(float("inf"))
            return kept.facts[-1].name

        assert put("second") == "second"
        assert [put("first"), put("x", b'{"a":"first"}'), put("y", x={"a": "first"})] == ["hidden"] * 3
        redactor.secret, redactor.generation = b"second", 1
        assert [put("second"), put("first")] == ["hidden", "first"]
        await pump.close()

    asyncio.run(play())


class Asked(Marking):
    """Keeps what it was asked about, and can be made to learn of its second secret just after it looked at that."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[bytes] = []
        self.meanwhile: list[Callable[[], None]] = []

    def suspects(self, data: bytes) -> bool:
        self.asked.append(data)
        found = super().suspects(data)
        while data == b"second" and self.meanwhile:
            self.meanwhile.pop()()
        return found


def test_a_name_that_becomes_a_secret_while_a_thread_looks_at_it_is_not_taken_for_harmless_later() -> None:
    async def play() -> None:
        redactor, kept = Asked(), Kept()
        pump = Pump(redactor, hashed=False, flush=lambda: None)
        stream = pump.stream(kept)

        def put(name: str) -> str:
            stream.put((0, 0, "request", "core>", b"{}", {"name": name, "method": "tools/call"}))
            pump.drain(float("inf"))
            return kept.facts[-1].name

        def learns() -> None:
            redactor.secret, redactor.generation = b"second", 1
            put("other")

        redactor.meanwhile.append(learns)
        put("second")
        assert put("second") == "hidden"
        await pump.close()

    asyncio.run(play())


def test_ids_and_long_names_take_no_room_among_the_names_that_are_looked_at_once() -> None:
    async def play() -> None:
        redactor = Asked()
        pump = Pump(redactor, hashed=False, flush=lambda: None)
        stream = pump.stream(Kept())

        def asked_about(name: str, id_: object) -> list[bytes]:
            redactor.asked.clear()
            stream.put((0, 0, "request", "core>", b"{}", {"name": name, "id": id_, "method": "m"}))
            pump.drain(float("inf"))
            return list(redactor.asked)

        assert asked_about("add", "a-1") == [b"m", b"add", b"a-1", b"{}"]
        assert asked_about("add", "a-2") == [b"a-2", b"{}"]
        assert asked_about("add", "a-2") == [b"a-2", b"{}"]
        long = "n" * (subject.LONGEST_NAME + 1)
        for _ in range(2):
            assert asked_about(long, 1) == [b"m", long.encode(), b"{}"]
        await pump.close()

    asyncio.run(play())
