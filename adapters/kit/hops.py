"""An extension's own traffic with a service behind it, told to its host; and heard from its host in a replay.

Owns the way there and back. What the messages are is the extension's: JSON-RPC, whatever its service speaks. Does
nothing unless the host has asked for it when it started the extension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from adapters.kit.context import current
from adapters.kit.errors import ToolError
from gateway.protocol import errors, hops, jsonrpc

Hear: TypeAlias = Callable[[bytes], None]
Started: TypeAlias = Callable[[ToolError | None], None]
CANCELLED: Final = -32800
"""Nobody waited for the answer any more."""
GONE: Final = "the host has gone"


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
        self._pieces = hops.Pieces()
        self._starting: dict[tuple[str, str], Started] = {}
        """By hop and id: services of which the host is asked whether they could be opened."""
        self._count = 0

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

    def started(self, hop: str, fault: BaseException | None = None) -> None:
        """Tell that the service was opened, or why it could not be."""
        id_ = self._ask(hop)
        self.came(hop, jsonrpc.response(id_, b"{}") if fault is None else jsonrpc.error(id_, error_of(fault)))

    def start(self, hop: str, then: Started) -> None:
        """Ask the host that stands in for the service whether it could be opened; `then` is called with why not."""
        if self.has_left:
            then(ToolError("io", GONE))
        else:
            self._starting[hop, self._ask(hop)] = then

    def _ask(self, hop: str) -> str:
        self._count += 1
        id_ = f"start-{self._count}"
        self.out(hop, jsonrpc.request(id_, hops.START, b"{}"))
        return id_

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
        starting, self._starting = self._starting, {}
        for then in starting.values():
            then(ToolError("io", GONE))

    def heard(self, params: bytes) -> None:
        """The host says what a service has said. Raises `msgspec.DecodeError`."""
        crossing, _ = self._pieces.whole(hops.read(params))
        if crossing is None or crossing.way != "in" or self._is_start(crossing):
            return
        hear, gone = self._ears.get(crossing.hop, (None, None))
        if hear is None:
            return
        if not bytes(crossing.ended):
            hear(bytes(crossing.message))
        elif gone is not None:
            gone(bytes(crossing.ended))

    def _is_start(self, crossing: hops.Crossing) -> bool:
        """Take the answer to whether a service could be opened; whether it was one."""
        if not self._starting:
            return False
        try:
            envelope = jsonrpc.read(bytes(crossing.message))
        except jsonrpc.BadMessage:
            return False
        then = self._starting.pop((crossing.hop, str(envelope.id)), None) if not envelope.method else None
        if then is None:
            return False
        then(fault_of(bytes(envelope.error)) if envelope.error else None)
        return True

    def _tell(self, crossing: hops.Crossing) -> None:
        for message in hops.write(crossing):
            if self._send is not None:
                self._send(message)
            elif self.mode is not None and not self.has_left:
                self._unsent.append(message)


class _Data(msgspec.Struct):
    code: errors.Code = "io"
    details: dict[str, Any] = {}


class _Error(msgspec.Struct):
    code: int
    message: str
    data: _Data = msgspec.field(default_factory=_Data)


def error_of(fault: BaseException) -> bytes:
    """The error object that stands for a fault of a service at its hop."""
    if not isinstance(fault, Exception):
        return msgspec.json.encode({"code": CANCELLED, "message": "cancelled"})
    if not isinstance(fault, ToolError):
        # A fault of the adapter itself, whose words may hold anything.
        fault = ToolError("internal", f"the adapter failed ({type(fault).__name__})")
    data = _Data(fault.code, fault.details)
    return msgspec.json.encode(_Error(errors.JSONRPC[fault.code], str(fault), data))


def fault_of(error: bytes) -> ToolError:
    """The fault that an error object at a hop stands for."""
    try:
        told = msgspec.json.decode(error, type=_Error)
        return ToolError(told.data.code, told.message, **told.data.details)
    except msgspec.DecodeError:
        return ToolError("io", error.decode(errors="replace"))


def _call() -> int | str | None:
    context = current.get()
    return context.request if context is not None else None
