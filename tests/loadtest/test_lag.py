"""How late an event loop is: every millisecond that was due counts, not only the call that came late."""

from __future__ import annotations

import asyncio

import pytest

from loadtest.lag import EVERY_S, Probe


def test_a_loop_that_was_away_half_of_the_time_is_late_half_of_the_time() -> None:
    """Fifty punctual milliseconds and one call that is as late: told as one of 51, that would be no 99th percentile."""

    async def late() -> Probe:
        now = 0.0
        probe = Probe(clock=lambda: now)
        probe.start()
        for wait in [*[EVERY_S] * 50, 51.5 * EVERY_S]:
            now += wait
            probe.rung()
        probe.stop()
        # Long enough for any timer that is still set to ring.
        await asyncio.sleep(5 * EVERY_S)
        return probe

    probe = asyncio.run(late())
    assert len(probe.late_s) == 101
    assert probe.rank_ms(1.0) == pytest.approx(50.5)
    assert probe.rank_ms(0.75) == pytest.approx(25, abs=1)
    assert probe.rank_ms(0.49) == pytest.approx(0, abs=1e-6)
