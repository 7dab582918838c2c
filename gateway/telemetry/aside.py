"""One thread for what would keep the loop waiting: sending over the network, writing to a disk.

Owns the thread and its end. Jobs run one after another, in order; what a job raises is handed to `failed`.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

MOST_JOBS = 1000


class Aside:
    """The thread. It is a daemon, so that a collector that does not answer keeps nobody from ending."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(MOST_JOBS)
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()
        self.refused = 0
        """Jobs that were not taken, since too many wait."""

    def do(self, job: Callable[[], None]) -> bool:
        """Run a job soon; False, and it is not run, where too many wait."""
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            self.refused += 1
            return False
        return True

    def close(self, timeout: float) -> bool:
        """Run what waits and end; whether that was done within `timeout` seconds."""
        try:
            self._jobs.put(None, timeout=timeout)
        except queue.Full:
            return False
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as fault:  # noqa: BLE001 - whatever it is, the next job is another one
                self._failed(fault)
