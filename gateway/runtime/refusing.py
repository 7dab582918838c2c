"""The tap of a session whose recording could not be begun: it takes no calls, and no frames.

Owns nothing else. Whether such a session is served all the same is the configuration's choice.
"""

from __future__ import annotations

from typing import Any

from gateway.runtime.tap import NullTap


class RefusingTap(NullTap):
    """Refuses every frame, so that no call is made without a record."""

    accepting = False

    def record(self, kind: str, way: str, body: bytes = b"", **_: Any) -> int:
        """Record nothing."""
        del kind, way, body
        self.at = self.now()
        return -1
