"""Patterns in linear time over bytes: the few calls of google-re2 that are used here, with their types.

Owns the options (every byte is a character, valid UTF-8 or not). Knows no pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol, cast

import re2

from recordings.late import Late

_re2: Any = re2


class Match(Protocol):
    """One match."""

    def group(self, number: int = 0, /) -> bytes: ...
    def span(self, number: int = 0, /) -> tuple[int, int]: ...
    def start(self, number: int = 0, /) -> int: ...
    def end(self, number: int = 0, /) -> int: ...


class Pattern(Protocol):
    """One compiled pattern."""

    @property
    def groups(self) -> int: ...
    def search(self, text: bytes, pos: int = 0, /) -> Match | None: ...
    def finditer(self, text: bytes, /) -> Iterator[Match]: ...


def _options() -> Any:
    options = _re2.Options()
    options.encoding = _re2.Options.Encoding.LATIN1
    options.log_errors = False
    return options


def compiled(pattern: bytes) -> Pattern:
    """Compile a pattern. Raises `re2.error` where it is none."""
    return cast("Pattern", _re2.compile(pattern, _options()))


def compiled_late(pattern: bytes) -> Pattern:
    """What `compiled` returns, compiled when it is first used. The pattern has to be a valid one."""
    return cast("Pattern", Late(partial(compiled, pattern)))


def escaped(literal: bytes) -> bytes:
    """The pattern that matches these bytes alone."""
    return cast("bytes", _re2.escape(literal))


def any_of(patterns: Iterable[bytes]) -> Callable[[bytes], list[int] | None]:
    """A test for all patterns in one pass: the numbers of those that match anywhere, or None."""
    filters = _re2.Set.SearchSet(_options())
    for pattern in patterns:
        filters.Add(pattern)
    filters.Compile()
    # The set beneath the wrapper: the wrapper's own look at the type costs as much as the search does.
    return cast("Callable[[bytes], list[int] | None]", filters._set.Match)  # noqa: SLF001
