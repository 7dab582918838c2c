"""Which tools are held back because their definition is not the accepted or pinned one.

Owns the verdict, and what is said about it once for each change. Knows definitions as bytes and the accepted
ones as the lock file has them; reads no file. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from gateway.calls.accepted import Accepted, fingerprint, visible
from gateway.protocol.canonical import NotCanonicalError

if TYPE_CHECKING:
    from gateway.config.model import Config

_definition: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


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

    def __call__(self, peer: str, name: str, definition: bytes) -> bool:
        """Return whether the tool is held back. What cannot be read is held back where anything is."""
        pin = self._pins.get(peer, {}).get(name)
        known = self._accepted.peers.get(peer)
        if pin is None and known is None:
            return False
        try:
            found = fingerprint(_definition.decode(definition))
        except (msgspec.MsgspecError, NotCanonicalError):
            found = "unreadable"
        if pin is not None and found != pin:
            self._say(peer, name, found, "is not the pinned one", held=True)
            return True
        if known is None or pin is not None:
            return False
        tool = known.get(name)
        if tool is not None and tool.fingerprint == found:
            return False
        held = self._holds.get(peer, False)
        self._say(
            peer, name, found, "is new" if tool is None else "has changed since it was accepted", held=held
        )
        return held

    def _say(self, peer: str, name: str, found: str, what: str, *, held: bool) -> None:
        if (peer, name, found) in self._told:
            return
        self._told.add((peer, name, found))
        consequence = "it is held back" if held else "it is offered all the same"
        self._tell(
            f"the definition of tool `{visible(name)}` of `{peer}` {what}: {consequence}; "
            f"see `tieline tools diff --peer {peer}`"
        )
