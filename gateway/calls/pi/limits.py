"""What one extension may take of its host: time, bytes, and how much at once."""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.protocol import pi

_S: Final = 1_000_000_000


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one extension may take. Times are nanoseconds."""

    register_ns: int = 10 * _S
    """From the start to the first registration."""
    host_call_ns: int = 120 * _S
    """How long a host call takes at most; its own `timeout_ms` can only shorten that."""
    host_slack_ns: int = 0
    """How much longer it is waited for, where whoever serves it keeps the time and asks a person before."""
    cancel_ns: int = 5 * _S
    """How long a cancelled call has left for its one result."""
    shutdown_ns: int = 5 * _S
    """From `session_shutdown` to the end of the process group."""
    questions: int = 256
    host_calls: int = 64
    """How many may be open at once, of ours and of the extension's."""
    most_bytes: int = pi.MAX_BYTES
    most_depth: int = pi.MAX_DEPTH
