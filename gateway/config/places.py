"""Where Tieline keeps what is its own: the state directory with tokens, control sockets and recordings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.config.model import Config
from recordings.spelling import absolute, expanded, joined, spelled

if TYPE_CHECKING:
    from pathlib import Path

CANDIDATES = ("tieline.toml", ".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
"""Files that a command looks for when it is given none, in this order."""


def state_place(environ: Mapping[str, str] = os.environ) -> str:
    """Return `TIELINE_STATE_DIR`, or `tieline` where the system keeps state. Not created."""
    if explicit := environ.get("TIELINE_STATE_DIR"):
        return absolute(expanded(explicit))
    return joined(environ.get("XDG_STATE_HOME") or joined(expanded("~"), ".local/state"), "tieline")


def state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `state_place` as a path."""
    return _path(state_place(environ))


def project_place(config: Config) -> str:
    """Return the folder that the configuration lies in, or where we are."""
    return os.path.dirname(config.source) if config.source else os.getcwd()


def project_dir(config: Config) -> Path:
    """Return `project_place` as a path."""
    return _path(project_place(config))


def recordings_place(config: Config, environ: Mapping[str, str] = os.environ) -> str:
    """Return the directory that gets one directory a session. Not created."""
    return spelled(config.record.dir) if config.record.dir else joined(state_place(environ), "recordings")


def recordings_dir(config: Config, environ: Mapping[str, str] = os.environ) -> Path:
    """Return `recordings_place` as a path."""
    return _path(recordings_place(config, environ))


def accepted_place(config: Config) -> str:
    """Return the file of accepted tool definitions; it lies beside the configuration, to be kept with it."""
    return joined(project_place(config), ".tieline/tools.lock.json")


def accepted_file(config: Config) -> Path:
    """Return `accepted_place` as a path."""
    return _path(accepted_place(config))


def _path(place: str) -> Path:
    # For who goes on with it: a start does not, and does not load what it is.
    from pathlib import Path

    return Path(place)


def grants_file(config: Config) -> Path:
    """Return the file of remembered answers about extensions."""
    return _path(config.extensions.grants) if config.extensions.grants else state_dir() / "grants.toml"


def sessions_dir(config: Config) -> Path:
    """Return the directory of the sessions that extensions are in. Not created."""
    return _path(config.extensions.sessions) if config.extensions.sessions else state_dir() / "sessions"


def found_config(directory: str) -> str | None:
    """Return the configuration that a command takes when it is given none."""
    return next((path for name in CANDIDATES if os.path.isfile(path := joined(directory, name))), None)


def find_config(directory: Path) -> Path | None:
    """Return `found_config` as a path."""
    found = found_config(str(directory))
    return None if found is None else _path(found)


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
