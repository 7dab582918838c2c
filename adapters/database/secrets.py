"""Passwords out of the environment or the system's keyring, at the moment they are needed.

Owns the look-up, and that no text for a caller holds what it found.
"""

from __future__ import annotations

import os

from adapters import kit
from recordings.extras import extra_hint


def look_up(source: str) -> str:
    """The secret at `env:NAME` or `keyring:SERVICE/USER`. Raises `kit.ToolError` saying where there is none."""
    kind, _, where = source.partition(":")
    if kind == "env":
        if (value := os.environ.get(where)) is None:
            raise kit.ToolError("invalid_request", f"password: the environment has no {where}")
        return value
    service, _, user = where.partition("/")
    try:
        import keyring  # an extra
        from keyring.errors import KeyringError
    except ImportError:
        raise kit.ToolError(
            "invalid_request", f"password: keyring is not installed: {extra_hint('keyring')}"
        ) from None
    try:
        value = keyring.get_password(service, user)
    except KeyringError as fault:
        raise kit.ToolError("io", f"password: the keyring does not answer ({type(fault).__name__})") from None
    if value is None:
        raise kit.ToolError("invalid_request", f"password: the keyring has none for {user} at {service}")
    return value


def without(text: str, secret: str) -> str:
    """A text without a secret that it may repeat."""
    return text.replace(secret, "***") if secret else text
