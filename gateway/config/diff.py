"""What changed between two configurations, so that a reload touches only what it must. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.config.extensions import ExtensionsConfig
from gateway.config.model import Config
from gateway.config.peer import PeerConfig

ADJUSTABLE = frozenset({"tools", "prefix", "changed", "call_timeout_s", "stop_grace_s", "restart"})
"""Settings of a peer that take effect without a new connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDiff:
    """Names of peers by what a reload has to do with them, each in the order of the newer file."""

    untouched: tuple[str, ...] = ()
    adjusted: tuple[str, ...] = ()
    """Changed in what needs no new connection."""
    changed: tuple[str, ...] = ()
    """Changed in how they are reached or started: to be stopped and started again."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    catalog: bool = False
    """Whether `catalog` changed."""
    reordered: bool = False
    """Whether peers that stay stand in another order, which decides who wins a name."""
    needs_restart: tuple[str, ...] = ()
    """Sections that changed and that only a new start of the gateway applies."""

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return bool(
            self.adjusted or self.changed or self.added or self.removed or self.catalog or self.reordered
            or self.needs_restart
        )  # fmt: skip

    def sentence(self) -> str:
        """Return what was done, for a person."""
        done = (
            ("added", self.added),
            ("started anew", self.changed),
            ("removed", self.removed),
            ("adjusted", self.adjusted),
        )
        parts = [f"{what} {', '.join(names)}" for what, names in done if names]
        if self.catalog or self.reordered:
            parts.append("names are given anew")
        return "; ".join(parts) or "no peer is touched"


def diff(old: Config, new: Config) -> ConfigDiff:
    """Return what is different in `new`. References are resolved: a secret that was replaced counts."""
    before, after = old.active_peers, new.active_peers
    kept = [name for name in after if name in before]
    same = [name for name in kept if before[name] == after[name]]
    adjusted = [name for name in kept if name not in same and _settled(before[name]) == _settled(after[name])]
    return ConfigDiff(
        untouched=tuple(same),
        adjusted=tuple(adjusted),
        changed=tuple(name for name in kept if name not in same and name not in adjusted),
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        catalog=old.catalog != new.catalog,
        reordered=kept != [name for name in before if name in after],
        needs_restart=tuple(
            section
            for section in ("listen", "record", "limits", "telemetry", "extensions")
            if _kept(getattr(old, section)) != _kept(getattr(new, section))
        ),
    )


def _kept(section: Any) -> Any:
    """What of a section holds until the gateway ends: a recording has one policy. Which extensions there are is no
    part of it."""
    if isinstance(section, ExtensionsConfig):
        return msgspec.structs.replace(section, discover=False, paths=[], disable=[])
    return section


def _settled(peer: PeerConfig) -> PeerConfig:
    defaults = PeerConfig()
    return msgspec.structs.replace(peer, **{name: getattr(defaults, name) for name in ADJUSTABLE})
