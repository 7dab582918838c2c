"""A database's URL into its parts, and what is wrong with it, part by part.

Owns the forms `[NAME=]ENGINE://…` and where a password may come from. What may be a password is never repeated. Pure.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from adapters import kit

ENGINES = {
    "sqlite": "sqlite",
    "duckdb": "duckdb",
    "mysql": "mysql",
    "mariadb": "mysql",
    "postgres": "postgres",
    "postgresql": "postgres",
}
"""Schemes, and the engine that each stands for."""
FILES = frozenset({"sqlite", "duckdb"})
"""Engines that are a file."""
_OPTIONS = {
    "postgres": frozenset({"password", "host", "sslmode", "sslrootcert", "sslcert", "sslkey"}),
    "sqlite": frozenset[str](),
    "duckdb": frozenset[str](),
    "mysql": frozenset({"password", "host", "ssl_ca"}),
}
_NAME = re.compile(r"[A-Za-z][\w-]*")
_NAMED = re.compile(rf"^({_NAME.pattern})=(.+)$", re.DOTALL)
_SOURCE = re.compile(r"^(env:[A-Za-z_]\w*|keyring:[^/]+/.+)$")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a database is. `secret` says where its password lies: `env:NAME` or `keyring:SERVICE/USER`."""

    name: str
    engine: str
    path: str = ""
    """The file, or the name of the database on its server."""
    host: str = ""
    port: int | None = None
    user: str = ""
    secret: str = ""
    password: str = ""
    """A password that the URL itself had, which only one out of the environment may."""
    options: dict[str, str] = {}

    @property
    def where(self) -> str:
        """It without user and password."""
        if self.engine in FILES:
            return posixpath.basename(self.path)
        port = f":{self.port}" if self.port else ""
        return f"{self.host or 'localhost'}{port}/{self.path}"


def is_name(text: str) -> bool:
    """Whether a database can be named so."""
    return _NAME.fullmatch(text) is not None


def is_source(text: str) -> bool:
    """Whether this says where a password lies: `env:NAME` or `keyring:SERVICE/USER`."""
    return _SOURCE.fullmatch(text) is not None


def split_name(given: str) -> tuple[str, str]:
    """The name of `NAME=URL`, empty where there is none, and the URL."""
    named = _NAMED.match(given)
    return (named[1], named[2]) if named else ("", given)


def read(given: str, *, hidden: bool = False) -> Target:
    """Read `[NAME=]ENGINE://…`; without a name it is the file's or the database's own.

    Three slashes lead to a relative path, four to an absolute one. Only a URL that is `hidden`, so that no list of
    processes shows it, may hold a password. Raises `kit.ToolError` naming the part of the URL that is wrong.
    """
    name, text = split_name(given)
    url = urlsplit(text)
    engine = ENGINES.get(url.scheme)
    if engine is None:
        known = ", ".join(sorted(ENGINES))
        if not url.scheme:
            raise _wrong(f"no scheme: a file is sqlite:///FILE; what is known is {known}")
        raise _wrong(f"scheme {url.scheme!r}: what is known is {known}")
    options = _options(url, engine)
    target = _file(url, engine) if engine in FILES else _server(url, engine, hidden=hidden)
    secret = options.pop("password", "")
    if secret and not is_source(secret):
        raise _wrong(
            "password: say env:NAME or keyring:SERVICE/USER; the password itself does not belong here"
        )
    host = options.pop("host", "") or target.host
    stem = posixpath.splitext(posixpath.basename(target.path))[0]
    return msgspec.structs.replace(
        target, name=name or stem or engine, secret=secret, host=host, options=options
    )


def _file(url: SplitResult, engine: str) -> Target:
    if url.netloc:
        raise _wrong(f"a {engine} URL has no host: {engine}:///relative or {engine}:////absolute")
    path = unquote(url.path[1:])
    if not path:
        raise _wrong(f"a {engine} URL needs a path: {engine}:///relative or {engine}:////absolute")
    return Target(name="", engine=engine, path=path)


def _server(url: SplitResult, engine: str, *, hidden: bool) -> Target:
    if url.password and not hidden:
        raise _wrong(
            f"password: others can read it here; write {engine}://user@host/database?password=env:NAME"
        )
    try:
        port = url.port
    except ValueError:
        raise _wrong("port: it is no number between 0 and 65535") from None
    path = unquote(url.path[1:])
    if not path or "/" in path:
        raise _wrong(f"database: one name behind the host, as in {engine}://user@host/database")
    return Target(
        name="",
        engine=engine,
        path=path,
        host=unquote(url.hostname or ""),
        port=port,
        user=unquote(url.username or ""),
        password=unquote(url.password or ""),
    )


def _options(url: SplitResult, engine: str) -> dict[str, str]:
    if url.fragment:
        raise _wrong("fragment: there is none; write # as %23")
    known = _OPTIONS[engine]
    options = dict(parse_qsl(url.query, keep_blank_values=True))
    for key in options:
        if key not in known:
            what = ", ".join(sorted(known)) or "none"
            raise _wrong(f"option {key!r}: what is known is {what}")
    return options


def _wrong(what: str) -> kit.ToolError:
    return kit.ToolError("invalid_request", what)
