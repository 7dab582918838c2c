"""Installs what Tieline is compared with, each by its own registry's client, each into an environment of its own.

Owns the directory below `.tools/peers` where they lie; knows no tool.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".tools" / "peers"


def install(place: Path, package: str, *, kind: str = "python", python: str = "") -> str:
    """Install packages, separated by blanks, unless these very ones are there; return why that cannot be, or nothing.

    `kind` is `python` or `node`; `python` is the version of Python that they need, where that is a newer one.
    """
    mark = place / ".installed"
    # Another version than the one that the table names may lie there from an earlier run.
    if not package or (mark.is_file() and mark.read_text() == package):
        return ""
    mark.unlink(missing_ok=True)
    place.mkdir(parents=True, exist_ok=True)
    if kind == "node":
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(place)]
        commands = [[*npm, *package.split()]]
    else:
        uv = _uv()
        commands = [
            [uv, "venv", "-q", "--clear", "--python", interpreter(python), str(place)],
            [uv, "pip", "install", "-q", "--python", str(place / "bin" / "python"), *package.split()],
        ]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            return f"`{command[0]}` cannot be run: {error.strerror}"
        if done.returncode:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it cannot be installed"
    mark.write_text(package)
    return ""


def interpreter(version: str) -> str:
    """A Python of at least that version: one that is here, or the version for uv to find; ours, without one."""
    if not version:
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return next((str(each / "bin" / "python") for each in sorted(root.glob(f"{version}*"))), version)


def _uv() -> str:
    """The uv of the clone, or the one on the path."""
    own = ROOT / ".tools" / "uv" / "bin" / "uv"
    return str(own) if own.exists() else shutil.which("uv") or "uv"
