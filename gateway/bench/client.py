"""Raw clients for the four transports: requests made beforehand, bytes out, answers counted; no SDK in the loop.

A client has one or more *lanes*, connections in one process: `time` sends one request after the other on the first one,
`burst` keeps so many in flight over all of them, reading and writing as either is possible, so that full pipes cannot
stop it. HTTP has a request a connection at a time, and so needs a lane for each in flight (`Client.lanes_for`). Starts
no process: see `sides`.
"""

from __future__ import annotations

import base64
import contextlib
import os
import select
import socket
import time
from collections.abc import Callable, Generator, Sequence

from gateway.bench.framing import BenchError, Exchanges, Framing, Lines, Texts

CHUNK = 65536
"""The most that is read at once: larger reads cost more in the allocator than a whole call."""
PATIENCE_S = 30.0
GREETING = (
    b'"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"bench","version":"1"}}'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
LIST_TOOLS = b'"method":"tools/list","params":{}'
PING = b'"method":"ping"'


ERROR, HEAD_BYTES = b'"error":{', 500
"""How an answer is told from a result: by what stands in its first bytes, behind those of its transport."""


def call_of(size: int, name: str = "echo") -> bytes:
    """A `tools/call` of `size` bytes, without its id, for `request`."""
    frame = b'"method":"tools/call","params":{"name":"%b","arguments":{"text":"%b"}}'
    return frame % (name.encode(), b"x" * max(1, size - len(frame) - len(name) - 22))


def request(number: int, inner: bytes) -> bytes:
    """A whole message: an id, and what `call_of` and the constants here give."""
    return b'{"jsonrpc":"2.0","id":%d,%b}' % (number, inner)


@contextlib.contextmanager
def _connected() -> Generator[None]:
    """A connection that breaks is told as what could not be measured. Raises `BenchError`."""
    try:
        yield
    except OSError as error:
        raise BenchError(f"the connection broke: {error.strerror or error}") from error


def refuse_error(answer: bytes) -> None:
    """Look at the beginning of an answer: what is timed must not be the making of errors. Raises `BenchError`."""
    if ERROR in answer[:HEAD_BYTES]:
        raise BenchError(
            f"the call was answered with an error: {answer[:300].decode(errors='replace').strip()}"
        )


class Lane:
    """One connection: where to write, where to read, and how messages lie in it."""

    def __init__(self, read_fd: int, write_fd: int, framing: Framing, close: Callable[[], None]) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self.framing = framing
        self.close = close

    def write(self, data: bytes) -> None:
        """Write all of it; waits."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.write_fd, view) :]

    def read(self) -> bytes:
        """Read what is there; waits for something.

        Raises:
            BenchError: If there is nothing more to come.
        """
        chunk = os.read(self.read_fd, CHUNK)
        if not chunk:
            raise BenchError("the other side ended the connection")
        return chunk


class Client:
    """Drives one side. `dial` opens one more lane; it is called as lanes are needed."""

    def __init__(self, dial: Callable[[], Lane], *, one_at_a_time: bool = False) -> None:
        """`one_at_a_time`: a lane takes its next request only when the last one is answered, as with HTTP."""
        self._dial = dial
        self._one_at_a_time = one_at_a_time
        self.lanes: list[Lane] = []
        self._number = 0

    @_connected()
    def open(self) -> None:
        """Connect, shake hands and list the tools."""
        lane = self._dial()
        self.lanes.append(lane)
        self.ask(GREETING)
        lane.write(lane.framing.frame(INITIALIZED))
        if self._one_at_a_time:
            self._await(lane, 1)
        self.ask(LIST_TOOLS)

    @_connected()
    def ask(self, inner: bytes) -> bytes:
        """Make one call and return what was read, for a look at it.

        Raises:
            BenchError: If it is answered with an error, or not at all.
        """
        self._number += 1
        lane = self.lanes[0]
        lane.write(lane.framing.frame(request(self._number, inner)))
        told = self._await(lane, 1)
        refuse_error(told)
        return told

    def prepare(self, inner: bytes, count: int) -> list[bytes]:
        """The bytes of so many calls, each with an id of its own."""
        first = self._number + 1
        self._number += count
        frame = self.lanes[0].framing.frame
        return [frame(request(number, inner)) for number in range(first, first + count)]

    @_connected()
    def time(self, prepared: Sequence[bytes]) -> list[int]:
        """Make prepared calls one after the other; nanoseconds of each.

        Raises:
            BenchError: If one is answered with an error, or not at all.
        """
        lane = self.lanes[0]
        feed, read_fd, write_fd = lane.framing.feed, lane.read_fd, lane.write_fd
        times: list[int] = []
        clock, write, read = time.perf_counter_ns, os.write, os.read
        for data in prepared:
            begun = clock()
            sent = write(write_fd, data)
            if sent < len(data):
                lane.write(data[sent:])
            while True:
                chunk = read(read_fd, CHUNK)
                if not chunk:
                    raise BenchError("the other side ended the connection")
                if feed(chunk):
                    break
            times.append(clock() - begun)
            refuse_error(chunk)
        return times

    @_connected()
    def burst(self, prepared: Sequence[bytes], in_flight: int) -> float:
        """Make prepared calls with so many in flight; calls a second.

        Raises:
            BenchError: If one is answered with an error, the other side ends, or says nothing for half a minute.
        """
        lanes = self.lanes_for(in_flight)
        depth = 1 if self._one_at_a_time else in_flight
        for lane in lanes:
            os.set_blocking(lane.read_fd, False)
            os.set_blocking(lane.write_fd, False)
        try:
            begun = time.perf_counter()
            _Burst(lanes, prepared, depth).run()
            return len(prepared) / (time.perf_counter() - begun)
        finally:
            for lane in lanes:
                os.set_blocking(lane.read_fd, True)
                os.set_blocking(lane.write_fd, True)

    def lanes_for(self, in_flight: int) -> list[Lane]:
        """The lanes that so many calls in flight need; opens those that are missing."""
        if not self._one_at_a_time:
            return self.lanes[:1]
        while len(self.lanes) < in_flight:
            self.lanes.append(self._dial())
        return self.lanes[:in_flight]

    def redial(self) -> None:
        """Connect anew where that begins no new session: HTTP servers end connections that were silent for seconds."""
        if self._one_at_a_time:
            self.close()
            self.lanes.append(self._dial())

    def close(self) -> None:
        """End all lanes."""
        for lane in self.lanes:
            lane.close()
        self.lanes.clear()

    def _await(self, lane: Lane, count: int) -> bytes:
        read = b""
        while count > 0:
            chunk = lane.read()
            count -= lane.framing.feed(chunk)
            read += chunk
        return read


class _Burst:
    """Requests on their way over lanes that never make it wait: whatever can be read or written is."""

    def __init__(self, lanes: Sequence[Lane], prepared: Sequence[bytes], depth: int) -> None:
        self._prepared = prepared
        self._depth = depth
        self._next = 0
        self._left = len(prepared)
        self._out = [b"" for _ in lanes]
        self._waiting = [0 for _ in lanes]
        self._lanes = lanes
        self._poll = select.poll()
        self._at = {lane.read_fd: at for at, lane in enumerate(lanes)}
        self._at |= {lane.write_fd: at for at, lane in enumerate(lanes)}

    def run(self) -> None:
        """Until all are answered."""
        for at, lane in enumerate(self._lanes):
            self._poll.register(lane.read_fd, select.POLLIN)
            self._fill(at)
        while self._left:
            ready = self._poll.poll(PATIENCE_S * 1000)
            if not ready:
                raise BenchError(
                    f"the other side said nothing for {PATIENCE_S:.0f} s, {self._left} calls open"
                )
            for fd, event in ready:
                at = self._at[fd]
                if event & select.POLLOUT:
                    self._flush(at)
                if fd == self._lanes[at].read_fd and event & ~select.POLLOUT:
                    self._take(at)

    def _take(self, at: int) -> None:
        lane = self._lanes[at]
        chunk = lane.read()
        count = lane.framing.feed(chunk)
        refuse_error(chunk)
        if count:
            self._left -= count
            self._waiting[at] -= count
            self._fill(at)

    def _fill(self, at: int) -> None:
        """Put as many requests behind each other as may be open, and write what goes."""
        room = self._depth - self._waiting[at]
        batch = self._prepared[self._next : self._next + room]
        self._next += len(batch)
        self._waiting[at] += len(batch)
        self._out[at] += b"".join(batch)
        self._flush(at)

    def _flush(self, at: int) -> None:
        lane, out = self._lanes[at], self._out[at]
        if out:
            with contextlib.suppress(BlockingIOError):
                out = out[os.write(lane.write_fd, out) :]
            self._out[at] = out
        self._watch(lane, wants_room=bool(out))

    def _watch(self, lane: Lane, *, wants_room: bool) -> None:
        if lane.read_fd == lane.write_fd:
            self._poll.register(lane.read_fd, select.POLLIN | (select.POLLOUT if wants_room else 0))
        elif wants_room:
            self._poll.register(lane.write_fd, select.POLLOUT)
        else:
            with contextlib.suppress(KeyError):
                self._poll.unregister(lane.write_fd)


def over_pipes(read_fd: int, write_fd: int) -> Client:
    """A client on the pipes of a process that its owner ends."""
    return Client(lambda: Lane(read_fd, write_fd, Lines(), lambda: None))


def over_unix(path: str) -> Client:
    """A client of a unix socket."""

    def dial() -> Lane:
        made = socket.socket(socket.AF_UNIX)
        made.connect(path)
        return Lane(made.fileno(), made.fileno(), Lines(), made.close)

    return Client(dial)


def over_websocket(host: str, port: int, path: str = "/mcp") -> Client:
    """A client of a websocket on loopback, without TLS and token."""

    def dial() -> Lane:
        made = _connect(host, port)
        key = base64.b64encode(os.urandom(16)).decode()
        made.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mcp\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            chunk = made.recv(1)
            if not chunk:
                raise BenchError("the other side ended the connection instead of a websocket handshake")
            head += chunk
        if b" 101 " not in head.partition(b"\r\n")[0]:
            raise BenchError(f"no websocket: {head.partition(bytes((13, 10)))[0].decode(errors='replace')}")
        return Lane(made.fileno(), made.fileno(), Texts(), made.close)

    return Client(dial)


def over_http(host: str, port: int, path: str = "/mcp") -> Client:
    """A client of streamable HTTP on loopback, without TLS and token: one session, many connections."""
    first: list[Exchanges] = []

    def dial() -> Lane:
        made = _connect(host, port)
        framing = Exchanges(f"{host}:{port}", path)
        first.append(framing)
        # All connections are one session: the first one's.
        framing.session = first[0].session
        return Lane(made.fileno(), made.fileno(), framing, made.close)

    return Client(dial, one_at_a_time=True)


def _connect(host: str, port: int) -> socket.socket:
    made = socket.create_connection((host, port), PATIENCE_S)
    made.settimeout(None)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
