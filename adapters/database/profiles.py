"""Named profiles: databases that a file describes, so that a command line only has to name them.

Owns the form of the file, which is TOML with a table for each database, and what is wrong with one. Pure.
"""

from __future__ import annotations

import difflib
import tomllib
from typing import Any

import msgspec

from adapters import kit
from adapters.database import urls


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One database. `password` says where its password lies, as `?password=` of a URL does."""

    url: str
    password: str = ""
    writable: bool = False
    """Offer `execute`."""
    timeout_s: float | None = None
    """Seconds that a statement may run; None for those of the command line."""
    tables: list[str] | None = None
    """The scope: patterns of the tables that statements may name; None for all."""


def read(text: str, where: str) -> dict[str, Profile]:
    """The profiles of a file, which `where` names. Raises `kit.ToolError` saying which table and key is wrong."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise _wrong(where, f"it is no TOML: {fault}") from None
    return {name: _profile(name, value, where) for name, value in tables.items()}


def chosen(found: dict[str, Profile], name: str, where: str) -> Profile:
    """One profile by its name. Raises `kit.ToolError`."""
    if name not in found:
        near = difflib.get_close_matches(name, found, 1)
        meant = f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(found) or 'none'}"
        raise _wrong(where, f"no profile {name!r}{meant}")
    return found[name]


def _profile(name: str, value: Any, where: str) -> Profile:
    place = f"[{name}]"
    if not isinstance(value, dict):
        raise _wrong(
            where, f"{name!r} stands outside of a table; a profile is written as [NAME] with url = …"
        )
    if not urls.is_name(name):
        raise _wrong(where, f"{place}: a name is a letter, and letters, digits, - and _ behind it")
    try:
        profile = msgspec.convert(value, Profile)
    except msgspec.ValidationError as fault:
        raise _wrong(where, f"{place}: {fault}") from None
    if profile.password and not urls.is_source(profile.password):
        # It may be the password itself, which is not repeated.
        raise _wrong(
            where, f"{place}: password: say env:NAME or keyring:SERVICE/USER, not the password itself"
        )
    if profile.timeout_s is not None and not 0 < profile.timeout_s <= 600:
        raise _wrong(where, f"{place}: timeout_s: more than 0 and at most 600")
    if not profile.url.startswith("env:"):
        try:
            urls.read(f"{name}={profile.url}")
        except kit.ToolError as fault:
            raise _wrong(where, f"{place}: url: {fault}") from None
    return profile


def _wrong(where: str, what: str) -> kit.ToolError:
    return kit.ToolError("invalid_request", f"{where}: {what}")
