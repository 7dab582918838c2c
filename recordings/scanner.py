"""A look at bytes by vector instructions: whether any pattern may match, thirty times as fast as RE2 tells which.

Owns what a pattern may hold so that Hyperscan and RE2 mean the same by it, and the few calls of Hyperscan that are
used here. Taken from it is only that nothing matches: what does, RE2 finds. Where it is not installed, or a pattern
holds anything else, there is no look.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from recordings.late import late

Scan: TypeAlias = Callable[[bytes, Callable[..., bool]], None]
"""Raises where a pattern matches, if it is given `halt`, and also where it could not look. For one thread at a time: a
scan works in memory that belongs to the patterns, without the lock of the interpreter."""

_BLANKS = rb"\t\n\f\r "
r"""What RE2 means by `\s`. To Hyperscan it is one more."""
_TOKEN = late(
    rb"""
      (?P<blank> \\s )
    | (?P<class> \[ \^? (?: \\[^A-Za-z0-9] | \\[nrtfs] | [^\]\\\[] )+ \] )
    | (?P<open>  \( (?: \?: | \?i: | (?!\?) ) )
    | (?P<close> \) )
    | (?P<high>  [\x80-\xff] )
    | \\[^A-Za-z0-9\x80-\xff] | \\[nrtfb] | \\x00 | [*+?]\?? | \{ [0-9]+ (?: , [0-9]* )? \}\??
    | [^\\\[\](){}*+?$\x80-\xff]
    """,
    re.VERBOSE | re.DOTALL,
)


def halt(*_: object) -> bool:
    """End a scan at its first match."""
    return True


def scanner(
    patterns: Iterable[bytes], compiled: Callable[[Sequence[bytes]], bytes | None] | None = None
) -> Scan | None:
    """A test for all patterns in one pass; None where Hyperscan is not there or may understand one otherwise.

    Compiling takes a fifth of a second and 10 MiB, which stay. `compiled` does it elsewhere, and returns what
    Hyperscan has written: that is read in no time, and takes half a MiB. May be called in a thread.
    """
    alike: list[bytes] = []
    for pattern in patterns:
        same = alike_in_both(pattern)
        if same is None:
            return None
        alike.append(same)
    try:
        # For who needs it alone: nothing of it is loaded at a start.
        import hyperscan
    except ImportError:
        return None
    module: Any = hyperscan
    try:
        database = _compiled(module, alike) if compiled is None else _read(module, compiled(alike))
    except module.error:
        # The processor lacks the instructions, or the patterns are too much for it, together or one that is empty.
        return None
    if database is None:
        return None
    return database.scan


def _compiled(module: Any, patterns: list[bytes]) -> Any:
    database = module.Database(mode=module.HS_MODE_BLOCK)
    database.compile(expressions=patterns, flags=module.HS_FLAG_SINGLEMATCH)
    return database


def _read(module: Any, written: bytes | None) -> Any:
    if written is None:
        return None
    database = module.loadb(written, module.HS_MODE_BLOCK)
    database.scratch = module.Scratch(database)
    return database


def written(patterns: list[bytes]) -> bytes:
    """Compile patterns that both take alike, and return what `scanner` reads.

    Raises:
        ImportError: Hyperscan is not there.
        Exception: One of its own: it cannot compile them.
    """
    import hyperscan

    module: Any = hyperscan
    return module.dumpb(_compiled(module, patterns))


def alike_in_both(pattern: bytes) -> bytes | None:
    """A pattern in words that Hyperscan and RE2, which reads bytes as Latin-1, take alike; None where that is not sure.

    Only what the patterns of this project are made of is known here: literals, classes, groups, repetitions, `^`, `.`,
    `\\b` and `(?i:`. To RE2 letters with accents have capitals, to Hyperscan only those of ASCII.
    """
    if b"\0" in pattern:  # which would end it
        return None
    out: list[bytes] = []
    caseless = [False]
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        at = token.end()
        text, kind = token.group(), token.lastgroup
        if kind == "blank":
            text = b"[" + _BLANKS + b"]"
        elif kind == "class":
            text = text.replace(rb"\\", b"\0").replace(rb"\s", _BLANKS).replace(b"\0", rb"\\")
        elif kind == "open":
            caseless.append(caseless[-1] or text == b"(?i:")
        elif kind == "close":
            caseless.pop()
        if not caseless or (caseless[-1] and not text.isascii()):
            return None
        out.append(text)
    return b"".join(out) if len(caseless) == 1 else None
