"""Fixtures of the tests of recordings."""

from tests.recordings.lookup_kit import small_bar

__all__ = ["small_bar"]
