"""Patterns and decoders that are made when they are first used: half a millisecond each, where none may be needed.

Owns what stands in the place of one until then. Knows no pattern and no type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, AnyStr, TypeVar, cast

import msgspec

T = TypeVar("T")


class Late:
    """Something with methods that is made when the first of them is looked up; each is looked up once."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make
        self._made: object = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            # In two threads at once it is made twice, and either will do.
            self._made = self._make()
        found = getattr(self._made, name)
        setattr(self, name, found)
        return found


def late(pattern: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[AnyStr]:
    """What `re.compile` returns, to whoever only calls its methods. The pattern has to be a valid one."""
    return cast("re.Pattern[AnyStr]", Late(partial(re.compile, pattern, flags)))


def late_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """What `msgspec.json.Decoder` returns, to whoever only calls its methods."""
    return cast("msgspec.json.Decoder[T]", Late(partial(msgspec.json.Decoder, kind)))
