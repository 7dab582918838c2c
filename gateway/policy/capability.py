"""Which capability a host call needs, derived from its method and params, and what it touches: never believed.

Owns the reading of paths, hosts and names out of params; the table of capabilities is `protocol/capabilities`'. Whether
the call may happen is not known here. Source: the extension protocol, host call ABI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from gateway.policy.hosts import HostError, host_of_url
from gateway.policy.paths import PathError, Roots
from gateway.protocol.capabilities import CAPABILITIES, TOOLS, CallError, capability_of, text_of

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


def can_be_named(name: str) -> bool:
    """Whether a rule or an answer may speak of this: a capability, or `tool:NAME`."""
    return name in CAPABILITIES or (name.startswith(TOOL_MARK) and name != TOOL_MARK)


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
            tool = text_of(params, "name")
            if tool not in TOOLS or capability == "exec":
                return Need(capability, method, tool)
            given = _table(params, "input")
            usual = "." if tool in ("grep", "find", "ls") else None
            root, paths = roots.relative([text_of(given, "path", usual)])
            return Need(capability, method, tool, root=root, paths=paths)
        if method == "fs":
            root, paths = roots.relative(_texts(params, "path", ("to",)))
            return Need(capability, method, root=root, paths=paths)
        if method == "http":
            return Need(capability, method, hosts=(host_of_url(text_of(params, "url")),))
    except (HostError, PathError) as error:
        raise CallError(error.reason, str(error)) from error
    if method == "env":
        return Need(capability, method, env=_env_names(params))
    return Need(capability, method)


def _env_names(params: Mapping[str, Any]) -> tuple[str, ...]:
    if "names" not in params:
        return (text_of(params, "name"),)
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
    return [text_of(params, first), *(text_of(params, name) for name in others if name in params)]


def _table(params: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = params.get(name)
    if not isinstance(value, dict):
        raise CallError("bad_params", f"`{name}` must be an object")
    return cast(dict[str, Any], value)
