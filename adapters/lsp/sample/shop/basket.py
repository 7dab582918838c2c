"""What somebody is about to buy."""

from shop.money import Money


class Basket:
    """Products with their prices and quantities."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, Money, int]] = []

    def add(self, product: str, price: Money, count: int = 1) -> None:
        """Put a product into the basket."""
        self._lines.append((product, price, count))

    def total(self) -> Money:
        """The price of everything."""
        total = Money(0)
        for _, price, count in self._lines:
            total = total.plus(price.times(count))
        return total
