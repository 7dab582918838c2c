"""What a connection of the Pi dialect has its caller do, and the facts that go into frames.

Owns the words alone. A method of `Extension` gives a list of these, in the order in which they are to happen.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw

from gateway.calls.pi.offer import Offer
from gateway.protocol.errors import Fault
from gateway.protocol.pi_messages import HostCall, Log, Type

Flag: TypeAlias = Literal["late", "duplicate", "orphan"]
"""Why a message is dropped: its question was given up, it has been answered before, or nobody has asked."""


class Send(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Write a whole message. `asks` says whether its frame is a request that waits for an answer."""

    message: bytes
    type: Type
    id: str
    asks: bool = False


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """The extension has said what it offers. `again`: this replaces all that it said before."""

    offer: Offer
    again: bool


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A question of ours has its one end: the answer's body, or a fault.

    `output` is what a tool or command has given, or the decision of a hook, empty where that has no opinion.
    """

    key: str
    output: Raw = Raw(b"")
    is_error: bool = False
    fault: Fault | None = None
    was_cancelled: bool = False
    by: int | None = None
    """As `Question` has it."""


class Updated(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that goes on has given a part of its output."""

    key: str
    log: Log


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The extension wants something of the host. Whoever serves it gives `answer` exactly one end."""

    id: str
    call: HostCall
    payload: Raw
    """The call as it came."""
    deadline_ns: int


class Abandoned(msgspec.Struct, frozen=True, kw_only=True):
    """A host call need not be worked on any more.

    After `cancelled` it still has to be answered, and before its new deadline; after the others it has been.
    """

    call_id: str
    why: Literal["cancelled", "deadline", "closed"]
    deadline_ns: int = 0


class Credited(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The extension takes so many more chunks of a result."""

    call_id: str
    credits: int


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    """The extension has something for the log."""

    log: Log


class Dropped(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message goes nowhere: a frame with this flag, and nothing else."""

    flag: Flag
    reason: str
    id: str | None
    type: str


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A message was against the rules: a `fault` frame. Where it can be answered, that is sent beside this."""

    fault: Fault
    id: str | None
    type: str


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The connection is of no use: close it. Everything that was open has been ended before."""

    fault: Fault


class CloseInput(msgspec.Struct, frozen=True, kw_only=True):
    """Close stdin or the socket, now that the extension has been told."""


class EndProcess(msgspec.Struct, frozen=True, kw_only=True):
    """The extension did not go in time: end its process group."""


Effect: TypeAlias = (
    Send | Registered | Ended | Updated | Asked | Abandoned | Credited | Logged | Dropped | Refused | Failed
    | CloseInput | EndProcess
)  # fmt: skip
