"""How a run is ended from outside: a polite signal is answered as Ctrl-C is, so that what was measured can be told.

Owns the handlers of signals while something is measured. What becomes of the figures is for those who measure.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager

POLITE = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__]
"""Not every system has terminals that hang up."""


@contextmanager
def interruptible() -> Generator[None]:
    """Let SIGTERM and SIGHUP raise `KeyboardInterrupt` meanwhile; one that is ignored, as under nohup, stays so."""
    before = {number: signal.getsignal(number) for number in POLITE}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
