"""The kinds of values that settings have: bounded numbers, and the marks that say how a value is read.

Owns what a mark in a field's `Meta(extra=…)` means. `reading` and `references` go by the marks.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta

Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=86_400)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Port: TypeAlias = Annotated[int, Meta(ge=0, le=65_535)]

TEXT = {"expand": True}
"""Marks a field in whose text `${VAR}` is replaced."""
SECRET = {"expand": True, "refs": True}
"""Marks a field whose values may also be tables that say where a secret lies."""
PLACE = {"expand": True, "path": True}
"""Marks a path: `~` is replaced, and what is relative begins at the directory of the file."""
PLANNED = {"planned": True}
"""Marks a setting that is read and checked, and that nothing in this version goes by."""
INTERNAL = {"internal": True}
"""Marks a field that the loader fills in: it is no key of a file."""
