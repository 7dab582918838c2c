"""MCP as data: revisions, who may send which method, what is listed under which key, reserved `_meta` keys.

Owns the tables of both eras, so that a next revision is a row and not an `if`. Decides nothing and reads no
message but `_meta`. Source: the method tables of the MCP specification, 2024-11-05 to 2026-07-28.
"""

from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from recordings.late import late_decoder

# Types are no text here (`annotations`): a decoder would have each compiled, at every start.
Era: TypeAlias = Literal["legacy", "modern"]
"""`legacy`: revisions with a handshake, to 2025-11-25. `modern`: 2026-07-28, where each request stands alone."""

LEGACY_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS: Final = ("2026-07-28",)
LATEST_LEGACY: Final = LEGACY_VERSIONS[-1]
LATEST_MODERN: Final = MODERN_VERSIONS[-1]

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
META_LANE: Final = "io.tieline/lane"
"""Where a core says which of its logical actors a request comes from."""
META_INPUT_KEY: Final = "io.tieline/inputKey"
"""Where a legacy server says what the answer to its question is to be called in `inputResponses`."""
CONNECTION_META: Final = frozenset((META_VERSION, META_CAPABILITIES, META_CLIENT, META_LOG_LEVEL))
"""`_meta` keys that describe one connection and so never cross to a peer of the other era."""

MODERN_MARK: Final = META_VERSION.encode()
"""A request of the modern era holds these bytes, as nearly everybody writes them; `is_marked` knows the others."""
_ESCAPED_MARK: Final = MODERN_MARK.replace(b"/", b"\\/")

LIST_METHODS: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""Paged lists, and the member of their result that holds the items."""

LIST_CAPABILITY: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resources",
    "prompts/list": "prompts",
}

CACHEABLE: Final = frozenset((*LIST_METHODS, "server/discover", "resources/read"))
"""Results that carry `ttlMs` and `cacheScope` in the modern era."""

INPUT_REQUIRED: Final = frozenset(("tools/call", "prompts/get", "resources/read"))
"""Methods that may be answered `input_required` in the modern era."""

ASK_METHODS: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""What a server asks of a client, and the client capability that it needs."""

LEGACY_ONLY_REQUESTS: Final = frozenset(
    ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
)

LIST_CHANGED: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
"""Change notifications, and the member of a subscription filter that asks for them."""

DEFAULT_LOG_LEVEL: Final = "info"
"""What a legacy core gets that has set no level: servers of its era send these unasked."""

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Named(msgspec.Struct, gc=False):
    """What routing needs of `params`: the name of a tool or prompt, or a resource's URI."""

    name: str = ""
    uri: str = ""


class MetaView(msgspec.Struct, gc=False):
    """The reserved members of a request's `_meta`; the rest is never decoded."""

    version: str = msgspec.field(name=META_VERSION, default="")
    capabilities: Raw = msgspec.field(name=META_CAPABILITIES, default=Raw(b""))
    client: Raw = msgspec.field(name=META_CLIENT, default=Raw(b""))
    log_level: str = msgspec.field(name=META_LOG_LEVEL, default="")
    token: int | str | None = msgspec.field(name="progressToken", default=None)
    lane: str = msgspec.field(name=META_LANE, default="")


class ParamsView(msgspec.Struct, gc=False):
    """`params` with a decoded `_meta`."""

    meta: MetaView = msgspec.field(name="_meta", default_factory=MetaView)


class InitializeView(msgspec.Struct):
    """The parts of `initialize` params that the gateway reads."""

    version: str = msgspec.field(name="protocolVersion", default="")
    capabilities: Raw = Raw(b"{}")
    client: Raw = msgspec.field(name="clientInfo", default=Raw(b"{}"))


class InitializedView(msgspec.Struct):
    """The parts of its result that it reads."""

    version: str = msgspec.field(name="protocolVersion", default="")
    capabilities: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


read_initialize = msgspec.json.Decoder(InitializeView)
read_initialized = msgspec.json.Decoder(InitializedView)
read_named = late_decoder(Named)
read_params = late_decoder(ParamsView)


def is_marked(data: bytes) -> bool:
    """Whether a message may be a request of the modern era; some writers of JSON put a backslash before each slash."""
    return MODERN_MARK in data or _ESCAPED_MARK in data


def version_of_legacy(asked: str) -> str:
    """Return the handshake revision to answer `initialize` with: the asked one where known, else the latest."""
    return asked if asked in LEGACY_VERSIONS else LATEST_LEGACY


def wants_level(threshold: str, level: str) -> bool:
    """Whether a log message of `level` passes `threshold`; unknown levels pass."""
    if threshold not in LOG_LEVELS or level not in LOG_LEVELS:
        return True
    return LOG_LEVELS.index(level) >= LOG_LEVELS.index(threshold)
