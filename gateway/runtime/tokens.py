"""The bearer token of a listener: made on first run, kept in a file that only its owner can read.

Owns the file's making and the refusal of one that others could read or have written. Compares nothing:
listeners do.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from gateway.config.model import TcpListen
from gateway.config.places import state_dir

TOKEN_BYTES = 32
"""256 bits: nobody guesses it, so that no listener needs to count attempts to be safe."""
MIN_CHARACTERS = 20
"""Shortest token that is taken from a file that a person wrote."""


class TokenError(Exception):
    """A token file that cannot be used. The message names the file and what to do, never the token."""


def token_file(listen: TcpListen) -> Path:
    """Return the file that holds a listener's token. Not created."""
    return Path(listen.token_file) if listen.token_file else state_dir() / "token"


def bearer_token(path: Path | None = None) -> str:
    """Return the token in `path`, by default `token` in the state directory. It is made if it is not there.

    Raises:
        TokenError: If the file cannot be made or read, belongs to another user, or others may read or write
        it.
    """
    path = path or state_dir() / "token"
    try:
        if not path.exists():
            _make(path)
        return _read(path)
    except OSError as error:
        raise TokenError(f"the token file `{path}` cannot be used: {error.strerror}") from error


def _make(path: Path) -> None:
    """Write a new token whole under another name first: two gateways that start at once agree on one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")
        os.fsync(fd)
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.close(fd)
        draft.unlink()


def _read(path: Path) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        about = os.fstat(fd)
        if about.st_uid != os.geteuid():
            raise TokenError(f"the token file `{path}` belongs to another user")
        if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise TokenError(f"the token file `{path}` can be read by others; run `chmod 600 {path}`")
        token = os.read(fd, 4096).decode("ascii", errors="replace").strip()
    finally:
        os.close(fd)
    if len(token) < MIN_CHARACTERS or not token.isascii() or not token.isprintable():
        raise TokenError(
            f"the token file `{path}` holds no token of {MIN_CHARACTERS} or more plain characters"
        )
    return token
