"""What the kernel counts for a process: its time on a processor, its memory, its waits. None where it does not say.

Reads /proc, and so counts on Linux alone.
"""

from __future__ import annotations

import os
from pathlib import Path


def cpu_ns(pid: int) -> int | None:
    """Nanoseconds on a processor, of all threads that live."""
    try:
        return sum(
            int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()
        )
    except (OSError, ValueError, IndexError):
        return None


def rss_bytes(pid: int) -> int | None:
    """Bytes of memory that it has now."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def switches(pid: int) -> tuple[int, int] | None:
    """How often its threads gave the processor away because they waited, and how often it was taken."""
    found = [0, 0]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for line in (task / "status").read_text().splitlines():
                name, _, value = line.partition(":")
                if name == "voluntary_ctxt_switches":
                    found[0] += int(value)
                elif name == "nonvoluntary_ctxt_switches":
                    found[1] += int(value)
    except (OSError, ValueError):
        return None
    return found[0], found[1]


def threads(pid: int) -> int | None:
    """How many threads it has."""
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return None
