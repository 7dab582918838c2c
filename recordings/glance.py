"""A glance at bytes before there is RE2: whether they hold any of the words without which no built-in pattern matches.

Owns those words. Only a no counts: what holds one is looked at by the patterns, and so is everything once there have
been some glances. To load RE2 and compile its one look takes a twentieth of a start, and what crosses in a start, the
greeting and the lists of plain tools, seldom holds such a word. A test holds that no pattern matches without one.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeAlias

from recordings.patterns import HARMLESS

try:
    from recordings import _speedups as in_c
except ImportError:
    in_c = None

Look: TypeAlias = Callable[[bytes], list[int] | None]

MOST_GLANCES: Final = 48
"""So many looks are glances at most: those of a start. One by all patterns takes less time than one for each word."""
LONGEST: Final = 8192
"""Longer bytes are looked at by the patterns at once, which takes less time than finding each word in them."""

MOST_KNOWN: Final = 256
"""So many forms of known secrets are looked for in C at most: where one may be, each of them is compared."""

UNTOLD: Final = [-1]
"""What is found where nothing can be looked for: something, but no pattern."""

WORDS: Final = (
    # Of names that say secret.
    b"token", b"authorization", b"cookie", b"passw", b"secret", b"credential", b"bearer",
    # Of shapes, in their order; `bearer` and `cookie` are among them.
    b"-----begin", b"eyj", b"basic", b"sk-", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_",
    b"glpat-", b"gldt-", b"glrt-", b"glptt-", b"glcbt-", b"glagent-", b"akia", b"asia", b"aiza", b"ya29.",
    b"xox", b"xapp-", b"sk_", b"rk_", b"whsec_", b"npm_", b"pypi-", b"hf_", b"sg.", b"_v1_", b"shp", b"lin_",
    b"age-secret-key-", b"tskey-", b"@",
    # Of letters that are spelled as escapes.
    b"\\u00",
)  # fmt: skip
"""In lower case. Each pattern of a shape needs one, and so does each of a name, or one of both that follow."""
LAST: Final = (b"key", b"word", b"phrase", b"code")
FIRST: Final = (
    b"pass", b"api", b"private", b"access", b"signing", b"encryption", b"shared", b"account", b"master", b"ssh",
)  # fmt: skip
"""The other half of names of two words."""


def known_again(patterns: Iterable[bytes]) -> str:
    """By what patterns, and the names that are set aside before them, are known again."""
    return crc32(b"\n".join((*patterns, *HARMLESS))).to_bytes(4, "big").hex()


def glancing(patterns: Iterable[bytes], known: Collection[bytes]) -> Callable[[Look], Look] | None:
    """What puts a glance in C before a look for `patterns` and `known`; None where there is none for these patterns.

    It looks at what is around a word, too, so that few bytes are left to the look, and at every length. Names that the
    redactor sets aside are nothing to it where each is all of a string.
    """
    if in_c is None or len(known) > MOST_KNOWN or known_again(patterns) != getattr(in_c, "PATTERNS", ""):
        return None
    glance = in_c.Glance
    return lambda look: glance(look, known)


def may_tell(data: bytes, known: Collection[bytes] = ()) -> bool:
    """Whether a built-in pattern, or one of the bytes that are `known`, may be found in `data`."""
    if len(data) > LONGEST:
        return True
    lower = data.lower()
    for word in WORDS:
        if word in lower:
            return True
    for form in known:
        if form in data:
            return True
    return any(word in lower for word in LAST) and any(word in lower for word in FIRST)


class Glances:
    """A look whose first turns are glances. What it then is made by `make`, at the first turn that needs it."""

    def __init__(
        self, make: Callable[[], Look], known: Collection[bytes], *, glances: int = MOST_GLANCES
    ) -> None:
        self._make = make
        self._known = known
        self._left = glances
        self._look: Look | None = None

    def __call__(self, data: bytes) -> list[int] | None:
        """The patterns that are found in bytes, or None."""
        if self._look is None and self._left > 0:
            self._left -= 1
            if not may_tell(data, self._known):
                return None
        try:
            look = self.settle()
        except (ImportError, OSError):
            # Where there are no descriptors left, say, to load RE2 with. Who looks closer then fails, too, and says so.
            return UNTOLD
        return look(data)

    def settle(self) -> Look:
        """Return the look by all patterns, made for that unless it is there. May be called in a thread."""
        look = self._look
        if look is None:
            # In two threads at once it is made twice, and either will do.
            look = self._look = self._make()
        return look
