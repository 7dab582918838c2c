"""What PostgreSQL says has gone wrong, as what a caller is told: its own words, where in the statement, and its hint.

Owns the mapping of its codes to the taxonomy, and which part of a URL a refused connection is about. Pure.
"""

from __future__ import annotations

import re

import psycopg

from adapters import kit
from adapters.database.secrets import without
from gateway.protocol.errors import Code

_CODES: dict[str, Code] = {
    "25006": "denied",
    "42501": "denied",
    "55P03": "timeout",
    "57014": "timeout",
    "57P01": "io",
    "57P02": "io",
    "57P03": "io",
}
_CLASSES: dict[str, Code] = {"08": "io", "28": "denied", "40": "io", "53": "io", "58": "io", "XX": "io"}
_PARTS = (
    (r"translate host name|Name or service", "host"),
    (r"refused|No such file|timeout|timed out|unreachable|No route", "host or port"),
    (r"password|authentication|pg_hba", "user or password"),
    (r"role \".*\" does not exist", "user"),
    (r"database \".*\" does not exist", "database"),
    (r"ssl|certificate", "option sslmode"),
)


def explain(fault: psycopg.Error, sql: str, secret: str) -> kit.ToolError:
    """An error of a statement."""
    if isinstance(fault, psycopg.ProgrammingError) and not fault.sqlstate:
        return kit.ToolError("invalid_request", "this statement gives no rows")
    state = fault.sqlstate or ""
    if not state and "EMPTY_QUERY" in str(fault):
        return kit.ToolError("invalid_request", "there is no statement")
    diag = fault.diag
    code = _CODES.get(state) or _CLASSES.get(state[:2]) or ("invalid_request" if state else "io")
    words = diag.message_primary or str(fault) or type(fault).__name__
    details: dict[str, str | int] = {"engine_code": state} if state else {}
    at = int(diag.statement_position) if diag.statement_position else 0
    if at and at <= len(sql):
        line = sql.count("\n", 0, at - 1) + 1
        column = at - (sql.rfind("\n", 0, at - 1) + 1)
        details |= {"line": line, "column": column}
        words += f", at {sql[at - 1 : at + 39].splitlines()[0]!r}"
    for name, said in (("detail", diag.message_detail), ("hint", diag.message_hint)):
        if said:
            words += f"\n{name}: {said}"
            details[name] = without(said, secret)
    return kit.ToolError(code, without(words, secret), **details)


def unreachable(fault: psycopg.Error, where: str, secret: str) -> kit.ToolError:
    """A connection that does not come about: which part of the URL it is about."""
    words = " ".join(without(str(fault), secret).split())
    part = next((part for said, part in _PARTS if re.search(said, words, re.IGNORECASE)), "")
    about = f" ({part} of the URL?)" if part else ""
    return kit.ToolError("io", f"no connection to {where}{about}: {words}")
