"""The Pi extension that `tieline bench` measures hooks with: the least that one can do.

Runs as a program of its own, with nothing but the standard library.

    extension.py NAME EVENT [noop | modify]

Hooks one event. Asked about it, it has no opinion, or changes the text of the call.
"""

import os
import re
import sys

ID = re.compile(rb'"id":("[^"]*"|\d+)')
NAME, EVENT = sys.argv[1].encode(), sys.argv[2].encode()
CHANGED = b',"data":{"result":{"input":{"text":"changed by an extension"}}}' if "modify" in sys.argv else b""
REGISTER = (
    b'{"id":"r","version":"1.0","type":"register","payload":{"name":"%b","version":"1","api_version":"1.0",'
    b'"event_hooks":["%b"]}}\n'
)


def answer(line: bytes) -> bytes:
    """Return the answer to one line; nothing where none is asked for."""
    found = ID.search(line)
    if found is None or b'"event_hook"' not in line or b'"reply":false' in line:
        return b""
    payload = b'{"event":"%b"%b}' % (EVENT, CHANGED)
    return b'{"id":%b,"version":"1.0","type":"event_hook","payload":%b}\n' % (found[1], payload)


def main() -> None:
    """Register, then answer until stdin ends."""
    os.write(1, REGISTER % (NAME, EVENT))
    rest = b""
    while chunk := os.read(0, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        out = memoryview(b"".join([answer(line) for line in lines]))
        while out:
            out = out[os.write(1, out) :]


if __name__ == "__main__":
    main()
