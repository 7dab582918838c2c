"""The changes that were shown and may still be made, by the hash of what they are.

Owns how many are kept. Pure.
"""

from __future__ import annotations

from collections import OrderedDict

from adapters import kit
from adapters.lsp.edits import Plan

MAX_PLANS = 200
MAX_CHARACTERS = 50_000_000


class Plans:
    """The newest plans. The last one is kept however large it is."""

    def __init__(self, most: int = MAX_PLANS, most_characters: int = MAX_CHARACTERS) -> None:
        self._most, self._most_characters = most, most_characters
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        self._size = 0

    def add(self, plan: Plan) -> None:
        """Keep a plan, and let the oldest ones go."""
        self.drop(plan.id)
        self._plans[plan.id] = plan
        self._size += plan.size
        while len(self._plans) > 1 and (len(self._plans) > self._most or self._size > self._most_characters):
            self.drop(next(iter(self._plans)))

    def get(self, name: str) -> Plan:
        """A plan by its id. Raises `kit.ToolError` (`invalid_request`) for one that was never made, or is gone."""
        if name not in self._plans:
            told = (
                f"there is no plan {name!r}: it was made by another process, applied already, or is too old"
            )
            raise kit.ToolError("invalid_request", f"{told}. Ask for the change again")
        return self._plans[name]

    def drop(self, name: str) -> None:
        """Forget a plan."""
        plan = self._plans.pop(name, None)
        self._size -= plan.size if plan else 0
