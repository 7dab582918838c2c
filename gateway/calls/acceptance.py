"""Which tools are held back because their definition is not the accepted or pinned one.

Owns the verdict, and what is said about it once for each change. Knows definitions as bytes and the accepted
ones as the lock file has them; reads no file. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from gateway.calls.accepted import Accepted, Verdict, fingerprint, visible

if TYPE_CHECKING:
    from gateway.config.model import Config

_definition: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


MOST_TOLD = 10_000
"""Definitions that are remembered as told; a peer that makes up more is told of again."""


class Acceptance:
    """Judges tool definitions for a catalogue; a callable as `catalog.Judge` wants it."""

    def __init__(self, config: Config, accepted: Accepted, *, tell: Callable[[str], None]) -> None:
        """`tell` is given a sentence for a person, once for each new definition of a tool."""
        self._tell = tell
        self._told: set[tuple[str, str, str]] = set()
        self._accepted = accepted
        self.update(config, accepted)

    def update(self, config: Config, accepted: Accepted) -> bool:
        """Judge by these from now on; return whether other definitions are accepted than before."""
        is_other = accepted != self._accepted
        self._accepted = accepted
        self._pins = {name: peer.tools.pin for name, peer in config.active_peers.items()}
        self._holds = {
            name: (peer.changed or config.catalog.changed) == "hold"
            for name, peer in config.active_peers.items()
        }
        return is_other

    @property
    def is_needed(self) -> bool:
        """Whether anything was accepted or pinned: without, no definition has to be looked at."""
        return any(self._pins.values()) or any(name in self._accepted.peers for name in self._holds)

    def __call__(self, peer: str, name: str, definition: bytes) -> Verdict | None:
        """Return what there is to say of a tool, true where it is held back; None where it is as it was accepted.

        What cannot be read is held back where anything is.
        """
        pin = self._pins.get(peer, {}).get(name)
        known = self._accepted.peers.get(peer)
        if pin is None and known is None:
            return None
        from gateway.protocol.canonical import NotCanonicalError

        try:
            found = fingerprint(_definition.decode(definition))
        except (msgspec.MsgspecError, NotCanonicalError):
            found = "unreadable"
        if pin is not None and found != pin:
            return self._say(peer, name, Verdict(why="is not the pinned one", fingerprint=found, held=True))
        if known is None or pin is not None:
            return None
        tool = known.get(name)
        if tool is not None and tool.fingerprint == found:
            return None
        why = "is new" if tool is None else "has changed since it was accepted"
        return self._say(peer, name, Verdict(why=why, fingerprint=found, held=self._holds.get(peer, False)))

    def _say(self, peer: str, name: str, verdict: Verdict) -> Verdict:
        key = peer, name, verdict.fingerprint
        if key in self._told:
            return verdict
        if len(self._told) >= MOST_TOLD:
            self._told.clear()
        self._told.add(key)
        consequence = "it is held back" if verdict.held else "it is offered all the same"
        self._tell(
            f"the definition of tool `{visible(name)}` of `{peer}` {verdict.why}: {consequence}; "
            f"see `tieline tools diff --peer {peer}`"
        )
        return verdict
