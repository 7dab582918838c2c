"""How messages lie in the bytes of each transport, for a client that counts answers: lines, websocket frames, HTTP.

Owns the cutting of what was read into messages, and the bytes around one that is sent. Knows neither sockets nor
clocks, and never looks into a message. Pure.
"""

from __future__ import annotations

from typing import Protocol


class BenchError(Exception):
    """Why something could not be measured: one sentence without a final period, for people."""


class Framing(Protocol):
    """How messages lie in one stream of bytes. One object a lane: it knows how far the reader has come."""

    def frame(self, message: bytes) -> bytes:
        """The bytes on the wire of one message."""
        ...

    def feed(self, chunk: bytes) -> int:
        """Take what was read; return how many messages ended in it."""
        ...


class Lines:
    """One message a line: stdio and unix sockets."""

    def frame(self, message: bytes) -> bytes:
        """The message and a newline."""
        return message + b"\n"

    def feed(self, chunk: bytes) -> int:
        """Count the lines that end here."""
        return chunk.count(b"\n")


class Texts:
    """One message a text frame: websocket, as a client. Masked with zeros, so that nothing is computed for a call."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._ends = False

    def frame(self, message: bytes) -> bytes:
        """A text frame, unfragmented."""
        size = len(message)
        if size < 126:
            return bytes((0x81, 0x80 | size, 0, 0, 0, 0)) + message
        if size < 65536:
            return b"\x81\xfe" + size.to_bytes(2, "big") + bytes(4) + message
        return b"\x81\xff" + size.to_bytes(8, "big") + bytes(4) + message

    def feed(self, chunk: bytes) -> int:
        """Count the messages whose last frame ends here; control frames do not count.

        Raises:
            BenchError: If the other side closes.
        """
        count, at, end = 0, 0, len(chunk)
        while at < end:
            if self._left:
                taken = min(self._left, end - at)
                at += taken
                self._left -= taken
            else:
                self._head += chunk[at : at + 1]
                at += 1
                if not self._read_head():
                    continue
            if not self._left and self._ends:
                count += 1
                self._ends = False
        return count

    def _read_head(self) -> bool:
        """Whether the head is whole; then what follows it is known."""
        head = self._head
        if len(head) < 2:
            return False
        size = head[1] & 127
        more = {126: 2, 127: 8}.get(size, 0)
        if len(head) < 2 + more:
            return False
        if head[0] & 15 == 8:
            raise BenchError("the other side closed the websocket")
        self._left = int.from_bytes(head[2:], "big") if more else size
        self._ends = bool(head[0] & 0x80) and head[0] & 15 < 8
        self._head = b""
        return True


class Exchanges:
    """One message a POST: streamable HTTP. Answers say their length, or come in chunks, as an event stream does."""

    def __init__(self, host: str, path: str, *, version: str = "2025-11-25") -> None:
        self.session: bytes | None = None
        self._in_chunks = False
        self._start = (
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {version}\r\n"
        ).encode()
        self._rest = b""
        self._left = 0
        self.status = 0

    def frame(self, message: bytes) -> bytes:
        """A whole request."""
        session = b"Mcp-Session-Id: %b\r\n" % self.session if self.session else b""
        return b"%b%bContent-Length: %d\r\n\r\n%b" % (self._start, session, len(message), message)

    def feed(self, chunk: bytes) -> int:
        """Count the answers that end here, and remember the session that one names.

        Raises:
            BenchError: If an answer is no success.
        """
        count = 0
        while chunk or self._left:
            if self._left:
                taken = min(self._left, len(chunk))
                self._left -= taken
                chunk = chunk[taken:]
                if self._left:
                    break
                count += not self._in_chunks
                continue
            head, found, rest = (self._rest + chunk).partition(b"\r\n" if self._in_chunks else b"\r\n\r\n")
            if not found:
                self._rest = head
                break
            self._rest, chunk = b"", rest
            self._left = self._read_size(head) if self._in_chunks else self._read_head(head)
            count += not (self._left or self._in_chunks)
        return count

    def _read_size(self, line: bytes) -> int:
        """The bytes of a chunk and of the line end behind it; behind the last one the answer is over."""
        size = int(line.partition(b";")[0], 16)
        self._in_chunks = size > 0
        return size + 2

    def _read_head(self, head: bytes) -> int:
        """The bytes of the body."""
        first, *lines = head.split(b"\r\n")
        self.status = int(first.split()[1])
        if self.status >= 300:
            raise BenchError(f"the other side answered HTTP {self.status}")
        length = 0
        for line in lines:
            name, _, value = line.partition(b":")
            name = name.lower()
            if name == b"content-length":
                length = int(value)
            elif name == b"mcp-session-id":
                self.session = value.strip()
            elif name == b"transfer-encoding":
                self._in_chunks = b"chunked" in value.lower()
        return length
