"""The host call `env`: variables of the gateway's own environment, by their exact names.

Owns what is answered. Which names an extension may read is decided before; values stand under their names in the
output, which is how a recording knows a secret among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.calls.host.log_calls import EnvCall
from gateway.runtime.host.base import Emit, Work, bad_params


class Env:
    """Serves `env`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Read from an environment."""
        self._environ = environ

    async def serve(self, work: Work, emit: Emit) -> dict[str, Any]:
        """Give the values; null for a variable that is not set."""
        call = work.granted(EnvCall)
        if (call.name is None) == (call.names is None):
            raise bad_params("give either `name` or `names`")
        return {"values": {name: self._environ.get(name) for name in work.decision.facts.need.env}}
