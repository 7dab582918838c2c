"""What ends a program of ours from outside: Ctrl-C before it is ready to hear of it, and a reader that has left.

Owns the handler that ends it at once, which is in force while it is being loaded and once its work is done, and how it
lets go of output that nobody reads. Lies here because every program of ours stands on the transports, and imports next
to nothing, since it has to be there first.
"""

import os
import signal
import sys

INTERRUPTED = 130
"""The exit code, as shells give it."""
READER_GONE = 141
"""The exit code where whoever read the output has left, as `head` does: that of a program which SIGPIPE ended."""


def end_quietly() -> None:
    """Have an interrupt end this process at once: there is nothing yet that would have to be put in order.

    An exception in the middle of an import ends in a traceback, and some compiled modules crash of one. Where
    interrupts are ignored, as behind `nohup`, they stay so.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def heed() -> None:
    """From now on an interrupt is a `KeyboardInterrupt` again: the work has begun, and ends as it has to."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def drop_output() -> None:
    """Let what cannot be written go nowhere: Python would complain of it again at exit."""
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _end(*_: object) -> None:
    os._exit(INTERRUPTED)
