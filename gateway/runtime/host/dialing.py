"""Connections of host calls: each name is resolved once, and the very address that was looked at is dialled.

Owns that no connection goes to an address which is not public, unless an operator has named the host. Knows nothing
of HTTP. What kind an address is of says `calls/host/addresses.py`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import httpcore2

from gateway.calls.host.addresses import Kind, kind_of
from gateway.policy.hosts import HostPattern, HostPatterns
from gateway.runtime.host.base import HostFault

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Gives the addresses of a name, in the order in which they are to be tried. May raise `OSError`."""


async def system_resolve(host: str, port: int) -> list[str]:
    """Ask the system."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class PrivateHosts:
    """The hosts that may lie at addresses which are not public."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """Read patterns of hosts, as in rules.

        Raises:
            HostError: If one is none.
        """
        self._patterns = HostPatterns((HostPattern(text), 0) for text in patterns)

    def holds(self, target: str) -> bool:
        """Whether an operator has named this `host:port`."""
        return bool(self._patterns.matching(target))


class CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """Connects to one `host:port` of a call, if it may."""

    def __init__(
        self, target: str, private: PrivateHosts, resolve: Resolve, inner: httpcore2.AsyncNetworkBackend
    ) -> None:
        self._target = target
        self._private = private
        self._resolve = resolve
        self._inner = inner
        self.is_connected = False

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Resolve, look, connect.

        Raises:
            HostFault: `denied` for addresses that are not public, `io` for a name that has none.
        """
        name, _, number = self._target.rpartition(":")
        addresses = await self._addresses(name.strip("[]"), int(number))
        allowed, refused = self._sorted(addresses)
        if not allowed:
            raise _refused(self._target, refused)
        error: Exception | None = None
        for address in allowed:
            try:
                stream = await self._inner.connect_tcp(
                    address, int(number), timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as failed:
                error = failed
            else:
                self.is_connected = True
                return stream
        assert error is not None
        raise error

    async def _addresses(self, name: str, port: int) -> list[str]:
        try:
            return [str(ipaddress.ip_address(name))]
        except ValueError:
            pass
        try:
            found = await self._resolve(name, port)
        except (OSError, UnicodeError) as error:
            said = error.strerror if isinstance(error, OSError) else None
            raise HostFault(
                "io",
                f"the host {name} cannot be resolved: {said or 'no such name'}",
                "no_address",
                errno="ENOENT",
            ) from error
        if not found:
            raise HostFault("io", f"the host {name} has no address", "no_address", errno="ENOENT")
        return found

    def _sorted(self, addresses: list[str]) -> tuple[list[str], list[tuple[str, Kind]]]:
        if self._private.holds(self._target):
            return addresses, []
        refused: list[tuple[str, Kind]] = [
            (address, kind) for address in addresses if (kind := kind_of(address)) is not None
        ]
        bad = {address for address, _ in refused}
        return [address for address in addresses if address not in bad], refused


def _refused(target: str, refused: list[tuple[str, Kind]]) -> HostFault:
    address, kind = refused[0]
    return HostFault(
        "denied", f"{target} lies at {address}, which is no public address ({kind})", "private_address",
        retryable=False, advice=f"name {target} in `extensions.private_hosts` if extensions may reach it",
        capability="http", address_kind=kind,
    )  # fmt: skip
