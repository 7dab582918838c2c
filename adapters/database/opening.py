"""From URLs to engines.

Owns which engine a URL stands for and that its driver is only imported where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from adapters import kit
from adapters.database import hinting, profiles, urls
from adapters.database.catalog_duckdb import DuckDBCatalog
from adapters.database.catalog_mysql import MySQLCatalog
from adapters.database.catalog_postgres import PostgresCatalog
from adapters.database.catalog_sqlite import SQLiteCatalog
from adapters.database.engine import Catalog, Engine
from adapters.database.hop import Played, hop_of, over
from adapters.database.offered import Limits
from adapters.database.sqlite import SQLite
from recordings.extras import extra_hint

_CATALOGS: dict[str, Callable[[], Catalog]] = {
    "sqlite": SQLiteCatalog,
    "duckdb": DuckDBCatalog,
    "mysql": MySQLCatalog,
    "postgres": PostgresCatalog,
}
"""The words of each engine that is served."""


def open_url(
    given: str, *, writable: bool, password: str = "", hops: kit.Hops | None = None
) -> tuple[str, Engine]:
    """Open `[NAME=]URL` or `[NAME=]env:VARIABLE`, a variable that holds a URL; return its name too.

    `password` says where it lies, for a URL that does not. Raises `kit.ToolError` naming the part of the URL that is
    wrong; what may be a password is not repeated. Under a host that plays the databases behind `hops`, nothing is
    opened.
    """
    name, text = urls.split_name(given)
    hidden = text.startswith("env:")
    if hidden:
        variable = text.removeprefix("env:")
        text = os.environ.get(variable, "")
        if not text:
            raise kit.ToolError("invalid_request", f"the environment has no {variable}")
        held, text = urls.split_name(text)
        name = name or held
    target = urls.read(f"{name}={text}" if name else text, hidden=hidden)
    if password:
        if target.engine in urls.FILES:
            raise kit.ToolError("invalid_request", f"password: a {target.engine} file has none")
        if target.secret or target.password:
            raise kit.ToolError("invalid_request", "password: the URL says already where it lies")
        target = msgspec.structs.replace(target, secret=password)
    if hops is not None and hops.is_played:
        return target.name, _played(target, hops, writable=writable)
    if hops is None or not hops.is_recorded:
        return target.name, _engine(target, writable=writable)
    try:
        engine = _engine(target, writable=writable)
    except kit.ToolError as fault:
        hops.started(hop_of(target.name), fault)
        raise
    hops.started(hop_of(target.name))
    return target.name, over(hops, target.name, engine)


def _played(target: urls.Target, hops: kit.Hops, *, writable: bool) -> Engine:
    catalog = _CATALOGS[target.engine]()
    return Played(hops, target.name, kind=target.engine, writable=writable, catalog=catalog)


def open_profile(
    name: str, path: str, *, writable: bool, hops: kit.Hops | None = None
) -> tuple[Engine, Limits]:
    """Open a database by its profile in a file, and with its limits.

    Raises `kit.ToolError` that names the file, the profile and what is wrong.
    """
    profile = profiles.chosen(_profiles(path), name, path)
    try:
        given = f"{name}={profile.url}"
        _, engine = open_url(
            given, writable=writable or profile.writable, password=profile.password, hops=hops
        )
        return engine, _limits(profile, engine.kind)
    except kit.ToolError as fault:
        raise kit.ToolError(fault.code, f"{path}: [{name}]: {fault}") from None


def _limits(profile: profiles.Profile, kind: str) -> Limits:
    if profile.tables is None:
        return Limits(timeout_s=profile.timeout_s)
    if hinting.load() is None:
        raise kit.ToolError("invalid_request", f"tables: sqlglot is not installed: {extra_hint('hints')}")
    from adapters.database.scoping import Scope

    return Limits(timeout_s=profile.timeout_s, scope=Scope(profile.tables, kind))


def _profiles(path: str) -> dict[str, profiles.Profile]:
    try:
        with open(path, encoding="utf-8") as file:
            return profiles.read(file.read(), path)
    except FileNotFoundError:
        raise kit.ToolError(
            "io", f"{path}: no such file; it holds the profiles, a table [NAME] each"
        ) from None
    except (OSError, UnicodeDecodeError) as fault:
        raise kit.ToolError("io", f"{path}: {fault}") from None


def _engine(target: urls.Target, *, writable: bool) -> Engine:
    if target.engine == "sqlite":
        return SQLite(target.path, writable=writable)
    if target.engine == "duckdb":
        try:
            from adapters.database.duck import DuckDB
        except ImportError:
            raise _missing("duckdb", "duckdb") from None
        return DuckDB(target.path, writable=writable)
    if target.engine == "mysql":
        try:
            from adapters.database.mysql import MySQL
        except ImportError:
            raise _missing("PyMySQL", "mysql") from None
        return MySQL(target, writable=writable)
    try:
        from adapters.database.postgres import Postgres
    except ImportError:
        raise _missing("psycopg", "postgres") from None
    return Postgres(target, writable=writable)


def _missing(driver: str, extra: str) -> kit.ToolError:
    return kit.ToolError("invalid_request", f"scheme: {driver} is not installed: {extra_hint(extra)}")
