"""Where Tieline keeps what is its own: the state directory with tokens, control sockets and recordings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gateway.config.model import Config

CANDIDATES = ("tieline.toml", ".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
"""Files that a command looks for when it is given none, in this order."""


def state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `TIELINE_STATE_DIR`, or `tieline` where the system keeps state. Not created."""
    if explicit := environ.get("TIELINE_STATE_DIR"):
        return Path(explicit).expanduser().absolute()
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "tieline"


def project_dir(config: Config) -> Path:
    """Return the folder that the configuration lies in, or where we are."""
    return Path(config.source).parent if config.source else Path.cwd()


def recordings_dir(config: Config, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory that gets one directory a session. Not created."""
    return Path(config.record.dir) if config.record.dir else state_dir(environ) / "recordings"


def accepted_file(config: Config) -> Path:
    """Return the file of accepted tool definitions; it lies beside the configuration, to be kept with it."""
    return project_dir(config) / ".tieline" / "tools.lock.json"


def grants_file(config: Config) -> Path:
    """Return the file of remembered answers about extensions."""
    return Path(config.extensions.grants) if config.extensions.grants else state_dir() / "grants.toml"


def sessions_dir(config: Config) -> Path:
    """Return the directory of the sessions that extensions are in. Not created."""
    return Path(config.extensions.sessions) if config.extensions.sessions else state_dir() / "sessions"


def find_config(directory: Path) -> Path | None:
    """Return the configuration that a command takes when it is given none."""
    return next((directory / name for name in CANDIDATES if (directory / name).is_file()), None)


def usual_roots() -> dict[str, str]:
    """Return the folders that lie somewhere else in another run: the working directory, home, the temporary one."""
    roots = {"cwd": os.getcwd(), "tmp": _temporary()}
    home = os.path.expanduser("~")
    return roots if home == "~" else {**roots, "home": home}


def _temporary() -> str:
    """Return the directory that `tempfile.gettempdir` names, and write no file for it as that does."""
    named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    candidates = (*filter(None, named), "/tmp", "/var/tmp", "/usr/tmp")
    usable = (place for place in map(os.path.abspath, candidates) if os.access(place, os.W_OK | os.X_OK))
    return next(filter(os.path.isdir, usable), os.getcwd())
