"""Values of databases as JSON that loses nothing.

Owns which values travel as text: integers that doubles cannot hold, numbers that are none, bytes, everything that is
exact in its own words. Pure.
"""

from __future__ import annotations

import base64
import math
from typing import Any

EXACT = 2**53
"""Integers beyond this lose digits in readers that make doubles of them."""


def integer(value: int) -> int | str:
    """An integer, as text where a double cannot hold it."""
    return value if -EXACT <= value <= EXACT else str(value)


def real(value: float) -> float | str:
    """A number, by name where JSON has none: `NaN`, `Infinity`, `-Infinity`."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def binary(value: bytes) -> dict[str, str]:
    """Bytes, marked as such."""
    return {"$bytes": base64.b64encode(value).decode()}


def size_of(value: Any) -> int:
    """About how many bytes a value of a driver takes, to bound a batch."""
    return len(value) if isinstance(value, str | bytes) else 8
