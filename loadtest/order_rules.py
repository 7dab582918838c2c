"""The rules by which other tools find the recorded answer for a live request, to be measured beside ours.

Each is given the recorded calls in order, as (tool, key, answer), and answers at once. None of them holds anything
back: what they get wrong they get wrong in the best of cases.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

MISSING = "error: nothing recorded"


class Called(NamedTuple):
    """One recorded call."""

    tool: str
    key: str
    answer: str


Rule: TypeAlias = Callable[[Sequence[Called]], Callable[[int, str, str], Awaitable[str]]]


def first_match(calls: Sequence[Called]) -> Callable[[int, str, str], Awaitable[str]]:
    """The first recorded answer to an equal request, always."""
    known: dict[tuple[str, str], str] = {}
    for call in calls:
        known.setdefault((call.tool, call.key), call.answer)

    async def ask(task: int, tool: str, key: str) -> str:
        return known.get((tool, key), MISSING)

    return ask


def global_order(calls: Sequence[Called]) -> Callable[[int, str, str], Awaitable[str]]:
    """The next recorded call, whoever asks, provided that it is the one."""
    left = deque(calls)

    async def ask(task: int, tool: str, key: str) -> str:
        if left and (left[0].tool, left[0].key) == (tool, key):
            return left.popleft().answer
        return MISSING

    return ask


def fifo(calls: Sequence[Called]) -> Callable[[int, str, str], Awaitable[str]]:
    """The oldest unused recorded answer to an equal request."""
    left: defaultdict[tuple[str, str], deque[str]] = defaultdict(deque)
    for call in calls:
        left[call.tool, call.key].append(call.answer)

    async def ask(task: int, tool: str, key: str) -> str:
        answers = left[tool, key]
        return answers.popleft() if answers else MISSING

    return ask


RULES: dict[str, Rule] = {"first match": first_match, "global order": global_order, "FIFO a key": fifo}
