"""The line of a frame whose JSON is there: its checksum, and how both are put together.

Owns how that is done in Python, where `_speedups` could not be compiled; who wants a line takes it from `segment`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import google_crc32c

crc32c = cast("Callable[[bytes], int]", google_crc32c.value)  # pyright: ignore[reportUnknownMemberType]


def line_from(payload: bytes) -> bytes:
    """The line of a frame that is encoded: `payload` is its JSON object."""
    return b'%b,"crc":%d}\n' % (payload[:-1], crc32c(payload))


def line_filled(form: bytes, *values: object) -> bytes:
    """The line of a frame whose JSON is a form with these values filled in."""
    payload = form % values
    return b'%b,"crc":%d}\n' % (payload[:-1], crc32c(payload))
