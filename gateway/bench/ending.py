"""How a run is ended from outside: a polite signal is answered as Ctrl-C is, once, so that what was measured is told.

Owns the handlers of signals while something is measured. What becomes of the figures is for those who measure.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

POLITE = [
    signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in signal.Signals.__members__
]
"""Not every system has terminals that hang up."""


@contextmanager
def interruptible() -> Generator[None]:
    """Let the first polite signal raise `KeyboardInterrupt`; one that is ignored, as under nohup, stays so.

    Further ones are passed over: what was started is being ended, and what was written is being removed.
    """
    is_ending = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_ending
        del number, frame
        if not is_ending:
            is_ending = True
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in POLITE}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
