"""Exact figures: what they are read from, and what is told where they cannot be measured."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.bench import counters, exact, further, instructions, probes
from gateway.bench.exact import MissingError
from gateway.bench.hot_path import HotPath
from gateway.bench.setup import Setup
from gateway.calls import core_state, peer_state, session, straight
from gateway.runtime.speedups import speedups
from recordings import files
from recordings.lookup import Lookup, open_lookup
from recordings.reader import Recording

TABLE = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.02    0.031234           6      4818           write
 20.11    0.010294           3      3006         2 read
 10.00    0.005119           3        66        12 futex
------ ----------- ----------- --------- --------- ----------------
100.00    0.051189           4     10266         2 total
"""


def test_the_bytes_of_a_recording_are_the_same_every_time_and_grow_with_nothing_but_its_calls() -> None:
    assert exact.recording_bytes(200)["frame-bytes"] == exact.recording_bytes(200)["frame-bytes"]
    assert abs(exact.recording_bytes(400)["frame-bytes"] - exact.recording_bytes(200)["frame-bytes"]) < 2


def test_system_calls_are_read_from_the_table_that_strace_leaves_without_waits_for_locks() -> None:
    assert exact.calls_in(TABLE) == 10200

    with pytest.raises(MissingError, match="strace told nothing"):
        exact.calls_in("strace: ptrace: Operation not permitted\n")


@pytest.mark.parametrize(
    ("measure", "says"),
    [
        (lambda: exact.syscalls(Setup()), "needs strace: `apt-get install strace`"),
        (instructions.core, "needs valgrind: `apt-get install valgrind`"),
        (lambda: instructions.whole(Setup()), "needs valgrind: `apt-get install valgrind`"),
    ],
    ids=["strace", "valgrind", "valgrind of a whole gateway"],
)
def test_a_tool_that_is_missing_is_told_with_what_to_install(
    measure: object, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert callable(measure)

    with pytest.raises(MissingError, match=says):
        measure()


class Pretended:
    """Sides, their one gateway and its client, of which nothing is started: `calls` counts those that are made."""

    def __init__(self, *_: object, environment: object = None) -> None:
        self.client = self
        self.pid = 1
        Pretended.calls = 0

    calls = 0

    def __enter__(self) -> Pretended:
        return self

    def __exit__(self, *_: object) -> None: ...

    def gateway(self, setup: Setup, *, under: Sequence[str] = ()) -> Pretended:
        self._table = Path(under[under.index("-o") + 1]) if under else None
        return self

    def prepare(self, inner: bytes, count: int) -> list[bytes]:
        return [inner] * count

    def time(self, prepared: list[bytes]) -> list[int]:
        Pretended.calls += len(prepared)
        if self._table is not None:
            # Five hundred of a start, eight of a call.
            self._table.write_text(f"100.00 0.05 4 {500 + 8 * Pretended.calls} total\n")
        return []

    def burst(self, prepared: list[bytes], in_flight: int) -> float:
        self.time(prepared)
        return 1.0


def test_what_is_counted_of_a_gateway_is_told_a_call_without_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rss(pid: int) -> int:
        return 20 * 2**20 + 30 * Pretended.calls

    def threads(pid: int) -> int:
        return 3

    def waits(pid: int) -> int:
        return 70 + 2 * Pretended.calls

    monkeypatch.setattr(exact, "Sides", Pretended)
    monkeypatch.setattr(counters, "rss_bytes", rss)
    monkeypatch.setattr(counters, "threads", threads)
    monkeypatch.setattr(exact, "_waits", waits)
    monkeypatch.setattr(shutil, "which", str)
    assert exact.syscalls(Setup()) == 8
    found = exact.process(Setup())
    assert (found["waits"], found["rss-slope"], found["threads"]) == (2, 30, 3)
    assert found["rss-mib"] == pytest.approx(rss(1) / 2**20)


def test_an_idle_peer_is_told_without_the_gateway_that_has_one_anyway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The first is of a start that only compiles.
    held = [30 * 2**20, 20 * 2**20, 20 * 2**20 + 49 * 8 * 1024]

    def settled(pid: int) -> int:
        return held.pop(0)

    switches = [5, 9]

    def switched(pid: int) -> int:
        return switches.pop(0)

    monkeypatch.setattr(exact, "Sides", Pretended)
    monkeypatch.setattr(exact, "settled", settled)
    monkeypatch.setattr(exact, "_switches", switched)
    monkeypatch.setattr(exact, "IDLE_S", 0.0)
    assert exact.idle(50) == {"wake-ups": 4, "peer-kib": 8}


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_real_gateway_makes_as_many_system_calls_a_call_as_its_budget_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exact, "FEW", 100)
    monkeypatch.setattr(exact, "MANY", 1100)
    try:
        found = exact.syscalls(Setup())
    except MissingError as error:
        pytest.skip(str(error))
    assert 7.5 <= found <= 9


def test_a_tracer_that_may_not_trace_is_told_and_is_no_fault_of_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = tmp_path / "strace"
    tracer.write_text(
        "#!/bin/sh\necho 'strace: ptrace(PTRACE_TRACEME): Operation not permitted' >&2\nexit 1\n"
    )
    tracer.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with pytest.raises(MissingError, match=r"strace may not trace here: .*Operation not permitted"):
        exact.syscalls(Setup())


def test_the_calls_whose_instructions_are_counted_go_the_straight_way_and_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    went: list[bool] = []

    def watch(module: object, name: str) -> None:
        true = getattr(straight, name)

        def watched(*given: object) -> bool:
            went.append(true(*given))
            return went[-1]

        monkeypatch.setattr(module, name, watched)

    watch(core_state, "goes_straight")
    watch(session, "goes_as")
    watch(peer_state, "comes_straight")
    written: list[int] = []
    path = HotPath(tmp_path, write=lambda _, data: written.append(len(data)) or len(data))
    path.prove()
    went.clear()
    written.clear()

    path.make(path.prepare(50))

    assert went == [True] * 100
    assert len(written) >= 100
    assert all(size > 200 for size in written)


def test_the_program_makes_its_calls_after_the_order_to_count(tmp_path: Path) -> None:
    order = [
        sys.executable,
        "-c",
        "import sys; open(sys.argv[1], 'w').write(sys.argv[2])",
        "ordered",
        "{pid}",
    ]
    command = [sys.executable, "-m", "gateway.bench.hot_path", ".", "10", *order]
    with subprocess.Popen(command, cwd=tmp_path) as program:
        assert program.wait(50) == 0

    assert (tmp_path / "ordered").read_text() == str(program.pid)


def test_the_interpreter_is_named_by_all_that_decides_how_many_instructions_it_needs() -> None:
    key = instructions.key()

    assert key == instructions.key()
    assert sys.version.split()[0] in key
    assert "msgspec " in key
    assert ("speedups" in key) == bool(speedups().in_use)


def test_whether_steps_run_in_c_is_the_same_for_who_counts_as_for_what_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIELINE_PURE_PYTHON", "1")
    assert instructions.environment()["TIELINE_PURE_PYTHON"] == "1"


def test_the_recordings_whose_opening_is_compared_both_have_their_indexes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One without makes its own when it is opened, for longer than any other takes: no ratio to it is ever missed."""
    seen: list[bool] = []

    def looked(recording: Recording) -> Lookup:
        seen.append((recording.path / files.REPLAY_INDEX).exists())
        return open_lookup(recording)

    monkeypatch.setattr(probes, "open_lookup", looked)
    probes.opened_ms(further.FEW)
    assert seen == [True] * probes.OPENINGS
    assert further.MANY == 10 * further.FEW
