"""What trying a peer found: what `gateway.serve.check` gives, and what `check` and `tools` show."""

from __future__ import annotations

from typing import Any

import msgspec


class PeerReport(msgspec.Struct, kw_only=True):
    """One peer, tried once: started or connected, greeted, listed, and ended again."""

    name: str
    kind: str
    """`stdio`, `http`, `sse`, `websocket` or `unix`."""
    ok: bool
    error: str | None = None
    """One sentence: what failed, and with what."""
    hint: str | None = None
    stderr: str | None = None
    """The last lines of what its process said on stderr, where it failed. Without secrets."""
    server: str | None = None
    """Name and version that the peer gives itself."""
    version: str | None = None
    """Protocol version that was agreed on."""
    ready_ms: float | None = None
    tools: list[dict[str, Any]] = []
    """Tool definitions as the peer gives them, all pages, unfiltered."""
    prompts: int | None = None
    resources: int | None = None
    registered: msgspec.Raw | None = None
    """What an extension of the Pi dialect has registered, verbatim."""

    @property
    def last_words(self) -> list[str]:
        """The last lines of stderr, unless the error has said them already."""
        lines = (self.stderr or "").splitlines()
        return [] if len(lines) == 1 and lines[0] in (self.error or "") else lines

    @property
    def trouble(self) -> str:
        """What failed, with the peer's name before it, once."""
        error = self.error or "it does not work"
        return error if error.startswith((f"{self.name}: ", f"{self.name} ")) else f"{self.name}: {error}"
