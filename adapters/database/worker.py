"""A thread for a driver that blocks: one piece of work after another, each with a deadline and a stop button.

Owns the thread, who may stop what, and how the rows of a statement become batches. How work is interrupted, and what
its errors mean, is the engine's.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from adapters import kit
from adapters.database import cells
from adapters.database.engine import BATCH_BYTES, BATCH_ROWS, Batch, Report

T = TypeVar("T")
REPORT_S = 0.2
AGAIN_S = 0.02
"""Seconds between two interrupts of a statement that goes on."""


class Job:
    """One statement: may be stopped from outside, and runs out of time by itself, which begins with its first work."""

    def __init__(self, seconds: float, report: Report | None = None) -> None:
        self.stopped = False
        self.woken = threading.Event()
        """Set once it is stopped, or a watch over it is to look."""
        self.seconds = seconds
        self._report = report
        self._ends = self._next = 0.0

    def begin(self) -> None:
        """Start the clock; waiting for the thread is not counted."""
        if not self._ends:
            now = time.monotonic()
            self._ends, self._next = now + self.seconds, now + REPORT_S

    @property
    def over(self) -> bool:
        """Whether it is to end: stopped, or out of time."""
        return self.stopped or (self._ends > 0 and time.monotonic() >= self._ends)

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(self._ends - time.monotonic(), 0.0) if self._ends else self.seconds

    def tell(self, done: float, unit: str) -> None:
        """Report how far it is, not too often."""
        if self._report and (now := time.monotonic()) >= self._next:
            self._next = now + REPORT_S
            self._report(done, unit)

    def timeout(self) -> kit.ToolError:
        """What the caller is told once its time is over."""
        return kit.ToolError("timeout", f"stopped after {self.seconds:g} s, as the statement timeout says")


class Worker:
    """One thread. `interrupt` is called in another one while work runs, `explain` in the thread with what it raised."""

    def __init__(
        self,
        name: str,
        *,
        faults: tuple[type[Exception], ...],
        interrupt: Callable[[], None],
        explain: Callable[[Exception, Job], kit.ToolError],
    ) -> None:
        self._faults, self._interrupt, self._explain = faults, interrupt, explain
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    async def run(self, job: Job, work: Callable[[], T]) -> T:
        """Do `work` in the thread. A cancelled caller stops it at once, and the thread is free for the next.

        Raises `kit.ToolError` for every error of the driver.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def perform() -> None:
            with self._lock:
                if job.stopped:
                    return
                self._job = job
            job.begin()
            try:
                result = work()
            except self._faults as fault:
                _settle(loop, done, self._explain(fault, job))
            except BaseException as fault:  # noqa: BLE001 - it is the caller's, wherever it came from
                _settle(loop, done, fault)
            else:
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(_finish, done, result)
            finally:
                with self._lock:
                    self._job = None

        self._work.put(perform)
        try:
            return await done
        except asyncio.CancelledError:
            self.stop(job)
            raise

    async def batches(
        self,
        job: Job,
        begin: Callable[[], Batch],
        more: Callable[[int], Batch],
        *,
        rows: int,
        end: Callable[[], None],
        counts: bool = True,
    ) -> AsyncGenerator[Batch]:
        """The batches of one statement up to so many rows; then, or once it is closed, `end` is done in the thread.

        `begin` gives the first batch, `more` one of at most as many rows as are left. With `counts`, the rows that were
        given are reported. Raises `kit.ToolError` as `run` does.
        """
        try:
            batch = await self.run(job, begin)
            given = len(batch.rows)
            yield batch
            while batch.rows and given < rows:
                batch = await self.run(job, partial(more, rows - given))
                given += len(batch.rows)
                if counts:
                    job.tell(given, "rows")
                if batch.rows:
                    yield batch
        finally:
            self.post(end)

    def post(self, work: Callable[[], None]) -> None:
        """Have something done behind all that waits, whatever becomes of it."""

        def perform() -> None:
            with contextlib.suppress(Exception):
                work()

        self._work.put(perform)

    def stop(self, job: Job) -> None:
        """End a job, whether it runs, waits or has ended. Never touches another one."""
        with self._lock:
            job.stopped = True
            job.woken.set()
            if self._job is job:
                self._interrupt()

    async def close(self) -> None:
        """Stop what runs, do what was posted, end the thread."""
        if (job := self._job) is not None:
            self.stop(job)
        self._work.put(None)
        await asyncio.to_thread(self._thread.join, 2.0)

    def _serve(self) -> None:
        while (perform := self._work.get()) is not None:
            perform()


def fetched(fetch: Callable[[], Sequence[Any] | None], rows: int) -> Iterator[Sequence[Any]]:
    """Rows of a driver until there are none, or those of one batch."""
    count = size = 0
    while count < min(rows, BATCH_ROWS) and size < BATCH_BYTES and (row := fetch()) is not None:
        size += sum(map(cells.size_of, row))
        count += 1
        yield row


@contextlib.contextmanager
def watched(job: Job, interrupt: Callable[[], None]) -> Generator[None]:
    """Interrupt a statement once nobody waits or its time is over, for an engine that does not look by itself.

    An interrupt may come before the statement has begun, and be forgotten; so it is told until it has ended.
    """
    ended = threading.Event()
    job.woken.clear()

    def watch() -> None:
        if not job.over:
            job.woken.wait(job.left)
        while not ended.is_set():
            interrupt()
            ended.wait(AGAIN_S)

    thread = threading.Thread(target=watch, name=f"{threading.current_thread().name} watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        job.woken.set()
        thread.join()


def _finish(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Any], fault: BaseException) -> None:
    if not done.done():
        done.set_exception(fault)


def _settle(loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any], fault: BaseException) -> None:
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_fail, done, fault)
