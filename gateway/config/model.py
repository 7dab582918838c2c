"""What a configuration is, once it has been read: the structs that all of the gateway reads.

Owns the names, types, bounds and descriptions of every setting but those of a peer, which are in `peer`; the
reference page is generated from both. Reads no file and no environment: `load` does, and hands over structs whose
references are resolved and whose paths are absolute.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from gateway.config.extensions import ExtensionsConfig
from gateway.config.peer import PeerConfig
from gateway.config.values import INTERNAL, PLACE, SECRET, TEXT, Count, Port

Dialect: TypeAlias = Literal["mcp", "pi"]


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
    """MCP or Pi over websocket, one session a connection."""

    dialect: Annotated[Dialect, Meta(description="What agents speak here. Recorded in MCP's words.")] = "mcp"


class HttpListen(TcpListen, frozen=True, kw_only=True):
    """MCP over streamable HTTP."""


class UnixListen(msgspec.Struct, frozen=True, kw_only=True):
    """A unix socket, mode 0600; the caller's user id is checked."""

    path: Annotated[str, Meta(description="Where the socket is made.", extra=PLACE)]
    dialect: Annotated[Dialect, Meta(description="What agents speak here. Recorded in MCP's words.")] = "mcp"


class ListenConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where cores connect. Without any section: stdio."""

    stdio: Annotated[
        bool | None,
        Meta(description="Serve one core on our own stdin and stdout. Default: if nothing else listens."),
    ] = None
    stdio_dialect: Annotated[
        Dialect, Meta(description="What the agent on stdin and stdout speaks, also with `--stdio`.")
    ] = "mcp"
    websocket: Annotated[WebSocketListen | None, Meta(description="Websocket listener.")] = None
    http: Annotated[HttpListen | None, Meta(description="Streamable HTTP listener.")] = None
    unix: Annotated[UnixListen | None, Meta(description="Unix socket listener.")] = None

    @property
    def uses_stdio(self) -> bool:
        """Whether our own stdin and stdout are the protocol."""
        return self._is_alone if self.stdio is None else self.stdio

    @property
    def is_for_one(self) -> bool:
        """Whether the agent on our own stdin and stdout is the only one that there can be."""
        return self.uses_stdio and self._is_alone

    @property
    def _is_alone(self) -> bool:
        return self.websocket is None and self.http is None and self.unix is None


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


class ReplayConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What of a request may differ when a recording is replayed. What is meant by it: docs/explanation/matching.md."""

    exact: Annotated[
        list[str],
        Meta(description="Classes of values that are not looked for, such as `hex`: they must be equal."),
    ] = []
    rule: Annotated[
        list[dict[str, Any]],
        Meta(
            description="Rules: `at` (a JSON Pointer glob) or `format` (of the tool's input schema), with `as` (a "
            "class, or `ignore`) or `tolerance`; or `consume` (`fifo`, `sticky`, `sampled`, `once`). Which requests "
            "are meant: `method`, `peer`, `tool` (globs)."
        ),
    ] = []


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
    """Spans, metrics and log lines. All off by default and free when off, but for the log of Pi extensions."""

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
        bool | None,
        Meta(
            description="Write `pi.ext.log.v1` lines, a file a session, to `PI_EXTENSION_LOG_DIR` or "
            "`~/.pi/agent/logs/extensions`. Default: where a peer speaks Pi."
        ),
    ] = None
    log_file: Annotated[
        str | None, Meta(description="Write the lines of all sessions to this file instead.", extra=PLACE)
    ] = None
    scenario_id: Annotated[
        str, Meta(description="`scenario_id` of every line: what is being done, the same in every run.")
    ] = "live"

    def __repr__(self) -> str:
        """Shows no header, which may hold a secret."""
        return f"TelemetryConfig(service_name={self.service_name!r})"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A whole configuration."""

    peers: Annotated[dict[str, PeerConfig], Meta(description="Peers by name, in the order of the file.")] = {}
    listen: Annotated[ListenConfig, Meta(description="Where cores connect.")] = ListenConfig()
    record: Annotated[RecordConfig, Meta(description="Recording.")] = RecordConfig()
    replay: Annotated[ReplayConfig, Meta(description="When a request is the recorded one.")] = ReplayConfig()
    limits: Annotated[LimitsConfig, Meta(description="Limits of the gateway.")] = LimitsConfig()
    catalog: Annotated[CatalogConfig, Meta(description="The list of tools that cores see.")] = CatalogConfig()
    extensions: Annotated[ExtensionsConfig, Meta(description="Pi extensions.")] = ExtensionsConfig()
    telemetry: Annotated[TelemetryConfig, Meta(description="Telemetry.")] = TelemetryConfig()
    source: Annotated[str | None, Meta(description="Absolute path of the file.", extra=INTERNAL)] = None
    notes: Annotated[tuple[str, ...], Meta(description="What was read but not used.", extra=INTERNAL)] = ()
    secrets: Annotated[frozenset[str], Meta(description="Values to redact.", extra=INTERNAL)] = frozenset()

    @property
    def active_peers(self) -> dict[str, PeerConfig]:
        """The peers that are not disabled, in the order of the file."""
        return {name: peer for name, peer in self.peers.items() if not peer.disabled}

    @property
    def has_extensions(self) -> bool:
        """Whether a peer speaks Pi, and so may ask for something of its host."""
        return any(peer.dialect == "pi" for peer in self.active_peers.values())

    @property
    def writes_log(self) -> bool:
        """Whether there is an extension log: every host call of a Pi extension has to leave its evidence."""
        telemetry = self.telemetry
        if telemetry.log is not None:
            return telemetry.log or telemetry.log_file is not None
        return telemetry.log_file is not None or self.has_extensions

    @property
    def has_telemetry(self) -> bool:
        """Whether anything is to be told to anybody."""
        telemetry = self.telemetry
        return bool(telemetry.otlp_endpoint or telemetry.prometheus or self.writes_log)

    def secret_values(self) -> frozenset[str]:
        """Return every secret that was put into an environment, a header, a URL or an argument."""
        return self.secrets

    def __repr__(self) -> str:
        """Shows no values."""
        return f"Config(source={self.source!r}, peers={list(self.peers)!r})"
