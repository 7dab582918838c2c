# pyright: reportPrivateUsage=false
"""An open websocket over real sockets: bounds, keepalive, strays and endings."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest
import websockets.asyncio.client
from websockets.exceptions import ConnectionClosed

from tests.transports.wire_kit import Recorder, Taker, eventually, run
from tests.transports.ws_kit import (
    MIB,
    QUIET,
    F,
    Switch,
    close,
    hang_up,
    listening,
    raw_server,
    raw_server_that_stops,
    read_frame,
    upgrade_as_client,
    upgrade_as_server,
)
from transports.base import Limits
from transports.ws_client import connect_websocket
from transports.ws_link import WebSocketLink, WebSocketOptions


def test_a_large_message_within_the_limit_passes_and_one_above_it_ends_with_1009() -> None:
    async def main() -> None:
        switch, receiver = Switch(), Recorder()
        options = WebSocketOptions(limits=Limits(message_bytes=MIB), ping_interval_s=None)
        async with listening(switch, options=options) as listener:
            link = await connect_websocket(listener.address, receiver, options=QUIET)
            link.send(b"x" * MIB)
            await receiver.count(1)
            link.send(b"x" * (MIB + 1))
            await receiver.end()
            assert receiver.fault.details["code"] == 1009
            theirs = await switch.receivers[0].end()
            assert theirs is not None
            assert theirs.reason == "too-large"

    run(main())


def test_a_compressed_bomb_ends_with_1009_in_bounded_memory() -> None:
    async def main() -> None:
        switch = Switch()
        options = WebSocketOptions(limits=Limits(message_bytes=MIB), compression=True)
        async with listening(switch, options=options) as listener:
            async with websockets.asyncio.client.connect(
                listener.address, max_size=None, proxy=None
            ) as connection:
                await connection.send("\0" * (64 * MIB))
                with pytest.raises(ConnectionClosed):
                    await connection.recv()
                assert connection.close_code == 1009
            await switch.receivers[0].end()
            assert switch.receivers[0].messages == []
            assert switch.receivers[0].fault.reason == "too-large"

    run(main())


@pytest.mark.parametrize("side", ["listener", "client"])
def test_a_reader_that_does_not_read_is_told_about_and_then_given_up(side: str) -> None:
    limits = Limits(high_bytes=500_000, low_bytes=100_000, hard_bytes=3_000_000)
    options = WebSocketOptions(limits=limits, ping_interval_s=None)

    async def fill(link: WebSocketLink, receiver: Recorder) -> None:
        while not receiver.writables:
            link.send(b"x" * 50_000)
            await asyncio.sleep(0)
        assert receiver.writables == [False]
        assert 500_000 < link.queued_bytes < 600_000
        while not receiver.endings:
            link.send(b"x" * 50_000)
            await asyncio.sleep(0)
        assert receiver.fault.reason == "slow-consumer"
        link.send(b"to nobody")

    async def idle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_as_server(reader, writer)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(3600)

    async def main() -> None:
        if side == "client":
            receiver = Recorder()
            async with raw_server_that_stops(idle) as url:
                await fill(await connect_websocket(url, receiver, options=options), receiver)
            return
        switch = Switch(echo=False)
        async with listening(switch, options=options) as listener:
            streams = await upgrade_as_client(listener.port)
            streams[1].transport.pause_reading()  # type: ignore[attr-defined]
            await eventually(lambda: switch.links)
            await fill(switch.links[0], switch.receivers[0])
            await hang_up(streams)

    run(main())


def test_a_reader_that_catches_up_lets_the_writer_go_on() -> None:
    async def main() -> None:
        switch = Switch(echo=False)
        options = WebSocketOptions(limits=Limits(high_bytes=500_000), ping_interval_s=None)
        async with listening(switch, options=options) as listener:
            receiver = Recorder()
            link = await connect_websocket(listener.address, receiver, options=QUIET)
            await eventually(lambda: switch.links)
            link.pause()
            sent = 0
            while not switch.receivers[0].writables:
                switch.links[0].send(b"%d" % sent * 10_000)
                sent += 1
                await asyncio.sleep(0)
            link.resume()
            await receiver.count(sent)
            await switch.receivers[0].until(lambda: switch.receivers[0].writables == [False, True])
            assert receiver.messages == [b"%d" % n * 10_000 for n in range(sent)]
            link.close()
            await receiver.end()

    run(main())


def test_a_reader_that_takes_nothing_is_given_up_in_time() -> None:
    async def main() -> None:
        switch = Switch(echo=False)
        options = WebSocketOptions(limits=Limits(stall_s=0.05), ping_interval_s=None)
        async with listening(switch, options=options) as listener:
            streams = await upgrade_as_client(listener.port)
            streams[1].transport.pause_reading()  # type: ignore[attr-defined]
            await eventually(lambda: switch.links)
            switch.links[0].send(b"x" * (16 * MIB))
            await switch.receivers[0].end()
            assert switch.receivers[0].fault.reason == "slow-consumer"
            await hang_up(streams)

    run(main())


def test_answers_to_one_read_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        switch = Switch()
        async with listening(switch) as listener:
            streams = await upgrade_as_client(listener.port)
            await eventually(lambda: switch.links)
            writes: list[int] = []
            write = WebSocketLink._write

            def counted(self: WebSocketLink, data: bytes) -> None:
                writes.append(len(data))
                write(self, data)

            monkeypatch.setattr(WebSocketLink, "_write", counted)
            streams[1].write(F(1, b"{}").wire("listener") * 50)
            for _ in range(50):
                assert await read_frame(streams[0]) == (1, b"{}")
            assert writes == [200]
            await hang_up(streams)

    run(main())


def test_an_unanswered_ping_ends_the_connection_with_1011() -> None:
    got: list[tuple[int, bytes]] = []

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_as_server(reader, writer)
        while True:
            got.append(await read_frame(reader))

    async def main() -> None:
        receiver = Recorder()
        options = WebSocketOptions(ping_interval_s=0.03, ping_timeout_s=0.03, close_timeout_s=0.05)
        async with raw_server(deaf) as url:
            await connect_websocket(url, receiver, options=options)
            await receiver.end()
        assert (receiver.fault.reason, receiver.fault.details["code"]) == ("closed", 1011)
        assert [opcode for opcode, _data in got] == [9, 8]

    run(main())


def test_answered_pings_keep_a_silent_connection() -> None:
    pings: list[bytes] = []

    async def polite(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_as_server(reader, writer)
        while True:
            opcode, data = await read_frame(reader)
            if opcode == 9:
                pings.append(data)
                writer.write(F(10, data).wire("client"))
            elif opcode == 8:
                writer.write(F(8, data).wire("client"))
                writer.close()
                return

    async def main() -> None:
        receiver = Recorder()
        options = WebSocketOptions(ping_interval_s=0.01, ping_timeout_s=20)
        async with raw_server(polite) as url:
            link = await connect_websocket(url, receiver, options=options)
            await eventually(lambda: len(pings) > 3)
            assert receiver.endings == []
            link.close()
            assert await receiver.end() is None

    run(main())


def test_without_keepalive_an_idle_connection_has_no_timer() -> None:
    async def main() -> None:
        switch, receiver = Switch(), Recorder()
        async with listening(switch) as listener:
            link = await connect_websocket(listener.address, receiver, options=QUIET)
            link.send(b"{}")
            await receiver.count(1)
            for one in (link, switch.links[0]):
                assert (one._keepalive._timer, one._deadline, one._stall) == (None, None, None)
            link.close()
            await receiver.end()

    run(main())


@pytest.mark.parametrize("rudely", [False, True])
def test_a_connection_that_is_cut_in_mid_frame_is_1006(rudely: bool) -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_as_server(reader, writer)
        writer.write(F(1, b"whole").wire("client") + F(1, b"x" * 1000).wire("client")[:500])
        await read_frame(reader)
        if rudely:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

    async def main() -> None:
        receiver = Recorder()
        async with raw_server(cut) as url:
            link = await connect_websocket(url, receiver, options=QUIET)
            await receiver.count(1)
            link.send(b"now")
            await receiver.end()
        assert receiver.messages == [b"whole"]
        assert (receiver.fault.reason, receiver.fault.details["code"]) == ("closed", 1006)

    run(main())


@pytest.mark.parametrize("code", [1000, 1001, 1009, 1011, 1013, 4000])
def test_their_code_and_reason_reach_the_client(code: int) -> None:
    async def goodbye(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_as_server(reader, writer)
        writer.write(close(code, b"why").wire("client"))
        assert await read_frame(reader) == (8, struct.pack("!H", code) + b"why")
        writer.close()

    async def main() -> None:
        receiver = Recorder()
        async with raw_server(goodbye) as url:
            await connect_websocket(url, receiver, options=QUIET)
            await receiver.end()
        assert receiver.fault.reason == "closed"
        assert receiver.fault.details == {"code": code, "reason": "why", "by": "them"}
        assert str(code) in receiver.fault.message

    run(main())


def test_a_client_that_takes_leave_in_order_is_no_fault_and_another_code_is() -> None:
    async def main() -> None:
        switch = Switch()
        async with listening(switch) as listener:
            for code in (1000, 1001, 1011):
                receiver = Recorder()
                link = await connect_websocket(listener.address, receiver, options=QUIET)
                link.close(code, "x" * 500)
                assert await receiver.end() is None
            await eventually(lambda: len(switch.receivers) == 3)
            endings = [await receiver.end() for receiver in switch.receivers]
            assert endings[:2] == [None, None]
            assert endings[2] is not None
            assert endings[2].details["reason"] == "x" * 123

    run(main())


def test_a_code_that_may_not_be_sent_becomes_1000() -> None:
    async def main() -> None:
        async with listening() as listener:
            receiver = Recorder()
            link = await connect_websocket(listener.address, receiver, options=QUIET)
            link.close(1006)
            assert await receiver.end() is None

    run(main())


@pytest.mark.parametrize("reading", [True, False])
def test_a_close_that_is_not_answered_is_bounded(reading: bool) -> None:
    async def stubborn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_as_server(reader, writer)
        if not reading:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(3600)

    async def main() -> None:
        receiver = Recorder()
        options = WebSocketOptions(close_timeout_s=0.05, ping_interval_s=None)
        async with raw_server_that_stops(stubborn) as url:
            link = await connect_websocket(url, receiver, options=options)
            link.send(b"x" * (8 * MIB))
            link.close()
            assert await receiver.end() is None

    run(main())


def test_what_is_queued_is_sent_before_the_goodbye_even_while_paused() -> None:
    async def main() -> None:
        switch, receiver = Switch(echo=False), Recorder()
        async with listening(switch) as listener:
            link = await connect_websocket(listener.address, receiver, options=QUIET)
            link.pause()
            for n in range(100):
                link.send(b"%d" % n * 1000)
            link.close()
            assert await receiver.end() is None
            assert await switch.receivers[0].end() is None
            assert switch.receivers[0].messages == [b"%d" % n * 1000 for n in range(100)]

    run(main())


def test_binary_and_broken_text_are_strays_with_their_size() -> None:
    async def main() -> None:
        switch = Switch()
        async with listening(switch) as listener:
            for frame in (F(2, b"\x00" * 5000), F(1, b"ok\xff"), F(1, b"\xce\xba\xed\xa0\x80", fin=False)):
                streams = await upgrade_as_client(listener.port)
                streams[1].write(frame.wire("listener"))
                await streams[0].read()
                await hang_up(streams)
            for receiver in switch.receivers:
                await receiver.end()
            strays = [receiver.strays for receiver in switch.receivers]
            assert strays == [
                [(b"\x00" * 4096, "binary", 5000)],
                [(b"ok\xff", "not-utf8", 3)],
                [(b"\xce\xba\xed\xa0\x80", "not-utf8", 5)],
            ]
            codes = [receiver.fault.details["code"] for receiver in switch.receivers]
            assert codes == [1003, 1007, 1007]

    run(main())


def test_a_receiver_that_raises_loses_that_message_alone() -> None:
    problems: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))

        def odd(data: bytes) -> None:
            if data == b"odd":
                raise ValueError("odd")

        receiver = Recorder()
        switch = Switch()
        async with listening(switch) as listener:
            link = await connect_websocket(listener.address, receiver, options=QUIET)
            receiver.on_message = odd
            for message in (b"odd", b"even", b"odd" * 30_000, b"even"):
                link.send(message)
            await receiver.count(4)
            link.close()
            await receiver.end()

    run(main())
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("most", "sent", "taken"),
    [
        (0, [b"1", b"2"], 0),
        (2, [b"1", b"2", b"3"], 2),
        (3, [b"1", b"2", b"3"], 3),
        (-1, [b"1", b"2"], 0),
        (2, [b"1", "é".encode(), b"3"], 0),
        (2, [b"1"], 0),
    ],
)
def test_texts_of_one_read_are_offered_together_and_the_rest_comes_one_by_one(
    most: int, sent: list[bytes], taken: int
) -> None:
    problems: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: problems.append(str(context["exception"]))
        )
        taker, is_ready = Taker(most), asyncio.Event()
        heard: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await upgrade_as_server(reader, writer)
            await is_ready.wait()
            writer.write(b"".join(F(1, data).wire("client") for data in sent))
            while len(heard) < len(sent):
                heard.append((await read_frame(reader))[1])
            await reader.read()

        async with raw_server(serve) as url:
            taker.link = await connect_websocket(url, taker, options=QUIET)
            taker.on_message = taker.link.send
            is_ready.set()
            await eventually(lambda: len(heard) == len(sent))
            assert heard == sent
            assert taker.messages == sent[taken:]
            assert taker.pieces == ([sent] if len(sent) > 1 and b"".join(sent).isascii() else [])
            taker.link.close()

    run(main())
    assert problems == (["it takes none"] if most < 0 else [])
