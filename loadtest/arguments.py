"""Numbers on the command lines of what measures: those that no run can have are wrong use, and said at once.

Owns the functions that `argparse` is given as types; each raises `argparse.ArgumentTypeError`. Pure.
"""

from __future__ import annotations

import argparse
from math import isfinite, nan


def at_least_one(text: str) -> int:
    """A whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of 1 or more, not {text}")
    return int(text)


def count(text: str) -> int:
    """A whole number of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number of 0 or more, not {text}")
    return int(text)


def number(text: str) -> float:
    """A finite number of 0 or more."""
    try:
        found = float(text)
    except ValueError:
        found = nan
    if not isfinite(found) or found < 0:
        raise argparse.ArgumentTypeError(f"must be a number of 0 or more, not {text}")
    return found


def more_than_nothing(text: str) -> float:
    """A finite number above 0."""
    if not (found := number(text)):
        raise argparse.ArgumentTypeError("must be more than 0")
    return found


def port(text: str) -> int:
    """A TCP port, or 0 for any."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 65535, not {text}")
    return int(text)
