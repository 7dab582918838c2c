"""A client that calls without a pause until its stdin ends: `python -m gateway.bench.flood SOCKET BYTES`.

Runs as a program of its own beside the client that measures, so that neither waits for the other.
"""

from __future__ import annotations

import select
import sys

from gateway.bench.client import call_of, over_unix


def main() -> None:
    """Call; say so once."""
    client = over_unix(sys.argv[1])
    client.open()
    inner = call_of(int(sys.argv[2]))
    client.ask(inner)
    sys.stdout.write("flooding\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], 0)[0]:
        client.time(client.prepare(inner, 1))
    client.close()


if __name__ == "__main__":
    main()
