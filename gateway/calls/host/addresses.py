"""Which addresses are the public network's, and what the others are.

Owns one table, by what is let through: whatever nobody has vouched for is not public. Names, and the spellings of an
address, are `gateway/policy/hosts.py`'s; the connector asks here about every address before it is dialled. Source: the
special-purpose address registries of IANA, and the addresses at which clouds give out credentials.
"""

from __future__ import annotations

import ipaddress
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "loopback", "private", "link-local", "metadata", "multicast", "reserved", "embedded"
]
"""What an address is that is not public. `embedded` leads to an IPv4 address that stands in it."""

_V4_KINDS: Final[tuple[tuple[str, Kind], ...]] = (
    ("169.254.169.254/32", "metadata"), ("169.254.170.0/24", "metadata"), ("100.100.100.200/32", "metadata"),
    ("168.63.129.16/32", "metadata"), ("192.0.0.192/32", "metadata"),
    ("0.0.0.0/8", "loopback"), ("127.0.0.0/8", "loopback"),
    ("10.0.0.0/8", "private"), ("100.64.0.0/10", "private"), ("172.16.0.0/12", "private"),
    ("192.168.0.0/16", "private"), ("169.254.0.0/16", "link-local"),
    ("192.0.0.0/24", "reserved"), ("192.0.2.0/24", "reserved"), ("192.31.196.0/24", "reserved"),
    ("192.52.193.0/24", "reserved"), ("192.88.99.0/24", "embedded"), ("192.175.48.0/24", "reserved"),
    ("198.18.0.0/15", "reserved"), ("198.51.100.0/24", "reserved"), ("203.0.113.0/24", "reserved"),
    ("224.0.0.0/4", "multicast"), ("240.0.0.0/4", "reserved"),
)  # fmt: skip
_GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
_V6_KINDS: Final[tuple[tuple[str, Kind], ...]] = (
    ("fd00:ec2::254/128", "metadata"), ("fd20:ce::254/128", "metadata"),
    ("::/127", "loopback"),
    ("::/96", "embedded"), ("::ffff:0:0/96", "embedded"), ("::ffff:0:0:0/96", "embedded"),
    ("64:ff9b::/96", "embedded"), ("64:ff9b:1::/48", "embedded"),
    ("2001::/32", "embedded"), ("2002::/16", "embedded"),
    ("2001::/23", "reserved"), ("2001:db8::/32", "reserved"), ("2620:4f:8000::/48", "reserved"),
    ("3fff::/20", "reserved"),
    ("fc00::/7", "private"), ("fe80::/10", "link-local"), ("fec0::/10", "private"), ("ff00::/8", "multicast"),
)  # fmt: skip
_V4: Final[list[tuple[ipaddress.IPv4Network, Kind]]] = [
    (ipaddress.IPv4Network(network), kind) for network, kind in _V4_KINDS
]
_V6: Final[list[tuple[ipaddress.IPv6Network, Kind]]] = [
    (ipaddress.IPv6Network(network), kind) for network, kind in _V6_KINDS
]
_ISATAP: Final = frozenset((0x00005EFE, 0x02005EFE))


def kind_of(address: str) -> Kind | None:
    """Return what an address is, or None for one of the public network. What cannot be read is `reserved`."""
    try:
        read = ipaddress.ip_address(address)
    except ValueError:
        return "reserved"
    if isinstance(read, ipaddress.IPv4Address):
        return next((kind for network, kind in _V4 if read in network), None)
    for network, kind in _V6:
        if read in network:
            return kind
    if read.scope_id is not None or read not in _GLOBAL_V6:
        return "reserved"
    return "embedded" if (int(read) >> 32) & 0xFFFFFFFF in _ISATAP else None
