"""`tieline-editor --root DIR --socket PATH`: a person's editor as a server of tools.

Owns the command line. The tools are `server`'s.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from adapters import kit
from adapters.editor.root import Root
from adapters.editor.server import build

VERSION = "0.1.0"


def main() -> None:
    """Serve the editor named on the command line."""
    parser = argparse.ArgumentParser(
        prog="tieline-editor", description="Serve an editor: Neovim, over its own protocol."
    )
    parser.add_argument(
        "--root", default=".", help="the workspace; nothing outside of it is shown or told of"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--socket", metavar="PATH", default=os.environ.get("NVIM"), help="where a Neovim listens ($NVIM)"
    )
    where.add_argument("--embed", action="store_true", help="start a Neovim of our own, without a screen")
    parser.add_argument(
        "--nvim", default="nvim", metavar="PROGRAM", help="the program that --embed starts (nvim)"
    )
    kit.add_options(parser)
    options = parser.parse_args()
    options.root = os.path.expanduser(options.root)
    if not os.path.isdir(options.root):
        sys.exit(f"tieline-editor: --root {options.root}: no such directory")
    if not options.embed and not options.socket:
        sys.exit("tieline-editor: say --socket PATH (start Neovim with `nvim --listen PATH`), or --embed")
    try:
        from adapters.editor.neovim import Neovim  # what it needs is an extra
    except ModuleNotFoundError as fault:
        sys.exit(f"tieline-editor: {fault.name} is not installed: pip install 'tieline[editor]'")
    root = Root(options.root)
    app, desk = build(VERSION, f"The editor of the person, on files beneath {root.path}.")
    socket = None if options.embed else os.path.expanduser(options.socket)

    @app.on("session_start")
    async def look() -> None:  # events come once it is connected
        with contextlib.suppress(kit.ToolError):
            await desk.editor.about()

    desk.editor = Neovim(root, desk.happened, socket=socket, command=[options.nvim])
    kit.run(app, options)


if __name__ == "__main__":
    main()
