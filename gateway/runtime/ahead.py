"""Processes that are started ahead of everything else: what an agent waits for overlaps with the start of a gateway.

Owns which peers of a configuration are begun before the rest of the gateway is even loaded, and what becomes of those
that nobody takes. Nobody has spoken to them yet, or heard them: what they say stays in their pipes.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from gateway.config.model import Config
from gateway.runtime.keeping import Begun, begin, keeper_works, start_keeper
from gateway.runtime.processes import Owner
from gateway.runtime.spawning import PeerSpec, find_program, spec_of
from transports.base import TransportError

END_S = 4.0
"""How long the ends of processes that nobody took are waited for; their keepers need one second at most."""


class Ahead:
    """The processes that one gateway has begun ahead, until they are taken."""

    def __init__(self, config: Config) -> None:
        """Begin the peers that an agent's greeting would start. One that cannot be begun is left to who needs it."""
        self._begun: dict[str, Begun] = {}
        self._left: list[Begun] = []
        if not keeper_works():
            return
        owner = Owner.this_process()
        variables: Mapping[str, str] = {}
        for name in first_needed(config):
            spec = spec_of(config.peers[name])
            # Most are given the same variables, two kilobytes of them: what waits for its taker shares them.
            if spec.environment == variables:
                spec = replace(spec, environment=variables)
            variables = spec.environment
            with contextlib.suppress(TransportError, OSError, ValueError):
                executable = find_program(spec)
                mark = owner.mark()
                self._begun[name] = Begun(
                    spec, executable, mark, *begin(spec, executable, mark, start_keeper)
                )

    def take(self, name: str, spec: PeerSpec) -> Begun | None:
        """Return the process of a peer, which is the taker's from now on; None where there is none like `spec`."""
        begun = self._begun.pop(name, None)
        if begun is None or begun.spec == replace(spec, echo=None):
            return begun
        self._let_go([begun])
        return None

    def close(self) -> None:
        """End what nobody has taken, and wait for that."""
        self._let_go(self._begun.values())
        self._begun.clear()
        for begun in self._left:
            with contextlib.suppress(subprocess.TimeoutExpired):
                begun.kept.keeper.wait(END_S)

    def _let_go(self, several: Iterable[Begun]) -> None:
        for begun in several:
            begun.let_go()
            self._left.append(begun)


def first_needed(config: Config) -> list[str]:
    """Return the peers that are started when an agent greets the gateway, of those that may be begun before that.

    Extensions may not: what they are allowed to do is read first. Peers with processes that wait have these.
    """
    peers = config.active_peers
    return [
        name
        for name, peer in peers.items()
        if peer.kind == "stdio" and peer.dialect == "mcp" and not peer.warm and peer.is_greeted(len(peers))
    ]
