"""Raw clients: requests have the size that was asked for, answers are counted however their bytes are cut."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bench import echo
from gateway.bench.client import Client, Lane, call_of, request
from gateway.bench.framing import BenchError, Exchanges, Framing, Lines, Texts
from gateway.bench.setup import North, Setup
from gateway.bench.sides import Sides


def answer_of(size: int) -> bytes:
    return b"x" * size


def http(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


FORMS: dict[str, tuple[Callable[[], Framing], Callable[[bytes], bytes]]] = {
    "lines": (Lines, lambda body: body + b"\n"),
    "texts": (Texts, echo.text_frame),
    "exchanges": (lambda: Exchanges("h", "/mcp"), http),
}


@pytest.mark.parametrize("form", FORMS)
@given(st.lists(st.sampled_from([1, 125, 126, 300, 65535, 65536, 70000]), min_size=1, max_size=5), st.data())
def test_answers_are_counted_however_their_bytes_are_cut(
    form: str, sizes: list[int], data: st.DataObject
) -> None:
    made, wire = FORMS[form]
    framing = made()
    stream = b"".join(wire(answer_of(size)) for size in sizes)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert sum(framing.feed(piece) for piece in pieces) == len(sizes)


@given(st.integers(120, 70000), st.integers(1, 10**6))
def test_a_call_has_the_size_that_was_asked_for(size: int, number: int) -> None:
    message = request(number, call_of(size))
    assert abs(len(message) - size) < 12
    assert json.loads(message)["params"]["name"] == "echo"
    assert json.loads(message)["id"] == number


def test_control_frames_are_not_answers_and_a_close_is_an_error() -> None:
    framing = Texts()
    assert framing.feed(b"\x89\x02hi" + echo.text_frame(b"{}")) == 1
    with pytest.raises(BenchError, match="closed"):
        framing.feed(b"\x88\x00")


def test_an_answer_that_is_no_success_is_an_error() -> None:
    with pytest.raises(BenchError, match="HTTP 401"):
        Exchanges("h", "/mcp").feed(b"HTTP/1.1 401 Unauthorized\r\n\r\n")


@pytest.mark.parametrize("kind", ["stdio", "unix", "websocket", "http"])
def test_sixty_four_calls_of_64_kib_in_flight_do_not_stop_each_other(kind: North, tmp_path: Path) -> None:
    with Sides(tmp_path) as sides:
        client = sides.direct(Setup(north=kind)).client
        assert b'"result"' in client.ask(call_of(300))
        assert client.burst(client.prepare(call_of(65536), 130), 64) > 0
        assert len(client.time(client.prepare(call_of(65536), 3))) == 3


def test_a_server_that_ends_and_a_call_that_fails_are_told() -> None:
    ours, theirs = socket.socketpair()
    client = Client(lambda: Lane(ours.fileno(), ours.fileno(), Lines(), ours.close))
    theirs.sendall(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    theirs.sendall(b'{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no such thing"}}\n')
    with pytest.raises(BenchError, match="no such thing"):
        client.open()
    theirs.close()
    with pytest.raises(BenchError, match="the connection broke: Broken pipe"):
        client.time(client.prepare(call_of(300), 1))
    client.close()


@pytest.mark.parametrize("in_flight", [1, 4])
def test_the_making_of_errors_is_never_timed(in_flight: int) -> None:
    ours, theirs = socket.socketpair()
    client = Client(lambda: Lane(ours.fileno(), ours.fileno(), Lines(), ours.close))
    client.lanes.append(Lane(ours.fileno(), ours.fileno(), Lines(), ours.close))
    theirs.sendall(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"too many"}}\n')
    prepared = client.prepare(call_of(300), in_flight)
    with pytest.raises(BenchError, match=r"answered with an error: .*too many"):
        client.time(prepared) if in_flight == 1 else client.burst(prepared, in_flight)
    client.close()
    theirs.close()


def answers(bodies: list[list[bytes]]) -> bytes:
    """An answer a body: one part says its length, several come in chunks."""
    found = b""
    for parts in bodies:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        if len(parts) == 1:
            found += head + b"Content-Length: %d\r\n\r\n%b" % (len(parts[0]), parts[0])
        else:
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part)
            found += head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    return found


@given(
    bodies=st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=4), max_size=5),
    size=st.integers(1, 50),
)
def test_an_answer_has_ended_when_its_last_byte_was_read_whatever_the_reads(
    bodies: list[list[bytes]], size: int
) -> None:
    data = answers(bodies)
    framing = Exchanges("h", "/mcp")
    ends = [len(answers(bodies[: count + 1])) for count in range(len(bodies))]
    for at in range(0, len(data), size):
        found = framing.feed(data[at : at + size])
        assert found == sum(at < end <= at + size for end in ends)
