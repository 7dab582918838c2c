"""Entries as an extension is given them: verbatim, and only as many at once as fit into a message.

Owns how much is given at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Raw

from gateway.sessions.entries import Entry, encode

PAGE_BYTES: Final = 4 * 1024 * 1024
"""Of one answer; at least one entry is in it, however long."""


def spelled(entry: Entry) -> Raw:
    """Return an entry as JSON. Halves of letters that its line spells are replaced: nobody could read them."""
    return Raw(encode(entry.fields) if b"\\u" in entry.line else entry.line)


def page(items: Iterable[Raw], limit: int | None) -> tuple[list[Raw], bool]:
    """Return as many items as go into one answer, and whether there are more."""
    found: list[Raw] = []
    size = 0
    for item in items:
        size += len(item)
        if (limit is not None and len(found) >= limit) or (found and size > PAGE_BYTES):
            return found, True
        found.append(item)
    return found, False
