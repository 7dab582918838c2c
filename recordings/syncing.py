"""The thread that brings a recording onto the disk: at intervals while there is something to do, else asleep.

Owns when to sync and who waits for it. What syncing means it is told; errors go to those who wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from recordings.errors import RecordingError


class Syncer:
    """Calls `flush`, then `sync`, `interval_s` after something became dirty, or at once for whoever asks.

    The thread is started by the first need, waits without a timeout while nothing is dirty, and is a daemon.
    """

    def __init__(
        self, flush: Callable[[], None], sync: Callable[[], None], *, interval_s: float | None
    ) -> None:
        self._flush = flush
        self._sync = sync
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._waiting: list[Future[None]] = []
        self._thread: threading.Thread | None = None
        self.is_dirty = interval_s is None
        """Whether `dirty` has nothing to do."""
        self._stopped = False

    def dirty(self) -> None:
        """There is something to sync. Costs next to nothing where that was known."""
        if self.is_dirty:
            return
        self.is_dirty = True
        if self._start():
            self._wake.set()
        else:
            # What is written next asks for it again.
            self.is_dirty = False

    def with_next(self) -> None:
        """There is something that may wait for the next sync: as it is where there are intervals, else at once.

        What is done in the thread takes the interpreter's lock in turns with everything else, so at a start it waits.
        """
        if self._interval_s is None:
            self.soon()
        else:
            self.dirty()

    def now(self) -> None:
        """Sync in the calling thread. Raises what `sync` raises."""
        with self._one_at_a_time:
            self.is_dirty = self._interval_s is None
            self._flush()
            self._sync()

    def soon(self) -> Future[None]:
        """A future that is done once what is written by now is on disk."""
        done: Future[None] = Future()
        with self._lock:
            stopped = self._stopped
            if not stopped:
                self._waiting.append(done)
        if stopped:
            done.set_exception(RecordingError("the recording is closed", code="internal"))
            return done
        if self._start():
            self._hurry.set()
            self._wake.set()
        else:
            self._turn(self._taken())
        return done

    def stop(self) -> None:
        """End the thread after a last sync for those who wait."""
        with self._lock:
            self._stopped = True
            thread = self._thread
        self._hurry.set()
        self._wake.set()
        if thread is not None:
            thread.join()

    def _start(self) -> bool:
        """Have a thread, unless it is stopped; False where the system has none to give."""
        with self._lock:
            if self._thread is None and not self._stopped:
                thread = threading.Thread(target=self._run, name="tieline-sync", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return False
                self._thread = thread
        return True

    def _taken(self) -> list[Future[None]]:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return waiting

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._interval_s is not None and not self._stopped:
                self._hurry.wait(self._interval_s)
            self._hurry.clear()
            with self._lock:
                stopped = self._stopped
            # After that look: who comes in between is served now, and nobody comes once it is stopped.
            waiting = self._taken()
            if waiting or not stopped:
                self._turn(waiting)
            if stopped:
                return

    def _turn(self, waiting: list[Future[None]]) -> None:
        try:
            self.now()
        except RecordingError as error:
            for done in waiting:
                done.set_exception(error)
        else:
            for done in waiting:
                done.set_result(None)
