"""`tieline-editor --root DIR --socket PATH`: a person's editor as a server of tools, or as editor plugins offer theirs.

Owns the command line. The tools are `server`'s.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from adapters import kit
from adapters.editor.root import Root
from adapters.editor.server import Desk, build
from adapters.kit.asking import add_words, run_or_ask

VERSION = "0.1.0"


def main() -> None:
    """Serve the editor named on the command line."""
    parser = argparse.ArgumentParser(
        prog="tieline-editor",
        description="Serve an editor to an agent: Neovim, or one whose plugin serves agents.",
    )
    parser.add_argument(
        "--root", default=".", help="the workspace; nothing outside of it is shown or told of"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--socket", metavar="PATH", default=os.environ.get("NVIM"), help="where a Neovim listens ($NVIM)"
    )
    where.add_argument(
        "--plugin",
        action="store_true",
        help="an editor whose plugin has left a lock file for agents, found by the root",
    )
    where.add_argument("--embed", action="store_true", help="start a Neovim of our own, without a screen")
    parser.add_argument(
        "--nvim", default="nvim", metavar="PROGRAM", help="the program that --embed starts (nvim)"
    )
    parser.add_argument(
        "--offer",
        action="store_true",
        help="offer the Neovim to other agents too, as editor plugins do: by a lock file",
    )
    kit.add_options(parser)
    add_words(parser)
    options = parser.parse_args()
    options.root = os.path.expanduser(options.root)
    if not os.path.isdir(options.root):
        sys.exit(f"tieline-editor: --root {options.root}: no such directory")
    if not options.embed and not options.plugin and not options.socket:
        sys.exit(
            "tieline-editor: say --socket PATH (start Neovim with `nvim --listen PATH`), --plugin, or --embed"
        )
    if options.plugin and options.offer:
        sys.exit("tieline-editor: --offer is for Neovim; an editor with a plugin is offered by that already")
    root = Root(options.root)
    app, desk = build(VERSION, root)
    try:
        _furnish(options, root, app, desk)
    except ModuleNotFoundError as fault:
        from recordings.extras import extra_hint

        sys.exit(f"tieline-editor: {fault.name} is not installed: {extra_hint('editor')}")

    @app.on("session_start")
    async def look() -> None:  # events come once it is connected
        with contextlib.suppress(kit.ToolError):
            await desk.editor.about()

    run_or_ask(app, options, program="tieline-editor")


def _furnish(options: argparse.Namespace, root: Root, app: kit.App, desk: Desk) -> None:
    """Give the desk its editor. What is imported here needs an extra: raises `ModuleNotFoundError` without it."""
    from adapters.editor import ide_lock
    from adapters.editor.ide_client import IdeEditor
    from adapters.editor.ide_server import IdeServer
    from adapters.editor.neovim import Neovim

    locks = ide_lock.folder(os.environ)
    if options.plugin:
        desk.editor = IdeEditor(root, desk.happened, directory=locks)
    else:
        socket = None if options.embed else os.path.expanduser(options.socket)
        desk.editor = Neovim(root, desk.happened, socket=socket, command=[options.nvim])
    if options.offer:
        server = IdeServer(desk.editor, root, directory=locks, name="Neovim")
        desk.listeners.append(server.happened)
        app.on_start(server.start)
        app.closers.insert(0, server.stop)


if __name__ == "__main__":
    main()
