"""Which addresses are public: every special one is known for what it is, and what nobody vouches for is not public."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.host.addresses import kind_of

PUBLIC = (
    "1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0",
    "11.0.0.0", "9.255.255.255", "128.0.0.0", "126.255.255.255", "169.253.0.1", "192.167.255.255", "198.20.0.0",
    "223.255.255.255", "2606:4700:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "2003::1", "2620:fe::fe",
)  # fmt: skip
OTHERS = {
    "loopback": ("0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.254", "::", "::1"),
    "private": ("10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1",
                "100.127.255.255", "fc00::1", "fd12:3456::1", "fec0::1"),
    "link-local": ("169.254.0.1", "169.254.169.253", "fe80::1", "febf::1"),
    "metadata": ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192",
                 "fd00:ec2::254", "fd20:ce::254"),
    "multicast": ("224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"),
    "reserved": ("192.0.0.8", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "240.0.0.1",
                 "255.255.255.255", "2001:db8::1", "2001:2::1", "2001:10::1", "3fff::1", "5f00::1", "100::1",
                 "4000::1", "fe00::1", "no address", "", "127.1", "0x7f.1", "fe80::1%lo0x"),
    "embedded": ("::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1",
                 "64:ff9b:1::7f00:1", "2001:0:7f00:1::", "2002:7f00:1::", "2002:a00:1::1", "192.88.99.1",
                 "2a00:1450::5efe:7f00:1", "2a00:1450::200:5efe:a00:1"),
}  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_public_network_is_public(address: str) -> None:
    assert kind_of(address) is None


@pytest.mark.parametrize(
    ("address", "kind"), [(address, kind) for kind, addresses in OTHERS.items() for address in addresses]
)
def test_an_address_that_is_not_public_is_told_for_what_it_is(address: str, kind: str) -> None:
    found = kind_of(address)
    assert found == ("link-local" if address.startswith("fe80") else kind)


@given(st.ip_addresses(v=4))
def test_nothing_is_public_that_the_system_library_calls_special(address: ipaddress.IPv4Address) -> None:
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert kind_of(str(address)) is not None


@given(st.ip_addresses(v=4))
def test_no_ipv6_address_that_holds_an_ipv4_address_is_public(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    for prefix in ("::", "::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "64:ff9b:1::"):
        assert kind_of(str(ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) + number))) is not None
    assert kind_of(str(ipaddress.IPv6Address((0x2002 << 112) | (number << 80)))) == "embedded"


@given(st.ip_addresses(v=6))
def test_no_ipv6_address_outside_of_what_is_given_out_is_public(address: ipaddress.IPv6Address) -> None:
    if address not in ipaddress.IPv6Network("2000::/3") or not address.is_global:
        assert kind_of(str(address)) is not None
