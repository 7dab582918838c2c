"""What may be asked live where the recording has nothing: what the mode says, and only where somebody answers."""

from __future__ import annotations

import pytest

from gateway.replay.misses import Allowed, MissPolicy, Mode


@pytest.mark.parametrize("mode", ["once", "extend", "hybrid"])
def test_a_peer_that_no_configuration_names_is_never_asked_live(mode: Mode) -> None:
    misses = MissPolicy(mode=mode, allowed=(Allowed("*"),), services=frozenset(("db",)))
    assert misses.instead("db", "tools/call", "fifo") == "live"
    assert misses.instead("files", "tools/call", "fifo") == "error"


def test_what_has_effects_is_asked_live_only_where_all_is_to_be_recorded() -> None:
    for mode, instead in (("hybrid", "error"), ("extend", "live"), ("replay", "error")):
        assert MissPolicy(mode=mode, allowed=(Allowed("*"),)).instead("db", "tools/call", "once") == instead  # pyright: ignore[reportArgumentType]
