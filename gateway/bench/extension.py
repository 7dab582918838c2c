"""The Pi extension that `tieline bench` measures hooks with: the least that one can do.

Runs as a program of its own, with nothing but the standard library.

    extension.py NAME EVENT [noop | modify]

Hooks one event, one that is asked about or one that does not come. Asked about it, it has no opinion, or changes the
text of the call. What each answer says but for the id is written once, as any extension can do.
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
ASKED = b'"event":"%b"' % EVENT
ANSWER = b'{"id":%%b,"version":"1.0","type":"event_hook","payload":{"event":"%b"%b}}\n' % (EVENT, CHANGED)


def answer(line: bytes) -> bytes:
    """Return the answer to one line; nothing where none is asked for."""
    found = ID.search(line)
    if found is None or ASKED not in line:
        return b""
    return ANSWER % found[1]


def main() -> None:
    """Register, then answer until stdin ends."""
    os.write(1, REGISTER % (NAME, EVENT))
    rest = b""
    while chunk := os.read(0, 65536):
        rest += chunk
        answers: list[bytes] = []
        while end := rest.find(b"\n") + 1:
            answers.append(answer(rest[:end]))
            rest = rest[end:]
        out = b"".join(answers)
        while out:
            out = out[os.write(1, out) :]


if __name__ == "__main__":
    main()
