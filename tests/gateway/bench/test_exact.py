"""Exact figures: what they are read from, and what is told where they cannot be measured."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.bench import exact, further, instructions, probes
from gateway.bench.exact import MissingError
from gateway.bench.hot_path import HotPath
from gateway.bench.setup import Setup
from gateway.calls import core_state, peer_state, session, straight
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

    for module in (core_state, session):
        if hasattr(module, "goes_straight"):
            watch(module, "goes_straight")
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
