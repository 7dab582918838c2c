"""Hosts and patterns of them: normal forms, ports, wildcards by label.

Owns what two spellings of one host name have in common (case, the trailing dot, IDNA) and what a pattern of hosts
means. Whether an address is private, and the many spellings of one, are the HTTP connector's: a host that ends in a
number and is no plain address is refused here.

`api.example.com` is that host on the ports 80 and 443; `api.example.com:8443` on that port, `api.example.com:*` on
any. `*.example.com` is one label and more in front of it, and never `example.com` itself. `*` is every host.
A pattern that refuses and names no port holds for every port.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

PORTS: Final = {"http": 80, "https": 443}
LONGEST_URL: Final = 8192

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)", re.ASCII)
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
_AUTHORITY_END = re.compile(r"[/?#]")
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_USUAL_URL = re.compile(
    r"(https?)://([a-z][a-z0-9.-]*[a-z])(?::([0-9]{1,4}))?(?:[/?#][!-\[\]-~]*)?", re.ASCII
)
"""What every parser reads alike: of most URLs nothing else has to be looked at."""


class HostError(ValueError):
    """A host, a URL or a pattern that has no normal form here."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@lru_cache(maxsize=1024)
def normal_host(host: str) -> str:
    """Return a host name in lower case, as ASCII, without a trailing dot; an IPv6 address in brackets.

    Raises:
        HostError: If it is no name and no plain address.
    """
    if host.startswith("[") or ":" in host:
        return _ipv6(host)
    name = host.removesuffix(".")
    if not name.isascii():
        # Loaded where it is needed: its tables are large.
        import idna

        try:
            name = idna.encode(name, uts46=True).decode("ascii")
        except idna.IDNAError as error:
            raise HostError("bad_host", f"is no host name: {error}") from error
    name = name.lower()
    labels = name.split(".")
    if not name or len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise HostError("bad_host", "is no host name")
    if _NUMBER.fullmatch(labels[-1]):
        # `0x7f.1` and `2130706433` are addresses for whoever resolves them.
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError:
            raise HostError("bad_host", "is an address in an unusual spelling") from None
    return name


def _ipv6(host: str) -> str:
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address = ipaddress.IPv6Address(inner)
    except ValueError:
        raise HostError("bad_host", "is no IPv6 address") from None
    if address.scope_id:
        raise HostError("bad_host", "names an interface")
    return f"[{address.compressed}]"


def with_port(host: str, port: int) -> str:
    """Return a host in normal form with its port: `api.example.com:443`.

    Raises:
        HostError: If there is no such host or port.
    """
    if not 0 < port < 65536:
        raise HostError("bad_host", "has no such port")
    return f"{normal_host(host)}:{port}"


def host_of_url(url: str) -> str:
    """Return host and port that a URL leads to, in normal form.

    Raises:
        HostError: If it is no `http` or `https` URL, names a user, or different parsers would see different hosts.
    """
    if len(url) <= LONGEST_URL and (usual := _USUAL_URL.fullmatch(url)):
        scheme, name, given = usual.groups()
        return with_port(name, PORTS[scheme] if given is None else int(given))
    if len(url) > LONGEST_URL or _UNSAFE.search(url):
        raise HostError(
            "bad_url", "the URL is too long or holds white space, a backslash or a control character"
        )
    if "@" in _authority(url):
        # Said before the rest is read: a recording has the user taken out, and must be refused for the same reason.
        raise HostError("bad_url", "the URL names a user")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise HostError("bad_url", "the URL cannot be read") from None
    if parts.scheme not in PORTS or not host:
        raise HostError("bad_url", "the URL must begin with `http://` or `https://` and a host")
    return with_port(host, PORTS[parts.scheme] if port is None else port)


def _authority(url: str) -> str:
    """What stands between `//` and the path, as `urlsplit` sees it, whatever it is."""
    _, slashes, rest = url.partition("//")
    return _AUTHORITY_END.split(rest, maxsplit=1)[0] if slashes else ""


class HostPattern:
    """One pattern, read. `labels` are those of the host, the last one first."""

    __slots__ = ("labels", "ports", "whole")

    def __init__(self, text: str, *, refuses: bool = False) -> None:
        """Read a pattern; one that `refuses` and names no port means all of them.

        Raises:
            HostError: If it is none.
        """
        name, port = _split(text)
        wild = name == "*" or name.startswith("*.")
        rest = "" if name == "*" else name[2:] if wild else name
        if "*" in rest:
            raise HostError("bad_pattern", "has a `*` that is not the first label: write `*.example.com`")
        host = normal_host(rest) if rest else ""
        if wild and (host.startswith("[") or (host and host.rpartition(".")[2].isdigit())):
            raise HostError("bad_pattern", "has a `*` before an address")
        self.labels: tuple[str, ...] = _labels(host) if host else ()
        self.whole = not wild
        self.ports: frozenset[str] | None = frozenset((port,)) if port else _USUAL
        """None for any."""
        if port == "*" or (refuses and not port):
            self.ports = None

    def specificity(self) -> tuple[int, int]:
        """How narrow it is: the larger, the narrower."""
        return len(self.labels) * 2 + self.whole, int(self.ports is not None)


_USUAL: Final = frozenset(map(str, PORTS.values()))


def _split(text: str) -> tuple[str, str]:
    if text.startswith("["):
        name, bracket, port = text.partition("]")
        name += bracket
        if port and not port.startswith(":"):
            raise HostError("bad_pattern", "has letters behind the address")
        port, colon = port[1:], port[:1]
    elif text.count(":") > 1:
        raise HostError("bad_pattern", "must have an IPv6 address in brackets")
    else:
        name, colon, port = text.partition(":")
    if colon and port != "*" and not (_PORT.fullmatch(port) and 0 < int(port) < 65536):
        raise HostError("bad_pattern", "has a port that is none: write `:443` or `:*`")
    return name, port if port == "*" or not port else str(int(port))


def _labels(host: str) -> tuple[str, ...]:
    # An address is one label: a part of it means nothing.
    if host.startswith("[") or host.rpartition(".")[2].isdigit():
        return (host,)
    return tuple(reversed(host.split(".")))


class HostPatterns:
    """Many patterns, each with numbers, matched by looking up what a host ends in."""

    def __init__(self, patterns: Iterable[tuple[HostPattern, int]]) -> None:
        self._whole: dict[tuple[str, ...], list[tuple[frozenset[str] | None, int]]] = {}
        self._below: dict[tuple[str, ...], list[tuple[frozenset[str] | None, int]]] = {}
        for read, number in patterns:
            table = self._whole if read.whole else self._below
            table.setdefault(read.labels, []).append((read.ports, number))

    def matching(self, target: str) -> set[int]:
        """Return the numbers of the patterns that match a `host:port` in normal form."""
        host, _, port = target.rpartition(":")
        labels = _labels(host)
        found = list(self._whole.get(labels, ()))
        if self._below:
            for length in range(len(labels)):
                found += self._below.get(labels[:length], ())
        return {number for ports, number in found if ports is None or port in ports}
