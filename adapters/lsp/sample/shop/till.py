"""Where baskets are paid."""

from shop.basket import Basket
from shop.money import Money

GREETING = "😀 Grüezi"


def receipt(basket: Basket) -> str:
    """The text of a receipt."""
    total = basket.total()
    return f"{GREETING}: {total.cents / 100:.2f} {total.currency}"


def change(basket: Basket, given: Money) -> Money:
    """What the customer gets back."""
    return given.plus(basket.total().times(-1))


def sell() -> str:
    """Sell two lanterns."""
    basket = Basket()
    basket.add("Lantern", Money(450), count="2")
    return receipt(basket)
