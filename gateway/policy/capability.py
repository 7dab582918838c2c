"""Which capability a host call needs, derived from its method and params, and what it touches: never believed.

Owns the one table from methods, tools and operations to capabilities, and the reading of paths, hosts and names
out of params. Whether the call may happen is not known here. Source: the extension protocol, host call ABI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from gateway.policy.hosts import HostError, host_of_url
from gateway.policy.paths import PathError, Roots

TOOLS: Final = {
    "read": "read", "grep": "read", "find": "read", "ls": "read",
    "write": "write", "edit": "write",
    "bash": "exec",
}  # fmt: skip
"""The tools that are built in, with what each needs. Any other tool needs `tool`."""

OPERATIONS: Final = {
    "read": "read", "list": "read", "stat": "read",
    "write": "write", "append": "write", "mkdir": "write", "delete": "write", "rename": "write", "copy": "write",
}  # fmt: skip
"""The operations of `fs`. One that is not here is refused, since nobody knows what it does."""

METHODS: Final = ("tool", "exec", "fs", "http", "session", "ui", "events", "log", "env")
CAPABILITIES: Final = ("read", "write", "exec", "http", "env", "session", "ui", "events", "log", "tool")
"""Everything that can be derived, and so everything that a policy or a manifest can speak of."""

METHODS_OF: Final[dict[str, frozenset[str]]] = {
    "read": frozenset(("tool", "fs")),
    "write": frozenset(("tool", "fs")),
    "exec": frozenset(("tool", "exec")),
    **{name: frozenset((name,)) for name in CAPABILITIES[3:]},
}
"""Through which methods a capability can be used at all."""

MOST_TARGETS: Final = 64
"""Names and paths that one call may touch."""
TOOL_MARK: Final = "tool:"
"""`tool:deploy` in a list speaks of the calls of one tool, whatever capability they need."""


class CallError(ValueError):
    """A host call that policy need not judge: nobody can say what it would do. Always `invalid_request`."""

    def __init__(self, reason: str, message: str, **details: str) -> None:
        super().__init__(message)
        self.reason = reason
        """`unknown_method`, `unknown_operation`, `capability_mismatch`, `bad_params` or `too_many_targets`."""
        self.details = details


class Need(msgspec.Struct, frozen=True, gc=False):
    """What a host call needs. Paths are relative to the root named in `root`, `""` being the root itself."""

    capability: str
    method: str
    tool: str = ""
    root: str = ""
    paths: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """`name:port`, normal."""
    env: tuple[str, ...] = ()


def capability_of(method: str, params: Mapping[str, Any]) -> str:
    """Return the capability that a host call needs. Names are taken exactly: nothing is trimmed or lower-cased.

    Raises:
        CallError: If the method or the operation is unknown, or params do not say which tool is meant.
    """
    if method == "tool":
        return TOOLS.get(_text(params, "name"), "tool")
    if method == "fs":
        operation = _text(params, "op")
        if operation not in OPERATIONS:
            raise CallError("unknown_operation", f"`fs` knows no operation {operation[:64]!r}")
        return OPERATIONS[operation]
    if method not in METHODS:
        raise CallError("unknown_method", f"there is no host call {method[:64]!r}")
    return method


def checked(declared: str, method: str, params: Mapping[str, Any]) -> str:
    """Return the derived capability of a call that states one.

    Raises:
        CallError: As `capability_of`, or if the stated capability is another one.
    """
    derived = capability_of(method, params)
    if declared != derived:
        raise CallError(
            "capability_mismatch",
            f"the call states the capability {declared[:64]!r} and needs `{derived}`",
            declared=declared[:64],
            derived=derived,
        )
    return derived


def need_of(method: str, params: Mapping[str, Any], roots: Roots) -> Need:
    """Return the capability that a host call needs and what it touches, in normal form.

    Lexical alone: links are the connector's to resolve, beneath the root, before it opens anything.

    Raises:
        CallError: As `capability_of`, or if a path, a URL or a name in params cannot be read.
    """
    capability = capability_of(method, params)
    try:
        if method == "tool":
            tool = _text(params, "name")
            if tool not in TOOLS or capability == "exec":
                return Need(capability, method, tool)
            given = _table(params, "input")
            usual = "." if tool in ("grep", "find", "ls") else None
            root, paths = roots.relative([_text(given, "path", usual)])
            return Need(capability, method, tool, root=root, paths=paths)
        if method == "fs":
            root, paths = roots.relative(_texts(params, "path", ("to",)))
            return Need(capability, method, root=root, paths=paths)
        if method == "http":
            return Need(capability, method, hosts=(host_of_url(_text(params, "url")),))
    except (HostError, PathError) as error:
        raise CallError(error.reason, str(error)) from error
    if method == "env":
        return Need(capability, method, env=_env_names(params))
    return Need(capability, method)


def _env_names(params: Mapping[str, Any]) -> tuple[str, ...]:
    if "names" not in params:
        return (_text(params, "name"),)
    names = params["names"]
    if (
        not isinstance(names, list)
        or not names
        or not all(isinstance(n, str) for n in cast(list[Any], names))
    ):
        raise CallError("bad_params", "`names` must be a list of names")
    found = tuple(cast(list[str], names))
    if len(found) > MOST_TARGETS:
        raise CallError("too_many_targets", f"a call may touch up to {MOST_TARGETS} things")
    return found


def _texts(params: Mapping[str, Any], first: str, others: tuple[str, ...]) -> list[str]:
    return [_text(params, first), *(_text(params, name) for name in others if name in params)]


def _text(params: Mapping[str, Any], name: str, usual: str | None = None) -> str:
    value = params.get(name, usual)
    if not isinstance(value, str) or not value:
        raise CallError("bad_params", f"`{name}` must be text")
    return value


def _table(params: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = params.get(name)
    if not isinstance(value, dict):
        raise CallError("bad_params", f"`{name}` must be an object")
    return cast(dict[str, Any], value)
