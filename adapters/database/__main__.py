"""`tieline-database --url sqlite:///file.db`: databases as an MCP server.

Owns the command line and the reading of URLs. The tools are `server`'s.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from urllib.parse import unquote, urlsplit

from adapters import kit
from adapters.database.server import Databank
from adapters.database.sqlite import SQLite

VERSION = "0.1.0"
_NAMED = re.compile(r"^([A-Za-z][\w-]*)=(.+)$")


def open_url(given: str, *, writable: bool) -> tuple[str, SQLite]:
    """Open `[NAME=]sqlite:///PATH`; without a name it is the file's own.

    Three slashes lead to a relative path, four to an absolute one. Raises `kit.ToolError` naming the part of
    the URL that is wrong; what may be a password is not repeated.
    """
    named = _NAMED.match(given)
    url = urlsplit(named[2] if named else given)
    if url.scheme != "sqlite":
        raise kit.ToolError("invalid_request", f"scheme {url.scheme!r}: only sqlite is known")
    if url.netloc:
        raise kit.ToolError(
            "invalid_request", "a sqlite URL has no host: sqlite:///relative or sqlite:////absolute"
        )
    path = unquote(url.path[1:])
    if not path:
        raise kit.ToolError(
            "invalid_request", "a sqlite URL needs a path: sqlite:///relative or sqlite:////absolute"
        )
    name = named[1] if named else os.path.splitext(os.path.basename(path))[0]
    return name, SQLite(path, writable=writable)


def build(databases: dict[str, SQLite], *, timeout_s: float = 30.0, export_to: str | None = None) -> kit.App:
    """The adapter over open databases; `execute` and `export` are only offered where they can be used."""
    bank = Databank(databases, timeout_s=timeout_s, export_to=export_to)
    app = kit.App("tieline-database", VERSION, instructions="SQL databases: " + ", ".join(databases) + ".")
    for reader in (bank.list_databases, bank.schema, bank.query):
        app.tool(read_only=True)(reader)
    if export_to is not None:
        app.tool()(bank.export)
    if any(found.writable for found in databases.values()):
        app.tool(destructive=True)(bank.execute)
    for found in databases.values():
        app.on_close(found.close)
    return app


def main() -> None:
    """Serve the databases named on the command line."""
    parser = argparse.ArgumentParser(
        prog="tieline-database", description="Serve SQL databases as an MCP server."
    )
    parser.add_argument(
        "--url", action="append", required=True, help="[NAME=]sqlite:///PATH; may be given several times"
    )
    parser.add_argument("--writable", action="store_true", help="offer execute")
    parser.add_argument("--export-dir", help="offer export, which writes to new files in this directory")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds that a statement may run (30)")
    options = parser.parse_args()
    if options.export_dir and not os.path.isdir(options.export_dir):
        sys.exit(f"tieline-database: --export-dir {options.export_dir}: no such directory")
    databases: dict[str, SQLite] = {}
    for url in options.url:
        try:
            name, found = open_url(url, writable=options.writable)
        except kit.ToolError as fault:
            sys.exit(f"tieline-database: --url: {fault}")
        if name in databases:
            sys.exit(f"tieline-database: two databases are named {name}; write NAME=sqlite:///…")
        databases[name] = found
    kit.run(build(databases, timeout_s=options.timeout, export_to=options.export_dir))


if __name__ == "__main__":
    main()
