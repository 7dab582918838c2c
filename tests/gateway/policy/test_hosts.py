"""Normal forms of hosts, and what a pattern of hosts means."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy import hosts
from gateway.policy.hosts import HostError, HostPattern, HostPatterns, host_of_url, normal_host


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("API.Example.COM", "api.example.com"),
        ("api.example.com.", "api.example.com"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
        ("B\u00dcCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("\uff41\uff50\uff49.example", "api.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("0:0:0:0:0:0:0:1", "[::1]"),
        ("[2001:DB8::0001]", "[2001:db8::1]"),
        ("my_host", "my_host"),
    ],
)
def test_spellings_of_one_host_have_one_form(given: str, normal: str) -> None:
    assert normal_host(given) == normal
    assert normal_host(normal) == normal


@pytest.mark.parametrize(
    "given",
    ["", ".", "..", "a..b", "a b", "-a.com", "a-.com", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "0",
     "127.0.0.01", "[::1", "[fe80::1%eth0]", "a/b", "a@b", "a" * 64, "a.0x1", "\u2260.example\u0000"],
)  # fmt: skip
def test_what_is_no_host_has_none(given: str) -> None:
    with pytest.raises(HostError):
        normal_host(given)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (
            "api.github.com",
            ["api.github.com:443", "api.github.com:80"],
            ["github.com:443", "api.github.com:8443"],
        ),
        ("*.github.com", ["api.github.com:443", "a.b.github.com:443"], ["github.com:443", "xgithub.com:443"]),
        ("github.com:*", ["github.com:1"], ["api.github.com:443"]),
        ("github.com:8443", ["github.com:8443"], ["github.com:443"]),
        ("GitHub.com.:0443", ["github.com:443"], ["github.com:80"]),
        ("*", ["github.com:443", "[::1]:80"], ["github.com:22"]),
        ("*:22", ["github.com:22"], ["github.com:443"]),
        ("127.0.0.1", ["127.0.0.1:80"], ["127.0.0.2:80"]),
        ("[::1]:8080", ["[::1]:8080"], ["[::1]:80", "[::2]:8080"]),
    ],
)
def test_a_pattern_of_hosts_means_what_the_page_says(
    text: str, inside: list[str], outside: list[str]
) -> None:
    patterns = HostPatterns([(HostPattern(text), 1)])
    assert [host for host in inside if not patterns.matching(host)] == []
    assert [host for host in outside if patterns.matching(host)] == []


def test_a_refusing_pattern_without_a_port_holds_for_every_port() -> None:
    assert HostPatterns([(HostPattern("a.b", refuses=True), 1)]).matching("a.b:9999") == {1}
    assert HostPatterns([(HostPattern("a.b:80", refuses=True), 1)]).matching("a.b:9999") == set()


@pytest.mark.parametrize(
    "text", ["a.*.com", "*a.com", "*.1.2.3.4", "*.[::1]", "a:b", "a:0", "a:65536", "::1", "[::1]x"]
)
def test_a_pattern_that_could_not_be_meant_is_refused(text: str) -> None:
    with pytest.raises(HostError):
        HostPattern(text)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://A.example/x", "a.example:443"),
        ("http://a.example:8080", "a.example:8080"),
        ("http://[::1]/", "[::1]:80"),
    ],
)
def test_a_url_leads_to_one_host_and_port(url: str, host: str) -> None:
    assert host_of_url(url) == host


@pytest.mark.parametrize(
    "url", ["", "a.example", "ftp://a", "http://", "http://a b", "http://a\\b", "http://u:p@a", "http://a:99999", "http://[x]"]
)  # fmt: skip
def test_a_url_that_parsers_would_read_differently_leads_nowhere(url: str) -> None:
    with pytest.raises(HostError):
        host_of_url(url)


@pytest.mark.parametrize(
    "url", ["http://u:p@a.example/", "http://u:[REDACTED:url:5e8b17d7]@a.example:80/", "ftp://u@a", "http://u:p@a:99999"]
)  # fmt: skip
def test_a_url_that_names_a_user_is_refused_for_that_also_once_a_recording_has_taken_him_out(
    url: str,
) -> None:
    with pytest.raises(HostError, match="names a user"):
        host_of_url(url)


URLS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(("http://", "https://", "HTTPS://", "ftp://", "http:/", "")),
    st.one_of(
        st.text("ab.-@:[]1%_", max_size=8),
        st.sampled_from(("api.example.com", "xn--a", "a.1", "a-.b", "0x7f.com", "a..b", "user@a.b")),
    ),
    st.sampled_from(("", ":80", ":0", ":99999", ":x", ":", ":8080")),
    st.one_of(st.sampled_from(("", "/", "?x=@y", "#a", "/a\\b", "/a b", "/[")), st.text(max_size=4)),
)


@given(URLS)
@settings(max_examples=300)
def test_the_short_way_for_usual_urls_reads_them_as_the_long_one(url: str) -> None:
    def read() -> str:
        try:
            return hosts.host_of_url(url)
        except HostError as error:
            return error.reason

    short = read()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(hosts, "_USUAL_URL", re.compile("(?!)"))
        assert short == read()
