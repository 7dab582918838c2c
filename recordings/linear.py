"""Patterns in linear time over bytes: the few calls of google-re2 that are used here, with their types.

Owns the options (every byte is a character, valid UTF-8 or not). Knows no pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol, cast

from recordings.late import Late

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") | frozenset(
    range(0x80, 0x100)
)


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


def _library() -> tuple[Any, Any]:
    """RE2, and the options. It is loaded by the first pattern, which a start has none of."""
    import re2

    module: Any = re2
    options = module.Options()
    options.encoding = module.Options.Encoding.LATIN1
    options.log_errors = False
    return module, options


def compiled(pattern: bytes) -> Pattern:
    """Compile a pattern. Raises `re2.error` where it is none."""
    module, options = _library()
    return cast("Pattern", module.compile(pattern, options))


def compiled_late(pattern: bytes) -> Pattern:
    """What `compiled` returns, compiled when it is first used. The pattern has to be a valid one."""
    return cast("Pattern", Late(partial(compiled, pattern)))


def escaped(literal: bytes) -> bytes:
    """The pattern that matches these bytes alone, as RE2's own `escape` spells it."""
    return b"".join(
        rb"\x00" if not byte else bytes((byte,)) if byte in _PLAIN else b"\\" + bytes((byte,))
        for byte in literal
    )


def any_of(patterns: Iterable[bytes]) -> Callable[[bytes], list[int] | None]:
    """A test for all patterns in one pass: the numbers of those that match anywhere, or None."""
    module, options = _library()
    filters = module.Set.SearchSet(options)
    for pattern in patterns:
        filters.Add(pattern)
    filters.Compile()
    # The set beneath the wrapper: the wrapper's own look at the type costs as much as the search does.
    return cast("Callable[[bytes], list[int] | None]", filters._set.Match)  # noqa: SLF001
