"""A recording in the place of an agent's services, for the length of a test.

Owns the gateway in this process, its end, and what a test is told of how it went. The services that a recording is made
of are named by the test; in `replay` they are never reached.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec.structs import replace

from gateway.config import Config, ServeOptions, for_one_peer, load
from gateway.runtime.replay_setup import Choice, set_up
from gateway.serve import Gateway
from gateway.testing.streams import streams
from recordings.divergence import Report
from recordings.files import put_in_place
from recordings.reader import open_recording
from recordings.report import text

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from gateway.replay.misses import Mode
    from recordings.gate import Strength

How: TypeAlias = Literal["replay", "once", "rewrite", "extend", "lenient"]
Services: TypeAlias = Sequence[str] | Path | None
"""A server's command, or the path of a configuration."""


class ReplayFailedError(AssertionError):
    """A replay differed from its recording. The message is the report."""

    def __init__(self, report: Report) -> None:
        super().__init__("\n" + text(report))
        self.report = report


class Replay:
    """A gateway whose peers are played from a recording, or recorded where there is none yet.

    ```python
    async with Replay("recordings/session", services=["npx", "some-server"]) as replay:
        async with Client(replay.connect()) as client:
            ...
    ```

    At the end of the block, `ReplayFailedError` is raised where the agent did otherwise than recorded, or left part of
    the recording unplayed. Each agent that connects is a session of its own.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        services: Services = None,
        mode: How = "replay",
        gate: Strength | None = None,
        pace: float = 0.0,
        patience_s: float = 10.0,
        unplayed: Literal["fail", "ignore"] = "fail",
    ) -> None:
        self.path = Path(path)
        self.mode: How = mode
        self.reports: list[Report] = []
        """One for each session that has ended."""
        self._services = services
        self._gate: Strength | None = gate
        self._pace = pace
        self._patience_s = patience_s
        self._unplayed = unplayed
        self.gateway: Gateway | None = None
        self._target: Path | None = None

    @property
    def is_recording(self) -> bool:
        """Whether live services are being recorded."""
        return self.mode == "rewrite" or (self.mode == "once" and not self.path.exists())

    async def __aenter__(self) -> Replay:
        self.gateway = self._recording() if self.is_recording else self._replaying()
        self.gateway.world.recordings.need()
        return self

    def _recording(self) -> Gateway:
        services = self._live()
        if services is None:
            raise ValueError(f"`{self.path}` is to be recorded, and no `services` are named")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._target = self._beside()
        config = replace(services, record=replace(services.record, enabled=True))
        return Gateway(config, ServeOptions(record_dir=self._target, is_one_recording=True))

    def _replaying(self) -> Gateway:
        extends = self.mode == "extend"
        mode: Mode = "replay" if self.mode in ("replay", "once", "rewrite") else self.mode
        choice = Choice(mode=mode, gate=self._gate, pace=self._pace, patience_s=self._patience_s)
        self._target = self._beside() if extends else None
        config, make = set_up(
            open_recording(self.path),
            choice,
            self._live() if extends else None,
            records=extends,
            on_report=self.reports.append,
        )
        options = ServeOptions(record_dir=self._target, is_one_recording=extends)
        return Gateway(config, options, make)

    def _live(self) -> Config | None:
        if self._services is None:
            return None
        if isinstance(self._services, Path):
            return load(self._services)
        return for_one_peer(command=list(self._services))

    def _beside(self) -> Path:
        whole = self.path.absolute()
        return whole.with_name(f".{whole.name}.{os.getpid()}.new")

    def connect(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """A new session, as a transport for `mcp.Client` or the streams for `mcp.ClientSession`."""
        assert self.gateway is not None, "connect inside of `async with`"
        return streams(self.gateway.accept)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.gateway is not None
        await self.gateway.stop()
        if self._target is not None and self._target.exists():
            if kind is None and self._is_better:
                put_in_place(self._target, self.path)
            else:
                shutil.rmtree(self._target)
        if kind is None:
            self.check()

    @property
    def _is_better(self) -> bool:
        """Whether what was recorded now may stand for the recording: all of it, and in `extend` something more."""
        if self.mode != "extend":
            return True
        return len(self.reports) == 1 and self.reports[0].verdict == "same" and self.reports[0].live_calls > 0

    def check(self) -> None:
        """Raise where a session that has ended differed from the recording.

        Raises:
            ReplayFailedError: The report says where.
        """
        for report in self.reports:
            if report.exit_code == 1 or (report.exit_code and self._unplayed == "fail"):
                raise ReplayFailedError(report)
