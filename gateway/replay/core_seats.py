"""The connections of a recorded core: which of them a recorded message came on, opened again at an exchange.

A core that speaks over stateless HTTP has a connection for each request, every other one has a single one. Owns the
opening and the ends of these; what is sent over them is the business of whoever plays the core.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gateway.calls.faults import transport_of
from gateway.protocol import jsonrpc, mcp
from gateway.replay.stage import Nowhere
from recordings.frame import Frame
from transports.base import Hello

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.exchange import Exchange


class CoreSeats:
    """The recorded core's connections to one exchange."""

    def __init__(
        self,
        exchange: Exchange,
        transport: str,
        *,
        on_send: Callable[[Core, bytes], None] | None = None,
        dialect: str = "mcp",
    ) -> None:
        self._exchange = exchange
        self._dialect = dialect
        self._transport = transport or "stdio"
        self._on_send = on_send
        self.core: Core | None = None
        """The one that stays."""
        self._passing: list[Core] = []
        """Those that carry one request each and are still open."""
        self._answered: list[Core] = []

    def core_for(self, frame: Frame, body: bytes, *, of_call: Core | None = None) -> Core:
        """The connection that a recorded message of the core came on; opened where it is the first there.

        `of_call` is that of the request which the message refers to, where it does.
        """
        if self._transport == "http":
            if frame.kind == "request" and mcp.is_marked(body):
                core = self._connect(ephemeral=True)
                self._passing.append(core)
                return core
            if self.core is None and self._passing:
                return of_call if of_call is not None else self._passing[-1]
        return self.stay()

    def stay(self) -> Core:
        """The connection that stays."""
        if self.core is None:
            self.core = self._connect(ephemeral=False)
        return self.core

    @property
    def is_passing(self) -> bool:
        """Whether the core has no connection that stays."""
        return self._transport == "http" and self.core is None

    def _connect(self, *, ephemeral: bool) -> Core:
        hello = Hello(
            transport=self._transport,  # pyright: ignore[reportArgumentType] - a header holds one of these words
            remote="recording",
            ephemeral=ephemeral,
            dialect=self._dialect,
        )
        link = Nowhere(stamped=self._transport == "http")
        core = self._exchange.accept(link, hello)
        link.on_send = partial(self._sent, core, ephemeral)
        return core

    def _sent(self, core: Core, ephemeral: bool, message: bytes) -> None:  # noqa: FBT001 - bound by `partial`
        if ephemeral:
            try:
                is_answer = not jsonrpc.read(message).method
            except jsonrpc.BadMessage:
                is_answer = False
            if is_answer and core not in self._answered:
                self._answered.append(core)
        if self._on_send is not None:
            self._on_send(core, message)

    def hang_up(self) -> None:
        """End the connections whose one request has been answered."""
        answered, self._answered = self._answered, []
        for core in answered:
            if core in self._passing:
                self._passing.remove(core)
                core.closed(None)

    def close(self, frame: Frame, *, asked: int | None = None) -> None:
        """End the connection whose end a frame tells of. `asked` is the frame of the request that it carries."""
        x = frame.x or {}
        fault = None
        if x.get("reason", "closed") != "closed":
            fault = transport_of({"reason": x["reason"], "message": ""})
        if self.core is None and not self._passing:
            # It came and went, and said nothing.
            self.stay()
        if self.core is not None:
            core, self.core = self.core, None
        else:
            held = int(x.get("in_flight", 0))
            fitting = [one for one in self._passing if len(one.open) == held] or self._passing
            core = next((one for one in fitting if _carries(one, asked)), fitting[0])
            self._passing.remove(core)
        core.closed(fault)

    def close_all(self) -> None:
        """End every connection."""
        for core in [*self._passing, *([self.core] if self.core is not None else [])]:
            core.closed(None)
        self._passing, self.core = [], None


def _carries(core: Core, seq: int | None) -> bool:
    return any(call.seq == seq for call in core.open.values())
