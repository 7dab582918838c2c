"""What a service answers with, and how long it may take.

Owns the two shapes. Pure.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from adapters.lsp.readiness import Readiness

T = TypeVar("T")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long is waited. All in seconds."""

    answer_s: float = 30.0
    """For one answer of a server."""
    whole_s: float = 15.0
    """For a server to load, or to push diagnostics, before it is said that the answer is not the whole one."""


class Answer(msgspec.Struct, Generic[T]):
    """An answer, and what is known of it. `why` says in words why it may not be the whole one.

    `silent` is true where the server said nothing, and the value stands for that.
    """

    value: T
    whole: bool
    readiness: Readiness
    why: str = ""
    silent: bool = False
