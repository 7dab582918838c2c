"""What a configuration says of Pi extensions: whether they are looked for and where, what they may do, for how long.

Owns names, types, bounds and descriptions of the section `extensions`. What is found by it is `discovery`'s; the policy
in it is read by whoever decides by it, with its own mistakes.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from gateway.config.values import PLACE, Count

DeadlineMs: TypeAlias = Annotated[int, Meta(ge=1, le=60_000)]


class HooksConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Hooks: in which order extensions are asked, and how long each may take."""

    timeout_ms: Annotated[
        DeadlineMs,
        Meta(description="Milliseconds that a hook has for its answer. There is none without a limit."),
    ] = 500
    timeouts_ms: Annotated[
        dict[str, DeadlineMs],
        Meta(description="Extension -> milliseconds that its hooks have instead."),
    ] = {}
    priority: Annotated[
        dict[str, Annotated[int, Meta(ge=-1000, le=1000)]],
        Meta(
            description="Extension -> priority of its hooks, 0 without one. Higher ones are asked first, equal ones in "
            "the order of the configuration."
        ),
    ] = {}


class ExtensionsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Pi extensions: where they are looked for, what they may ask of the gateway, in which order they are asked."""

    discover: Annotated[
        bool,
        Meta(
            description="Look for extensions in `.pi/` beside the configuration and in `~/.pi/agent/`, and serve them "
            "as peers. What lies in a project is served once `tieline extensions trust` has said so."
        ),
    ] = False
    paths: Annotated[
        list[str],
        Meta(
            description="Further manifests, and folders that hold one or several; they come first.",
            extra=PLACE,
        ),
    ] = []
    disable: Annotated[list[str], Meta(description="Names of extensions that are left out.")] = []
    policy: Annotated[
        dict[str, Any],
        Meta(
            description="What extensions may do: `profile`, `mode`, `default_caps`, `deny_caps`, `scope`, "
            "`extensions`, `rules`, `evidence`. Default: the profile `standard`."
        ),
    ] = {}
    roots: Annotated[
        list[str],
        Meta(
            description="Folders that files of host calls lie in; commands run in the first. Default: the folder of "
            "the configuration.",
            extra=PLACE,
        ),
    ] = []
    private_hosts: Annotated[
        list[str],
        Meta(
            description="Hosts, as in rules, that host calls may reach at addresses which are not public: this "
            "machine's, the local network's, a cloud's metadata. The policy must allow them as well."
        ),
    ] = []
    grants: Annotated[
        str | None,
        Meta(
            description="File of remembered answers. Default: `grants.toml` in the state directory.",
            extra=PLACE,
        ),
    ] = None
    sessions: Annotated[
        str | None,
        Meta(
            description="Directory of session files, in Pi's format: `~/.pi/agent/sessions` to share them with Pi. "
            "Default: `sessions` in the state directory.",
            extra=PLACE,
        ),
    ] = None
    keep_sessions: Annotated[
        bool,
        Meta(description="Write sessions to files; otherwise they last as long as the agent is connected."),
    ] = True
    prompt_timeout_s: Annotated[
        float, Meta(gt=0, le=120, description="How long a person has for an answer; then it is no.")
    ] = 120.0
    host_call_timeout_s: Annotated[
        float, Meta(gt=0, le=3600, description="The longest that a host call may take.")
    ] = 120.0
    max_host_calls: Annotated[Count, Meta(description="Host calls of one extension at the same time.")] = 64
    hooks: Annotated[HooksConfig, Meta(description="Hooks of extensions.")] = HooksConfig()
