"""The echo server that `tieline bench` measures with: the least that an MCP server over stdio can do.

Runs as a program of its own. Answers every request in the order of arrival; reads at most 64 KiB at a time, since
larger reads cost more in the allocator than the whole answer does.
"""

import os
import re

INITIALIZED = (
    b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"e","version":"1"}}'
)
TOOLS = b'{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}'
ID = re.compile(rb'"id":(\d+|"[^"]*")')
TEXT = re.compile(rb'"text":("[^"]*")')


def answer(line: bytes) -> bytes:
    """Return the answer to one line; nothing for a notification."""
    found = ID.search(line)
    if found is None:
        return b""
    text = TEXT.search(line)
    if text is not None:
        result = b'{"content":[{"type":"text","text":%b}]}' % text.group(1)
    elif b'"initialize"' in line:
        result = INITIALIZED
    elif b'"tools/list"' in line:
        result = TOOLS
    else:
        result = b"{}"
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (found.group(1), result)


def main() -> None:
    """Serve until stdin ends."""
    rest = b""
    while chunk := os.read(0, 65536):
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        out = memoryview(b"".join(answer(line) for line in lines))
        while out:
            out = out[os.write(1, out) :]


if __name__ == "__main__":
    main()
