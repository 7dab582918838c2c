"""On which line every key of a TOML or JSON document stands, which the standard parsers do not say.

Reads only documents that a parser has accepted, and so checks nothing itself. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count

from gateway.config.mistakes import KeyPath

_TOML_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_JSON_BLANK = re.compile(r"\s*")
_SCALAR = re.compile(r"[^,\]}\n#]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\]|\\.)*"')
_LITERAL = re.compile(r"'[^']*'")
_LONG_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'{3,5}", re.DOTALL)
_COMMENTS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[\]}])')


def toml_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of every key, table and list item of a valid TOML document."""
    return _Toml(text, _TOML_BLANK).read()


def json_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of every key and list item of a valid JSON document."""
    scan = _Scan(text, _JSON_BLANK)
    _json_value(scan, ())
    return scan.lines


def plain_json(text: str) -> str:
    """Return JSON with comments and trailing commas blanked out; no line moves."""
    text = _COMMENTS.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), text)
    return _TRAILING.sub(lambda m: m[0] if m[0][0] == '"' else " ", text)


class _Scan:
    """A place in a text that moves forward and knows its line."""

    def __init__(self, text: str, blank: re.Pattern[str]) -> None:
        self.text = text
        self.blank = blank
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
        self._counted = 0
        self._line = 1

    def mark(self, path: KeyPath) -> None:
        """Note that `path` stands here. The first place counts: a table may be extended further down."""
        self.mark_from(self.at, path)

    def mark_from(self, start: int, path: KeyPath) -> None:
        """Note that every part of `path` that is new began at `start`, which no earlier call has passed."""
        self._line += self.text.count("\n", self._counted, start)
        self._counted = start
        for length in range(1, len(path) + 1):
            self.lines.setdefault(path[:length], self._line)

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Step over what matches here, and return it."""
        match = pattern.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match[0]

    def take(self, token: str) -> bool:
        """Step over `token` if it stands here."""
        if not self.text.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def items(self, close: str = "") -> Iterator[int]:
        """Stop at each item, with its position, until `close` or the end; the caller steps over the item."""
        for index in count():
            self.skip(self.blank)
            if self.at >= len(self.text) or (close and self.take(close)):
                return
            start = self.at
            yield index
            self.skip(self.blank)
            self.take(",")
            if self.at == start:
                return


class _Toml(_Scan):
    def read(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        counts: dict[KeyPath, int] = {}
        for _ in self.items():
            start = self.at
            if self.take("[["):
                name = self._latest(self._key(), counts)
                counts[name] = counts.get(name, -1) + 1
                table = (*name, counts[name])
                self.mark_from(start, table)
                self.take("]]")
            elif self.take("["):
                table = self._latest(self._key(), counts)
                self.mark_from(start, table)
                self.take("]")
            else:
                self._pair(table)
        return self.lines

    def _latest(self, key: KeyPath, counts: dict[KeyPath, int]) -> KeyPath:
        """Turn `a.b` into `a[last].b` where `a` is an array of tables."""
        path: KeyPath = ()
        for index, part in enumerate(key):
            path = (*path, part)
            if path in counts and index < len(key) - 1:
                path = (*path, counts[path])
        return path

    def _key(self) -> KeyPath:
        parts: list[str | int] = []
        while True:
            self.skip(self.blank)
            if quoted := self.skip(_BASIC):
                parts.append(json.loads(quoted) if "\\U" not in quoted else quoted[1:-1])
            elif quoted := self.skip(_LITERAL):
                parts.append(quoted[1:-1])
            else:
                parts.append(self.skip(_BARE_KEY))
            self.skip(self.blank)
            if not self.take("."):
                return tuple(parts)

    def _pair(self, table: KeyPath) -> None:
        start = self.at
        path = (*table, *self._key())
        self.mark_from(start, path)
        self.take("=")
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        self.skip(self.blank)
        if self.take("["):
            for index in self.items("]"):
                self.mark((*path, index))
                self._value((*path, index))
        elif self.take("{"):
            for _ in self.items("}"):
                self._pair(path)
        elif not any(self.skip(kind) for kind in (_LONG_BASIC, _LONG_LITERAL, _BASIC, _LITERAL)):
            self.skip(_SCALAR)


def _json_value(scan: _Scan, path: KeyPath) -> None:
    scan.skip(scan.blank)
    if scan.take("{"):
        for _ in scan.items("}"):
            start = scan.at
            key = json.loads(scan.skip(_BASIC) or '""', strict=False)
            scan.mark_from(start, (*path, key))
            scan.skip(scan.blank)
            scan.take(":")
            _json_value(scan, (*path, key))
    elif scan.take("["):
        for index in scan.items("]"):
            scan.mark((*path, index))
            _json_value(scan, (*path, index))
    elif not scan.skip(_BASIC):
        scan.skip(_SCALAR)
