"""One logical call on its way through the gateway, and what may come back.

Owns the record that both pending tables point to: a core's (connection, id) and a peer's (connection, id).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from gateway.protocol.errors import Fault

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.peer_state import Peer
    from gateway.calls.session import Session
    from gateway.calls.straight_asked import Asked
    from transports.base import Id

Shape: TypeAlias = Literal["same", "checked", "to_modern", "to_legacy"]
"""How a call is translated on its way to the peer; its answer goes the other way. `checked` is `same`, looked at."""


class Reply(msgspec.Struct, eq=False, kw_only=True):
    """What became of a call: a result, the peer's own error object, or a fault of ours."""

    result: bytes = b""
    error: bytes = b""
    fault: Fault | None = None
    seq: int = -1
    """The frame that brought it."""

    @property
    def ok(self) -> bool:
        """Whether it is a result."""
        return bool(self.result)


class Call(msgspec.Struct, eq=False):
    """A request that somebody waits for. `core` is None where the gateway itself asks.

    A struct, since one is made for every request: its fields cost a third of what assignments would.
    """

    session: Session
    method: str
    params: bytes
    core: Core | None = None
    core_id: Id | None = None
    name: str = ""
    seq: int = -1
    """The frame of the request: the core's, or the gateway's own."""
    then: Callable[[Reply], None] | None = None
    """Called with the reply; None sends it straight to the core."""
    peer: Peer | None = None
    peer_id: Id | None = None
    deadline: int = 0
    """Nanoseconds of its session's tap; 0 is none."""
    shape: Shape = "same"
    token: Id | None = None
    """The core's progress token, where it gave one."""
    capabilities: bytes = b""
    """What a core of the modern era can do, as this request of it says."""
    level: str = ""
    """The log level that a request of the modern era asks for."""
    op: int = 0
    """The operation that it is a leg of: the frame of the first request; 0 where it is alone."""
    parent: int | None = None
    """The frame that made this leg necessary."""
    headers: tuple[tuple[str, str], ...] = ()
    """HTTP headers of the core's request that travel on."""
    leg: Call | None = None
    """The leg under way, where the call takes several."""
    about: Call | None = None
    """The call that waits for it, where it asks a hook."""
    asked: Asked | None = None
    """What becomes of the answer, where it asks a hook and is on the straight way."""
    suspended: bool = False
    """Whether the core was given `input_required` and will come back with another id."""

    def can(self, method: str, params: bytes) -> bool:
        """Whether a modern core's request says that the core can be asked this."""
        from gateway.calls.declared import declares

        capabilities = msgspec.json.decode(self.capabilities or b"{}", type=dict[str, Any])
        return declares(capabilities, method, params) is True

    @property
    def is_open(self) -> bool:
        """Whether the core still waits under the id that this call has. Ids are used again: only identity tells."""
        core = self.core
        return core is not None and core.open.get(self.core_id) is self  # pyright: ignore[reportArgumentType] - None is no key
