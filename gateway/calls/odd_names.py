"""Names that people should hear of: empty, too long, with control characters, or hard to tell apart.

Owns what is odd. Who offers what is the catalogue's, which tells it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

LONGEST_NAME = 128
"""The longest name that the specification lets a tool have."""


def odd(peer: str, name: str) -> str:
    """Return what is odd about a name that a peer offers, as a sentence; empty where nothing is."""
    if not name:
        return f"{peer} offers something without a name"
    if len(name) > LONGEST_NAME:
        return f"{peer} offers a name of {len(name)} characters; clients may cut it: `{name[:40]}…`"
    if not (name.isascii() and name.isprintable()) and _has_control(name):
        return f"{peer} offers a name with control characters: {name!r}"
    return ""


def confusable(found: Iterable[str]) -> Iterator[str]:
    """Tell of names that look alike, a sentence for each group of them."""
    alike: dict[str, list[str]] = {}
    for name in found:
        alike.setdefault(_normal(name).casefold(), []).append(name)
    for names in alike.values():
        if len(names) > 1:
            yield f"these names look alike: {', '.join(repr(name) for name in sorted(names))}"


def _has_control(name: str) -> bool:
    from unicodedata import category

    return any(category(char) in ("Cc", "Cf") for char in name)


def _normal(name: str) -> str:
    """What NFKC makes of it, which is the same for a name of ASCII."""
    if name.isascii():
        return name
    from unicodedata import normalize

    return normalize("NFKC", name)
