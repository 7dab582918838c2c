"""`tieline-files ROOT`: one directory as an MCP server.

Owns the command line. The tools are `server`'s.
"""

from __future__ import annotations

import argparse
import sys

from adapters import kit
from adapters.files.beneath import Root
from adapters.files.server import Files

VERSION = "0.1.0"


def build(root: Root, *, writable: bool) -> kit.App:
    """The adapter over a root; `write_file` is only offered where it is `writable`."""
    files = Files(root)
    app = kit.App("tieline-files", VERSION, instructions=f"Files beneath {root.path}.", resources=files)
    for reader in (files.list_directory, files.read_file, files.search_files):
        app.tool(read_only=True)(reader)
    if writable:
        app.tool(destructive=True)(files.write_file)
    return app


def main() -> None:
    """Serve the directory named on the command line."""
    parser = argparse.ArgumentParser(
        prog="tieline-files", description="Serve one directory as an MCP server."
    )
    parser.add_argument("root", help="the directory; nothing outside of it is ever opened")
    parser.add_argument("--writable", action="store_true", help="offer write_file")
    options = parser.parse_args()
    try:
        root = Root(options.root)
    except OSError as fault:
        sys.exit(f"tieline-files: {options.root}: {fault.strerror}")
    kit.run(build(root, writable=options.writable))


if __name__ == "__main__":
    main()
