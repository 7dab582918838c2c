"""Amounts of money in cents."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Money:
    """An amount in cents of one currency."""

    cents: int
    currency: str = "EUR"

    def plus(self, other: "Money") -> "Money":
        """Add two amounts of the same currency."""
        if self.currency != other.currency:
            raise ValueError(f"{self.currency} is not {other.currency}")
        return Money(self.cents + other.cents, self.currency)

    def times(self, count: int) -> "Money":
        """Multiply by a whole number."""
        return Money(self.cents * count, self.currency)
