"""Which names say that a value is a secret: whole words across snake_case, camelCase and kebab-case.

Owns the list of words, the list of what looks alike and is harmless, and how a project adds to both. Looks at
names only, never at values.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from recordings.late import late


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
    "algorithm algorithms scope scopes index position offset kind rate enabled domain modifier modifiers"
)
_PART = late(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

STEMS = (
    rb"(?i:token|authorization|cookie|passw|secret|credential|bearer"
    rb"|(?:pass|api|private|access|signing|encryption|shared|account|master|ssh)[^A-Za-z0-9\"\\]?"
    rb"(?:key|word|phrase|code))"
)
"""A pattern that is found in every name of the built-in list, and in some others."""

SCHEMA_WORDS = set_of(
    "type description title default example examples enum const format pattern minLength maxLength "
    "minimum maximum items properties required additionalProperties nullable deprecated readOnly "
    "writeOnly anyOf oneOf allOf not $ref $comment minItems maxItems uniqueItems exclusiveMinimum "
    "exclusiveMaximum multipleOf if then else patternProperties propertyNames $defs definitions "
    "contentEncoding contentMediaType enumNames"
)
"""The members of a JSON Schema: an object of these alone describes a secret rather than being one."""
_HEADERS = frozenset(
    ("authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token", "api-key")
)
SAID_OPENLY = frozenset(("", "none", "null", "true", "false", "include", "omit", "same-origin", "required"))
"""Values that are no secrets, whatever they are called."""
_SIGN = rb"[^A-Za-z0-9\"\\]?"
_ENVELOPE = set_of("jsonrpc id method params result error")
"""Names that every message has: their values are the message."""


def words_of(name: str) -> list[str]:
    """A name's words in lower case: `xApiKey2` is x, api, key, 2."""
    return [word.lower() for word in _PART.findall(name)]


def key_fault(name: str) -> str | None:
    """What is wrong with a name that a project adds, as the end of a sentence; None for nothing."""
    if not name.isascii() or not any(map(str.isalpha, name)):
        return "must be a name with a letter of the Latin alphabet, and without others"
    if "".join(words_of(name)) in _ENVELOPE:
        return "is what a part of every message is called"
    return None


class Names:
    """The names that say secret: the built-in ones, and those of a project.

    A name of `keys` counts as its words do wherever they follow one another: `badge_number` makes `badgeNumber`
    and `old-badge-number` secret. A name of `allowed` is harmless as a whole: `session_token` allows
    `sessionToken`, not `old_session_token`, and nothing else of either list changes that.
    """

    def __init__(self, keys: Iterable[str] = (), allowed: Iterable[str] = ()) -> None:
        self._keys = frozenset("".join(words_of(name)) for name in keys)
        self._longest = max(map(len, self._keys), default=0)
        self._allowed = frozenset("".join(words_of(name)) for name in allowed)
        own = [_SIGN.join(letter.encode() for letter in key) for key in sorted(self._keys)]
        self.stems = rb"(?:" + rb"|".join((STEMS, *(rb"(?i:" + stem + rb")" for stem in own))) + rb")"
        """A pattern that is found in every name that `is_secret` affirms, and in some others."""
        self._stem = late(self.stems.decode())
        self.is_secret = lru_cache(maxsize=4096)(self._is_secret)
        """Whether the value under a name is to be redacted."""

    @property
    def is_built_in(self) -> bool:
        """Whether no name counts as secret that the built-in list does not have."""
        return not self._keys

    def allows(self, name: str) -> bool:
        """Whether the project has said that this name is harmless."""
        return bool(self._allowed) and "".join(words_of(name)) in self._allowed

    def announces(self, text: str) -> bool:
        """Whether an element of a list says that the next one is a secret: an option, or a header's name."""
        if text.startswith("-"):
            return "=" not in text and self.is_secret(text)
        return text.lower() in _HEADERS and not self.allows(text)

    def _is_secret(self, name: str) -> bool:
        if self._stem.search(name) is None or self.allows(name):
            return False
        words = words_of(name)
        return self._is_own(words) or _is_built_in(words)

    def _is_own(self, words: list[str]) -> bool:
        for start in range(len(words) if self._keys else 0):
            run = ""
            for end in range(start, len(words)):
                run += words[end]
                if len(run) > self._longest:
                    break
                if run in self._keys and not _ends_harmless(words[end + 1 :]):
                    return True
        return False


def _ends_harmless(words: list[str]) -> bool:
    told = [word for word in words if not word.isdigit()]
    return bool(told) and told[-1] in _AFTER


def _is_built_in(words: list[str]) -> bool:
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


BUILT_IN = Names()
is_secret = BUILT_IN.is_secret
