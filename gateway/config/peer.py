"""The settings of one peer: how it is reached, what it gets, what is offered of it, how long it may take.

Owns their names, types, bounds and descriptions, and what follows from them alone. Reads no file and no
environment. The settings of the gateway itself are in `model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from gateway.config.values import INTERNAL, PLACE, SECRET, TEXT, Count, Port, Seconds

INHERITED_ENV: tuple[str, ...] = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_*", "TZ", "TMPDIR", "SYSTEMROOT",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA",
)  # fmt: skip
"""What a child process gets of our environment unless `inherit_env` names more: enough to find and run
programs and to trust who the machine trusts, nothing that is likely to be a secret."""
INHERITED_PROXIES: tuple[str, ...] = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
"""What it gets too, in capitals or not, unless the value holds credentials."""


HOPS_WANTED = "TIELINE_HOPS"
"""The variable in which an adapter hears what is wanted of its hops; `protocol.hops` says what it may be."""


class RestartConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What happens when a peer's process ends without being asked."""

    enabled: Annotated[bool, Meta(description="Start it again.")] = True
    backoff_s: Annotated[
        Seconds,
        Meta(description="Wait before the first restart, or up to half less; doubles with each failure."),
    ] = 0.1
    backoff_max_s: Annotated[Seconds, Meta(description="Longest wait.")] = 30.0
    budget: Annotated[
        Count,
        Meta(
            description="Failures in a row after which it is given up for 30 s, then for longer: calls are "
            "refused at once meanwhile."
        ),
    ] = 5
    window_s: Annotated[
        Seconds, Meta(description="A peer that has been ready for so long has its failures forgotten.")
    ] = 60.0


class ToolsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Which of a peer's tools are offered, and under which names."""

    allow: Annotated[list[str], Meta(description="Globs of names that are offered.")] = msgspec.field(
        default_factory=lambda: ["*"]
    )
    deny: Annotated[list[str], Meta(description="Globs of names that are not, whatever `allow` says.")] = []
    rename: Annotated[
        dict[str, str], Meta(description='Names by which tools are offered: `old = "new"`.')
    ] = {}
    pin: Annotated[
        dict[str, str],
        Meta(description="Fingerprints of definitions; a tool that differs from its pin is held back."),
    ] = {}

    def offers(self, name: str) -> bool:
        """Whether the peer's tool `name` (before renaming) passes the filter."""
        return _fits(name, self.allow) and not _fits(name, self.deny)


class PeerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one peer. What is absent follows `[limits]` or the system."""

    max_in_flight: Annotated[Count | None, Meta(description="Unanswered calls at this peer.")] = None
    max_message_bytes: Annotated[
        Annotated[int, Meta(ge=1024)] | None, Meta(description="Longest message from this peer.")
    ] = None
    memory_bytes: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Memory of each of its processes (RLIMIT_DATA).")
    ] = None
    cpu_s: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Processor time of a process (RLIMIT_CPU).")
    ] = None
    processes: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Processes of its tree. Needs Linux.")
    ] = None
    open_files: Annotated[
        Annotated[int, Meta(ge=16)] | None, Meta(description="Open files of a process (RLIMIT_NOFILE).")
    ] = None


class OAuthConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How to get tokens for an HTTP peer that asks for OAuth."""

    client_id: Annotated[
        str | None, Meta(description="Registered client; absent registers one dynamically.", extra=TEXT)
    ] = None
    client_secret: Annotated[
        str | None, Meta(description="Secret of the registered client.", extra=SECRET)
    ] = None
    scopes: Annotated[
        list[str], Meta(description="Scopes to ask for; absent asks for what the server names.")
    ] = []
    callback_port: Annotated[
        Port, Meta(description="Loopback port of the redirect; 0 lets the system choose.")
    ] = 0
    client_metadata_url: Annotated[
        str | None, Meta(description="URL of a client metadata document that serves as client id.")
    ] = None

    def __repr__(self) -> str:
        """Shows no secret."""
        return f"OAuthConfig(scopes={self.scopes!r})"


PeerKind: TypeAlias = Literal["stdio", "http", "sse", "websocket", "unix"]


class PeerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One extension service: exactly one of `command`, `url` and `unix` says how it is reached."""

    command: Annotated[
        list[str],
        Meta(
            description="Program and arguments of a stdio server; or the program as text, with `args`.",
            extra=TEXT,
        ),
    ] = []
    url: Annotated[
        str | None,
        Meta(
            description="`http://` or `https://` (streamable HTTP, or SSE by `type`), `ws://` or `wss://`.",
            extra=TEXT,
        ),
    ] = None
    unix: Annotated[str | None, Meta(description="Path of a unix socket.", extra=PLACE)] = None
    type: Annotated[
        Literal["stdio", "http", "sse", "websocket", "unix"] | None,
        Meta(description="Needed only for `sse`, the legacy HTTP transport."),
    ] = None
    dialect: Annotated[
        Literal["mcp", "pi"],
        Meta(description="`pi`: an extension of the Pi protocol, with `command`. Recorded in MCP's words."),
    ] = "mcp"
    env: Annotated[
        dict[str, str], Meta(description="Environment variables for the process.", extra=SECRET)
    ] = {}
    inherit_env: Annotated[
        list[str],
        Meta(description="Names or globs of our own variables that the process gets besides the usual few."),
    ] = []
    cwd: Annotated[
        str | None,
        Meta(description="Working directory. Default: the directory of `tieline.toml`.", extra=PLACE),
    ] = None
    headers: Annotated[dict[str, str], Meta(description="HTTP headers of every request.", extra=SECRET)] = {}
    oauth: Annotated[OAuthConfig | None, Meta(description="OAuth for an HTTP peer.")] = None
    era: Annotated[
        Literal["auto", "legacy", "modern"],
        Meta(
            description="MCP era to speak: handshake (to 2025-11-25), stateless (2026-07-28), or found out."
        ),
    ] = "auto"
    version: Annotated[
        Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d$")] | None,
        Meta(description="Protocol version to insist on."),
    ] = None
    start: Annotated[
        Literal["lazy", "eager"],
        Meta(
            description="Start when first needed, or as soon as an agent greets the gateway, which a gateway on stdio "
            "does not wait for. The only peer is `eager`."
        ),
    ] = "lazy"
    scope: Annotated[
        Literal["session", "shared"], Meta(description="One connection a session, or one for all sessions.")
    ] = "session"
    warm: Annotated[
        int,
        Meta(ge=0, le=16, description="Processes started ahead, so that a new session need not wait."),
    ] = 0
    start_timeout_s: Annotated[Seconds, Meta(description="Time to be ready.")] = 10.0
    call_timeout_s: Annotated[Seconds, Meta(description="Longest wait for an answer.")] = 300.0
    stop_grace_s: Annotated[
        Seconds, Meta(description="Wait after closing stdin before TERM, and after TERM before KILL.")
    ] = 2.0
    restart: Annotated[RestartConfig, Meta(description="Restarts.")] = RestartConfig()
    tools: Annotated[ToolsConfig, Meta(description="Filter, names and pins of its tools.")] = ToolsConfig()
    prefix: Annotated[
        str | None, Meta(description="Prefix of its names instead of the peer's name; empty for none.")
    ] = None
    changed: Annotated[
        Literal["tell", "hold"] | None, Meta(description="`catalog.changed` for this peer.")
    ] = None
    limits: Annotated[PeerLimits, Meta(description="Limits of this peer.")] = PeerLimits()
    disabled: Annotated[bool, Meta(description="Leave it out.")] = False
    hops: Annotated[
        bool,
        Meta(
            description="Record what an adapter says to the service behind it (language server, database) and hears "
            "of it, so that a replay can run the adapter without that service. Needs `command`."
        ),
    ] = False
    wants: Annotated[
        dict[str, Any] | None,
        Meta(description="What an extension's manifest states of capabilities.", extra=INTERNAL),
    ] = None

    @property
    def kind(self) -> PeerKind:
        """How the peer is reached."""
        if self.command:
            return "stdio"
        if self.unix is not None:
            return "unix"
        if self.url is not None and self.url.startswith(("ws:", "wss:")):
            return "websocket"
        return "sse" if self.type == "sse" else "http"

    def is_greeted(self, peers: int) -> bool:
        """Whether it is started as soon as an agent greets a gateway with so many peers."""
        return self.start == "eager" or peers == 1

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the whole environment of the process: what may be inherited of `environ`, then `env`."""
        globs = (*INHERITED_ENV, *self.inherit_env)
        # Names are looked up, and beginnings compared; a pattern is compiled, which takes longer than all of that.
        names = [glob for glob in globs if not _is_pattern(glob)]
        beginnings = tuple(glob[:-1] for glob in globs if glob.endswith("*") and not _is_pattern(glob[:-1]))
        patterns = [glob for glob in globs if _is_pattern(glob[:-1]) or glob.endswith(("?", "["))]
        inherited = {
            name: value
            for name, value in environ.items()
            if name in names
            or name.startswith(beginnings)
            or (patterns and _fits(name, patterns))
            or (name.upper() in INHERITED_PROXIES and "@" not in value)
        }
        return inherited | ({HOPS_WANTED: "record"} if self.hops else {}) | self.env

    def __repr__(self) -> str:
        """Shows no variable, header, argument or URL, since any of them may hold a secret."""
        return f"PeerConfig(kind={self.kind!r}, disabled={self.disabled})"


def _fits(name: str, globs: Sequence[str]) -> bool:
    # A start has nothing that is told by a pattern.
    from fnmatch import fnmatchcase

    return any(fnmatchcase(name, glob) for glob in globs)


def _is_pattern(glob: str) -> bool:
    return "*" in glob or "?" in glob or "[" in glob
