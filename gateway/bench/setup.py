"""What is between client and server in one measurement, as data. Pure; `sides` starts it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

North: TypeAlias = Literal["stdio", "websocket", "unix", "http"]
South: TypeAlias = Literal["stdio", "websocket"]


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What is between client and echo server on the gateway's side."""

    north: North = "stdio"
    south: South = "stdio"
    recording: bool = True
    policy: bool = False
    """A policy of extensions with rules, in mode `strict`."""
    ledger: bool = False
    """Log lines of every call, written to a file."""
    validation: bool = False
    """Results are held against their output schema. The echo server of both sides has one then."""
    peers: int = 1
    """Echo servers behind the gateway; the first one is asked."""
    hooks: int = 0
    """Extensions that hook another event than a call's: no-op hooks as far as a call is concerned."""
    asked: int = 0
    """Extensions, each a process, that are asked about every call and have no opinion."""
    modifies: bool = False
    """An extension changes the input of every call."""

    @property
    def options(self) -> tuple[str, ...]:
        """What differs from a gateway that does nothing but pass messages on, in words."""
        flags = ("recording", "policy", "ledger", "validation", "modifies")
        found = [name for name in flags if getattr(self, name)]
        for name, usual in (("peers", 1), ("hooks", 0), ("asked", 0)):
            count = getattr(self, name)
            found += [f"{name} {count}"] if count != usual else []
        return tuple(found)

    @property
    def direct(self) -> North:
        """The transport of the direct connection: the client's, or the server's where it could use that alone."""
        return self.south if self.north == "stdio" else self.north


EVERYTHING = Setup(policy=True, ledger=True, validation=True)
"""Policy, validation, hash, redaction, ledger, frames written."""
