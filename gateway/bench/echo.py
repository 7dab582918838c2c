"""The echo server that `tieline bench` measures with: the least that an MCP server can do, on any of four transports.

Runs as a program of its own, with nothing but the standard library. Answers every request in the order of arrival;
reads at most 64 KiB at a time, since larger reads cost more in the allocator than the whole answer does.

    echo.py [--schema] [stdio | unix PATH | websocket PORT | http PORT]

`--schema` gives the tool an output schema and results that keep it, as long as without one. A listener says where it
listens in one line of stdout, and ends when its stdin does.
"""

import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

INITIALIZED = (
    b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"e","version":"1"}}'
)
TOOL = b'{"name":"echo","inputSchema":{"type":"object"}}'
TOOL_WITH_SCHEMA = (
    b'{"name":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}},"outputSchema":'
    b'{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}'
)
ID = re.compile(rb'"id":(\d+|"[^"]*")')
TEXT = re.compile(rb'"text":("[^"]*")')
CHUNK = 65536
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
HAS_SCHEMA = "--schema" in sys.argv


def answer(line: bytes) -> bytes:
    """Return the answer to one message; nothing for a notification."""
    found = ID.search(line)
    if found is None:
        return b""
    text = TEXT.search(line)
    if text is not None:
        told = text.group(1)
        if HAS_SCHEMA:
            # Half of it as text and half as the schema has it: an answer is as long as the call either way.
            half = len(told) // 2
            form = b'{"content":[{"type":"text","text":%b"}],"structuredContent":{"text":"%b}}'
            result = form % (told[:half], told[half:])
        else:
            result = b'{"content":[{"type":"text","text":%b}]}' % told
    elif b'"initialize"' in line:
        result = INITIALIZED
    elif b'"tools/list"' in line:
        result = b'{"tools":[%b]}' % (TOOL_WITH_SCHEMA if HAS_SCHEMA else TOOL)
    else:
        result = b"{}"
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (found.group(1), result)


def lines(rest: bytes, chunk: bytes) -> tuple[bytes, bytes]:
    """Return the answers to the lines that end in a chunk, and what is left of it."""
    *whole, rest = (rest + chunk).split(b"\n")
    return b"".join([told + b"\n" for line in whole if (told := answer(line))]), rest


def over_pipes() -> None:
    """Serve until stdin ends."""
    rest = b""
    while chunk := os.read(0, CHUNK):
        told, rest = lines(rest, chunk)
        out = memoryview(told)
        while out:
            out = out[os.write(1, out) :]


def on_unix(connection: "socket.socket") -> None:
    """Serve one connection of a unix socket."""
    rest = b""
    while chunk := connection.recv(CHUNK):
        told, rest = lines(rest, chunk)
        connection.sendall(told)


def text_frame(message: bytes) -> bytes:
    """A text frame of a server, unmasked."""
    size = len(message)
    if size < 126:
        return bytes((0x81, size)) + message
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + message
    return b"\x81\x7f" + size.to_bytes(8, "big") + message


def unmasked(data: bytes, mask: bytes) -> bytes:
    """The payload of a frame."""
    if mask == b"\0\0\0\0":
        return data
    size = len(data)
    whole = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(size, "big")


def on_websocket(connection: "socket.socket") -> None:
    """Shake hands, then serve one connection. Fragments and pings do not come from the clients that it is for."""
    import base64
    import hashlib

    head = b""
    while b"\r\n\r\n" not in head:
        chunk = connection.recv(CHUNK)
        if not chunk:
            return
        head += chunk
    key = re.search(rb"(?i)sec-websocket-key:\s*(\S+)", head)
    assert key is not None
    accept = base64.b64encode(hashlib.sha1(key[1] + GUID, usedforsecurity=False).digest())
    protocol = b"Sec-WebSocket-Protocol: mcp\r\n" if b"mcp" in head.lower() else b""
    connection.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"%bSec-WebSocket-Accept: %b\r\n\r\n" % (protocol, accept)
    )
    data = b""
    while chunk := connection.recv(CHUNK):
        data += chunk
        out: list[bytes] = []
        at = 0
        while len(data) - at >= 6:
            opcode, size, start = data[at] & 15, data[at + 1] & 127, at + 2
            if size >= 126:
                length = 2 if size == 126 else 8
                size = int.from_bytes(data[start : start + length], "big")
                start += length
            if len(data) < start + 4 + size:
                break
            at = start + 4 + size
            if opcode == 8:
                connection.sendall(b"\x88\x00")
                return
            told = answer(unmasked(data[start + 4 : at], data[start : start + 4])) if opcode == 1 else b""
            if told:
                out.append(text_frame(told))
        data = data[at:]
        if out:
            connection.sendall(b"".join(out))


def posted(data: bytes) -> "tuple[bytes, bytes] | None":
    """The body of the first request of these bytes and what follows it; None while it is not whole."""
    head, found, rest = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length:\s*(\d+)", head)
    size = int(length[1]) if length else 0
    return (rest[:size], rest[size:]) if found and len(rest) >= size else None


def on_http(connection: "socket.socket") -> None:
    """Serve one connection: a POST after the other, each answered with JSON."""
    data = b""
    while chunk := connection.recv(CHUNK):
        data += chunk
        while (whole := posted(data)) is not None:
            body, data = whole
            told = answer(body)
            status = b"200 OK" if told else b"202 Accepted"
            kind = b"Content-Type: application/json\r\n" if told else b""
            connection.sendall(
                b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, kind, len(told), told)
            )


def listen(kind: str, where: str) -> None:
    """Say where, and serve connections, each in a thread of its own, until stdin ends."""
    import socket
    import threading

    if kind == "unix":
        server = socket.socket(socket.AF_UNIX)
        server.bind(where)
    else:
        server = socket.create_server(("127.0.0.1", int(where)))
        where = str(server.getsockname()[1])
    serve = {"unix": on_unix, "websocket": on_websocket, "http": on_http}[kind]

    def one(connection: socket.socket) -> None:
        if kind != "unix":
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with connection:
                serve(connection)
        except OSError:
            # The client has gone: nobody is left to be told.
            pass

    def accept() -> None:
        while True:
            threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()

    server.listen(128)
    threading.Thread(target=accept, daemon=True).start()
    os.write(1, where.encode() + b"\n")
    while os.read(0, CHUNK):
        pass


def main() -> None:
    """Serve as the arguments say."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--schema"]
    if not arguments or arguments == ["stdio"]:
        over_pipes()
    else:
        listen(*arguments)


if __name__ == "__main__":
    main()
