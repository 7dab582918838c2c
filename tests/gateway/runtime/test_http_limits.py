"""What the HTTP listener bounds: sessions, sizes, times, slow readers; and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import resource
import socket
from collections.abc import Callable

import pytest

from gateway.runtime.http_front import HttpFront
from gateway.runtime.http_options import FrontOptions
from tests.gateway.runtime.front_kit import LEGACY, Desk, call, calling, envelope, modern, request
from tests.transports.wire_kit import WAIT_S, eventually, run
from transports.base import Limits, TransportError

BEGIN = json.dumps(request("initialize", 1, protocolVersion=LEGACY)).encode()


class Raw:
    """One connection of which every byte is ours."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, front: HttpFront) -> Raw:
        host, _, rest = front.address.removeprefix("http://").partition(":")
        return cls(*await asyncio.open_connection(host, int(rest.partition("/")[0])))

    def post(self, front: HttpFront, body: bytes, *, declared: int | None = None, path: str = "/mcp") -> None:
        host = front.address.removeprefix("http://").partition("/")[0]
        size = len(body) if declared is None else declared
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\naccept: */*\r\n"
            f"content-length: {size}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)

    async def status(self) -> int:
        """Read one whole answer; return its status."""
        async with asyncio.timeout(WAIT_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            length = next(int(line.partition(":")[2]) for line in head if line.startswith("content-length"))
            await self.reader.readexactly(length)
        return int(head[0].split(" ")[1])

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


def rss_kib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def test_the_session_that_was_silent_longest_makes_room() -> None:
    async def main() -> None:
        async with calling(FrontOptions(max_sessions=3)) as (caller, desk, front):
            sessions = [await caller.begin() for _ in range(3)]
            await caller.post(request("tools/list"), **sessions[0])
            await caller.begin()
            assert front.sessions == 3
            await desk.until(lambda: desk.clerks[1].endings)
            fault = desk.clerks[1].endings[0]
            assert fault is not None
            assert fault.reason == "idle"
            assert (await caller.post(request("tools/list"), **sessions[1])).status_code == 404
            assert (await caller.post(request("tools/list"), **sessions[0])).status_code == 200

    run(main())


def test_sessions_in_use_are_not_ended_for_new_ones() -> None:
    async def main() -> None:
        async with calling(FrontOptions(max_sessions=1)) as (caller, desk, _):
            session = await caller.begin()
            task = asyncio.create_task(caller.post(call("hold", 5), **session))
            clerk = await desk.holds(5)
            refused = await caller.post(request("initialize", 2, protocolVersion=LEGACY))
            assert refused.status_code == 503
            assert refused.json()["id"] == 2
            clerk.respond(5, {})
            assert (await task).status_code == 200
            await caller.begin()

    run(main())


def test_a_silent_session_ends_and_one_with_an_open_stream_does_not() -> None:
    async def main() -> None:
        async with calling(FrontOptions(idle_s=1.0)) as (caller, desk, front):
            listening = await caller.begin()
            async with caller.open("GET", **listening) as (_, events):
                await caller.begin()
                await desk.until(lambda: desk.clerks[1].endings)
                fault = desk.clerks[1].endings[0]
                assert fault is not None
                assert fault.reason == "idle"
                assert desk.clerks[0].endings == []
                desk.clerks[0].tell("notifications/message")
                await events.message()
            await desk.until(lambda: desk.clerks[0].endings)
            assert front.sessions == 0

    run(main())


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_abandoned_sessions_leave_memory_flat(count: int) -> None:
    class Forgetful(Desk):
        def __call__(self, link: object, hello: object) -> object:  # type: ignore[override]
            clerk = super().__call__(link, hello)  # pyright: ignore[reportArgumentType]
            self.clerks = self.clerks[-1:]
            return clerk

    async def main() -> None:
        front = HttpFront(Forgetful(), _counter(), options=FrontOptions(max_sessions=100))  # pyright: ignore[reportArgumentType]
        await front.start()
        raw = await Raw.to(front)

        async def abandon(times: int) -> None:
            for _ in range(times):
                raw.post(front, BEGIN)
                assert await raw.status() == 200

        await abandon(300)
        gc.collect()
        before, objects = rss_kib(), len(gc.get_objects())
        await abandon(count)
        gc.collect()
        grown, more = rss_kib() - before, len(gc.get_objects()) - objects
        assert front.sessions == 100
        await raw.close()
        await front.stop()
        assert front.sessions == 0
        assert more < 500
        assert grown < 16 * 1024, f"{grown} KiB"

    run(main(), seconds=55)


def _counter() -> Callable[[], str]:
    numbers = iter(range(1, 10**9))
    return lambda: f"session-{next(numbers)}"


def test_too_large_a_body_is_refused_whether_it_is_declared_or_not() -> None:
    async def main() -> None:
        options = FrontOptions(limits=Limits(message_bytes=10_000))
        async with calling(options) as (caller, desk, front):
            big = call("echo", arguments={"fill": "x" * 20_000})
            response = await caller.modern(modern(big))
            assert response.status_code == 413
            raw = await Raw.to(front)
            host = front.address.removeprefix("http://").partition("/")[0]
            raw.writer.write(
                f"POST /mcp HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
                "transfer-encoding: chunked\r\n\r\n".encode()
            )
            for _ in range(20):
                raw.writer.write(b"3e8\r\n" + b" " * 1000 + b"\r\n")
            assert await raw.status() == 413
            await raw.close()
            assert desk.clerks == []

    run(main())


def test_a_message_of_eight_mebibytes_passes_both_ways() -> None:
    async def main() -> None:
        async with calling() as (caller, _, _front):
            session = await caller.begin()
            fill = "x" * (8 << 20)
            response = await caller.post(call("echo", arguments={"fill": fill}), **session)
            assert json.loads(response.json()["result"]["content"][0]["text"])["fill"] == fill

    run(main())


def test_a_body_that_does_not_come_is_given_up() -> None:
    async def main() -> None:
        async with calling(FrontOptions(body_s=0.1)) as (_, desk, front):
            raw = await Raw.to(front)
            raw.post(front, b'{"jsonrpc"', declared=100)
            assert await raw.status() == 408
            await raw.close()
            assert desk.clerks == []

    run(main())


def test_a_client_that_leaves_in_its_body_is_forgotten() -> None:
    async def main() -> None:
        async with calling() as (caller, desk, front):
            raw = await Raw.to(front)
            raw.post(front, b'{"jsonrpc"', declared=100)
            await raw.close()
            assert (await caller.modern(modern(call("echo")))).status_code == 200
            assert len(desk.clerks) == 1

    run(main())


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"POST /mcp HTTP/9.9\r\n\r\n", b"\0" * 4096]
)
def test_what_is_no_http_disturbs_nobody(garbage: bytes) -> None:
    async def main() -> None:
        async with calling() as (caller, _, front):
            raw = await Raw.to(front)
            raw.writer.write(garbage)
            raw.writer.write_eof()
            async with asyncio.timeout(WAIT_S):
                await raw.reader.read()
            await raw.close()
            assert (await caller.modern(modern(call("echo")))).status_code == 200

    run(main())


def test_a_head_that_never_ends_is_cut() -> None:
    async def main() -> None:
        async with calling() as (caller, _, front):
            raw = await Raw.to(front)
            raw.writer.write(b"POST /mcp HTTP/1.1\r\n")
            written = 0
            with contextlib.suppress(ConnectionError):
                while written < 10_000:
                    raw.writer.write(b"x-%d: %b\r\n" % (written, b"y" * 1000))
                    await raw.writer.drain()
                    written += 1
            assert written < 10_000
            await raw.close()
            assert (await caller.modern(modern(call("echo")))).status_code == 200

    run(main())


def test_too_many_requests_at_once_are_refused_until_there_is_room() -> None:
    async def main() -> None:
        async with calling(FrontOptions(max_exchanges=2)) as (caller, desk, _):
            tasks = [asyncio.create_task(caller.modern(modern(call("hold", number)))) for number in range(2)]
            clerks = [await desk.holds(number) for number in range(2)]
            assert (await caller.modern(modern(call("echo", 5)))).status_code == 503
            for number, clerk in enumerate(clerks):
                clerk.respond(number, {})
            assert [(await task).status_code for task in tasks] == [200, 200]
            assert (await caller.modern(modern(call("echo", 5)))).status_code == 200

    run(main())


@pytest.mark.parametrize("legacy", [False, True], ids=["2026", "session"])
def test_a_client_that_never_reads_is_cut_and_holds_up_nobody(*, legacy: bool) -> None:
    async def main() -> None:
        limits = Limits(high_bytes=200_000, low_bytes=100_000, hard_bytes=2_000_000)
        async with calling(FrontOptions(limits=limits, resume_bytes=1000)) as (caller, desk, front):
            headers = await caller.begin() if legacy else envelope(modern(call("hold")))
            body = call("hold") if legacy else modern(call("hold"))
            address = front.address.removeprefix("http://").partition("/")[0]
            with socket.socket() as deaf:
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                deaf.setblocking(False)
                host, _, port = address.partition(":")
                await asyncio.get_running_loop().sock_connect(deaf, (host, int(port)))
                content = json.dumps(body).encode()
                lines = [f"{name}: {value}" for name, value in caller.headers(headers).items()]
                head = "\r\n".join(
                    [f"POST /mcp HTTP/1.1\r\nhost: {address}", *lines, f"content-length: {len(content)}"]
                )
                await asyncio.get_running_loop().sock_sendall(deaf, f"{head}\r\n\r\n".encode() + content)
                clerk = await desk.holds(1)
                for _ in range(2000):
                    clerk.tell("notifications/progress", 1, fill="x" * 10_000)
                    assert clerk.link.queued_bytes < 2_100_000
                    await asyncio.sleep(0)
                assert clerk.writables[0] is False
                if not legacy:
                    await desk.until(lambda: clerk.endings)
                    assert isinstance(clerk.endings[0], TransportError)
                await eventually(lambda: clerk.link.queued_bytes < 100_000 or not legacy)
            assert (await caller.modern(modern(call("echo", 2)))).status_code == 200

    run(main())


def test_a_paused_session_takes_its_next_message_when_it_is_resumed() -> None:
    async def main() -> None:
        async with calling() as (caller, desk, _):
            session = await caller.begin()
            clerk = desk.clerks[0]
            clerk.link.pause()
            task = asyncio.create_task(caller.post(request("tools/list", 4), **session))
            for _ in range(20):
                await asyncio.sleep(0.002)
            assert clerk.messages[-1].get("id") != 4
            clerk.link.resume()
            assert (await task).status_code == 200

    run(main())


def test_stopping_answers_what_is_open_and_leaves_nothing() -> None:
    async def main() -> None:
        async with calling(FrontOptions(silence_s=0.02)) as (caller, desk, front):
            session = await caller.begin()
            single = asyncio.create_task(caller.modern(modern(call("hold", 1))))
            held = asyncio.create_task(caller.post(call("hold", 2), **session))
            async with caller.open("GET", **session) as (_, events):
                await desk.holds(1)
                await desk.holds(2)
                stopping = asyncio.create_task(front.stop())
                assert await events.rest() == []
            responses = [await single, await held]
            assert all(response.status_code in (200, 500) for response in responses)
            await caller.client.aclose()
            await stopping
            assert front.sessions == 0
            await desk.until(lambda: all(clerk.endings for clerk in desk.clerks))
            others = {task for task in asyncio.all_tasks() if "http_" in repr(task.get_coro())}
            assert others == set()

    run(main())


def test_an_address_in_use_is_told_and_ends_no_process() -> None:
    async def main() -> None:
        async with calling() as (_, _desk, front):
            port = int(front.address.rpartition(":")[2].partition("/")[0])
            second = HttpFront(Desk(), str, options=FrontOptions(port=port))
            with pytest.raises(TransportError) as caught:
                await second.start()
            assert caught.value.reason == "refused"
            assert str(port) in caught.value.message

    run(main())


def test_an_idle_front_schedules_nothing() -> None:
    async def main() -> None:
        async with calling() as (caller, _, _front):
            await caller.modern(modern(call("echo")))
            await caller.client.aclose()
            await eventually(lambda: not _timers())

    run(main())


def _timers() -> list[str]:
    """What is scheduled by the front or its server."""
    loop = asyncio.get_running_loop()
    scheduled = [repr(timer) for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
    return [timer for timer in scheduled if "uvicorn" in timer or "gateway" in timer]
