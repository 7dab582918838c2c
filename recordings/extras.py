"""How what is optional is installed, in words: one hint for all who miss it.

Owns the sentence alone; which extra needs what is said in `pyproject.toml`.
"""

from __future__ import annotations


def extra_hint(extra: str) -> str:
    """What to type in order to have an extra of this project, which is installed from its clone."""
    return (
        f"in the clone, `.tools/uv/bin/uv tool install '.[{extra}]'`; "
        f"in an environment of yours, `pip install '.[{extra}]'`"
    )
