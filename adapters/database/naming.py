"""Which tables a statement names, by its text: for hints, and for the scopes of a policy.

Owns that reading, which sqlglot does, and how a name is compared with a pattern. Keeps nobody from anything: what may
be read or written is the engine's and the role's, since a view or a function names no table that it reads. Pure.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

import msgspec
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

_WRITING: Final = (
    exp.Insert,
    exp.Update,
    exp.Delete,
    exp.Merge,
    exp.Create,
    exp.Drop,
    exp.Alter,
    exp.TruncateTable,
)
_PLAN: Final = re.compile(r"\s*EXPLAIN\s+(?:ANALYZE\s+|\([^)]*\)\s*|QUERY\s+PLAN\s+)?", re.IGNORECASE)
_EXECUTED: Final = re.compile(r"/\*M?!")
_REPLACE: Final = re.compile(r"^\s*REPLACE(?=\s+INTO\b)", re.IGNORECASE)
"""SQLite's other way of saying INSERT OR REPLACE, which sqlglot does not know."""
_OWN: Final = {"postgres": "public", "sqlite": "main", "duckdb": "main"}
"""The schema that is left out of a name, as the catalogs do."""
MOST_SIMILAR: Final = 3


class UnreadError(Exception):
    """A statement whose tables cannot be told from its text; the message says why."""


class Named(msgspec.Struct, frozen=True):
    """The tables that a statement names, each once, in order, with a schema where that is not the usual one."""

    reads: list[str]
    writes: list[str]


def named(sql: str, engine: str) -> Named:
    """The tables of one statement. `engine` is one of `urls.ENGINES`' values. Raises `UnreadError`."""
    statement = _parsed(sql, engine)
    targets = {id(table) for table in _targets(statement)}
    reads: set[str] = set()
    writes: set[str] = set()
    for table in statement.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue  # a function
        if id(table) in targets:
            writes.add(_name(table, engine))
        elif table.db or not _is_defined(table):
            reads.add(_name(table, engine))
    return Named(reads=sorted(reads), writes=sorted(writes))


def fits(table: str, patterns: Iterable[str], engine: str) -> bool:
    """Whether a table, as `named` or a catalog names it, fits one of the patterns with `*` and `?`."""
    name = table if engine == "postgres" else table.lower()
    bare = name.replace('"', "")
    return any(
        fnmatchcase(each, pattern if engine == "postgres" else pattern.lower())
        for pattern in patterns
        for each in (name, bare)
    )


def literal(table: str) -> str:
    """A pattern that only this table fits."""
    return re.sub(r"([\[*?])", r"[\1]", table.replace('"', ""))


def similar(name: str, known: Iterable[str]) -> list[str]:
    """What is there under nearly that name, the nearest first."""
    by_lower = {each.lower(): each for each in known}
    return [by_lower[each] for each in difflib.get_close_matches(name.lower(), by_lower, MOST_SIMILAR)]


def columns(sql: str, engine: str) -> list[str]:
    """The columns that a statement names and does not name itself, each once. Raises `UnreadError`."""
    statement = _parsed(sql, engine)
    given = {alias.alias for alias in statement.find_all(exp.Alias)}
    return sorted({column.name for column in statement.find_all(exp.Column) if column.name} - given)


def _parsed(sql: str, engine: str) -> exp.Expr:
    if engine == "mysql" and _EXECUTED.search(sql):
        raise UnreadError("it has a comment that the server executes")
    if plan := _PLAN.match(sql):
        sql = sql[plan.end() :]
    if engine == "sqlite":
        sql = _REPLACE.sub("INSERT OR REPLACE", sql)
    try:
        found = [each for each in sqlglot.parse(sql, read=engine) if each is not None]
    except (SqlglotError, RecursionError) as fault:
        raise UnreadError(str(fault).partition("\n")[0].rstrip(".") or "it is too deep") from None
    if len(found) != 1:
        raise UnreadError(f"it is {len(found)} statements")
    if any(isinstance(each, exp.Command) for each in found[0].walk()):
        raise UnreadError("it is a statement of its engine alone")
    return found[0]


def _is_defined(table: exp.Table) -> bool:
    """Whether the statement itself defines this name, in a WITH that is seen from there."""
    inside: exp.Expr = table
    while (outside := inside.parent) is not None:
        clause = outside.args.get("with_")
        if isinstance(outside, exp.With):
            # Of its own WITH an expression sees what stands before it, and itself where it is recursive.
            seen: list[exp.Expr] = outside.expressions
            if not outside.recursive:
                seen = seen[: next(at for at, each in enumerate(seen) if each is inside)]
        else:
            seen = clause.expressions if clause is not None and clause is not inside else []
        if any(each.alias.lower() == table.name.lower() for each in seen):
            return True
        inside = outside
    return False


def _targets(statement: exp.Expr) -> Iterable[exp.Table]:
    for writing in statement.find_all(*_WRITING):
        if isinstance(writing, exp.Drop):
            yield from writing.find_all(exp.Table)
        target = writing.this
        if isinstance(target, exp.Schema):
            target = target.this
        if isinstance(target, exp.Table):
            yield target
        for each in writing.expressions:
            if isinstance(each, exp.Table):
                yield each
    for into in statement.find_all(exp.Into):
        if isinstance(into.this, exp.Table):
            yield into.this


def _name(table: exp.Table, engine: str) -> str:
    parts = [part for part in table.parts if isinstance(part, exp.Identifier)]
    words = [part.this if part.quoted or engine != "postgres" else part.this.lower() for part in parts]
    if len(words) > 1 and words[-2].lower() == _OWN.get(engine):
        words = words[-1:]
    return ".".join(words)
