"""A TOML document that people write, read with what its mistakes need: on which line each key stands.

Owns the one way to parse such a file and to say where it is no TOML. What its keys mean is for whoever reads it. Pure.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from gateway.config.mistakes import ConfigError, KeyPath, Mistake, Report


def toml_document(text: str, report: Report) -> dict[str, Any]:
    """Return the document, and let `report` know its lines.

    Raises:
        ConfigError: If it is not valid TOML, with the line.
    """
    # A start without such a file, as of `tieline record`, does not load it.
    import tomllib

    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError([_syntax(report.file, str(error))]) from error
    report.lines = partial(_lines, text)
    return document


def _lines(text: str) -> dict[KeyPath, int]:
    from gateway.config.lines import toml_lines

    return toml_lines(text)


def _syntax(file: str, error: str) -> Mistake:
    match = re.search(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)", error)
    if match is None:
        return Mistake(file, None, "", f"is not valid TOML: {error}")
    line = int(match[1]) if match[1] else None
    where = f" (column {match[2]})" if match[2] else " at the end of the file"
    return Mistake(file, line, "", f"is not valid TOML: {error[: match.start()]}{where}")
