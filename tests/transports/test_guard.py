"""The listener's guard: every combination of Host, Origin and token has one verdict."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.guard import WRONG_TOKEN_S, Failures, Guard, Verdict, is_loopback, loopback_hosts, named_hosts

GUARD = Guard(
    hosts=loopback_hosts(8000, ["Gateway.Example:8000"]),
    origins=frozenset({"https://app.example"}),
    tokens={"core": "s3cret-core", "observer": "s3cret-observer"},
)
HOSTS: list[tuple[list[str], bool]] = [
    (["127.0.0.1:8000"], True),
    (["localhost:8000"], True),
    (["LOCALHOST:8000"], True),
    (["[::1]:8000"], True),
    (["gateway.example:8000"], True),
    ([], False),
    ([""], False),
    (["127.0.0.1"], False),
    (["127.0.0.1:8001"], False),
    (["127.0.0.1:8000.evil.example"], False),
    (["localhost:8000@evil.example"], False),
    (["evil.example"], False),
    (["evil.example:8000"], False),
    (["127.0.0.2:8000"], False),
    (["0.0.0.0:8000"], False),
    (["2130706433:8000"], False),
    (["localhost.:8000"], False),
    (["localhost:8000", "evil.example"], False),
    (["localhost:8000", "localhost:8000"], False),
]
ORIGINS: list[tuple[list[str], bool]] = [
    ([], True),
    (["https://app.example"], True),
    (["http://app.example"], False),
    (["https://app.example:443"], False),
    (["https://APP.example"], False),
    (["https://app.example.evil"], False),
    (["null"], False),
    ([""], False),
    (["http://localhost:8000"], False),
    (["https://app.example", "https://app.example"], False),
]
TOKENS: list[tuple[list[str], str | None]] = [
    (["Bearer s3cret-core"], "core"),
    (["bearer  s3cret-observer "], "observer"),
    ([], None),
    (["Bearer s3cret"], None),
    (["Bearer s3cret-core1"], None),
    (["Basic s3cret-core"], None),
    (["s3cret-core"], None),
    (["Bearer"], None),
    (["Bearer "], None),
    (["Bearer \u00e9\u00ff"], None),
    (["Bearer s3cret-core", "Bearer s3cret-core"], None),
]


def test_every_state_of_host_origin_and_token_has_its_verdict() -> None:
    for (hosts, host_ok), (origins, origin_ok), (tokens, principal) in itertools.product(
        HOSTS, ORIGINS, TOKENS
    ):
        headers = [
            *(("Host", host) for host in hosts),
            *(("oRIGIN", origin) for origin in origins),
            *(("Authorization", token) for token in tokens),
        ]
        verdict = GUARD.judge(headers)
        expected = 403 if not (host_ok and origin_ok) else 200 if principal else 401
        assert (verdict.status, verdict.principal) == (expected, principal if expected == 200 else None), (
            headers
        )
        assert verdict.allowed is (expected == 200)


def test_without_tokens_nobody_has_a_name() -> None:
    verdict = Guard(hosts=loopback_hosts(1)).judge([("Host", "localhost:1"), ("Authorization", "Bearer x")])
    assert verdict == Verdict(200, "", None)


def test_a_unix_socket_has_no_host_to_check_but_web_pages_stay_out() -> None:
    guard = Guard(hosts=None)
    assert guard.judge([("Host", "whatever")]).allowed
    assert guard.judge([]).allowed
    assert guard.judge([("Origin", "https://evil.example")]).status == 403


@pytest.mark.parametrize(("port", "bare"), [(80, True), (443, True), (8080, False)])
def test_a_host_without_a_port_is_taken_on_the_ports_that_browsers_leave_out(port: int, bare: bool) -> None:
    assert ("localhost" in loopback_hosts(port)) is bare


@given(st.text(max_size=40))
def test_no_text_but_the_token_opens_and_none_of_it_is_repeated(text: str) -> None:
    verdict = GUARD.judge([("Host", "localhost:8000"), ("Authorization", "Bearer " + text)])
    assert verdict.allowed is (text.strip() in ("s3cret-core", "s3cret-observer"))
    assert "s3cret" not in verdict.reason + repr(GUARD)


def test_what_reaches_this_machine_alone() -> None:
    near = ["127.0.0.1", "127.1.2.3", "::1", "localhost"]
    far = ["0.0.0.0", "::", "10.0.0.1", "", "127.0.0.1.evil.example", "localhost.evil.example"]
    assert [name for name in near + far if is_loopback(name)] == near


@pytest.mark.parametrize(
    ("credentials", "delay_s"),
    [
        (["Bearer guess"], WRONG_TOKEN_S),
        (["Basic s3cret-core"], WRONG_TOKEN_S),
        (["Bearer s3cret-core", "Bearer s3cret-core"], WRONG_TOKEN_S),
        ([], 0.0),
        (["Bearer s3cret-core"], 0.0),
    ],
)
def test_a_wrong_token_is_answered_late_and_everybody_else_at_once(
    credentials: list[str], delay_s: float
) -> None:
    headers = [("Host", "localhost:8000"), *(("Authorization", one) for one in credentials)]
    assert GUARD.judge(headers).delay_s == delay_s
    assert GUARD.judge([("Host", "evil.example"), *headers[1:]]).delay_s == 0.0


def test_who_has_guessed_too_often_is_turned_away_at_once() -> None:
    failures = Failures(limit=1, window_s=60)
    wrong = GUARD.judge([("Host", "localhost:8000"), ("Authorization", "Bearer guess")])
    assert failures.count("a", 0.0, wrong) == wrong
    assert failures.count("a", 59.0, wrong)[::3] == (429, 0.0)
    assert failures.count("a", 60.0, wrong) == wrong


BAD, GOOD = Verdict(401, "no"), Verdict(200, "")


def test_failures_are_counted_by_address_and_minute() -> None:
    failures = Failures(limit=3, window_s=60)
    assert [failures.count("a", 0.0, BAD).status for _ in range(5)] == [401, 401, 401, 429, 429]
    assert failures.count("b", 1.0, BAD).status == 401
    assert failures.count("a", 59.0, BAD).status == 429
    assert failures.count("a", 60.0, BAD).status == 401


def test_who_has_the_token_is_not_held_up_by_who_has_not() -> None:
    failures = Failures(limit=1)
    for _ in range(10):
        failures.count("a", 0.0, BAD)
    assert failures.count("a", 0.0, GOOD) == GOOD


def test_the_counter_is_bounded() -> None:
    failures = Failures()
    for n in range(5000):
        failures.count(str(n), 0.0, BAD)
    assert len(failures._counts) <= 1024


def test_a_name_without_a_port_is_taken_with_that_of_the_listener_too() -> None:
    hosts = named_hosts(["A.example", "b.example:8443", "[2001:db8::1]"], 8400)
    assert hosts == {
        *("a.example", "a.example:8400", "b.example:8443"),
        *("[2001:db8::1]", "[2001:db8::1]:8400"),
    }
