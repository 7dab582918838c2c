"""What a live request is answered with that the recording has no answer for: an error, something near, or the truth.

Owns the rules of the modes. Nothing goes to a live service unless the mode says so, and in `hybrid` nothing that has
effects.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import msgspec

from recordings.profile import Consumption

Mode: TypeAlias = Literal["replay", "once", "extend", "hybrid", "lenient"]
Instead: TypeAlias = Literal["error", "nearest", "stub", "live"]
MODES: tuple[Mode, ...] = ("replay", "once", "extend", "hybrid", "lenient")


class Allowed(msgspec.Struct, frozen=True):
    """Peers and methods, as globs, that may be asked live."""

    peer: str
    method: str = "*"


class MissPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What happens on a miss."""

    mode: Mode = "replay"
    lenient: Literal["error", "nearest", "stub"] = "error"
    allowed: tuple[Allowed, ...] = ()
    """For `hybrid`."""
    services: frozenset[str] | None = None
    """Peers that can be reached live; None: all."""

    @property
    def is_strict(self) -> bool:
        """Whether several answers that would fit are a divergence."""
        return self.mode != "lenient"

    @property
    def may_go_live(self) -> bool:
        """Whether anything may go to a live service."""
        return self.mode in ("once", "extend", "hybrid")

    def instead(self, peer: str, method: str, taken: Consumption) -> Instead:
        """What a request of this kind is answered with."""
        if self.mode == "lenient":
            return self.lenient
        if self.services is not None and peer not in self.services:
            return "error"
        if self.mode in ("once", "extend"):
            return "live"
        if self.mode == "hybrid" and taken != "once":
            for each in self.allowed:
                if fnmatchcase(peer, each.peer) and fnmatchcase(method, each.method):
                    return "live"
        return "error"


ONLY_RECORDED = MissPolicy()
"""Nothing but what was recorded, and an error for everything else."""
