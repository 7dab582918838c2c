"""The redactor of a gateway: the project's key, the configured secrets, the rules of the user.

Owns where the key lies (0600, in the state directory). What is a secret is decided by `recordings.redaction`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gateway.config.model import Config
from recordings.files import secret_key
from recordings.redaction import GlancingRedactor, Redactor

if TYPE_CHECKING:
    from pathlib import Path


def make_redactor(config: Config, state: Path | str) -> Redactor:
    """Return a redactor that knows every secret and every rule of the configuration. It glances until told not to.

    Where the state directory cannot be written, a key of this run alone serves: equal secrets are then marked
    alike within the run only.

    Raises:
        RecordingError: If there is a file in the place of the key that is none.
    """
    try:
        key = secret_key(os.path.join(state, "redaction.key"))
    except OSError:
        key = os.urandom(32)
    rules = config.record.redact
    return GlancingRedactor(
        key,
        known=config.secret_values(),
        keys=rules.keys,
        patterns=rules.patterns,
        allow_keys=rules.allow_keys,
    )
