"""What the configuration's limits mean for one connection.

Owns the arithmetic between `[limits]` and a transport's own marks. Enforces nothing: transports do.
"""

from __future__ import annotations

from functools import lru_cache

from gateway.config.model import LimitsConfig
from transports.base import Limits


@lru_cache(maxsize=16)
def link_limits(
    limits: LimitsConfig, *, message_bytes: int | None = None, stall_s: float | None = None
) -> Limits:
    """Return the bounds of one connection; `message_bytes` and `stall_s` are those of a peer.

    Senders are held back at `queue_bytes`. What may come in spite of that (answers that are owed, news of peers
    that serve others too) has room for several messages more, then the connection ends. Equal ones are one object.
    """
    longest = message_bytes or limits.max_message_bytes
    return Limits(
        message_bytes=longest,
        high_bytes=limits.queue_bytes,
        low_bytes=limits.queue_bytes // 4,
        hard_bytes=max(8 * limits.queue_bytes, limits.queue_bytes + 2 * longest),
        stall_s=stall_s,
    )
