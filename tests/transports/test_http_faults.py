"""What a bad HTTP server does to a link: its request fails with a reason, and others do not notice."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Awaitable, Callable

import httpx2
import pytest

from tests.transports.http_kit import LEGACY, MODERN, HttpRecorder, Seen, ask, linked, scripted, tell
from tests.transports.wire_kit import eventually, run
from transports.base import Limits, TransportError
from transports.http_client import HttpLink
from transports.http_common import HttpOptions, shown

SMALL = HttpOptions(limits=Limits(message_bytes=100_000))
HASTY = HttpOptions(
    limits=Limits(message_bytes=100_000), answer_s=0.4, body_s=0.4, ack_s=0.4, connect_s=0.4, close_s=0.4
)
"""For what is only known by the time that it takes."""

Bad = Callable[[Seen], Awaitable[None]]


async def refuses(seen: Seen) -> None:
    await seen.answer(500, b"<html>Traceback: the database is gone", content_type="text/html")


async def is_away(seen: Seen) -> None:
    await seen.answer(503, b"try later", ("retry-after", "5"), content_type="text/plain")


async def forbids(seen: Seen) -> None:
    await seen.answer(401, b"{}", ("www-authenticate", "Bearer"))


async def rejects_with_an_error_for_nobody(seen: Seen) -> None:
    await seen.answer(
        400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Missing session ID"}}'
    )


async def sends_a_page(seen: Seen) -> None:
    await seen.answer(200, b"<html>Welcome", content_type="text/html")


async def sends_nothing(seen: Seen) -> None:
    await seen.answer(200, b"")


async def answers_somebody_else(seen: Seen) -> None:
    await seen.answer(200, b'{"jsonrpc":"2.0","id":"other","result":{}}')


async def accepts_only(seen: Seen) -> None:
    await seen.answer(202)


async def sends_away(seen: Seen) -> None:
    await seen.answer(307, b"", ("location", "http://localhost:9/elsewhere?token=secret"))


async def sends_to_the_metadata_service(seen: Seen) -> None:
    await seen.answer(302, b"", ("location", "http://169.254.169.254/latest/meta-data"))


async def sends_round_in_circles(seen: Seen) -> None:
    await seen.answer(308, b"", ("location", seen.path))


async def would_change_the_method(seen: Seen) -> None:
    await seen.answer(303, b"", ("location", "/other"))


async def declares_too_much(seen: Seen) -> None:
    await seen.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999999999\r\n\r\n")


async def never_stops(seen: Seen) -> None:
    await seen.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
    while not seen.writer.is_closing():
        await seen.raw(b" " * 65536)


async def streams_a_line_without_end(seen: Seen) -> None:
    await seen.stream()
    await seen.raw(b"data: ")
    while not seen.writer.is_closing():
        await seen.raw(b"x" * 65536)
        if seen.reader.at_eof():
            return


async def streams_too_large_an_event(seen: Seen) -> None:
    await seen.stream()
    await seen.raw(b"data: " + b"x" * 200_000 + b"\n\n")
    await seen.gone()


async def stops_in_the_body(seen: Seen) -> None:
    await seen.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{")
    await seen.gone()


async def says_nothing(seen: Seen) -> None:
    await seen.gone()


async def drips_its_headers(seen: Seen) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nx-slow: " + b"z" * 1000:
        await seen.raw(bytes((byte,)))
        await asyncio.sleep(0.02)


async def hangs_up(seen: Seen) -> None:
    seen.writer.close()


async def hangs_up_in_the_body(seen: Seen) -> None:
    await seen.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{")
    seen.writer.close()


async def speaks_another_protocol(seen: Seen) -> None:
    await seen.raw(b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n")


async def sends_a_huge_header(seen: Seen) -> None:
    await seen.raw(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 2_000_000)


async def packs_a_bomb(seen: Seen) -> None:
    await seen.answer(200, gzip.compress(b" " * 10_000_000), ("content-encoding", "gzip"))


@pytest.mark.parametrize("era", [LEGACY, MODERN])
@pytest.mark.parametrize(
    ("bad", "reason", "said"),
    [
        (refuses, "http-status", "500"),
        (is_away, "http-status", "503"),
        (forbids, "denied", "401"),
        (rejects_with_an_error_for_nobody, "http-status", "400"),
        (sends_a_page, "content-type", "text/html"),
        (sends_nothing, "content-type", "without an answer"),
        (answers_somebody_else, "content-type", "without an answer"),
        (accepts_only, "content-type", "202"),
        (sends_away, "denied", "http://localhost:9"),
        (sends_to_the_metadata_service, "denied", "169.254.169.254"),
        (sends_round_in_circles, "http-status", "without end"),
        (would_change_the_method, "http-status", "303"),
        (declares_too_much, "too-large", "100000"),
        (never_stops, "too-large", "100000"),
        (streams_a_line_without_end, "too-large", "100000"),
        (streams_too_large_an_event, "too-large", "100000"),
        (stops_in_the_body, "timeout", "in the middle"),
        (says_nothing, "timeout", "no answer within"),
        (drips_its_headers, "timeout", "no answer within"),
        (hangs_up, "closed", "broke the connection"),
        (hangs_up_in_the_body, "closed", "broke the connection"),
        (speaks_another_protocol, "closed", "broke the connection"),
        (sends_a_huge_header, "closed", "broke the connection"),
        (packs_a_bomb, "content-type", "gzip"),
    ],
)
def test_a_bad_answer_fails_its_request_and_no_other(bad: Bad, reason: str, said: str, era: str) -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if seen.message.get("method") == "good":
                await seen.result({"good": True})
            else:
                await bad(seen)

        options = HASTY if reason == "timeout" else SMALL
        async with scripted(script) as server, linked(server.url, options) as (link, receiver):
            ask(link, "bad", "tools/call", version=era, name="x")
            ask(link, "good", "good", version=era)
            fault = await receiver.fault_of("bad")
            assert fault.reason == reason, fault
            assert said in fault.message
            assert fault.details["sent"] is True
            assert "token=secret" not in repr(fault)
            assert (await receiver.answer("good"))["result"] == {"good": True}
            assert receiver.endings == []
            assert len([one for one in receiver.faults if one.request_id == "bad"]) == 1

    run(main())


def test_the_head_of_an_unexpected_body_is_told() -> None:
    async def main() -> None:
        async with scripted(refuses) as server, linked(server.url) as (link, receiver):
            ask(link, 1, "tools/list", version=LEGACY)
            details = (await receiver.fault_of(1)).details
            assert details["status"] == 500
            assert details["content_type"] == "text/html"
            assert details["head"] == "<html>Traceback: the database is gone"

    run(main())


@pytest.mark.parametrize(
    ("status", "hint"),
    [(401, "`headers`"), (403, "`headers`"), (404, "path of the URL"), (405, '`type = "sse"`'), (500, "")],
)
def test_a_refusal_names_the_path_and_what_to_do_but_neither_query_nor_credentials(
    status: int, hint: str
) -> None:
    async def main() -> None:
        async def refuse(seen: Seen) -> None:
            await seen.answer(status, b"", content_type="text/plain")

        async with scripted(refuse) as server:
            url = server.url.replace("http://", "http://canary:canary@").replace("/mcp", "/v1/mpc")
            async with linked(f"{url}?key=canary") as (link, receiver):
                ask(link, 1, "tools/list", version=LEGACY)
                fault = await receiver.fault_of(1)
                assert f"/v1/mpc answered {status}" in fault.message
                assert hint in str(fault.details.get("hint", ""))
                assert "canary" not in repr(fault)

    run(main())


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/mcp", "/mcp"),
        ("/api/streamable-http-endpoint/mcp/", "/api/streamable-http-endpoint/mcp/"),
        ("/s/NTk4MzI5OTQtYmFi/mcp", "/s/…/mcp"),
        ("/8f14e45fceea167a5a36dedd4bea2543", "/…"),
    ],
)
def test_a_part_of_a_path_that_looks_like_a_key_is_not_shown(path: str, told: str) -> None:
    assert shown(httpx2.URL(f"https://example.com{path}?q=1")) == f"https://example.com:443{told}"


def test_a_redirect_within_the_origin_is_followed_with_method_and_body() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if seen.path == "/mcp":
                await seen.answer(307, b"", ("location", "/moved"))
            else:
                await seen.result({"path": seen.path, "method": seen.method})

        async with scripted(script) as server, linked(server.url) as (link, receiver):
            ask(link, 1, "tools/list", version=MODERN)
            assert (await receiver.answer(1))["result"] == {"path": "/moved", "method": "POST"}

    run(main())


def test_a_refused_connection_says_that_nothing_was_sent() -> None:
    async def main() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}/mcp?key=hidden"
            async with linked(url) as (link, receiver):
                ask(link, 1, "tools/list", version=LEGACY)
                fault = await receiver.fault_of(1)
                assert fault.reason == "refused"
                assert fault.details["sent"] is False
                assert "hidden" not in repr(fault)
                tell(link, "notifications/x", version=LEGACY)
                lost = await receiver.fault_of(None)
                about = {"sent": False, "kind": "notification", "method": "notifications/x"}
                assert about.items() <= lost.details.items()
                assert "host and port" in str(fault.details["hint"])

    run(main())


def test_a_name_that_does_not_resolve_is_refused() -> None:
    async def main() -> None:
        async with linked("http://no-such-host.invalid/mcp") as (link, receiver):
            ask(link, 1, "tools/list", version=LEGACY)
            fault = await receiver.fault_of(1)
            assert fault.reason == "refused"
            assert fault.details["sent"] is False

    run(main())


def test_a_server_that_speaks_no_tls_is_refused() -> None:
    async def main() -> None:
        async def plain(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(plain, "127.0.0.1", 0)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        async with server, linked(url) as (link, receiver):
            ask(link, 1, "tools/list", version=LEGACY)
            fault = await receiver.fault_of(1)
            assert fault.reason == "refused"
            assert fault.details["sent"] is False

    run(main())


@pytest.mark.parametrize("url", ["", "mcp", "ftp://host/x", "http://", "//host/mcp", "http://[::1/mcp"])
def test_what_is_no_http_url_is_refused_at_once(url: str) -> None:
    async def main() -> None:
        with pytest.raises(TransportError) as caught:
            HttpLink(url, HttpRecorder())
        assert caught.value.reason == "refused"

    run(main())


def test_a_notification_that_is_never_acknowledged_holds_up_the_rest_for_its_time_only() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if "id" in seen.message:
                await seen.result({})
            else:
                await seen.gone()

        async with scripted(script) as server, linked(server.url, HASTY) as (link, receiver):
            tell(link, "notifications/x", version=LEGACY)
            ask(link, 1, "tools/list", version=LEGACY)
            await receiver.answer(1)
            assert (await receiver.fault_of(None)).reason == "timeout"

    run(main())


def test_a_server_that_takes_nothing_ends_the_link_before_memory_grows() -> None:
    async def main() -> None:
        async with scripted(says_nothing) as server:
            receiver = HttpRecorder()
            link = HttpLink(server.url, receiver, HttpOptions(limits=Limits(hard_bytes=1_000_000)))
            for number in range(10_000):
                ask(link, number, "tools/call", {"fill": "x" * 1000}, version=LEGACY)
            fault = await receiver.end()
            assert fault is not None
            assert fault.reason == "slow-consumer"
            assert link.queued_bytes < 1_100_000

    run(main())


def test_a_hundred_streams_cut_at_once_fail_once_each() -> None:
    async def main() -> None:
        waiting: list[Seen] = []

        async def script(seen: Seen) -> None:
            await seen.stream()
            waiting.append(seen)
            await seen.gone()

        async with scripted(script) as server, linked(server.url) as (link, receiver):
            for number in range(100):
                ask(link, number, "tools/call", version=MODERN)
            await eventually(lambda: len(waiting) == 100)
            for seen in waiting:
                seen.writer.transport.abort()
            await receiver.until(lambda: len(receiver.faults) == 100)
            assert {fault.request_id for fault in receiver.faults} == set(range(100))
            assert {fault.reason for fault in receiver.faults} == {"closed"}

    run(main())


def test_garbage_in_a_stream_is_handed_on_and_the_answer_still_comes() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            await seen.stream()
            await seen.raw(b"data: not json\n\ndata: [1]\n\nevent: other\ndata: ignored\n\n")
            await seen.raw(b'data: {"jsonrpc":"2.0","id":1.0,"result":{}}\n\n')
            await seen.raw(b'data: {"jsonrpc":"2.0","id":"1","result":{}}\n\n')
            await seen.raw(b'data: {"jsonrpc":"2.0","id":1,"result":{"u":"\xe2\x80\xa8"}}\n\n')
            seen.writer.close()

        async with scripted(script) as server, linked(server.url) as (link, receiver):
            ask(link, 1, "tools/call", version=MODERN)
            await receiver.count(5)
            assert receiver.messages[0] == b"not json"
            assert json.loads(receiver.messages[4])["result"] == {"u": "\u2028"}
            assert receiver.faults == []

    run(main())
