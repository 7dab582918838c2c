"""`tieline-database --url sqlite:///file.db`, or `--profile NAME`: databases as an MCP server.

Owns the command line and what is offered. The tools are `server`'s.
"""

from __future__ import annotations

import argparse
import os
import sys

from adapters import kit
from adapters.database.engine import Engine
from adapters.database.offered import Limits
from adapters.database.opening import open_profile, open_url
from adapters.database.resources import Schemas
from adapters.database.server import Databank
from adapters.kit.asking import add_words, run_or_ask

PROGRAM = "tieline-database"
VERSION = "0.2.0"
TEMPLATE = "schema://{database}/{table}"


def build(
    databases: dict[str, Engine],
    *,
    timeout_s: float = 30.0,
    limits: dict[str, Limits] | None = None,
    export_to: str | None = None,
    hops: kit.Hops | None = None,
) -> kit.App:
    """The adapter over open databases; `execute` and `export` are only offered where they can be used.

    `limits` are for single databases, by name. `hops` are those that the databases were opened with.
    """
    bank = Databank(
        databases,
        timeout_s=timeout_s,
        limits=limits,
        export_to=export_to,
        schema_changed=lambda: app.changed("resources"),
    )
    schemas = Schemas(bank)
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
    """Serve the databases named on the command line, or ask them."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Serve SQL databases as an MCP server, or ask them from a command line."
    )
    parser.add_argument(
        "--url",
        action="append",
        default=[],
        help="[NAME=]sqlite:///PATH, [NAME=]postgres://USER@HOST/DATABASE?password=env:VARIABLE, or "
        "[NAME=]env:VARIABLE that holds a URL; may be given several times",
    )
    parser.add_argument(
        "--profile",
        action="append",
        default=[],
        metavar="NAME",
        help="a database of the file of profiles; may be given several times",
    )
    usual = os.path.join(
        os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "tieline", "databases.toml"
    )
    parser.add_argument("--profiles", metavar="FILE", help=f"the file of profiles ({usual})")
    parser.add_argument("--writable", action="store_true", help="offer execute for all of them")
    parser.add_argument("--export-dir", help="offer export, which writes to new files in this directory")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds that a statement may run (30)")
    kit.add_options(parser)
    add_words(parser)
    options = parser.parse_args()
    if options.export_dir and not os.path.isdir(options.export_dir):
        sys.exit(f"{PROGRAM}: --export-dir {options.export_dir}: no such directory")
    if not options.url and not options.profile:
        sys.exit(f"{PROGRAM}: no database: say --url URL or --profile NAME")
    hops = kit.Hops.wanted(os.environ)
    try:
        databases, limits = _opened(options, options.profiles or usual, hops)
    except kit.ToolError as fault:
        sys.exit(f"{PROGRAM}: {fault}")
    app = build(databases, timeout_s=options.timeout, limits=limits, export_to=options.export_dir, hops=hops)
    run_or_ask(app, options, program=PROGRAM)


def _opened(
    options: argparse.Namespace, place: str, hops: kit.Hops | None
) -> tuple[dict[str, Engine], dict[str, Limits]]:
    """The databases that were named, and their own limits. Raises `kit.ToolError`."""
    databases: dict[str, Engine] = {}
    limits: dict[str, Limits] = {}

    def add(name: str, found: Engine) -> None:
        if name in databases:
            raise kit.ToolError(
                "invalid_request", f"two databases are named {name}; write --url NAME={found.kind}://…"
            )
        databases[name] = found

    for url in options.url:
        try:
            name, found = open_url(url, writable=options.writable, hops=hops)
        except kit.ToolError as fault:
            raise kit.ToolError(fault.code, f"--url: {fault}") from None
        add(name, found)
    for name in options.profile:
        found, limits[name] = open_profile(name, place, writable=options.writable, hops=hops)
        add(name, found)
    return databases, limits


if __name__ == "__main__":
    main()
