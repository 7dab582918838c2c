"""Whole runs: real gateways over every transport, a port that is taken, an interruption, and what is left of them."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import cast

import msgspec
import psutil
import pytest

from gateway.bench import exact, probes
from gateway.bench.checking import Measured, Probe, gather
from gateway.bench.client import BenchError, Client
from gateway.bench.ending import interruptible
from gateway.bench.matrix import PLANS, Plan, Scene, cell_of, scene
from gateway.bench.results import Report
from gateway.bench.run import Run
from gateway.bench.setup import EVERYTHING, North, Setup, South
from gateway.bench.sides import Side, Sides
from gateway.cli.bench import end, progress, write_files
from gateway.cli.output import BAD_INPUT, DONE, INTERRUPTED, NO
from transports.interrupts import READER_GONE

TINY = Plan(warm_up=2, rounds=2, calls=4, bursts=1, burst_calls=20, tries=1)
BENCH = [sys.executable, "-c", "import sys; from gateway.cli.main import main; sys.exit(main())", "bench"]


def run(*scenes: Scene, port: int = 0) -> Report:
    def told(_: str, __: int, ___: int) -> None:
        """Nobody looks."""

    return Run(scenes, {}, TINY, pinned=False, port=port).run(told)


@pytest.mark.parametrize(
    ("north", "south"),
    [("stdio", "stdio"), ("unix", "stdio"), ("websocket", "websocket"), ("http", "stdio")],
)
def test_a_gateway_is_compared_with_a_direct_connection_over_each_transport(
    north: North, south: South
) -> None:
    report = run(scene("transports", Setup(north=north, south=south), [(300, 8), (65536, 4)]))
    assert report.skipped == ()
    small, large = report.comparisons
    assert (small.direct.calls, small.gateway.calls) == (8, 8)
    assert large.gateway.p50_us > 0
    assert (small.gateway.calls_per_s or 0) > 0
    assert (small.gateway.rss_mib or 0) > 1


def test_hooks_servers_and_everything_that_can_be_switched_on_are_measured() -> None:
    setups = [Setup(hooks=2, modifies=True), Setup(peers=2, recording=False), EVERYTHING]
    report = run(*(scene("options", setup, [(300, 4)]) for setup in setups))
    assert report.skipped == ()
    assert [each.cell.options for each in report.comparisons] == [setup.options for setup in setups]


def test_a_replay_stands_in_the_servers_place() -> None:
    setup = Setup()
    report = run(Scene(setup=setup, cells=(cell_of("replay", setup, in_flight=4),), is_replay=True))
    assert report.skipped == ()
    assert report.comparisons[0].gateway.calls == 8


def test_a_port_in_use_is_said_and_the_rest_is_measured() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        report = run(
            scene("transports", Setup(north="websocket"), [(300, 4), (65536, 4)]),
            scene("transports", Setup(), [(300, 4)]),
            port=port,
        )
    assert [each.cell.north for each in report.comparisons] == ["stdio"]
    assert [each.name for each in report.skipped] == [
        "websocket-stdio/300B/recording/4",
        "websocket-stdio/65536B/recording/4",
    ]
    assert str(port) in report.skipped[0].why
    assert "another program listens already" in report.skipped[0].why
    assert report.is_complete
    assert end(report, None, None, []) == NO


def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(_: str, done: int, __: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    wanted = scene("transports", Setup(), [(300, 4), (300, 8)])
    report = Run([wanted], {}, TINY, pinned=False).run(told)
    assert not report.is_complete
    assert len(report.comparisons) == 1
    path = tmp_path / "bench.csv"
    assert end(report, None, path, write_files(report, None, path)) == INTERRUPTED
    assert len(path.read_text().splitlines()) == 2
    assert f"interrupted: 1 figure had been measured and is told, `{path}` has it" in capsys.readouterr().err
    assert end(msgspec.structs.replace(report, is_complete=True), None, None, []) == DONE


def test_where_nobody_sees_a_bar_each_step_is_told_by_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as told:
        Run([scene("transports", Setup(), [(300, 4), (65536, 4)])], {}, TINY, pinned=False).run(told)
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "1/2 stdio-stdio/300B/recording/4 …",
        "2/2 stdio-stdio/65536B/recording/4 …",
    ]
    assert captured.out == ""


def test_a_gateway_that_is_killed_while_it_is_measured_costs_its_own_figures_alone() -> None:
    def told(_: str, done: int, __: int) -> None:
        if done == 1:
            for child in psutil.Process().children():
                if any(word.endswith("tieline.toml") for word in child.cmdline()):
                    child.kill()
                    child.wait()

    wanted = [scene("transports", Setup(), [(300, 4), (300, 8)]), scene("transports", Setup(), [(300, 16)])]
    report = Run(wanted, {}, TINY, pinned=False).run(told)
    assert [each.cell.in_flight for each in report.comparisons] == [4, 16]
    assert "the connection broke" in report.skipped[0].why
    assert report.is_complete


def test_a_full_disk_costs_the_figures_that_need_it_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(sides: Sides, setup: Setup) -> Side:
        raise OSError(errno.ENOSPC, "No space left on device", "tieline.toml")

    with monkeypatch.context() as patched:
        patched.setattr(Sides, "gateway", full)
        report = run(scene("transports", Setup(), [(300, 4)]))
        with pytest.raises(BenchError, match=r"bytes cannot be measured: .*No space left on device"):
            gather(["a"], Measured({}, {}), say=print, probes=[Probe("bytes", ("a",), _gateway, 1)])
    assert report.skipped[0].why == "[Errno 28] No space left on device: 'tieline.toml'"
    assert report.is_complete


def _gateway() -> dict[str, float]:
    Sides(Path()).gateway(Setup())
    return {"a": 1.0}


def test_a_run_that_is_late_measures_the_rest_as_a_quick_one_does() -> None:
    def told(_: str, __: int, ___: int) -> None:
        """Nobody looks."""

    wanted = scene("transports", Setup(), [(300, 4)])
    report = Run([wanted], {}, Plan(rounds=1000), pinned=False, hurry_after_s=0).run(told)
    assert report.comparisons[0].gateway.calls == PLANS["quick"].rounds * PLANS["quick"].calls


@pytest.fixture
def heard() -> Generator[None]:
    """Let children hear Ctrl-C: those of a test run in the background of a shell inherit that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_from_outside_prints_its_json_and_ends_what_it_started(
    by: signal.Signals, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [*BENCH, "--quick", "--only", "stdio-stdio/300B/recording/64", "--json", "--no-pinned"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    started: list[psutil.Process] = []
    deadline = time.monotonic() + 40
    while not started and time.monotonic() < deadline:
        time.sleep(0.01)
        started = psutil.Process(process.pid).children(recursive=True)
    for _ in range(3):
        process.send_signal(by)
    out, err = process.communicate(timeout=40)
    assert process.returncode == INTERRUPTED, err
    assert json.loads(out)["is_complete"] is False
    assert b"interrupted: 0 figures" in err
    assert psutil.wait_procs(started, timeout=20)[1] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("heard")
def test_only_the_first_signal_interrupts_and_what_was_heard_before_is_heard_again() -> None:
    with interruptible():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--only", "no such thing"], 2, b"matches no figure"),
        (["--quick", "--full"], 2, b"exclude each other"),
        (["--check", "--plot", "bench.png"], 2, b"`--plot` does nothing together with `--check`"),
        (["--check", "--goals"], 2, b"`--goals` does nothing together with `--check`"),
        (["--plot", "bench.txt"], 2, b"must end with .png or .svg"),
        (["--csv", "no/such/folder/x.csv"], 3, b"there is no folder"),
        (["--csv", "/"], 3, b"`/` cannot be written: Is a directory"),
        (["--csv", "/proc/x.csv"], 3, b"`/proc/x.csv` cannot be written: "),
        (["--plot", "/proc/version.png"], 3, b"`/proc/version.png` cannot be written: "),
    ],
)
def test_what_would_be_in_vain_is_said_before_anything_is_measured(
    arguments: list[str], code: int, told: bytes
) -> None:
    done = subprocess.run([*BENCH, *arguments], capture_output=True, timeout=50, check=False)
    assert (done.returncode, done.stdout) == (code, b"")
    assert told in done.stderr


def test_a_ping_that_waits_for_one_that_is_held_up_is_counted_from_when_it_was_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of ten pings takes as long as five of them are apart: the four after it were due meanwhile."""
    now = 0

    class HeldUp:
        def prepare(self, inner: bytes, count: int) -> list[bytes]:
            return [b"slow" if number == 2 else inner for number in range(count)]

        def time(self, prepared: list[bytes]) -> list[int]:
            nonlocal now
            took = 5 * probes.EVERY_NS if prepared == [b"slow"] else 1000
            now += took
            return [took]

    def sleep(seconds: float) -> None:
        nonlocal now
        now += round(seconds * 1e9) + 50_000

    monkeypatch.setattr(probes.time, "perf_counter_ns", lambda: now)
    monkeypatch.setattr(probes.time, "sleep", sleep)
    times = probes.paced(cast("Client", HeldUp()), 10)
    assert [round(ns / probes.EVERY_NS, 1) for ns in times] == [0, 0, 5, 4, 3, 2, 1, 0, 0, 0]


def test_a_file_that_cannot_be_written_costs_neither_the_other_nor_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = run()
    full, plot = tmp_path / "full.csv", tmp_path / "bench.svg"
    full.symlink_to("/dev/full")
    faults = write_files(report, plot, full)
    assert plot.stat().st_size > 1000
    assert end(report, plot, full, faults) == BAD_INPUT
    assert capsys.readouterr().err == f"error: `{full}` cannot be written: No space left on device\n"
    assert end(msgspec.structs.replace(report, is_complete=False), plot, full, faults) == INTERRUPTED


def test_figures_that_a_closed_pipe_loses_are_in_their_files_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "bench.csv"
    words = ["--quick", "--only", "stdio-stdio/300B/recording/64", "--no-pinned", "--csv", str(path)]
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run([*BENCH, *words], stdout=writes, timeout=50, check=False)
    os.close(writes)
    assert done.returncode == READER_GONE
    assert len(path.read_text().splitlines()) == 2


def test_probes_look_at_a_gateway_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(probes, "PINGS", 10)
    monkeypatch.setattr(probes, "STARTS", 1)
    monkeypatch.setattr(exact, "IDLE_S", 0.0)
    monkeypatch.setattr(exact, "SETTLE_S", 0.0)
    assert probes.lag().value > 0
    assert probes.start_up().value > 1
    assert probes.opening(50).value > 0
    with Sides(tmp_path) as sides:
        assert probes.idle(sides.gateway(Setup(peers=2)), 2).name == "wake-ups with 2 idle servers"
