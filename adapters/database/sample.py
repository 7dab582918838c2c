"""`tieline-database --write-sample FILE`: a small shop as an SQLite file, the same at every run.

Owns the sample's tables and rows. Uses no dice and no clock.
"""

from __future__ import annotations

import os
import sqlite3

SCHEMA = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, joined TEXT NOT NULL);
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, price_cents INTEGER NOT NULL);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customers(id),
    placed TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open'
);
CREATE TABLE order_lines (
    order_id INTEGER NOT NULL REFERENCES orders(id),
    product_id INTEGER NOT NULL REFERENCES products(id),
    quantity INTEGER NOT NULL,
    PRIMARY KEY (order_id, product_id)
);
CREATE INDEX orders_by_customer ON orders(customer_id);
CREATE VIEW revenue AS
    SELECT p.name AS product, sum(l.quantity * p.price_cents) AS cents
    FROM order_lines l JOIN products p ON p.id = l.product_id GROUP BY p.id;
"""
NAMES = ("Ada", "Björn", "Chiara", "Dmitri", "Esra", "Fatou", "Goro", "Hana", "Ines", "Jun")
CITIES = ("Lisbon", "Oslo", "Kraków", "Nairobi", None)
PRODUCTS = ("Lantern", "Kettle", "Compass", "Rope", "Tent", "Stove", "Map", "Whistle")
STATES = ("open", "paid", "sent", "cancelled")


def create(path: str, *, orders: int = 5000) -> None:
    """Write the sample to a new file. Raises `FileExistsError` rather than to touch one that is there."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    connection = sqlite3.connect(path)
    try:
        with connection:
            connection.executescript(SCHEMA)
            people = [(f"{name} {index}", CITIES[index % 5]) for index in range(20) for name in NAMES]
            connection.executemany(
                "INSERT INTO customers (name, city, joined) VALUES (?, ?, ?)",
                [(name, city, _day(index * 3)) for index, (name, city) in enumerate(people)],
            )
            connection.executemany(
                "INSERT INTO products (name, price_cents) VALUES (?, ?)",
                [(name, 450 + index * index * 125) for index, name in enumerate(PRODUCTS)],
            )
            connection.executemany(
                "INSERT INTO orders (customer_id, placed, state) VALUES (?, ?, ?)",
                [
                    (index * 7 % 200 + 1, _day(index % 600), STATES[index * index % 11 % 4])
                    for index in range(orders)
                ],
            )
            connection.executemany(
                "INSERT INTO order_lines VALUES (?, ?, ?)",
                [
                    (order + 1, (order * 3 + line * 5) % 8 + 1, (order + line) % 4 + 1)
                    for order in range(orders)
                    for line in range(order % 3 + 1)
                ],
            )
    finally:
        connection.close()


def _day(index: int) -> str:
    """A date in a calendar of 28-day months: valid, ordered, and without a clock."""
    return f"{2024 + index // 336}-{index // 28 % 12 + 1:02d}-{index % 28 + 1:02d}"
