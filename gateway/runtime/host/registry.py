"""Which connector serves which method, and what the connectors need of the rest of the gateway.

Owns the one table. Methods that are not here (`session`, `ui`, `events`) are a session's own to serve: `gateway/calls`
has them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway.runtime.host.base import Connector
from gateway.runtime.host.dialing import PrivateHosts
from gateway.runtime.host.env import Env
from gateway.runtime.host.exec import Exec
from gateway.runtime.host.fs import Fs
from gateway.runtime.host.http import Http
from gateway.runtime.host.log import Log
from gateway.runtime.host.tool import Tool
from gateway.runtime.host.workers import Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What connectors ask of others."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The gateway's own environment."""
    private_hosts: Sequence[str] = ()
    """Hosts that may lie at addresses which are not public."""


def connectors(ports: Ports) -> dict[str, Connector]:
    """Return the connectors by the method that each serves."""
    workers = Workers()
    return {
        "env": Env(ports.environ),
        "exec": Exec(ports.environ),
        "fs": Fs(workers),
        "http": Http(PrivateHosts(ports.private_hosts)),
        "log": Log(),
        "tool": Tool(workers, ports.environ),
    }
