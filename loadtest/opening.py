"""How long a large recording takes to open, and to be read at random: `python -m loadtest.opening`.

Makes a recording of small calls in a temporary directory, seals it, and opens it with its indexes, without them, and
before it was sealed; each in a process of its own, whose most memory is told. Then fetches frames at random and walks
all rows. Times are those of this machine at this moment: run it alone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway.bench.corpus import frames_of
from loadtest.arguments import at_least_one
from recordings import files
from recordings.lookup import open_lookup
from recordings.reader import open_recording
from recordings.store import Recorder

GOALS = {"open_s": 1.0, "rebuild_s": 10.0, "rebuild_all_s": 10.0, "open_unsealed_s": 10.0}
"""Seconds for a million frames."""
LABELS = {
    "open_s": "open with its indexes",
    "walk_s": "walk all rows",
    "fetches_per_s": "fetch frames at random, from all over",
    "near_fetches_per_s": "fetch frames near each other",
    "rebuild_s": "open without its replay index",
    "rebuild_all_s": "open without any index",
    "open_unsealed_s": "open before it was sealed",
}
FETCHES = 2000


def shown(label: str) -> Callable[[int, int], None]:
    """Progress in one line of stderr; nothing where that is no terminal."""
    if not sys.stderr.isatty():
        return lambda done, of: None

    def show(done: int, of: int) -> None:
        end = "\n" if done >= of else ""
        sys.stderr.write(f"\r{label} {done * 100 // max(of, 1):3} %{end}")
        sys.stderr.flush()

    return show


def opened(path: Path) -> dict[str, float]:
    """Open a recording at random, as whoever replays it does."""
    began, used = time.perf_counter(), time.process_time()
    recording = open_recording(path, shown("opening"))
    lookup = open_lookup(recording, progress=shown("indexing"))
    lookup.row(recording.index.last // 2)
    return {
        "open_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - used,
        "memory_mb": memory_mb(),
    }


def fetched(path: Path) -> dict[str, float]:
    """Fetch frames from all over, then near each other, then walk all rows."""
    lookup = open_lookup(open_recording(path))
    last = lookup.recording.index.last
    dice = random.Random(2)
    rates: dict[str, float] = {}
    for name, numbers in (
        ("fetches_per_s", [dice.randrange(1, last + 1) for _ in range(FETCHES)]),
        ("near_fetches_per_s", [dice.randrange(1, min(last, 5000) + 1) for _ in range(FETCHES)]),
    ):
        began = time.perf_counter()
        for seq in numbers:
            assert lookup.frame(seq).seq == seq
        rates[name] = FETCHES / (time.perf_counter() - began)
    began = time.perf_counter()
    assert sum(1 for _ in lookup.rows()) == len(lookup)
    return {**rates, "walk_s": time.perf_counter() - began, "memory_mb": memory_mb()}


def memory_mb() -> float:
    """The most memory that this process has had."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


STEPS: dict[str, Callable[[Path], dict[str, float]]] = {"open": opened, "fetch": fetched}


def step(name: str, path: Path) -> dict[str, float]:
    """Run one step in a process of its own."""
    command = [sys.executable, "-m", "loadtest.opening", "--step", name, str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


@contextmanager
def without(path: Path, *names: str) -> Generator[None]:
    """A sealed recording while some of its files are away."""
    for name in names:
        os.rename(path / name, path / f".{name}")
    try:
        yield
    finally:
        for name in names:
            os.rename(path / f".{name}", path / name)


def measured(parent: Path, count: int) -> dict[str, Any]:
    """Make a recording of so many frames and open it in every way."""
    path = parent / "recording"
    progress = shown("writing")
    result: dict[str, Any] = {"frames": count}
    memory: dict[str, float] = {}
    cpu: dict[str, float] = {}

    def add(name: str, found: dict[str, float]) -> None:
        result[name] = found["open_s"]
        memory[name] = found["memory_mb"]
        cpu[name] = found["cpu_s"]

    with Recorder(path, durability="os") as recorder:
        for frame in frames_of(count):
            recorder.append(frame)
            if frame.seq % 20_000 == 0:
                progress(frame.seq, count)
        progress(count, count)
        recorder.barrier()
        result["lines_mb"] = (path / files.FRAMES).stat().st_size / 1e6
        add("open_unsealed_s", step("open", path))
        began = time.perf_counter()
        recorder.seal()
        result["seal_s"] = time.perf_counter() - began
    result["index_mb"] = (
        sum(
            (path / name).stat().st_size
            for name in (files.INDEX, files.REPLAY_INDEX)
            if (path / name).exists()
        )
        / 1e6
    )
    result["sealed_mb"] = (path / files.SEALED_FRAMES).stat().st_size / 1e6
    add("open_s", step("open", path))
    found = step("fetch", path)
    memory["walk_s"] = found.pop("memory_mb")
    result.update(found)
    if result["lines_mb"] > 2.1:
        with without(path, files.REPLAY_INDEX):
            add("rebuild_s", step("open", path))
        with without(path, files.INDEX, files.REPLAY_INDEX):
            add("rebuild_all_s", step("open", path))
    return {**result, "memory_mb": memory, "cpu_s": cpu}


def tell(result: dict[str, Any]) -> None:
    """Print what was measured for a person."""
    print(
        f"{result['frames']:,} frames: {result['lines_mb']:.0f} MB of lines, sealed in {result['seal_s']:.1f} s to "
        f"{result['sealed_mb']:.0f} MB and {result['index_mb']:.0f} MB of indexes"
    )
    print(f"{'':40} {'took':>14} {'processor':>14} {'memory':>8}")
    for name, label in LABELS.items():
        if name not in result:
            continue
        value = result[name]
        took = f"{value:,.0f} /s" if name.endswith("per_s") else f"{value * 1000:,.1f} ms"
        used = f"{result['cpu_s'][name] * 1000:,.1f} ms" if name in result["cpu_s"] else ""
        memory = f"{result['memory_mb'][name]:.0f} MB" if name in result["memory_mb"] else ""
        goal = GOALS.get(name)
        verdict = ""
        if goal is not None and result["frames"] >= 1_000_000:
            allowed = goal * result["frames"] / 1_000_000
            verdict = f"goal {allowed:,.0f} s: {'met' if value <= allowed else 'missed'}"
        print(f"{label:40} {took:>14} {used:>14} {memory:>8}  {verdict}".rstrip())


def main() -> None:
    """Run the benchmark and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=at_least_one, default=1_000_000, help="frames of the recording")
    parser.add_argument(
        "--dir", type=Path, default=None, help="where to write; a temporary directory by default"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("path", type=Path, nargs="?", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(STEPS[options.step](options.path)))
        return
    with tempfile.TemporaryDirectory(dir=options.dir) as parent:
        result = measured(Path(parent), options.frames)
    if options.json:
        print(json.dumps(result))
    else:
        tell(result)


if __name__ == "__main__":
    main()
