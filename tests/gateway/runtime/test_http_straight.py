"""Plain requests go straight, and nobody can tell: both ways give the same bytes, and the same to the receivers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeAlias
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.runtime.http_front import HttpFront
from gateway.runtime.http_options import FrontOptions
from gateway.runtime.http_plain import PlainProtocol
from gateway.runtime.http_straight import Straight
from tests.gateway.runtime.front_kit import (
    LEGACY,
    META,
    MODERN,
    Desk,
    call,
    calling,
    fronted,
    modern,
    request,
)
from tests.transports.wire_kit import run
from transports.guard import Guard

Step: TypeAlias = tuple[str, int, bytes]
TOKEN = "a-token-of-the-test"
LIVES = 2
"""Connections of a run."""
PLAIN = [
    ("Host", "h"),
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
    ("Authorization", f"Bearer {TOKEN}"),
    ("mcp-session-id", "session-1"),
    ("MCP-Protocol-Version", LEGACY),
]
ODD_HEADERS: list[tuple[str, str]] = [
    ("X-Other", "é"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("mcp-param-x", "1"),
    ("Cookie", "a=b"),
    ("X-Forwarded-For", "203.0.113.9"),
    ("Host", "evil.example"),
    ("Origin", "http://evil.example"),
    ("Origin", "http://h"),
    ("Accept", "application/json"),
    ("Accept", "text/html"),
    ("Content-Type", "text/plain"),
    ("Content-Type", "application/json; charset=utf-8"),
    ("Authorization", "Bearer wrong"),
    ("Authorization", f"Basic {TOKEN}"),
    ("mcp-session-id", "session-2"),
    ("mcp-session-id", "session-9"),
    ("MCP-Protocol-Version", "2025-03-26"),
    ("MCP-Protocol-Version", MODERN),
    ("MCP-Protocol-Version", "1999-01-01"),
    ("Connection", "close"),
    ("Connection", "keep-alive"),
    ("Connection", "upgrade"),
    ("Upgrade", "websocket"),
    ("Expect", "100-continue"),
    ("Content-Length", "3"),
    ("Content-Length", "+3"),
    ("Transfer-Encoding", "chunked"),
    ("TE", "trailers"),
    (" Folded", "x"),
    ("X: y\r\nX-Long", "z" * 5000),
    ("", "nameless"),
]
FIRSTS = [
    "POST /mcp HTTP/1.1",
    "POST /mcp?x=1 HTTP/1.1",
    "POST /mcp/ HTTP/1.1",
    "POST /other HTTP/1.1",
    "POST http://h/mcp HTTP/1.1",
    "POST /m%63p HTTP/1.1",
    "POST /mcp HTTP/1.0",
    "PUT /mcp HTTP/1.1",
    "GET /mcp HTTP/1.1",
    "DELETE /mcp HTTP/1.1",
    "OPTIONS /mcp HTTP/1.1",
    "post /mcp HTTP/1.1",
    "\r\n\r\nPOST /mcp HTTP/1.1",
]


class Wire(asyncio.Transport):
    """The transport of a connection that is played."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 9), "sockname": ("127.0.0.1", 8)})
        self.out = b""
        self.is_closed = False
        self.protocol: PlainProtocol | None = None
        self._waiting: list[bytes] = []
        self._is_paused = False

    def play(self, data: bytes) -> None:
        """Have the connection read these bytes as soon as it reads."""
        self._waiting.append(data)
        self._read()

    def _read(self) -> None:
        while self._waiting and not self._is_paused and not self.is_closed and self.protocol is not None:
            self.protocol.data_received(self._waiting.pop(0))

    def lose(self) -> None:
        """The client goes."""
        self.is_closed = True
        protocol, self.protocol = self.protocol, None
        if protocol is not None:
            protocol.connection_lost(None)

    def write(self, data: Any) -> None:
        if not self.is_closed:
            self.out += bytes(data)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.lose)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        asyncio.get_running_loop().call_soon(self._read)


class NoHeads:
    """Takes no head for plain."""

    def read(self, head: bytes) -> None:
        """Nothing goes straight."""
        del head


def connected(front: HttpFront, *, straight: bool = True) -> Wire:
    """A connection of a front that has started, without a socket."""
    server = front._server._server  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
    assert server is not None
    made: Any = server.config.http_protocol_class
    wire = Wire()
    wire.protocol = made(config=server.config, server_state=server.server_state, app_state={})
    assert isinstance(wire.protocol, PlainProtocol)
    if not straight:
        wire.protocol._straight.heads = NoHeads()  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    wire.protocol.connection_made(wire)
    return wire


async def settle() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


def post(body: bytes, headers: list[tuple[str, str]] | None = None, first: str = FIRSTS[0]) -> bytes:
    """The bytes of a request, with its length."""
    lines = [first, *(f"{name}: {value}" for name, value in headers or PLAIN), f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def alone(name: str) -> list[tuple[str, str]]:
    """The headers of a call of 2026."""
    method, named = ("Mcp-Method", "tools/call"), ("Mcp-Name", name)
    return [*PLAIN[:4], ("MCP-Protocol-Version", MODERN), method, named]


def guard(_port: int) -> Guard:
    return Guard(
        hosts=frozenset(("h",)), origins=frozenset(("http://h",)), tokens={"core": TOKEN}, wrong_token_s=0.0
    )


def seen(desk: Desk) -> list[Any]:
    """What came of a run behind the front."""
    return [
        (
            clerk.hello,
            clerk.messages,
            clerk.origins,
            [(fault.reason, fault.request_id) for fault in clerk.failures],
            [None if fault is None else fault.reason for fault in clerk.endings],
        )
        for clerk in desk.clerks
    ]


async def played(
    steps: list[Step], *, straight: bool = True, rules: Callable[[int], Guard] = guard, lives: int = LIVES
) -> tuple[Any, ...]:
    """Play steps to a front; return what it wrote, and what came of them behind it."""
    async with fronted(FrontOptions(silence_s=None), rules) as (front, desk):
        wires = [connected(front, straight=straight) for _ in range(lives)]
        begin = json.dumps(request("initialize", 0, protocolVersion=LEGACY)).encode()
        wires[0].play(post(begin, PLAIN[:4]))
        await settle()
        for what, number, data in steps:
            clerk, wire = desk.clerks[0], wires[number % lives]
            asked = [one for one in desk.clerks if any(sent.get("id") == number for sent in one.messages)]
            if what == "play":
                wire.play(data)
            elif what == "respond":
                for one in asked:
                    one.respond(number, {"late": True})
            elif what == "tell":
                for one in asked:
                    one.tell("notifications/progress", number, n=1)
            elif what == "ask":
                clerk.ask(f"q{number}", "ping", number)
            elif what == "end":
                clerk.link.close()
            elif what == "lose":
                wire.lose()
            await settle()
        outs = [(wire.out, wire.is_closed) for wire in wires]
        for wire in wires:
            wire.lose()
        await settle()
        assert front._clients == {}  # pyright: ignore[reportPrivateUsage]
        sessions = front._sessions._sessions.values()  # pyright: ignore[reportPrivateUsage]
        assert all(not session.busy for session in sessions)
        return outs, seen(desk)


@contextmanager
def counted() -> Generator[list[bool]]:
    """Whether each request that could have gone straight did."""
    taken: list[bool] = []
    ask = Straight.ask

    def noted(self: Straight, *arguments: Any) -> bool:
        taken.append(ask(self, *arguments))
        return taken[-1]

    with mock.patch.object(Straight, "ask", noted):
        yield taken


IDS = st.integers(1, 3)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    messages = st.one_of(
        IDS.map(lambda id_: call("echo", id_, arguments={"a": "é"})),
        IDS.map(lambda id_: call("hold", id_)),
        IDS.map(lambda id_: call("count", id_, _meta={"progressToken": 1})),
        IDS.map(lambda id_: call("elicit", id_)),
        IDS.map(lambda id_: request("no/such", id_)),
        IDS.map(lambda id_: modern(call("echo", id_))),
        st.just({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        st.just({"jsonrpc": "2.0", "id": "ask-1", "result": {}}),
        st.just(request("initialize", 7, protocolVersion=LEGACY)),
        st.just(request("tools/call", 1, name="echo", _meta=META)),
        st.just([call("echo", 4), call("echo", 5)]),
    )
    plain = st.tuples(st.sampled_from(["echo", "hold"]), IDS).map(lambda one: call(*one))
    garbage = st.sampled_from([b"", b"{", b"[]", b"nothing", b'{"id":1}', b"\xff\xfe", b"[" * 600])
    encoded = st.one_of(plain, plain, messages).map(lambda message: json.dumps(message).encode())
    return draw(encoded if draw(st.integers(0, 9)) else garbage)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Mostly a plain request; else one that is odd in one way or two."""
    headers = list(PLAIN)
    first = FIRSTS[0]
    body = draw(bodies())
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(["echo", "hold", "count"]))
        headers = alone(name)
        body = json.dumps(modern(call(name, draw(IDS), _meta={"progressToken": 1}))).encode()
    if draw(st.integers(0, 3)) == 0:
        odd = draw(st.sampled_from(ODD_HEADERS))
        if draw(st.booleans()):
            headers = [header for header in headers if header[0].lower() != odd[0].lower()]
        headers.insert(draw(st.integers(0, len(headers))), odd)
    elif draw(st.integers(0, 7)) == 0:
        del headers[draw(st.integers(0, len(headers) - 1))]
    elif draw(st.integers(0, 7)) == 0:
        first = draw(st.sampled_from(FIRSTS))
    return post(body, headers, first)


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    """Requests on two connections, whole, in pieces, or several in a piece; and what the receiver does meanwhile."""
    found: list[Step] = []
    for _ in range(draw(st.integers(1, 6))):
        what = draw(st.sampled_from(["play"] * 6 + ["respond", "respond", "tell", "ask", "end", "lose"]))
        if what != "play":
            found.append((what, draw(IDS), b""))
            continue
        data = b"".join(draw(st.lists(requests(), min_size=1, max_size=2 if draw(st.booleans()) else 1)))
        wire = draw(st.integers(0, LIVES - 1))
        cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=2))) if draw(st.booleans()) else []
        edges = [0, *cuts, len(data)]
        found += [("play", wire, data[a:b]) for a, b in pairwise(edges) if data[a:b]]
    return found


@settings(max_examples=60, deadline=None)
@given(steps())
def test_both_ways_write_the_same_bytes_and_tell_the_receivers_the_same(steps: list[Step]) -> None:
    async def main() -> None:
        straight, long = await asyncio.gather(played(steps), played(steps, straight=False))
        assert straight == long

    run(main())


def open_to_all(_port: int) -> Guard:
    """Asks for no token."""
    return Guard(hosts=frozenset(("h",)), origins=frozenset(("http://h",)))


@pytest.mark.parametrize("rules", [guard, open_to_all])
def test_each_odd_head_is_served_the_same_both_ways(rules: Callable[[int], Guard]) -> None:
    """Each header that is odd, before and behind the usual ones and in the place of one, and each odd first line."""
    body = json.dumps(call("echo", 1)).encode()
    heads = [([odd, *PLAIN], FIRSTS[0]) for odd in ODD_HEADERS]
    heads += [([*PLAIN, odd], FIRSTS[0]) for odd in ODD_HEADERS]
    heads += [
        ([*(one for one in PLAIN if one[0] != odd[0]), odd], FIRSTS[0]) for odd in ODD_HEADERS if odd[0]
    ]
    heads += [([one for one in PLAIN if one != left_out], FIRSTS[0]) for left_out in PLAIN]
    heads += [(PLAIN, first) for first in FIRSTS]
    steps = [("play", at + 1, post(body, *head)) for at, head in enumerate(heads)]

    async def main() -> None:
        lives = len(heads) + 1
        straight, long = await asyncio.gather(
            played(steps, rules=rules, lives=lives), played(steps, rules=rules, lives=lives, straight=False)
        )
        for step, one, other in zip(steps, straight[0][1:], long[0][1:], strict=True):
            assert one == other, step
        assert straight == long

    run(main())


def test_a_plain_call_of_a_session_goes_straight_and_so_does_a_notification() -> None:
    plain = [("play", 0, post(json.dumps(call("echo", number)).encode())) for number in (1, 2)]
    told = [("play", 1, post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}'))]
    with counted() as taken:
        outs, _ = run(played(plain + told))
    assert taken[-3:] == [True, True, True]
    assert outs[0][0].count(b"HTTP/1.1 200 OK\r\n") == 3
    assert outs[1][0].startswith(b"HTTP/1.1 202 Accepted\r\n")


def test_a_plain_call_that_stands_alone_goes_straight_and_its_connection_ends_with_its_answer() -> None:
    body = json.dumps(modern(call("echo", 1))).encode()
    told = json.dumps({"jsonrpc": "2.0", "method": "notifications/x"}).encode()
    head = [*PLAIN[:4], ("MCP-Protocol-Version", MODERN)]
    with counted() as taken:
        outs, behind = run(played([("play", 0, post(body, alone("echo"))), ("play", 1, post(told, head))]))
    assert taken[-2:] == [True, True]
    assert outs[0][0].count(b"HTTP/1.1 200 OK\r\n") == 2
    assert outs[1][0] == b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
    assert [(hello.ephemeral, endings) for hello, _, _, _, endings in behind[1:]] == [(True, [None])] * 2


@pytest.mark.parametrize("cut", [1, 200, -1])
def test_a_plain_call_that_comes_in_two_pieces_is_answered_once(cut: int) -> None:
    data = post(json.dumps(call("echo", 1)).encode())
    outs, behind = run(played([("play", 0, data[:cut]), ("play", 0, data[cut:])]))
    assert outs[0][0].count(b"HTTP/1.1 200 OK\r\n") == 2
    assert [message["id"] for message in behind[0][1]] == [0, 1]


def test_a_client_that_leaves_with_several_requests_in_flight_leaves_none_behind() -> None:
    """uvicorn tells the latest of them alone."""
    data = post(json.dumps(call("hold", 1)).encode()) + post(json.dumps(call("echo", 2)).encode())
    outs, _ = run(played([("play", 0, data), ("lose", 0, b"")], straight=False))
    assert outs[0][0].count(b"HTTP/1.1 200 OK\r\n") == 1


def test_a_body_that_does_not_come_is_given_up_where_its_head_was_plain() -> None:
    async def main() -> None:
        async with fronted(FrontOptions(body_s=0.05), guard) as (front, _), asyncio.timeout(10):
            wire = connected(front)
            with mock.patch("gateway.runtime.http_plain.PATIENCE_S", 0.05):
                wire.play(post(b"{" * 100)[:-10])
                while not wire.out:
                    await asyncio.sleep(0.01)
            assert wire.out.startswith(b"HTTP/1.1 408 ")
            wire.lose()

    run(main())


def test_a_straight_call_that_is_silent_for_long_becomes_a_stream_and_is_answered_on_it() -> None:
    async def main() -> None:
        async with calling(FrontOptions(silence_s=0.05)) as (caller, desk, _):
            session = await caller.begin()
            with counted() as taken:
                async with caller.open("POST", call("hold", 5), **session) as (response, events):
                    assert response.headers["content-type"] == "text/event-stream"
                    (await desk.holds(5)).respond(5, {"late": 1})
                    assert (await events.message())["result"] == {"late": 1}
            assert taken == [True]

    run(main())


def test_a_straight_call_whose_client_leaves_frees_its_place_and_is_not_cancelled() -> None:
    hold = ("play", 0, post(json.dumps(call("hold", 1)).encode()))
    again = ("play", 1, post(json.dumps(call("hold", 2)).encode()))
    outs, behind = run(played([hold, ("lose", 0, b""), ("respond", 1, b""), again, ("respond", 2, b"")]))
    assert b"late" not in outs[0][0]
    assert b"late" in outs[1][0]
    assert [message["id"] for message in behind[0][1]] == [0, 1, 2]


def test_stopping_answers_a_straight_call_that_is_open() -> None:
    async def main() -> None:
        async with calling() as (caller, desk, front):
            session = await caller.begin()
            with counted() as taken:
                task = asyncio.create_task(caller.post(call("hold", 5), **session))
                await desk.holds(5)
            assert taken == [True]
            await front.stop()
            assert (await task).status_code == 500

    run(main())


def test_stopping_answers_a_plain_request_whose_body_is_still_coming() -> None:
    async def main(*, straight: bool) -> bytes:
        async with fronted(FrontOptions(), guard) as (front, _):
            wire = connected(front, straight=straight)
            data = post(json.dumps(call("echo", 1)).encode())
            wire.play(data[:-1])
            await settle()
            assert wire.protocol is not None
            wire.protocol.shutdown()
            wire.play(data[-1:])
            await settle()
            assert wire.is_closed
            return wire.out

    answer = run(main(straight=True))
    assert answer.startswith(b"HTTP/1.1 404 "), "there is no such session"
    assert answer == run(main(straight=False))


@pytest.mark.parametrize("is_alone", [False, True])
@pytest.mark.parametrize("missing", [0, 9])
def test_a_request_that_is_open_or_still_coming_at_a_stop_is_answered_the_same_both_ways(
    missing: int,
    is_alone: bool,
) -> None:
    held = modern(call("hold", 1)) if is_alone else call("hold", 1)
    data = post(json.dumps(held).encode(), alone("hold") if is_alone else PLAIN)

    async def main(*, straight: bool) -> bytes:
        async with fronted(FrontOptions(silence_s=None), guard) as (front, _):
            wire = connected(front, straight=straight)
            wire.play(post(json.dumps(request("initialize", 0, protocolVersion=LEGACY)).encode(), PLAIN[:4]))
            await settle()
            begun = len(wire.out)
            wire.play(data[: len(data) - missing])
            await settle()
            stopping = asyncio.create_task(front.stop())
            await settle()
            if missing:
                wire.play(data[-missing:])
            await settle()
            await stopping
            return wire.out[begun:]

    answer = run(main(straight=True))
    assert answer == run(main(straight=False))
    assert answer.startswith(b"HTTP/1.1 503 " if missing else b"HTTP/1.1 500 ")
    assert b"connection: close" in answer


def test_a_fault_of_the_receiver_is_answered_as_the_server_answers_it() -> None:
    async def main(*, straight: bool) -> bytes:
        async with fronted(FrontOptions(), guard) as (front, desk):
            wire = connected(front, straight=straight)
            wire.play(post(json.dumps(request("initialize", 0, protocolVersion=LEGACY)).encode(), PLAIN[:4]))
            await settle()
            with mock.patch.object(desk.clerks[0], "message", side_effect=RuntimeError("a fault")):
                wire.play(post(json.dumps(call("echo", 1)).encode()))
                await settle()
            wire.play(post(json.dumps(call("echo", 1)).encode()))
            await settle()
            wire.lose()
            return wire.out

    answer = run(main(straight=True))
    assert answer == run(main(straight=False))
    assert b"HTTP/1.1 500 " in answer


def test_a_connection_that_rests_after_a_straight_call_is_closed_in_its_time() -> None:
    async def main() -> None:
        async with fronted(FrontOptions(), guard) as (front, desk):
            wire = connected(front)
            protocol = wire.protocol
            assert protocol is not None
            wire.play(post(json.dumps(request("initialize", 0, protocolVersion=LEGACY)).encode(), PLAIN[:4]))
            await settle()
            wire.play(post(json.dumps(call("hold", 1)).encode()))
            protocol.timeout_keep_alive_handler()
            assert not wire.is_closed, "it is not answered yet"
            desk.clerks[0].respond(1, {})
            assert wire.out.count(b"HTTP/1.1 200 OK") == 2
            protocol.timeout_keep_alive_handler()
            assert not wire.is_closed, "it has rested for a moment"
            assert protocol.timeout_keep_alive_task is not None
            protocol.timeout_keep_alive = 0
            protocol.timeout_keep_alive_handler()
            assert wire.is_closed

    run(main())
