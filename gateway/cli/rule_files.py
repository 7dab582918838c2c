"""Reading and writing the rules of a replay: `replay.toml` beside a recording, or `[replay]` of `tieline.toml`.

Owns where rules are looked for and how they are added to a file. What they mean is decided by `recordings.profile`.
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gateway.cli.output import BAD_INPUT, CliError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recordings.profile import Profile
    from recordings.reader import Recording

RULES = "replay.toml"
CONFIG = "tieline.toml"
TABLE = "replay"
"""The table of `tieline.toml` that holds what `replay.toml` holds at its root."""


def rules_for(recording: Path, rules: Path | None = None) -> Profile:
    """The rules of the file that is named, or of `replay.toml` in a recording or next to it; none where there is none.

    Raises:
        CliError: If the file cannot be read or a rule cannot be used, with file, line and key of every mistake.
    """
    from recordings.profile import BUILT_IN

    if rules is not None:
        return profile_from(rules)
    for path in (recording / RULES, recording.absolute().parent / RULES):
        if path.is_file():
            return profile_from(path)
    return BUILT_IN


def profiles_for(
    first: Recording,
    second: Recording | None = None,
    *,
    rules: Path | None = None,
    roots: Sequence[tuple[str, str]] = (),
) -> tuple[Profile, Profile]:
    """The profiles under which two recordings are compared; the second one's is of no use where there is none.

    Rules are those of a file, see `rules_for`, and then those under which the first recording was made. Roots are the
    pairs that are given, and those that both recordings were made with.

    Raises:
        CliError: If the rules cannot be used.
    """
    from gateway.config.recorded import profiles_of

    sides = [profiles_of(each.header.settings, roots={})[0] for each in (first, second) if each is not None]
    both = set[str].intersection(*({root.name for root in side.roots} for side in sides))
    base = sides[0].behind(rules_for(first.path, rules))
    named = [
        {f"root{number}": pair[at] for number, pair in enumerate(roots)}
        | {root.name: root.path for root in side.roots if root.name in both}
        for at, side in enumerate(sides)
    ]
    return base.with_roots(named[0]), base.with_roots(named[-1])


def profile_from(path: Path) -> Profile:
    """The profile that a file holds, see `rules_for`."""
    from gateway.config.lines import toml_lines
    from recordings.profile import BUILT_IN, ProfileError, profile_of

    text, table = _read(path)
    at = ()
    if path.name == CONFIG:
        found = table.get(TABLE)
        if found is None:
            return BUILT_IN
        if not isinstance(found, dict):
            raise CliError(f"{path}: `{TABLE}` must be a table", code=BAD_INPUT)
        table, at = cast("dict[str, Any]", found), (TABLE,)
    try:
        return profile_of(table, at=at, file=str(path), lines=toml_lines(text))
    except ProfileError as error:
        raise CliError(error.message, code=BAD_INPUT) from error


def table_of(path: Path | None) -> str:
    """What the tables of rules are called in a file: `rule` or `replay.rule`."""
    return f"{TABLE}.rule" if path is not None and path.name == CONFIG else "rule"


def add_rules(path: Path, rules: str) -> None:
    """Add rules, as TOML, to the end of a file, which is made where there is none; all of them or none.

    Raises:
        CliError: If the file cannot be read or written, or would not be TOML any more.
    """
    before = _read(path)[0] if path.exists() else ""
    gap = "" if not before or before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
    text = f"{before}{gap}{rules}"
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CliError(
            f"the rules cannot be added to `{path}`: {error}",
            hint=f"Write `[[{table_of(path)}]]` there",
            code=BAD_INPUT,
        ) from error
    try:
        # Through a link to the file that it names, and with that file's mode.
        target = path.resolve()
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), mode)
        Path(name).replace(target)
    except OSError as error:
        raise CliError(f"`{path}` cannot be written: {error.strerror}", code=BAD_INPUT) from error


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise CliError(f"`{path}` cannot be read: {error.strerror}", code=BAD_INPUT) from error
    except UnicodeDecodeError as error:
        raise CliError(f"{path}: is not UTF-8", code=BAD_INPUT) from error
    except tomllib.TOMLDecodeError as error:
        raise CliError(f"{path}: {error}", code=BAD_INPUT) from error
