"""What is wrong with a configuration, and how it is told: all at once, each with file, line, key and hint."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from msgspec import field

KeyPath = tuple[str | int, ...]
"""Where a value lies in a document: keys and list positions from the root."""


def dotted(path: KeyPath) -> str:
    """Return a path as people write it: `peers.db.args[2]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if part.replace("-", "").replace("_", "").isalnum() else f'"{part}"'
            text += f".{name}" if text else name
    return text


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean `x`?`` for the nearest known word, or the empty string."""
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean `{by_lower[near[0]]}`?" if near else ""


class Mistake(msgspec.Struct, frozen=True):
    """One thing to correct. `line` counts from 1; None where the file as a whole is meant.

    `file` is empty for what stands on the command line; `key` is then an option.
    """

    file: str
    line: int | None
    key: str
    message: str

    def __str__(self) -> str:
        if not self.file:
            return f"`{self.key}` {self.message}"
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: `{self.key}` {self.message}" if self.key else f"{where}: {self.message}"


class ConfigError(Exception):
    """A configuration that cannot be used; `mistakes` has everything that is wrong with it, in file order.

    `page` is that of the documentation which says what the file may have; None for the one of all settings.
    """

    def __init__(self, mistakes: Iterable[Mistake], *, page: str | None = None) -> None:
        self.page = page
        self.mistakes: tuple[Mistake, ...] = tuple(sorted(mistakes, key=lambda m: (m.file, m.line or 0)))
        super().__init__("\n".join(map(str, self.mistakes)))


class Report(msgspec.Struct):
    """Collects mistakes and notes about one file while it is read."""

    file: str
    lines: Callable[[], dict[KeyPath, int]] = dict
    """Tells on which line each key stands. Asked once, where there is something to tell."""
    mistakes: list[Mistake] = field(default_factory=list[Mistake])
    notes: list[str] = field(default_factory=list[str])
    parts: dict[KeyPath, object] = field(default_factory=dict[KeyPath, object])
    """Sections that were read without a mistake, which can be checked further whatever others are."""
    halves: dict[KeyPath, tuple[object, frozenset[str]]] = field(
        default_factory=dict[KeyPath, tuple[object, frozenset[str]]]
    )
    """Sections with mistakes, made of what is right of them, and the keys that are not."""
    peers_at: tuple[str, ...] = ("peers",)
    """Where the file keeps its peers: other clients call them `mcpServers`."""
    _lines: dict[KeyPath, int] | None = None

    def _in_file(self, path: KeyPath) -> KeyPath:
        return (*self.peers_at, *path[1:]) if path[:1] == ("peers",) else path

    def line(self, path: KeyPath) -> int | None:
        """Return the line of a value, or that of the nearest table around it."""
        if self._lines is None:
            try:
                self._lines = self.lines()
            except RecursionError:
                # What a parser in C has read can be deeper than what is walked here: then only keys are told.
                self._lines = {}
        path = self._in_file(path)
        while path:
            if path in self._lines:
                return self._lines[path]
            path = path[:-1]
        return None

    def mistake(self, path: KeyPath, message: str) -> None:
        """Note a mistake; `message` continues the sentence that the key begins."""
        self.mistakes.append(Mistake(self.file, self.line(path), dotted(self._in_file(path)), message))

    def note(self, path: KeyPath, message: str) -> None:
        """Note something that is tolerated but does nothing."""
        self.notes.append(str(Mistake(self.file, self.line(path), dotted(self._in_file(path)), message)))


def port_taken(port: int) -> str:
    """What is wrong with a port where somebody else listens, and what to do."""
    return (
        f"is {port}, where another program listens already: choose another, or 0 for any; "
        "`tieline status` shows the gateways that run"
    )
