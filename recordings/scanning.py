"""Compiles patterns for Hyperscan in a process of its own, which takes the compiler's memory with it.

    python -m recordings.scanning

Reads patterns, a JSON array of Latin-1 strings, and writes the database that they make; patterns may hold secrets, so
they go by pipes, and nothing is kept. What is compiled, and how, is `scanner.py`'s.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence

from recordings.scanner import written

PATIENCE_S = 30.0
NICE = 10
"""It is in no hurry: whoever waits for an answer comes first."""

_PR_SET_PDEATHSIG = 1


def compiled(patterns: Sequence[bytes]) -> bytes | None:
    """Return a database of patterns; None where it cannot be made. Takes half a second, in which it only waits."""
    # Only what records much needs it, and has loaded it by then where it has started a server.
    import subprocess

    told = json.dumps([pattern.decode("latin-1") for pattern in patterns]).encode()
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "recordings.scanning"],
            input=told, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def main() -> int:
    """Compile what is read."""
    _end_with_parent()
    os.nice(NICE)
    patterns = [pattern.encode("latin-1") for pattern in json.load(sys.stdin)]
    sys.stdout.buffer.write(written(patterns))
    return 0


def _end_with_parent() -> None:
    """Leave no process behind when whoever waits for this one is killed, or has waited long enough."""
    import ctypes

    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    with contextlib.suppress(AttributeError, OSError):  # other systems have no such call
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
