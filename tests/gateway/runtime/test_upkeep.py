"""What a running gateway does beside messages."""

import asyncio
import sys
from pathlib import Path

import pytest

from gateway.config import Config, ServeOptions
from gateway.runtime import upkeep
from gateway.runtime.upkeep import Upkeep
from gateway.serve import Gateway


def test_a_gateway_looks_for_what_others_have_left_once_however_soon_it_ends_and_has_at_hand_what_may_be_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[str] = []
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(upkeep, "sweep", lambda: swept.append("swept"))

    async def lives(*, until_swept: bool) -> None:
        kept = Upkeep(Gateway(Config(), ServeOptions(stdio=True)))
        await kept.start()
        assert swept == []
        while until_swept and not swept:
            await asyncio.sleep(0.001)
        await kept.stop()
        assert swept == ["swept"]
        swept.clear()

    asyncio.run(lives(until_swept=False))
    monkeypatch.setattr(upkeep, "SWEEP_S", 0.01)
    needed_seldom = ("gateway.runtime.null_tap", "gateway.calls.lookup")
    for name in needed_seldom:
        # Where no descriptor is left, a session is refused, or served unrecorded, as it is configured.
        monkeypatch.delitem(sys.modules, name, raising=False)
    asyncio.run(lives(until_swept=True))
    assert sys.modules.keys() >= set(needed_seldom)
