"""What of a configuration decides what a core sees: kept in a recording's header, and read back by a replay.

Owns which settings those are. Leaves out how peers are reached, secrets, listeners, places, and everything else that a
replay has no use for.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.config.extensions import ExtensionsConfig
from gateway.config.model import (
    CatalogConfig,
    Config,
    LimitsConfig,
    RecordConfig,
    ReplayConfig,
    TelemetryConfig,
)
from gateway.config.peer import PeerConfig

if TYPE_CHECKING:
    from recordings.profile import Profile

OF_PEERS = (
    "dialect", "era", "version", "start", "scope", "start_timeout_s", "call_timeout_s", "tools", "prefix", "changed",
    "limits", "wants", "hops",
)  # fmt: skip


class RecordedSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a header holds of the gateway's configuration: that which differs from the defaults."""

    catalog: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    peers: dict[str, dict[str, Any]] = {}
    """The peers in their order."""
    transparent: bool = False
    """Whether the gateway stood before one peer as if it were not there (`tieline record`)."""
    replay: dict[str, Any] = {}
    """Rules of the project for replays."""
    roots: dict[str, str] = {}
    """Folders that lie somewhere else in another run, and where they lay."""
    terminal: bool = False
    """Whether extensions' requests were shown on a terminal of the gateway's own."""
    joins_lists: bool = False
    """Whether a list that was on its way was not asked for again."""
    extensions: dict[str, Any] = {}
    """What extensions may do, in which folders, and how their hooks are asked."""


OF_EXTENSIONS = ("hooks", "policy", "prompt_timeout_s", "host_call_timeout_s", "max_host_calls")


def settings_of(
    config: Config,
    *,
    transparent: bool,
    terminal: bool = False,
    joins_lists: bool = True,
    roots: Mapping[str, str] | None = None,
    host_roots: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what decides of a configuration, as plain data. `host_roots` are the folders that host calls may be
    about, where there may be any."""
    usual = PeerConfig()
    extensions = _changed(config.extensions, ExtensionsConfig(), OF_EXTENSIONS)
    if host_roots:
        extensions["roots"] = list(host_roots)
    settings = RecordedSettings(
        catalog=_changed(config.catalog, CatalogConfig()),
        limits=_changed(config.limits, LimitsConfig()),
        peers={name: _changed(peer, usual, OF_PEERS) for name, peer in config.active_peers.items()},
        transparent=transparent,
        terminal=terminal,
        joins_lists=joins_lists,
        replay=_changed(config.replay, ReplayConfig()),
        roots=dict(roots or {}),
        extensions=extensions,
    )
    found: dict[str, Any] = msgspec.to_builtins(settings)
    return found


def _changed(settings: Any, usual: Any, fields: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the settings that differ from the usual ones."""
    return {
        field: msgspec.to_builtins(getattr(settings, field))
        for field in fields or settings.__struct_fields__
        if getattr(settings, field) != getattr(usual, field)
    }


def config_of(settings: dict[str, Any], peers: list[str]) -> tuple[Config, bool]:
    """Return the configuration of a recording, and whether it was transparent. Nothing of it is recorded again.

    `peers` are the names in the recording's header, for recordings that say nothing of settings.

    Raises:
        NotARecordingError: If the settings are of another shape.
    """
    with _of_a_header():
        read = msgspec.convert(settings, RecordedSettings)
        named = read.peers or {name: {} for name in peers}
        config = Config(
            peers={
                name: msgspec.convert({**facts, "command": ["(recorded)"]}, PeerConfig)
                for name, facts in named.items()
            },
            catalog=msgspec.convert(read.catalog, CatalogConfig),
            limits=msgspec.convert(read.limits, LimitsConfig),
            record=RecordConfig(enabled=False),
            replay=msgspec.convert(read.replay, ReplayConfig),
            # What a log tells of has happened.
            telemetry=TelemetryConfig(log=False),
            extensions=msgspec.convert(read.extensions, ExtensionsConfig),
        )
    return config, read.transparent


def has_terminal(settings: Mapping[str, Any]) -> bool:
    """Whether a recording has frames of a terminal in the place of questions to the core."""
    return settings.get("terminal") is True


def joins_lists(settings: Mapping[str, Any]) -> bool:
    """Whether a recording was made by a gateway that asks for no list again while it is on its way."""
    return settings.get("joins_lists") is True


def profiles_of(
    settings: dict[str, Any], *, roots: Mapping[str, str], more: ReplayConfig | None = None
) -> tuple[Profile, Profile]:
    """Return the profiles of a recording and of a replay of it in which its folders lie at `roots`.

    `more` are rules that the replay is given beside the recorded ones; they come first.

    Raises:
        NotARecordingError: If the settings are of another shape.
        ProfileError: If a rule is none.
    """
    # Here, since a gateway that records has no use for it and starts faster without.
    from recordings.profile import profile_of

    with _of_a_header():
        read = msgspec.convert(settings, RecordedSettings)
        kept = msgspec.convert(read.replay, ReplayConfig)
    wanted = [*(more.rule if more is not None else ()), *kept.rule]
    exact = dict.fromkeys([*(more.exact if more is not None else ()), *kept.exact])
    profile = profile_of({"rule": wanted, "exact": list(exact)})
    return profile.with_roots(read.roots), profile.with_roots(roots if read.roots else {})


@contextmanager
def _of_a_header() -> Generator[None]:
    """Say of settings that are of another shape where they stand."""
    from recordings.errors import NotARecordingError

    try:
        yield
    except msgspec.ValidationError as error:
        raise NotARecordingError(f"the settings in `recording.json` are of another shape: {error}") from None
