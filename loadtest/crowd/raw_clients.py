"""Raw MCP clients for a load test, one a transport: bytes in, bytes out, no SDK, each call in its caller's greenlet.

Owns connections, the matching of answers to calls by id, and answers to what a server asks. Written on gevent itself:
nothing here depends on monkey patching. What is said, and when, is the users' business.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from geventhttpclient.client import HTTPClient
from geventhttpclient.response import HTTPParseError
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from gateway.protocol import jsonrpc
from loadtest.crowd.green import Box, Late, Process, Socket, connect, spawn, start
from loadtest.crowd.place import port_of, unreached
from transports.base import Id

READ_BYTES = 65536
CONNECT_S = 5.0
AT_ONCE = 64
"""Requests that one agent may have open over HTTP, which needs a connection for each."""
LONGEST_S = 24 * 3600.0
JSON_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
SESSION = "Mcp-Session-Id"
NOBODY = b'{"code":-32601,"message":"the recorded agent was not asked this"}'

Answerer = Callable[[str], bytes | None]
"""Called with the method of a server's question; returns the message that answered it, or None where there is none."""


class Gone(ConnectionError):  # noqa: N818 - a state, seen by many callers
    """The gateway could not be reached, or has gone; the text says which."""


class Client(Protocol):
    """One connection of one agent."""

    def open(self) -> None:
        """Connect. Raises `Gone`."""
        ...

    def ask(self, id_: int, body: bytes, timeout_s: float | None = None) -> bytes:
        """Send a request and wait for its answer. Raises `Gone`, and `Late` after `timeout_s`."""
        ...

    def tell(self, body: bytes) -> None:
        """Send a notification. Raises `Gone`."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


def nobody(method: str) -> bytes | None:
    """Answers no question."""
    del method
    return None


def reply(answerer: Answerer, method: str, id_: Id) -> bytes:
    """What is said to a server's question: the recorded answer under this id, or that there is none."""
    known = answerer(method)
    if known is None:
        return jsonrpc.error(id_, NOBODY)
    return jsonrpc.with_id(known, jsonrpc.read(known), id_)


class _Paired:
    """Calls on one stream of messages in both directions, matched by id."""

    def __init__(self, answerer: Answerer) -> None:
        self._answerer = answerer
        self._waiting: dict[Id, Box[bytes]] = {}
        self._fault: Gone | None = None

    def ask(self, id_: int, body: bytes, timeout_s: float | None = None) -> bytes:
        if self._fault is not None:
            raise self._fault
        box: Box[bytes] = Box()
        self._waiting[id_] = box
        try:
            self._send(body)
            return box.get(timeout_s)
        finally:
            self._waiting.pop(id_, None)

    def tell(self, body: bytes) -> None:
        if self._fault is not None:
            raise self._fault
        self._send(body)

    def _send(self, body: bytes) -> None:
        raise NotImplementedError

    def _take(self, data: bytes) -> None:
        try:
            envelope = jsonrpc.read(data)
        except jsonrpc.BadMessage:
            return
        id_ = envelope.id
        if not isinstance(id_, int | str):
            return
        if envelope.method:
            self._send(reply(self._answerer, envelope.method, id_))
        elif (box := self._waiting.get(id_)) is not None:
            box.set(data)

    def _lost(self, why: str) -> None:
        if self._fault is None:
            self._fault = Gone(why)
        for box in list(self._waiting.values()):
            box.fail(self._fault)


class StdioClient(_Paired):
    """A gateway of the agent's own, on its stdin and stdout."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], answerer: Answerer = nobody
    ) -> None:
        super().__init__(answerer)
        self._command = command
        self._environment = environment
        self._process: Process | None = None

    def open(self) -> None:
        try:
            self._process = start(self._command, self._environment)
        except OSError as fault:
            raise Gone(f"the gateway could not be started: {fault}") from None
        spawn(self._read, self._process)

    def close(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.end()

    def _send(self, body: bytes) -> None:
        if self._process is None:
            raise Gone("the agent has closed its connection")
        try:
            self._process.write(body + b"\n")
        except OSError:
            raise Gone("the gateway has gone") from None

    def _read(self, process: Process) -> None:
        rest = b""
        with contextlib.suppress(OSError):
            while data := process.read(READ_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(line)
        self._lost("the gateway has ended")


class WebSocketClient(_Paired):
    """A websocket connection: the protocol is websockets' sans-I/O core."""

    def __init__(self, url: str, headers: Mapping[str, str], answerer: Answerer = nobody) -> None:
        super().__init__(answerer)
        self._url = url
        self._headers = headers
        self._wire = ClientProtocol(parse_uri(url), max_size=None)
        self._socket: Socket | None = None
        self._parts = bytearray()

    def open(self) -> None:
        place = urlsplit(self._url)
        is_tls = place.scheme == "wss"
        try:
            self._socket = connect(place.hostname or "127.0.0.1", port_of(place), CONNECT_S, is_tls=is_tls)
        except OSError as fault:
            raise Gone(unreached(self._url, fault)) from None
        request = self._wire.connect()
        for name, value in self._headers.items():
            request.headers[name] = value
        self._wire.send_request(request)
        self._flush()
        opened: Box[None] = Box()
        spawn(self._read, self._socket, opened)
        try:
            opened.get(CONNECT_S)
        except Late:
            raise Gone(f"no answer to the handshake from {self._url} in {CONNECT_S:g} s") from None

    def close(self) -> None:
        if self._socket is not None:
            if self._wire.state is State.OPEN:
                self._wire.send_close(1000)
                with contextlib.suppress(Gone):
                    self._flush()
            self._socket.close()
            self._socket = None

    def _send(self, body: bytes) -> None:
        if self._wire.state is not State.OPEN:
            raise Gone("the connection is closed")
        self._wire.send_text(body)
        self._flush()

    def _flush(self) -> None:
        out = b"".join(self._wire.data_to_send())
        if self._socket is None:
            raise Gone("the agent has closed its connection")
        if out:
            try:
                self._socket.sendall(out)
            except OSError:
                raise Gone("the gateway has gone") from None

    def _read(self, socket: Socket, opened: Box[None]) -> None:
        why = "the gateway has closed the connection"
        with contextlib.suppress(OSError, Gone):
            while data := socket.recv(READ_BYTES):
                self._wire.receive_data(data)
                for event in self._wire.events_received():
                    self._event(event, opened)
                self._flush()
        if self._wire.handshake_exc is not None:
            why = f"{self._url} refuses the connection: {self._wire.handshake_exc}"
        opened.fail(Gone(why))
        self._lost(why)

    def _event(self, event: object, opened: Box[None]) -> None:
        if isinstance(event, Response):
            if self._wire.state is State.OPEN:
                opened.set(None)
        elif isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.CONT):
            self._parts += event.data
            if event.fin:
                whole = bytes(self._parts)
                self._parts.clear()
                self._take(whole)


class HttpClient:
    """One agent over streamable HTTP; `alone` gives the headers of each message, in the era without sessions."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        answerer: Answerer = nobody,
        alone: Callable[[bytes], Mapping[str, str]] | None = None,
    ) -> None:
        place = urlsplit(url)
        self._url = url
        self._path = place.path or "/"
        self._headers: dict[str, str] = {**JSON_HEADERS, **headers}
        self._answerer = answerer
        self._alone = alone
        self._http = HTTPClient(
            place.hostname or "127.0.0.1",
            place.port,
            ssl=place.scheme == "https",
            concurrency=AT_ONCE,
            connection_timeout=CONNECT_S,
            network_timeout=LONGEST_S,
        )

    def open(self) -> None:
        """There is no connection before the first request."""

    def ask(self, id_: int, body: bytes, timeout_s: float | None = None) -> bytes:
        if timeout_s is None:
            return self._ask(id_, body)
        box: Box[bytes] = Box()
        spawn(self._ask_into, box, id_, body)
        return box.get(timeout_s)

    def tell(self, body: bytes) -> None:
        response = self._post(body)
        with self._reading(response):
            response.read()

    def close(self) -> None:
        if SESSION in self._headers:
            with contextlib.suppress(OSError, HTTPParseError):
                self._http.request("DELETE", self._path, headers=self._headers).read()
        self._http.close()

    def _ask_into(self, box: Box[bytes], id_: int, body: bytes) -> None:
        try:
            box.set(self._ask(id_, body))
        except Gone as fault:
            box.fail(fault)

    def _ask(self, id_: int, body: bytes) -> bytes:
        response = self._post(body)
        with self._reading(response):
            session = response.get("mcp-session-id")
            if isinstance(session, str) and SESSION not in self._headers:
                self._headers[SESSION] = session
            kind = str(response.get("content-type") or "")
            if not kind.startswith("text/event-stream"):
                answer = bytes(response.read())
                if response.status_code != 200 and not answer.startswith(b"{"):
                    raise Gone(f"{self._url} answers {response.status_code}")
                return answer
            return self._streamed(response, id_)

    def _streamed(self, response: Any, id_: int) -> bytes:
        data, answer = bytearray(), b""
        while line := bytes(response.readline()):
            line = line.rstrip(b"\r\n")
            if line.startswith(b"data:"):
                data += line[5:].strip()
            elif not line and data:
                message = bytes(data)
                data.clear()
                envelope = jsonrpc.read(message)
                if envelope.method and isinstance(envelope.id, int | str):
                    self.tell(reply(self._answerer, envelope.method, envelope.id))
                elif not envelope.method and envelope.id == id_:
                    answer = message
        if not answer:
            raise Gone(f"the stream from {self._url} ended without an answer")
        return answer

    def _post(self, body: bytes) -> Any:
        headers = self._headers if self._alone is None else {**self._headers, **self._alone(body)}
        try:
            return self._http.request("POST", self._path, body=body, headers=headers)
        except (OSError, HTTPParseError) as fault:
            raise Gone(unreached(self._url, fault)) from None

    @contextlib.contextmanager
    def _reading(self, response: Any) -> Any:
        try:
            yield
        except (OSError, HTTPParseError) as fault:
            response.release()
            raise Gone(f"{self._url} broke off: {fault}") from None
