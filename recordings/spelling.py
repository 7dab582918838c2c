"""Paths as text, spelled as `pathlib` spells them and without loading it, which takes a twenty-fifth of a start.

Owns the spelling alone: nothing is looked at. Pure but for the working directory, and for `~`, which `pathlib` is asked
about. A test holds both equal.
"""

from __future__ import annotations

import os


def spelled(path: str) -> str:
    """Return `str(Path(path))`."""
    if os.sep != "/":
        from pathlib import Path

        return str(Path(path))
    root = "//" if path[:2] == "//" != path[1:3] else path[:1] if path[:1] == "/" else ""
    return root + "/".join(part for part in path.split("/") if part not in ("", ".")) or "."


def absolute(path: str) -> str:
    """Return `str(Path(path).absolute())`."""
    return spelled(os.path.join(os.getcwd(), path))


def expanded(path: str) -> str:
    """Return `str(Path(path).expanduser())`."""
    plain = spelled(path)
    if plain[:1] != "~":
        return plain
    from pathlib import Path

    return str(Path(path).expanduser())


def joined(directory: str, path: str) -> str:
    """Return `str(Path(directory) / path)`."""
    return spelled(os.path.join(directory, path))
