"""How a streamable HTTP listener behaves: where it listens, how much it takes, and how long it waits.

Owns the settings and what they are unless given. What follows from them is for `http_front` and its parts. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.protocol import jsonrpc
from transports.base import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontOptions:
    """How a front listens. Times are seconds, sizes bytes."""

    path: str = "/mcp"
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    limits: Limits = field(default_factory=Limits)
    json_depth: int = jsonrpc.MAX_DEPTH
    """How deep a body may nest."""
    max_sessions: int = 1000
    """At the limit the session that was silent longest makes room; where all are in use, none is opened."""
    max_exchanges: int = 4096
    """Requests being served at once."""
    idle_s: float = 1800.0
    """A session without a request for so long has ended."""
    body_s: float = 30.0
    """For a whole request body."""
    silence_s: float | None = 10.0
    """After so long without a word an answer becomes a stream, which a client can resume when it is cut."""
    ping_s: float | None = None
    """Between comments on a silent stream; needed only behind proxies that cut idle connections."""
    backlog_bytes: int = 256 * 1024
    """What a session keeps for a client that has no stream open."""
    resume_bytes: int = 256 * 1024
    """Events that a session keeps for a client that comes back."""
    retry_ms: int = 1000
    tls_cert: str | None = None
    tls_key: str | None = None
    stop_s: int = 2
    """For answers that are being written when the front stops."""
