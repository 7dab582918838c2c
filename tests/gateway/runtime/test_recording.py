"""Whether the sessions of a gateway are recorded at present."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.config.model import Config
from gateway.runtime.world import World
from tests.transports.wire_kit import run
from transports.base import Hello


def test_the_recording_counts_as_failing_for_as_long_as_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.EIO, "Input/output error")

    async def main() -> None:
        world = World(Config(), record_dir=tmp_path / "recordings")
        tap = cast("Any", world.tap(Hello(transport="stdio", remote="test")))
        recorder = tap._recorder
        write, recorder._write = recorder._write, full
        assert tap.record("request", "core>", b"{}", id=1, method="ping") == -1
        assert world.recordings.failing is not None
        recorder._write, recorder._retry_at = write, 0
        assert tap.record("request", "core>", b"{}", id=2, method="ping") > 0
        assert world.recordings.failing is None
        tap.close()
        await world.finish()

    run(main())
