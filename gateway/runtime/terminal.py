"""The terminal that the gateway was started from: extensions' requests are shown there, one after the other.

Owns the device and the queue. What is written and what a line means is `calls/host/dialogue.py`'s to say. Nothing is
read while no question is open, and what was typed before one was shown is thrown away: it was no answer to it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import termios
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.calls.host import dialogue
from gateway.calls.host_ui import TOLD
from transports.base import TransportError

if TYPE_CHECKING:
    from gateway.calls.host_terminal import Shown

DEVICE: Final = Path("/dev/tty")
LINE_BYTES: Final = 64 * 1024


class TerminalScreen:
    """A terminal and whoever sits there. Implements `calls.ports.Terminal`."""

    def __init__(self, device: Path = DEVICE) -> None:
        """Open the terminal.

        Raises:
            TransportError: (`refused`) The process has none.
        """
        try:
            self._fd = os.open(device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as fault:
            why = fault.strerror or str(fault)
            raise TransportError(
                "refused",
                "`--ui` shows questions on the terminal that the gateway was started from, and there is none "
                f"({why}); start it from one, or leave `--ui` out",
            ) from fault
        # Whoever is in the background is refused with an error, instead of being stopped.
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Shown] = deque()
        self._reading: dialogue.Reading | None = None
        self._unsaid = bytearray()
        """What the terminal has not taken yet."""

    def show(self, shown: Shown) -> None:
        """Show a request, or let it wait until those before it are answered."""
        if shown.asked.kind in TOLD:
            self._write("".join(f"{line}\n" for line in dialogue.told(shown.asked, shown.who)))
            shown.answered({})
            return
        self._queue.append(shown)
        if len(self._queue) == 1:
            self._next()

    def take_back(self, shown: Shown) -> None:
        """Nobody needs the answer any more."""
        if shown not in self._queue:
            return
        was_shown = self._queue[0] is shown
        self._queue.remove(shown)
        if was_shown:
            self._write("\n(no answer is needed any more)\n")
            self._next()

    def close(self) -> None:
        """Let go of the terminal. What is open is answered by nobody."""
        self._gone()
        self._loop.remove_writer(self._fd)
        os.close(self._fd)

    def _next(self) -> None:
        """Show the request that is first in the queue."""
        self._loop.remove_reader(self._fd)
        self._reading = None
        if not self._queue:
            return
        shown = self._queue[0]
        self._reading = dialogue.Reading(shown.asked)
        lines = dialogue.shown(shown.asked, shown.who)
        try:
            termios.tcflush(self._fd, termios.TCIFLUSH)
        except termios.error:
            self._gone()
            return
        self._write("\n" + "".join(f"{line}\n" for line in lines) + dialogue.hint(shown.asked))
        self._loop.add_reader(self._fd, self._typed)

    def _typed(self) -> None:
        """A line was typed: a terminal gives whole ones."""
        try:
            data = os.read(self._fd, LINE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            # Hung up, or the gateway was put into the background.
            self._gone()
            return
        reading = self._reading
        if reading is None:
            return
        if not data:
            self._write("\n")
            self._answer(reading.end())
            return
        text = data.decode(errors="replace").removesuffix("\n").removesuffix("\r")
        found = reading.line(text)
        if isinstance(found, str):
            self._write(f"{found}\n{dialogue.hint(self._queue[0].asked)}")
        elif found is not None:
            self._answer(found)

    def _answer(self, output: dict[str, object] | None) -> None:
        shown = self._queue.popleft()
        self._next()
        shown.answered(output)

    def _gone(self) -> None:
        """The terminal is not there for us: nobody is."""
        self._loop.remove_reader(self._fd)
        self._reading = None
        waiting, self._queue = self._queue, deque()
        for shown in waiting:
            shown.answered(None)

    def _write(self, text: str) -> None:
        self._unsaid += text.encode()
        self._say()

    def _say(self) -> None:
        """Write what there is to write, and the rest once the terminal takes more."""
        self._loop.remove_writer(self._fd)
        try:
            while self._unsaid:
                del self._unsaid[: os.write(self._fd, self._unsaid)]
        except BlockingIOError:
            self._loop.add_writer(self._fd, self._say)
        except OSError:
            # Nobody is there to read it, which reading finds out too.
            self._unsaid.clear()
