"""What is shown on a terminal of the gateway's own instead of by the core: each question a frame, and so is its answer.

Owns the way of one request to `Host.terminal` and back, so that a recording answers for the person who sat there. What
lines a person reads and types is in `host/dialogue.py`, the terminal itself behind the port.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.protocol.errors import Fault

if TYPE_CHECKING:
    from gateway.calls.asks import PeerAsk
    from gateway.calls.host_ui import Request
    from gateway.calls.ports import Terminal

ANSWER = "answer"
"""The member of `x` that a person's answer has, in a frame `ui`."""


class Shown:
    """One request on its way to a person. The shell reads what it is, and calls `answered` once."""

    def __init__(
        self,
        terminal: Terminal,
        about: PeerAsk,
        asked: Request,
        who: str,
        then: Callable[[dict[str, Any] | Fault], None],
    ) -> None:
        """`about` is what made it necessary; `who` the extension that asks, empty where the gateway does."""
        self.about = about
        self.asked = asked
        self.who = who
        self._terminal = terminal
        self._then = then
        self._is_over = False
        x: dict[str, Any] = {"surface": "terminal", "params": msgspec.to_builtins(asked)}
        self.seq = self._record(None, {**x, "who": who} if who else x)
        """The frame that holds the request."""

    def answered(self, output: dict[str, Any] | None) -> None:
        """Give what was answered, an output of `ui`; None where nobody can be asked any more."""
        if self._is_over:
            return
        self._is_over = True
        self._record(self.seq, {ANSWER: output})
        if output is None:
            why = "no UI: the terminal is not there any more"
            self._then(Fault(code="denied", message=why, reason="no_ui", retryable=False))
        else:
            self._then(output)

    def take_back(self, reason: str) -> None:
        """Nobody needs the answer any more."""
        if not self._is_over:
            self._is_over = True
            self._record(self.seq, {"taken_back": reason})
            self._terminal.take_back(self)

    def _record(self, re: int | None, x: dict[str, Any]) -> int:
        about = self.about
        return about.session.tap.record(
            "ui", "inside", peer=about.peer.name, life=about.life, parent=about.seq, re=re,
            name=self.asked.kind, x=x,
        )  # fmt: skip
