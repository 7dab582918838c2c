"""Values that are others in this run than recorded, put in their place wherever recorded text holds them.

Owns the finding of values inside of text: whole words of some length, each place looked at once, so that two values
that have changed places do not end as one. Which value stands for which is decided by `recordings.matching`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

LONG = 16
"""Values of this length and more are found again inside of text; shorter ones might be anything."""
MOST_ODD = 256
"""Values that are no single word and are looked for one by one: the latest ones, since most are times."""
WORD = re.compile(rb"[A-Za-z0-9_-]{%d,}" % LONG)
WORDS = re.compile(r"[A-Za-z0-9_-]+")


class Renames:
    """Recorded values and what they are in this run."""

    __slots__ = ("_odd", "_words")

    def __init__(self) -> None:
        self._words: dict[bytes, bytes] = {}
        self._odd: dict[bytes, bytes] = {}

    def learn(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Take in values, recorded and live; short ones are not looked for."""
        for ours, theirs in pairs:
            if len(ours) < LONG:
                continue
            before, after = (msgspec.json.encode(text)[1:-1] for text in (ours, theirs))
            if WORDS.fullmatch(ours):
                self._words[before] = after
                continue
            self._odd.pop(before, None)
            self._odd[before] = after
            if len(self._odd) > MOST_ODD:
                del self._odd[next(iter(self._odd))]

    def applied(self, body: bytes) -> bytes:
        """Recorded bytes with the values of this run in them."""
        words = self._words
        if words:
            body = WORD.sub(lambda found: words.get(found[0], found[0]), body)
        found = [before for before in self._odd if before in body]
        if found:
            # The longest first: a path may begin with another one.
            found.sort(key=len, reverse=True)
            any_of_them = b"|".join(map(re.escape, found))
            whole = rb"(?<![A-Za-z0-9_-])(?:%b)(?![A-Za-z0-9_-])" % any_of_them
            body = re.sub(whole, lambda found: self._odd[found[0]], body)
        return body
