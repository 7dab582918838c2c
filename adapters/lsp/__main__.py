"""`tieline-lsp --root DIR --server basedpyright --server ruff`: language servers as an MCP server.

Owns the command line. The tools are `server`'s.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from adapters import kit
from adapters.kit.asking import add_words, run_or_ask, write_sample
from adapters.lsp.answer import Limits
from adapters.lsp.choice import ChoiceError, choose
from adapters.lsp.hop import reach_over
from adapters.lsp.server import build
from adapters.lsp.servers import PRESETS
from adapters.lsp.workspace import Workspace

SAMPLE = os.path.join(os.path.dirname(__file__), "sample")


def main() -> None:
    """Serve the directory named on the command line, or write the sample project."""
    limits = Limits()
    parser = argparse.ArgumentParser(
        prog="tieline-lsp", description="Serve language servers as an MCP server."
    )
    parser.add_argument("--root", default=".", help="the workspace; nothing outside of it may be asked about")
    parser.add_argument(
        "--server",
        action="append",
        default=[],
        metavar="NAME[=COMMAND]",
        help=f"a server, several times for several; the first one that can is asked. {', '.join(sorted(PRESETS))}, "
        "or one of --servers (basedpyright)",
    )
    parser.add_argument("--servers", metavar="FILE", help="servers of your own, a TOML table each")
    parser.add_argument(
        "--answer-s",
        type=float,
        default=limits.answer_s,
        help=f"seconds for one answer ({limits.answer_s:g})",
    )
    parser.add_argument(
        "--whole-s",
        type=float,
        default=limits.whole_s,
        help=f"seconds for a server to load ({limits.whole_s:g})",
    )
    parser.add_argument(
        "--write-sample", metavar="DIR", help="copy a small sample project to a new DIR, and end"
    )
    kit.add_options(parser)
    add_words(parser)
    options = parser.parse_args()
    if options.write_sample:
        write_sample("tieline-lsp", options.write_sample, _copy_sample)
        return
    if not os.path.isdir(options.root):
        sys.exit(f"tieline-lsp: --root {options.root}: no such directory")
    try:
        servers = choose(options.server, options.servers)
    except ChoiceError as fault:
        sys.exit(f"tieline-lsp: {fault}")
    limits = Limits(answer_s=options.answer_s, whole_s=options.whole_s)
    hops = kit.Hops.wanted(os.environ)
    app = build(Workspace(options.root, servers, limits, reach_over(hops)), hops)
    run_or_ask(app, options, program="tieline-lsp")


def _copy_sample(to: str) -> None:
    shutil.copytree(SAMPLE, to, ignore=shutil.ignore_patterns("__pycache__"))


if __name__ == "__main__":
    main()
