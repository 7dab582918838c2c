"""Which names say that a value is a secret: whole words across snake_case, camelCase and kebab-case.

Owns the list of words and the list of what looks alike and is harmless. Looks at names only, never at values.
"""

from __future__ import annotations

import re
from functools import lru_cache


def set_of(words: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(words.split())


_WORDS = set_of(
    "token authorization cookie cookies password passwords passwd passphrase passcode secret secrets "
    "credential credentials bearer apikey apikeys accesskey secretkey privatekey authtoken accesstoken "
    "refreshtoken apitoken clientsecret"
)
_PAIRS = frozenset(
    (first, last)
    for first in set_of("api access private secret signing encryption shared account master ssh")
    for last in ("key", "keys")
) | {("pass", "word"), ("pass", "phrase"), ("pass", "code")}
_TOKENS_OF = set_of("api access auth refresh bearer personal secret")
"""What makes the plural `tokens`, otherwise a count, a list of secrets."""

_BEFORE_TOKEN = set_of(
    "progress cancel cancellation page next previous prev continuation continue cursor sync resume start "
    "stop end eos bos pad unk mask sep cls special max min total num prompt completion input output "
    "partial result done per by first last"
)
_AFTER = set_of(
    "type types count counts limit limits length size budget usage name names url uri endpoint endpoints "
    "server servers policy consent ttl expiry expires expiration format required supported methods "
    "algorithm algorithms scope scopes index position offset kind rate enabled domain"
)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

STEMS = (
    rb"(?i:token|authorization|cookie|passw|secret|credential|bearer"
    rb"|(?:pass|api|private|access|signing|encryption|shared|account|master|ssh)[^A-Za-z0-9\"\\]?"
    rb"(?:key|word|phrase|code))"
)
"""A pattern that is found in every name that `is_secret` affirms, and in some others."""

_STEM = re.compile(STEMS.decode())


def words_of(name: str) -> list[str]:
    """A name's words in lower case: `xApiKey2` is x, api, key, 2."""
    return [word.lower() for word in _PART.findall(name)]


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether the value under this name is to be redacted."""
    if _STEM.search(name) is None:
        return False
    words = words_of(name)
    while words and words[-1].isdigit():
        words.pop()
    if not words or words[-1] in _AFTER:
        return False
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        if word == "token" and before in _BEFORE_TOKEN:
            continue
        if word in _WORDS or (before, word) in _PAIRS or (word == "tokens" and before in _TOKENS_OF):
            return True
    return False
