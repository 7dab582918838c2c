"""What a configuration is, once it has been read: the structs that all of the gateway reads.

Owns the names, types, bounds and descriptions of every setting; the reference page is generated from them.
Reads no file and no environment: `load` does, and hands over structs whose references are resolved and whose
paths are absolute.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=86_400)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
ProtocolVersion: TypeAlias = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d$")]
Port: TypeAlias = Annotated[int, Meta(ge=0, le=65_535)]

INHERITED_ENV: tuple[str, ...] = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_*", "TZ", "TMPDIR", "SYSTEMROOT",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA",
)  # fmt: skip
"""What a child process gets of our environment unless `inherit_env` names more: enough to find and run
programs and to trust who the machine trusts, nothing that is likely to be a secret."""
INHERITED_PROXIES: tuple[str, ...] = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
"""What it gets too, in capitals or not, unless the value holds credentials."""

TEXT = {"expand": True}
"""Marks a field in whose text `${VAR}` is replaced."""
SECRET = {"expand": True, "refs": True}
"""Marks a field whose values may also be tables that say where a secret lies."""
PLACE = {"expand": True, "path": True}
"""Marks a path: `~` is replaced, and what is relative begins at the directory of the file."""
PLANNED = {"planned": True}
"""Marks a setting that is read and checked, and that nothing in this version goes by."""
INTERNAL = {"internal": True}
"""Marks a field that the loader fills in: it is no key of a file."""


class TlsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Certificate of a listener."""

    cert: Annotated[str, Meta(description="PEM file with the certificate chain.", extra=PLACE)]
    key: Annotated[str, Meta(description="PEM file with the private key.", extra=PLACE)]


class TcpListen(msgspec.Struct, frozen=True, kw_only=True):
    """A listener on a TCP port. Closed by default: loopback, Host, Origin and bearer token are checked."""

    host: Annotated[
        str, Meta(description="Address to bind. Anything but loopback needs `tls` and the token.")
    ] = "127.0.0.1"
    port: Annotated[Port, Meta(description="Port; 0 lets the system choose, the ready file tells which.")] = 0
    path: Annotated[str, Meta(description="Path of the endpoint.", pattern="^/")] = "/mcp"
    token_file: Annotated[
        str | None,
        Meta(
            description="File with the bearer token. Default: made on first run in the state directory.",
            extra=PLACE,
        ),
    ] = None
    allowed_origins: Annotated[
        list[str],
        Meta(description="Origins of web pages that may connect, besides the listener's own."),
    ] = []
    allowed_hosts: Annotated[
        list[str],
        Meta(description="Host headers that are accepted, besides the bound address and `localhost`."),
    ] = []
    insecure_loopback: Annotated[bool, Meta(description="Ask for no token. Accepted on loopback only.")] = (
        False
    )
    tls: Annotated[TlsConfig | None, Meta(description="Serve over TLS.")] = None


class WebSocketListen(TcpListen, frozen=True, kw_only=True):
    """MCP over websocket, one session a connection."""


class HttpListen(TcpListen, frozen=True, kw_only=True):
    """MCP over streamable HTTP."""


class UnixListen(msgspec.Struct, frozen=True, kw_only=True):
    """A unix socket, mode 0600; the caller's user id is checked."""

    path: Annotated[str, Meta(description="Where the socket is made.", extra=PLACE)]


class ListenConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where cores connect. Without any section: stdio."""

    stdio: Annotated[
        bool | None,
        Meta(description="Serve one core on our own stdin and stdout. Default: if nothing else listens."),
    ] = None
    websocket: Annotated[WebSocketListen | None, Meta(description="Websocket listener.")] = None
    http: Annotated[HttpListen | None, Meta(description="Streamable HTTP listener.")] = None
    unix: Annotated[UnixListen | None, Meta(description="Unix socket listener.")] = None

    @property
    def uses_stdio(self) -> bool:
        """Whether our own stdin and stdout are the protocol."""
        if self.stdio is None:
            return self.websocket is None and self.http is None and self.unix is None
        return self.stdio


class RedactConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken out of recordings besides the built-in rules."""

    keys: Annotated[
        list[str],
        Meta(
            description="Further names whose values are secret, also as part of a longer name: `badge_number` "
            "means `badgeNumber` and `old-badge-number` too."
        ),
    ] = []
    patterns: Annotated[
        list[str],
        Meta(
            description="Further RE2 patterns of secret values, looked for inside of texts and numbers. The "
            "first group is the secret, or all of it where there is none."
        ),
    ] = []
    allow_keys: Annotated[
        list[str],
        Meta(
            description="Whole names that look secret and are not, in any case and spelling: `session_token` "
            "means `sessionToken` too, and not `old_session_token`."
        ),
    ] = []


class RecordConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded, and how hard it is kept."""

    enabled: Annotated[bool, Meta(description="Record every frame.")] = True
    dir: Annotated[
        str | None,
        Meta(
            description="Gets one recording a session. Default: `recordings` in the state directory.",
            extra=PLACE,
        ),
    ] = None
    durability: Annotated[
        Literal["os", "group", "barrier"],
        Meta(
            description="`os`: survives a kill of the gateway; `group`: a power cut too, but for 50 ms; "
            "`barrier`: on disk before the core sees the answer."
        ),
    ] = "group"
    on_write_error: Annotated[
        Literal["refuse", "serve"],
        Meta(description="`refuse` new calls while nothing can be written, or `serve` them unrecorded."),
    ] = "refuse"
    redact: Annotated[RedactConfig, Meta(description="Redaction rules of your own.")] = RedactConfig()


class LimitsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds that keep one sender from taking the gateway from the others."""

    max_message_bytes: Annotated[
        int, Meta(ge=1024, description="Longest message that is accepted, in bytes.")
    ] = 16 * 1024 * 1024
    max_json_depth: Annotated[int, Meta(ge=8, le=512, description="Deepest nesting of a message.")] = 128
    max_sessions: Annotated[Count, Meta(description="Sessions at the same time, over all listeners.")] = 256
    max_in_flight_per_session: Annotated[Count, Meta(description="Unanswered calls of one session.")] = 1024
    max_in_flight_per_peer: Annotated[Count, Meta(description="Unanswered calls at one peer.")] = 1024
    queue_bytes: Annotated[
        int,
        Meta(
            ge=65_536, description="Bytes that may wait for one slow reader before its sender is held back."
        ),
    ] = 8 * 1024 * 1024
    stderr_bytes: Annotated[
        int,
        Meta(
            ge=1024, description="Bytes of stderr recorded for one life of a peer; the rest is counted only."
        ),
    ] = 1024 * 1024


class CatalogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the tools of several peers become one list."""

    prefix: Annotated[
        Literal["auto", "always", "never"],
        Meta(
            description="Put the peer's name before its tools' names: `auto` only where names of several "
            "peers collide, `always`, or `never` (the first peer in the file wins)."
        ),
    ] = "auto"
    separator: Annotated[str, Meta(description="Between prefix and name.", min_length=1, max_length=4)] = "__"
    changed: Annotated[
        Literal["tell", "hold"],
        Meta(
            description="What happens to a tool whose definition differs from the accepted one: `tell` lists "
            "it and says so, `hold` keeps it, and tools that are new, back until `tieline tools accept`."
        ),
    ] = "tell"
    validate_results: Annotated[
        Literal["off", "flag", "refuse"],
        Meta(
            description="Compare the results of tools that were listed with an output schema: `flag` records "
            "those that differ and passes them on, `refuse` answers `io` instead. Every call then costs more."
        ),
    ] = "off"


class PrometheusConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics for Prometheus to fetch."""

    host: Annotated[
        str,
        Meta(description="Address to bind. Anything but loopback shows names and counts to whoever asks."),
    ] = "127.0.0.1"
    port: Annotated[Port, Meta(description="Port of `/metrics`.")] = 9464


class TelemetryConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Spans, metrics and log lines. All off by default, and free when off."""

    otlp_endpoint: Annotated[
        str | None,
        Meta(description="OTLP/HTTP endpoint for spans and metrics. Needs the extra `otel`.", extra=TEXT),
    ] = None
    otlp_headers: Annotated[dict[str, str], Meta(description="Headers for the endpoint.", extra=SECRET)] = {}
    service_name: Annotated[str, Meta(description="`service.name` of everything that is sent.")] = "tieline"
    prometheus: Annotated[PrometheusConfig | None, Meta(description="Prometheus endpoint.")] = None
    baggage: Annotated[
        list[str], Meta(description="Members of a request's `baggage` that become attributes of its span.")
    ] = []
    log: Annotated[
        bool,
        Meta(
            description="Write `pi.ext.log.v1` lines, a file a session, to `PI_EXTENSION_LOG_DIR` or "
            "`~/.pi/agent/logs/extensions`."
        ),
    ] = False
    log_file: Annotated[
        str | None, Meta(description="Write the lines of all sessions to this file instead.", extra=PLACE)
    ] = None
    scenario_id: Annotated[
        str, Meta(description="`scenario_id` of every line: what is being done, the same in every run.")
    ] = "live"

    @property
    def is_on(self) -> bool:
        """Whether anything is to be told to anybody."""
        return bool(self.otlp_endpoint or self.prometheus or self.log or self.log_file)

    def __repr__(self) -> str:
        """Shows no header, which may hold a secret."""
        return f"TelemetryConfig(service_name={self.service_name!r})"


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
        return any(fnmatchcase(name, glob) for glob in self.allow) and not any(
            fnmatchcase(name, glob) for glob in self.deny
        )


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
    version: Annotated[ProtocolVersion | None, Meta(description="Protocol version to insist on.")] = None
    start: Annotated[
        Literal["lazy", "eager"],
        Meta(description="Start when first needed, or as soon as an agent greets the gateway."),
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

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the whole environment of the process: what may be inherited of `environ`, then `env`."""
        globs = (*INHERITED_ENV, *self.inherit_env)
        inherited = {
            name: value
            for name, value in environ.items()
            if any(fnmatchcase(name, g) for g in globs)
            or (name.upper() in INHERITED_PROXIES and "@" not in value)
        }
        return inherited | self.env

    def __repr__(self) -> str:
        """Shows no variable, header, argument or URL, since any of them may hold a secret."""
        return f"PeerConfig(kind={self.kind!r}, disabled={self.disabled})"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A whole configuration."""

    peers: Annotated[dict[str, PeerConfig], Meta(description="Peers by name, in the order of the file.")] = {}
    listen: Annotated[ListenConfig, Meta(description="Where cores connect.")] = ListenConfig()
    record: Annotated[RecordConfig, Meta(description="Recording.")] = RecordConfig()
    limits: Annotated[LimitsConfig, Meta(description="Limits of the gateway.")] = LimitsConfig()
    catalog: Annotated[CatalogConfig, Meta(description="The list of tools that cores see.")] = CatalogConfig()
    telemetry: Annotated[TelemetryConfig, Meta(description="Telemetry.")] = TelemetryConfig()
    source: Annotated[str | None, Meta(description="Absolute path of the file.", extra=INTERNAL)] = None
    notes: Annotated[tuple[str, ...], Meta(description="What was read but not used.", extra=INTERNAL)] = ()
    secrets: Annotated[frozenset[str], Meta(description="Values to redact.", extra=INTERNAL)] = frozenset()

    @property
    def active_peers(self) -> dict[str, PeerConfig]:
        """The peers that are not disabled, in the order of the file."""
        return {name: peer for name, peer in self.peers.items() if not peer.disabled}

    def secret_values(self) -> frozenset[str]:
        """Return every secret that was put into an environment, a header, a URL or an argument."""
        return self.secrets

    def __repr__(self) -> str:
        """Shows no values."""
        return f"Config(source={self.source!r}, peers={list(self.peers)!r})"
