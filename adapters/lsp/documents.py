"""Which documents a language server was given, and in what state.

Owns the versions and what has to be said so that the server's text is the one at hand. Never opens one twice:
servers then keep the old text. Keeps a limited number open, since servers hold what is open in memory. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]
Note: TypeAlias = tuple[str, Json]
"""A method and its params, to be said to the server."""


class Document(msgspec.Struct):
    """A document that is open at the server. `epoch` is when it was last given, see `Documents.epoch`."""

    version: int
    text: str
    epoch: int


class Documents:
    """The documents of one server process, by URI."""

    def __init__(self, language_of: Callable[[str], str], limit: int) -> None:
        self.closed = 0
        """How many were closed to make room for others."""
        self.epoch = 0
        """Grows with every change that the server is told of; what it said of other files may be outdated."""
        self._language_of = language_of
        self._limit = limit
        self._open: dict[str, Document] = {}
        self._held: Counter[str] = Counter()
        self._count = 0

    @contextmanager
    def held(self, uri: str) -> Generator[None]:
        """Keep a document open, however many others are shown meanwhile."""
        self._held[uri] += 1
        try:
            yield
        finally:
            self._held[uri] -= 1
            if not self._held[uri]:
                del self._held[uri]

    def show(self, uri: str, text: str) -> list[Note]:
        """What to say so that the server has this text."""
        document = self._open.pop(uri, None)
        if document is None:
            said = self._close_some()
            return [*said, self._opened(uri, text)]
        # Put back at the end: the first one is the one that was not asked about for longest.
        self._open[uri] = document
        if document.text == text:
            return []
        self.epoch += 1
        document.version, document.text, document.epoch = self._next(), text, self.epoch
        about = {"uri": uri, "version": document.version}
        return [("textDocument/didChange", {"textDocument": about, "contentChanges": [{"text": text}]})]

    def again(self, uri: str) -> list[Note]:
        """What to say so that the server looks at a document anew: closed and opened."""
        text = self._open[uri].text
        return [*self.close(uri), self._opened(uri, text)]

    def close(self, uri: str) -> list[Note]:
        """What to say so that the server goes by the disk."""
        if self._open.pop(uri, None) is None:
            return []
        return [("textDocument/didClose", {"textDocument": {"uri": uri}})]

    def changed_on_disk(self, changes: list[tuple[str, int]]) -> list[Note]:
        """What to say of files (by URI) that were created (1), changed (2) or deleted (3)."""
        if not changes:
            return []
        self.epoch += 1
        told = [{"uri": uri, "type": kind} for uri, kind in changes]
        said: list[Note] = [("workspace/didChangeWatchedFiles", {"changes": told})]
        for uri, kind in changes:
            said += self.close(uri) if kind == 3 else []
        return said

    def restart(self, read: Callable[[str], str | None]) -> list[Note]:
        """What to say to a new process: every document again, as `read` gives it now."""
        uris = list(self._open)
        self._open.clear()
        self.closed = 0
        return [self._opened(uri, text) for uri in uris if (text := read(uri)) is not None]

    def get(self, uri: str) -> Document | None:
        """The document, if it is open."""
        return self._open.get(uri)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._open))

    def _opened(self, uri: str, text: str) -> Note:
        document = self._open[uri] = Document(self._next(), text, self.epoch)
        item = {"uri": uri, "languageId": self._language_of(uri), "version": document.version, "text": text}
        return "textDocument/didOpen", {"textDocument": item}

    def _close_some(self) -> list[Note]:
        said: list[Note] = []
        for uri in [uri for uri in self._open if uri not in self._held]:
            if len(self._open) < self._limit:
                break
            self.closed += 1
            said += self.close(uri)
        return said

    def _next(self) -> int:
        # One count for all: a server that was given version 3 of a document is never given a lower one.
        self._count += 1
        return self._count
