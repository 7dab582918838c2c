"""Which event loop a long-running command waits on: uvloop where it can be had, asyncio's own otherwise.

Owns that choice and nothing else: everything that runs is written for any loop of asyncio's interface. uvloop turns
in a fifth of the time, and a call takes two turns.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gateway.cli.output import CliError

VARIABLE = "TIELINE_LOOP"
"""`asyncio` or `uvloop`; what is best, where it is not set."""

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end on a loop of its own, as `asyncio.run` does.

    Raises:
        CliError: If the environment asks for a loop that there is not.
    """
    try:
        make = factory(os.environ.get(VARIABLE, ""))
    except BaseException:
        work.close()
        raise
    with asyncio.Runner(loop_factory=make) as runner:
        return runner.run(work)


def factory(wanted: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the loop of that name, or the best that there is; None is asyncio's own.

    Raises:
        CliError: If there is no such loop.
    """
    if wanted not in ("", "asyncio", "uvloop"):
        raise CliError(f"{VARIABLE} is `{wanted}`, which is no event loop", hint="Use `asyncio` or `uvloop`")
    if wanted != "asyncio":
        try:
            from uvloop import new_event_loop
        except ImportError as fault:
            if wanted:
                raise CliError(f"{VARIABLE} is `uvloop`, which cannot be imported: {fault}") from fault
        else:
            return new_event_loop
    return None
