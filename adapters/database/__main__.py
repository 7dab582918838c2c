"""`tieline-database --url sqlite:///file.db`: databases as an MCP server.

Owns the command line and what is offered. The tools are `server`'s.
"""

from __future__ import annotations

import argparse
import os
import sys

from adapters import kit
from adapters.database.engine import Engine
from adapters.database.opening import open_url
from adapters.database.resources import Schemas
from adapters.database.server import Databank

VERSION = "0.2.0"
TEMPLATE = "schema://{database}/{table}"


def build(
    databases: dict[str, Engine],
    *,
    timeout_s: float = 30.0,
    export_to: str | None = None,
    hops: kit.Hops | None = None,
) -> kit.App:
    """The adapter over open databases; `execute` and `export` are only offered where they can be used.

    `hops` are those that the databases were opened with.
    """
    bank = Databank(
        databases,
        timeout_s=timeout_s,
        export_to=export_to,
        schema_changed=lambda: app.changed("resources"),
    )
    schemas = Schemas(bank, timeout_s)
    app = kit.App(
        "tieline-database",
        VERSION,
        instructions="SQL databases: " + ", ".join(databases) + ".",
        resources=schemas,
        hops=hops,
    )
    for reader in (bank.list_databases, bank.schema, bank.query, bank.explain, bank.sample):
        app.tool(read_only=True)(reader)
    if export_to is not None:
        app.tool()(bank.export)
    if any(found.writable for found in databases.values()):
        app.tool(destructive=True)(bank.execute)
    app.resource(TEMPLATE, name="table", mime_type="application/json")(schemas.table)
    app.completion(TEMPLATE, "database")(schemas.complete_database)
    app.completion(TEMPLATE, "table")(schemas.complete_table)
    for found in databases.values():
        app.on_close(found.close)
    return app


def main() -> None:
    """Serve the databases named on the command line."""
    parser = argparse.ArgumentParser(
        prog="tieline-database", description="Serve SQL databases as an MCP server."
    )
    parser.add_argument(
        "--url",
        action="append",
        required=True,
        help="[NAME=]sqlite:///PATH, [NAME=]postgres://USER@HOST/DATABASE?password=env:VARIABLE, or "
        "[NAME=]env:VARIABLE that holds a URL; may be given several times",
    )
    parser.add_argument("--writable", action="store_true", help="offer execute")
    parser.add_argument("--export-dir", help="offer export, which writes to new files in this directory")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds that a statement may run (30)")
    kit.add_options(parser)
    options = parser.parse_args()
    if options.export_dir and not os.path.isdir(options.export_dir):
        sys.exit(f"tieline-database: --export-dir {options.export_dir}: no such directory")
    hops = kit.Hops.wanted(os.environ)
    databases: dict[str, Engine] = {}
    for url in options.url:
        try:
            name, found = open_url(url, writable=options.writable, hops=hops)
        except kit.ToolError as fault:
            sys.exit(f"tieline-database: --url: {fault}")
        if name in databases:
            sys.exit(f"tieline-database: two databases are named {name}; write NAME={found.kind}://…")
        databases[name] = found
    app = build(databases, timeout_s=options.timeout, export_to=options.export_dir, hops=hops)
    kit.run(app, options)


if __name__ == "__main__":
    main()
