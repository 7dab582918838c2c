"""One logical call on its way through the gateway, and what may come back.

Owns the record that both pending tables point to: a core's (connection, id) and a peer's (connection, id).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from gateway.protocol import mcp
from gateway.protocol.errors import Fault

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.peer_state import Peer
    from gateway.calls.session import Session
    from transports.base import Id

Shape: TypeAlias = Literal["same", "to_modern", "to_legacy"]
"""How a call is translated on its way to the peer; its answer goes the other way."""


class Reply:
    """What became of a call: a result, the peer's own error object, or a fault of ours."""

    __slots__ = ("error", "fault", "result", "seq")

    def __init__(
        self, *, result: bytes = b"", error: bytes = b"", fault: Fault | None = None, seq: int = -1
    ) -> None:
        self.result = result
        self.error = error
        self.fault = fault
        self.seq = seq
        """The frame that brought it."""

    @property
    def ok(self) -> bool:
        """Whether it is a result."""
        return bool(self.result)


class Call:
    """A request that somebody waits for. `core` is None where the gateway itself asks."""

    __slots__ = (
        "capabilities",
        "core",
        "core_id",
        "deadline",
        "headers",
        "leg",
        "level",
        "method",
        "name",
        "op",
        "params",
        "parent",
        "peer",
        "peer_id",
        "seq",
        "session",
        "shape",
        "suspended",
        "then",
        "token",
    )

    def __init__(
        self,
        session: Session,
        method: str,
        params: bytes,
        *,
        core: Core | None = None,
        core_id: Id | None = None,
        name: str = "",
        seq: int = -1,
        then: Callable[[Reply], None] | None = None,
    ) -> None:
        self.session = session
        self.method = method
        self.params = params
        self.core = core
        self.core_id = core_id
        self.name = name
        self.seq = seq
        """The frame of the request: the core's, or the gateway's own."""
        self.then = then
        """Called with the reply; None sends it straight to the core."""
        self.peer: Peer | None = None
        self.peer_id: Id | None = None
        self.token: Id | None = None
        """The core's progress token, where it gave one."""
        self.capabilities = b""
        """What a core of the modern era can do, as this request of it says."""
        self.level = ""
        """The log level that a request of the modern era asks for."""
        self.deadline = 0
        """Nanoseconds of its session's tap; 0 is none."""
        self.shape: Shape = "same"
        self.op = 0
        """The operation that it is a leg of: the frame of the first request; 0 where it is alone."""
        self.parent: int | None = None
        """The frame that made this leg necessary."""
        self.headers: tuple[tuple[str, str], ...] = ()
        """HTTP headers of the core's request that travel on."""
        self.leg: Call | None = None
        """The leg under way, where the call takes several."""
        self.suspended = False
        """Whether the core was given `input_required` and will come back with another id."""

    def can(self, method: str) -> bool:
        """Whether a modern core's request says that the core can be asked this."""
        need = mcp.ASK_METHODS.get(method)
        return need is not None and need in msgspec.json.decode(
            self.capabilities or b"{}", type=dict[str, Any]
        )

    @property
    def is_open(self) -> bool:
        """Whether the core still waits under the id that this call has. Ids are used again: only identity tells."""
        core = self.core
        return core is not None and core.open.get(self.core_id) is self  # pyright: ignore[reportArgumentType] - None is no key
