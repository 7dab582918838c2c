"""A program that keeps swapping two names of a folder, as fast as the system lets it, until its stdin ends.

python swapper.py FOLDER ONE OTHER [ONE OTHER …]
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading

RENAME_EXCHANGE = 2


def main() -> None:
    """Swap; say `ready` once it begins, and how often it was done at the end."""
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    folder = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
    names = [os.fsencode(name) for name in sys.argv[2:]]
    pairs = list(zip(names[::2], names[1::2], strict=True))
    end = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), end.set()), daemon=True).start()
    print("ready", flush=True)
    done = 0
    while not end.is_set():
        for one, other in pairs:
            done += rename(folder, one, folder, other, RENAME_EXCHANGE) == 0
    print(done, flush=True)


if __name__ == "__main__":
    main()
