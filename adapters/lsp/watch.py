"""What of the disk a language server is to hear of: its sources, its configuration, and what it has registered for.

Owns the last look that it was told of. Looks at nothing itself. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from adapters.lsp import wire
from adapters.lsp.globs import pattern
from adapters.lsp.servers import Server
from adapters.lsp.stamps import Seen, Stamp, changes
from adapters.lsp.uris import path_of

_NOTHING = re.compile("(?!)")


class Watch:
    """Over one server. Paths are relative to the root."""

    def __init__(self, server: Server, root: str) -> None:
        self.stamps: Mapping[str, Stamp] = {}
        self.whole = True
        """Whether all files were looked at."""
        self._server, self._above = server, root.rstrip("/") + "/"
        self._globs = self._globs_before = _NOTHING

    def reads(self, path: str) -> bool:
        """Whether a file is one of the server's sources or configurations."""
        return self._server.handles(path) or path.rpartition("/")[2] in self._server.configs

    def wants(self, path: str) -> bool:
        """Whether the server is to hear of a change of a file."""
        return self.reads(path) or self._globs.fullmatch(path) is not None

    def begin(self, seen: Seen) -> None:
        """A server was started, which reads the files as they are."""
        self.stamps, self.whole = seen.stamps, seen.whole

    def listen(self, registrations: Iterable[wire.Registration]) -> None:
        """Take into account what the server has registered for."""
        globs: list[str] = []
        for each in registrations:
            try:
                watchers = msgspec.convert(each.register_options or {}, wire.Watchers).watchers
            except msgspec.ValidationError:
                continue
            for watcher in watchers:
                globs += self._patterns(watcher.glob_pattern)
        wanted = "|".join(globs) or _NOTHING.pattern
        if wanted != self._globs.pattern:
            self._globs = re.compile(wanted)

    def news(self, seen: Seen) -> list[tuple[str, int]]:
        """What has changed since the last look that the server is to hear of: paths, and how (see `stamps`)."""
        self.whole = seen.whole
        if seen.stamps is self.stamps:
            return []
        known = self.stamps
        if self._globs is not self._globs_before:
            # What nobody looked at until now has not changed.
            before, self._globs_before = self._globs_before, self._globs
            new = {
                p: s
                for p, s in seen.stamps.items()
                if not (p in known or self.reads(p) or before.fullmatch(p))
            }
            known = {**known, **new}
        self.stamps = seen.stamps
        return [(path, kind) for path, kind in changes(known, seen.stamps) if self.wants(path)]

    def _patterns(self, glob: str | wire.Relative) -> list[str]:
        """A watcher's glob for paths relative to the root; none where it is for files elsewhere."""
        base, inner = self._above, glob
        if isinstance(glob, wire.Relative):
            at = glob.base_uri
            base, inner = path_of(str(at.get("uri", "")) if isinstance(at, dict) else at), glob.pattern
        whole = str(inner) if str(inner).startswith("/") else f"{base.rstrip('/')}/{inner}"
        if not whole.startswith(self._above):
            return []
        found = pattern(whole.removeprefix(self._above))
        try:
            re.compile(found)
        except re.error:
            # Nobody can tell what it is for: the server is told of more than it wants.
            return [".*"]
        return [found]
