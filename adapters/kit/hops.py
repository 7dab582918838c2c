"""An extension's own traffic with a service behind it, told to its host; and heard from its host in a replay.

Owns the way there and back. What the messages are is the extension's: JSON-RPC, whatever its service speaks. Does
nothing unless the host has asked for it when it started the extension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from adapters.kit.context import current
from gateway.protocol import hops

Hear: TypeAlias = Callable[[bytes], None]


class Hops:
    """The services behind one extension, as its host wants to know of them. Used on the loop alone."""

    def __init__(self, mode: hops.Mode | None = None) -> None:
        self.mode = mode
        """`record`: tell what crosses. `play`: open nothing, and take for the service's words what comes here."""
        self._send: Callable[[bytes], None] | None = None
        self._unsent: list[bytes] = []
        """What was said before the host had said anything."""
        self.has_left = False
        """Whether the host has gone: nobody hears what is said, nor answers."""
        self._ears: dict[str, tuple[Hear, Hear | None]] = {}

    @classmethod
    def wanted(cls, environ: Mapping[str, str]) -> Hops:
        """What the host wants, by the environment that it has given."""
        return cls(hops.mode_of(environ.get(hops.ENVIRON, "")))

    @property
    def is_recorded(self) -> bool:
        """Whether the host wants to be told what crosses."""
        return self.mode == "record"

    @property
    def is_played(self) -> bool:
        """Whether the host stands in the place of every service."""
        return self.mode == "play"

    def out(self, hop: str, message: bytes) -> None:
        """Tell of a message to the service. One whole JSON-RPC message."""
        self._tell(hops.Crossing(hop=hop, way="out", message=msgspec.Raw(message), call=_call()))

    def came(self, hop: str, message: bytes) -> None:
        """Tell of a message of the service."""
        self._tell(hops.Crossing(hop=hop, way="in", message=msgspec.Raw(message)))

    def ended(self, hop: str, how: bytes) -> None:
        """Tell that the service has ended by itself; how, as JSON."""
        self._tell(hops.Crossing(hop=hop, way="in", ended=msgspec.Raw(how)))

    def listen(self, hop: str, hear: Hear | None, gone: Hear | None = None) -> None:
        """Have `hear` called with each message that comes for the service's, or, with None, nothing any more.

        `gone` is called with what `ended` told, where the service ended by itself.
        """
        if hear is None:
            self._ears.pop(hop, None)
        else:
            self._ears[hop] = hear, gone

    # What the session calls.

    def connect(self, send: Callable[[bytes], None]) -> None:
        """The host is there and takes messages."""
        self._send, self.has_left = send, False
        unsent, self._unsent = self._unsent, []
        for message in unsent:
            send(message)

    def left(self) -> None:
        """The host has gone."""
        self._send, self.has_left = None, True

    def heard(self, params: bytes) -> None:
        """The host says what a service has said. Raises `msgspec.DecodeError`."""
        crossing = hops.read(params)
        hear, gone = self._ears.get(crossing.hop, (None, None))
        if hear is None or crossing.way != "in":
            return
        if not bytes(crossing.ended):
            hear(bytes(crossing.message))
        elif gone is not None:
            gone(bytes(crossing.ended))

    def _tell(self, crossing: hops.Crossing) -> None:
        message = hops.write(crossing)
        if self._send is not None:
            self._send(message)
        elif self.mode is not None and not self.has_left:
            self._unsent.append(message)


def _call() -> int | str | None:
    context = current.get()
    return context.request if context is not None else None
