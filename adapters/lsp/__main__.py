"""`tieline-lsp --root DIR --server basedpyright`: a language server as an MCP server.

Owns the command line. The tools are `server`'s.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from adapters import kit
from adapters.lsp.server import Code
from adapters.lsp.servers import PRESETS
from adapters.lsp.workspace import Workspace

VERSION = "0.1.0"
SAMPLE = os.path.join(os.path.dirname(__file__), "sample")


def build(workspace: Workspace) -> kit.App:
    """The adapter over a workspace."""
    code = Code(workspace)
    about = f"Code beneath {workspace.root}, as {workspace.server.name} understands it."
    app = kit.App("tieline-lsp", VERSION, instructions=about)
    for reader in (code.definition, code.references, code.hover, code.document_symbols, code.diagnostics):
        app.tool(read_only=True)(reader)
    app.on_close(workspace.close)
    return app


def main() -> None:
    """Serve the directory named on the command line, or write the sample project."""
    parser = argparse.ArgumentParser(
        prog="tieline-lsp", description="Serve a language server as an MCP server."
    )
    parser.add_argument("--root", default=".", help="the workspace; nothing outside of it may be asked about")
    parser.add_argument(
        "--server", choices=sorted(PRESETS), default="basedpyright", help="which server (basedpyright)"
    )
    parser.add_argument(
        "--write-sample", metavar="DIR", help="copy a small sample project to a new DIR, and end"
    )
    options = parser.parse_args()
    if options.write_sample:
        shutil.copytree(SAMPLE, options.write_sample, ignore=shutil.ignore_patterns("__pycache__"))
        return
    if not os.path.isdir(options.root):
        sys.exit(f"tieline-lsp: --root {options.root}: no such directory")
    kit.run(build(Workspace(options.root, PRESETS[options.server])))


if __name__ == "__main__":
    main()
