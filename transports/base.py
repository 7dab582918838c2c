"""What a transport offers and expects: the `Link` that is written to, the `Receiver` that is called back.

Owns the two interfaces, the stamp and the errors of all transports. Holds no I/O. A transport never parses a
message; where the way of carrying depends on what a message is (HTTP), the sender says so in a `Stamp`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

import msgspec

Id: TypeAlias = int | str
"""A JSON-RPC id. `9` and `"9"` are two ids."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""The longest message that is taken from the wire unless configured otherwise."""

STRAY_BYTES = 4096
"""How much of a stray is handed on."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one connection may hold. All sizes in bytes."""

    message_bytes: int = MAX_MESSAGE_BYTES
    """The longest incoming message."""
    high_bytes: int = 4 * 1024 * 1024
    """Above this much queued output, `Receiver.writable(False)`."""
    low_bytes: int = 1024 * 1024
    """At or below this much queued output, `Receiver.writable(True)` again."""
    hard_bytes: int = 64 * 1024 * 1024
    """Above this much queued output, the connection ends with `slow-consumer`."""
    stall_s: float | None = None
    """Ends the connection with `slow-consumer` once a waiting write has made no progress for this long."""


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """What a sender tells a transport about one message, since the transport does not read it."""

    kind: Literal["request", "response", "notification"]
    id: Id | None = None
    """The id of a request or response."""
    about: Id | None = None
    """The request of the *other* side that this message belongs to: the stream it is to travel on."""
    method: str | None = None
    name: str | None = None
    """The tool or prompt name, or the resource URI, as HTTP headers carry it."""
    version: str | None = None
    """The protocol version that this message is written in."""
    headers: tuple[tuple[str, str], ...] = ()
    status: int | None = None
    """The HTTP status that the answer is to be given with, where the transport is HTTP."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What a transport tells a receiver about one message that came in."""

    about: Id | None = None
    """The request of *ours* on whose stream this message came (HTTP); None on one-stream transports."""
    headers: tuple[tuple[str, str], ...] = ()
    """Lower-case names. Never holds `authorization` or `cookie`."""
    is_plain: bool = False
    """Whether this says nothing about the message but how it came: no arguments and no trace in the headers."""


class Link(Protocol):
    """One open connection, as the exchange sees it. Calls return at once and never raise for a dead peer."""

    @property
    def stamped(self) -> bool:
        """Whether `send` needs a stamp. Stdio, sockets and websockets do not."""
        ...

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted by `send` that the system has not taken yet."""
        ...

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Queue one whole message, without its framing. In order with every earlier one."""
        ...

    def cancel(self, request_id: Id) -> bool:
        """End the stream of one of our requests where that is how the transport cancels (HTTP).

        Returns False where it is not: the caller then sends a cancel message.
        """
        ...

    def pause(self) -> None:
        """Stop reading: the other side is held back by its own pipe."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close after what is queued. `Receiver.closed` follows."""
        ...


class Receiver(Protocol):
    """What a transport calls. Calls come on the event loop, in wire order, and do not block."""

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """One whole message, without its framing, at most the configured size."""
        ...

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """Bytes that are no message.

        `why` is one of `too-large`, `unfinished`, `partial`, `binary`, `blank`, `not-utf8`; `data` is cut to
        4 KiB and `size` is the true length. `unfinished` tells of an overlong message before its end is there;
        `too-large` follows, once the end is.
        """
        ...

    def failed(self, fault: TransportError) -> None:
        """One request of ours, `fault.request_id`, could not be carried; the connection lives on (HTTP).

        `fault.details["sent"]` says whether a byte of it may have left.
        """
        ...

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - mirrors asyncio's pause_writing and resume_writing
        """False once too much is queued to the other side, True when it has drained."""
        ...

    def closed(self, fault: TransportError | None) -> None:
        """The connection has ended; called once, last. None means that it ended as asked."""
        ...


class Looking(Protocol):
    """Who looks at long messages before they are passed on, somewhere else than on the event loop."""

    @property
    def least_bytes(self) -> int:
        """Shorter messages are not to be looked at."""
        ...

    def begin(self, message: bytes, then: Callable[[], None], /) -> None:
        """Look at a message. `then` is called when that is done, in whatever thread."""
        ...

    def end(self, message: bytes, /) -> None:
        """A message that was looked at has been passed on, or never will be."""
        ...


class TransportError(Exception):
    """A connection could not be made or has broken.

    `reason` is stable and short (`refused`, `exited`, `closed`, `denied`, `too-large`, `http-status`,
    `timeout`, `slow-consumer`); `message` is a sentence for a person; `details` are structured facts without
    secrets.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        details: dict[str, object] | None = None,
        request_id: Id | None = None,
    ) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message
        self.details = details if details is not None else {}
        self.request_id = request_id
        """The one request that failed, where only that one did (HTTP): the connection lives on."""

    def __str__(self) -> str:
        return self.message


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """What a listener knows about a connection before its first message."""

    transport: Literal["stdio", "websocket", "http", "unix", "memory"]
    remote: str
    """The other side, for a person: an address, a path, a process id. Identifies nobody."""
    principal: str | None = None
    """Who was authenticated; None where the listener asks for no credentials."""
    ephemeral: bool = False
    """Whether the connection carries one exchange and then ends (stateless HTTP): no session to keep."""
    headers: tuple[tuple[str, str], ...] = ()
    """Lower-case names. Never holds `authorization` or `cookie`."""
    dialect: str = "mcp"
    """The protocol that the other side speaks."""


Acceptor: TypeAlias = Callable[[Link, Hello], Receiver]
"""What a listener calls for each new connection. The receiver is called back only after this has returned.

An acceptor may `send` at once. Where it raises, the listener closes that connection and lives on.
"""
