"""The redactor of a gateway: the project's key, the configured secrets, the rules of the user.

Owns where the key lies (0600, in the state directory). What is a secret is decided by `recordings.redaction`.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from gateway.config.model import Config
from recordings.redaction import Redactor

KEY_BYTES = 32


def make_redactor(config: Config, state: Path) -> Redactor:
    """Return a redactor that knows every secret of the configuration."""
    return Redactor(project_key(state), known=config.secret_values())


def project_key(state: Path) -> bytes:
    """Return the key under which secrets are marked; it is made on first use.

    Where the state directory cannot be written, a key of this run alone serves: equal secrets are then marked
    alike within the run only.
    """
    path = state / "redaction.key"
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            return path.read_bytes() or secrets.token_bytes(KEY_BYTES)
        with os.fdopen(fd, "wb") as file:
            key = secrets.token_bytes(KEY_BYTES)
            file.write(key)
            return key
    except OSError:
        return secrets.token_bytes(KEY_BYTES)
