"""`tieline-database --url sqlite:///file.db`, or `--profile NAME`: databases as an MCP server.

Owns the command line and what is offered. The tools are `server`'s.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial

from adapters import kit
from adapters.database import sample
from adapters.database.engine import Engine
from adapters.database.hop import Played
from adapters.database.offered import Limits
from adapters.database.opening import open_profile, open_url
from adapters.database.resources import Schemas
from adapters.database.server import Databank
from adapters.kit.asking import add_words, run_or_ask, write_sample

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
    parser.add_argument(
        "--write-sample", metavar="FILE", help="write a small shop to a new SQLite FILE, and end"
    )
    kit.add_options(parser)
    add_words(parser)
    options = parser.parse_args()
    if options.write_sample:
        write_sample(PROGRAM, options.write_sample, sample.create)
        return
    if options.export_dir and not os.path.isdir(options.export_dir):
        sys.exit(f"{PROGRAM}: --export-dir {options.export_dir}: no such directory")
    if not options.url and not options.profile:
        sys.exit(f"{PROGRAM}: no database: say --url URL or --profile NAME")
    hops = kit.Hops.wanted(os.environ)
    try:
        opened = _opened(options, options.profiles or usual, hops)
    except kit.ToolError as fault:
        if hops.is_recorded and options.dialect == "mcp" and options.listen == "stdio":
            # The host is told at which hop it was, and hears nothing else.
            app = kit.App(PROGRAM, VERSION, hops=hops)
            app.opening = partial(_fail, fault)
            kit.run(app, options)
        sys.exit(f"{PROGRAM}: {fault}")
    app = build(
        opened.databases,
        timeout_s=options.timeout,
        limits=opened.limits,
        export_to=options.export_dir,
        hops=hops,
    )
    if hops.is_played:
        app.opening = opened.start
    run_or_ask(app, options, program=PROGRAM)


async def _fail(fault: kit.ToolError) -> None:
    raise fault


class _Opened:
    """The databases that were named."""

    def __init__(self) -> None:
        self.databases: dict[str, Engine] = {}
        self.limits: dict[str, Limits] = {}
        self._named: list[tuple[Engine, str]] = []

    def add(self, name: str, found: Engine, named: str) -> None:
        """Take one; `named` is where. Raises `kit.ToolError` where there is one of that name."""
        if name in self.databases:
            raise kit.ToolError(
                "invalid_request", f"two databases are named {name}; write --url NAME={found.kind}://…"
            )
        self.databases[name] = found
        self._named.append((found, named))

    async def start(self) -> None:
        """Hear of those that are played whether they could be opened. Raises `kit.ToolError` as recorded."""
        for found, named in self._named:
            try:
                if isinstance(found, Played):
                    await found.start()
            except kit.ToolError as fault:
                raise kit.ToolError(fault.code, f"{named}: {fault}") from None


def _opened(options: argparse.Namespace, place: str, hops: kit.Hops) -> _Opened:
    """The databases that were named, and their own limits. Raises `kit.ToolError`."""
    opened = _Opened()
    for url in options.url:
        try:
            name, found = open_url(url, writable=options.writable, hops=hops)
        except kit.ToolError as fault:
            raise kit.ToolError(fault.code, f"--url: {fault}") from None
        opened.add(name, found, "--url")
    for name in options.profile:
        found, opened.limits[name] = open_profile(name, place, writable=options.writable, hops=hops)
        opened.add(name, found, f"{place}: [{name}]")
    return opened


if __name__ == "__main__":
    main()
