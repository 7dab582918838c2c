"""What a reload has to touch, and what it must leave alone."""

from __future__ import annotations

from pathlib import Path

from gateway.config import Config, parse
from gateway.config.diff import ConfigDiff, diff


def read(text: str, **environ: str) -> Config:
    return parse(text, path=Path("/etc/tieline.toml"), environ=environ)


def peers(**lines: str) -> str:
    return "\n".join(f"[peers.{name}]\n{body}" for name, body in lines.items())


def test_the_same_file_changes_nothing() -> None:
    text = peers(a='command = ["x"]', b='url = "http://x/"')
    changes = diff(read(text), read(text))

    assert changes == ConfigDiff(untouched=("a", "b"))
    assert not changes


def test_each_peer_is_told_by_what_has_to_be_done_with_it() -> None:
    old = peers(same='unix = "/s"', moved='unix = "/m"', gone='unix = "/g"', tuned='unix = "/t"')
    new = peers(
        same='unix = "/s"',
        moved='unix = "/elsewhere"',
        tuned='unix = "/t"\ntools.deny = ["x"]\ncall_timeout_s = 5',
        fresh='unix = "/f"',
    )

    change = diff(read(old), read(new))
    assert change == ConfigDiff(
        untouched=("same",), adjusted=("tuned",), changed=("moved",), added=("fresh",), removed=("gone",)
    )
    assert change.sentence() == "added fresh; started anew moved; removed gone; adjusted tuned"
    assert diff(read(old), read(old)).sentence() == "no peer is touched"


def test_a_peer_that_is_both_tuned_and_moved_has_to_be_started_again() -> None:
    old, new = peers(a='unix = "/a"'), peers(a='unix = "/b"\nprefix = "p"')

    assert diff(read(old), read(new)).changed == ("a",)


def test_disabling_a_peer_removes_it_and_enabling_it_adds_it() -> None:
    on, off = read(peers(a='unix = "/a"')), read(peers(a='unix = "/a"\ndisabled = true'))

    assert diff(on, off) == ConfigDiff(removed=("a",))
    assert diff(off, on) == ConfigDiff(added=("a",))


def test_a_secret_that_was_replaced_changes_the_peer_that_has_it() -> None:
    text = peers(a='command = ["x"]\nenv = { K = "${K}" }', b='command = ["y"]')

    assert diff(read(text, K="old"), read(text, K="new")) == ConfigDiff(untouched=("b",), changed=("a",))


def test_another_order_is_told_since_it_decides_who_wins_a_name() -> None:
    old, new = peers(a='unix = "/a"', b='unix = "/b"'), peers(b='unix = "/b"', a='unix = "/a"')
    changes = diff(read(old), read(new))

    assert changes.reordered
    assert changes.untouched == ("b", "a")


def test_sections_that_only_a_new_start_applies_are_named() -> None:
    changes = diff(read(""), read("[listen.http]\n[limits]\nmax_sessions = 1\n[catalog]\nprefix = 'always'"))

    assert changes == ConfigDiff(catalog=True, needs_restart=("listen", "limits"))
