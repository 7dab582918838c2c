"""The frame: one recorded fact, with the fields and the vocabulary of format 1.

Owns the names and types of what a recording holds. How a frame becomes a line of bytes is `segment`'s
business, where the line goes is `store`'s.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

FORMAT = 1
"""The format that this version writes. Formats are integers; older ones are migrated on reading."""

BLOB_BYTES = 32 * 1024
"""Bodies of this length and more lie in `blobs/`."""

Kind: TypeAlias = Literal[
    "request", "response", "error", "notification", "chunk", "raw",
    "spawn", "open", "ready", "exit", "restart", "close",
    "hook", "policy", "route", "ui", "state",
    "clock", "random", "env",
    "timeout", "late", "drop", "fault", "mark", "divergence", "lost",
    "block",
]  # fmt: skip
"""What a frame is: on the wire, in a life, a decision, drawn from the air, of control, of the file."""

WIRE: frozenset[Kind] = frozenset(("request", "response", "error", "notification", "chunk", "raw"))
LIFECYCLE: frozenset[Kind] = frozenset(("spawn", "open", "ready", "exit", "restart", "close"))
DECISIONS: frozenset[Kind] = frozenset(("hook", "policy", "route", "ui", "state"))
SETTLES: frozenset[Kind] = frozenset(("response", "error", "timeout", "drop", "lost"))
"""Kinds that end the request which their `re` names."""

Way: TypeAlias = Literal["core>", ">core", "peer>", ">peer", "inside"]
"""Where a message was seen: from the core, to the core, from a peer, to a peer, or neither."""

Flag: TypeAlias = Literal[
    "late", "orphan", "redacted", "truncated", "synthetic", "fault", "live", "duplicate"
]  # fmt: skip

Id: TypeAlias = int | str | None

NO_BODY = msgspec.Raw()
"""The body of a frame that has none; one object, by which it is known not to be written."""


HOP = "/"
"""What stands in the name of a hop between the peer and the service behind it: `code/lsp:ty`. No peer's name has it."""


def is_hop(peer: str | None) -> bool:
    """Whether a frame is of a peer's own traffic with a service behind it, which the exchange has no part in."""
    return peer is not None and HOP in peer


class Blob(msgspec.Struct, kw_only=True, gc=False, frozen=True):
    """A body that lies beside the lines: sha256 hex of its bytes, their number, and what they are."""

    hash: str
    len: int
    enc: Literal["json", "raw"] = "json"
    """`json`: the wire body after redaction. `raw`: bytes that are no JSON, as they came."""


class Frame(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """One recorded fact. What is unset is not written.

    In memory `body` is always the true bytes: JSON verbatim, or, where `kind` is `raw`, whatever came (the
    line carries those in base64). Times are nanoseconds: `at` monotonic since the session began, `wall` since
    1970.
    """

    seq: int
    at: int = 0
    wall: int | None = None
    kind: Kind
    peer: str | None = None
    life: int = 1
    way: Way | None = None
    lane: str | None = None
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    """The wire id, verbatim and with its type; null is an id, unset is none."""
    re: int | None = None
    parent: int | None = None
    after: int | None = None
    op: int | None = None
    method: str | None = None
    name: str | None = None
    params_hash: str | None = None
    key: str | None = None
    nth: int | None = None
    flags: tuple[Flag, ...] = ()
    body: msgspec.Raw = NO_BODY
    blob: Blob | None = None
    x: dict[str, Any] | None = None


FIELDS: tuple[str, ...] = Frame.__struct_fields__
"""The names of a frame's fields in the order in which a line holds them."""
