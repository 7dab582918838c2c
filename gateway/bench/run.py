"""A whole run: every scene and probe in turn, what fails noted, what there is kept when it is interrupted.

    report = Run(scenes("usual"), PROBES["usual"], PLANS["usual"]).run(told)

Owns the order and what becomes of faults: a cell that cannot be measured is in `Report.skipped`, an interruption ends
the run with `is_complete` false. Prints nothing: `told` hears what is measured next.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from gateway.bench import probes
from gateway.bench.client import BenchError
from gateway.bench.ending import interruptible
from gateway.bench.matrix import PLANS, Kind, Plan, Scene
from gateway.bench.measure import measure_scene, pin
from gateway.bench.results import Comparison, Machine, Probe, Report, Skipped
from gateway.bench.sides import Side
from gateway.runtime.speedups import speedups

IDLE_PEERS = 50
"""Where a scene has so many servers, its gateway is also watched while it is idle."""
Told = Callable[[str, int, int], None]
"""Is told what is measured next, how many figures there are, and how many there will be."""

PROBES: dict[Kind, dict[str, Callable[[], Probe]]] = {
    "quick": {"start": probes.start_up, "opening": partial(probes.opening, 5_000)},
    "usual": {"start": probes.start_up, "lag": probes.lag, "opening": partial(probes.opening, 50_000)},
    "full": {"start": probes.start_up, "lag": probes.lag, "opening": partial(probes.opening, 500_000)},
}
"""The probes of each kind of run, by name."""


class Run:
    """What is to be measured, and what has been."""

    def __init__(
        self,
        scenes: Sequence[Scene],
        chosen_probes: dict[str, Callable[[], Probe]],
        plan: Plan,
        *,
        pinned: bool = True,
        port: int = 0,
        hurry_after_s: float = float("inf"),
    ) -> None:
        """`port` is where gateways listen for websockets and HTTP; 0 lets the system choose.

        What comes after `hurry_after_s` is measured as a quick run does, on a machine that is slow or busy.
        """
        self._hurry_after_s = hurry_after_s
        self._scenes = scenes
        self._chosen_probes = chosen_probes
        self._plan = plan
        self._pinned = pinned
        self._port = port
        self._comparisons: list[Comparison] = []
        self._probes: list[Probe] = []
        self._skipped: list[Skipped] = []
        self._of = len(chosen_probes) + sum(len(scene.cells) for scene in scenes)

    def run(self, told: Told) -> Report:
        """Measure everything. An interruption ends it early and is no exception: see `Report.is_complete`."""
        machine = describe_machine(pin() if self._pinned else None)
        date = datetime.now(UTC)
        begun = time.monotonic()
        is_complete = True
        try:
            # A run that is ended politely tells what it has, whoever ends it.
            with interruptible():
                for scene in self._scenes:
                    is_late = time.monotonic() - begun > self._hurry_after_s
                    self._scene(scene, PLANS["quick"] if is_late else self._plan, told)
                for name, probe in self._chosen_probes.items():
                    self._probe(name, probe, told)
        except KeyboardInterrupt:
            is_complete = False
        return Report(
            machine=machine,
            version=version(),
            commit=commit(),
            date=date.strftime("%Y-%m-%dT%H:%M:%SZ"),
            took_s=round(time.monotonic() - begun, 1),
            is_complete=is_complete,
            comparisons=tuple(self._comparisons),
            probes=tuple(self._probes),
            skipped=tuple(self._skipped),
        )

    @property
    def _done(self) -> int:
        return len(self._comparisons) + len(self._probes) + len(self._skipped)

    def _scene(self, scene: Scene, plan: Plan, told: Told) -> None:
        def idle(side: Side) -> None:
            if scene.setup.peers >= IDLE_PEERS:
                self._probe("idle", partial(probes.idle, side, scene.setup.peers), told)

        names = [cell.name for cell in scene.cells]
        told(names[0], self._done, self._of)
        try:
            for found in measure_scene(scene, plan, port=self._port, then=idle):
                self._comparisons.append(found)
                names.remove(found.cell.name)
                told(names[0] if names else "", self._done, self._of)
        except (BenchError, OSError) as error:
            self._skipped += [Skipped(name=name, why=str(error)) for name in names]

    def _probe(self, name: str, probe: Callable[[], Probe], told: Told) -> None:
        told(name, self._done, self._of)
        try:
            self._probes.append(probe())
        except (BenchError, OSError) as error:
            self._skipped.append(Skipped(name=name, why=str(error)))


def describe_machine(pinned_to: int | None) -> Machine:
    """Say what this machine is."""
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=processor(),
        processors=os.cpu_count() or 1,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        load=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        pinned_to=pinned_to,
        speedups=speedups().in_use,
    )


def version() -> str:
    """The version of Tieline that runs here."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as found

    try:
        return found("tieline")
    except PackageNotFoundError:
        return "unknown"


def commit() -> str | None:
    """The commit of the clone that this code lies in; None where it is installed, or there is no git."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() or None


def processor() -> str:
    """The name of the processor, as far as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or sys.platform
