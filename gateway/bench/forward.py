"""A program that forwards bytes and looks at none: the least that anything between two others costs.

    forward.py [--splice] COMMAND ...

Starts COMMAND, and copies its own stdin to it and what it says to its own stdout; with `--splice` the kernel moves the
bytes, and they never come here. Runs as a program of its own, with nothing but the standard library.
"""

import os
import select
import subprocess
import sys


def main() -> None:
    """Forward until one side ends."""
    command = sys.argv[1:]
    is_spliced = command[0] == "--splice"
    child = subprocess.Popen(command[is_spliced:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert child.stdin is not None
    assert child.stdout is not None
    to = {0: child.stdin.fileno(), child.stdout.fileno(): 1}
    poll = select.epoll()
    for source in to:
        poll.register(source, select.EPOLLIN)
    is_open = True
    while is_open:
        for source, _ in poll.poll():
            if is_spliced:
                is_open = os.splice(source, to[source], 65536) > 0
                continue
            chunk = os.read(source, 65536)
            is_open = bool(chunk)
            view = memoryview(chunk)
            while view:
                view = view[os.write(to[source], view) :]
    child.stdin.close()
    child.wait()


if __name__ == "__main__":
    main()
