"""The gateway is killed with SIGKILL: nothing that it started lives on, or the next start ends it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from gateway.runtime import processes
from gateway.runtime.keeping import keeper_works
from gateway.runtime.processes import MARK, Owner, every_process, send_signal, sweep
from tests.gateway.runtime.process_kit import PATIENCE_S, is_alive
from tests.processes.gateway_kit import marked_by

pytestmark = pytest.mark.skipif(not keeper_works(), reason="needs Linux with /proc")

ROOT = Path(__file__).parents[3]


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch) -> str:
    """A namespace of the test's own: every gateway that starts on this machine meanwhile sweeps the real one."""
    mine = f"test {os.getpid()}"
    monkeypatch.setattr(processes, "_namespace", lambda: mine)
    return mine


@contextmanager
def victim(mode: str, keeper: str, namespace: str = "") -> Generator[subprocess.Popen[bytes]]:
    """Run a small gateway; afterwards everything with its mark is ended, whatever the test found."""
    command = [sys.executable, "-m", "tests.gateway.runtime.victim", mode, keeper, namespace]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            left = marked_by(process.pid)
            for stat in every_process():
                if stat.id.pid in left:
                    send_signal(stat.id, signal.SIGKILL)


def family_of(gateway: subprocess.Popen[bytes]) -> dict[str, int]:
    assert gateway.stdout is not None
    return json.loads(gateway.stdout.readline())


def wait_until(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, f"{what} did not come true"
        time.sleep(0.02)


@pytest.mark.parametrize("batch", range(2))
def test_stubborn_families_under_keepers_do_not_outlive_killed_gateways(batch: int) -> None:
    with ExitStack() as stack:
        victims = [stack.enter_context(victim("family", "kept")) for _ in range(5)]
        families = [family_of(gateway) for gateway in victims]
        for gateway, family in zip(victims, families, strict=True):
            assert len(family) == 4
            assert all(map(is_alive, family.values()))
            gateway.kill()
            gateway.wait()
        for gateway, family in zip(victims, families, strict=True):
            wait_until(lambda f=family: not any(map(is_alive, f.values())), "the end of the family")
            wait_until(lambda g=gateway: marked_by(g.pid) == [], "the end of the keeper")


def test_no_moment_of_starting_and_stopping_is_a_bad_one_to_be_killed_at() -> None:
    dice = random.Random(7)
    with ExitStack() as stack:
        victims = [stack.enter_context(victim("churn", "kept")) for _ in range(8)]
        for gateway in victims:
            assert gateway.stdout is not None
            gateway.stdout.readline()
        for gateway in victims:
            time.sleep(dice.uniform(0, 0.1))  # not to wait for anything: to hit another moment each time
            gateway.kill()
            gateway.wait()
        for gateway in victims:
            wait_until(lambda g=gateway: marked_by(g.pid) == [], "the end of all it started")


def test_what_a_killed_gateway_left_without_keepers_is_swept_at_the_next_start(namespace: str) -> None:
    with victim("family", "bare", namespace) as gateway:
        family = family_of(gateway)
        assert not set(family.values()) & {process.pid for process in sweep().killed}
        gateway.kill()
        gateway.wait()
        swept = sweep()
        assert set(family.values()) <= {process.pid for process in swept.killed}
        assert swept.left == ()
        assert not any(map(is_alive, family.values()))


def test_a_zombie_gateway_counts_as_gone(namespace: str) -> None:
    with victim("family", "bare", namespace) as gateway:
        family = family_of(gateway)
        gateway.kill()
        os.waitid(os.P_PID, gateway.pid, os.WEXITED | os.WNOWAIT)
        sweep()
        assert not any(map(is_alive, family.values()))


def dead_owner() -> Owner:
    """An owner whose process is gone."""
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        stat = next(stat for stat in every_process() if stat.id.pid == process.pid)
    return Owner(stat.id, Owner.this_process().namespace)


@pytest.mark.parametrize("what", ["no mark", "living owner", "another namespace", "foreign mark"])
@pytest.mark.usefixtures("namespace")
def test_a_sweep_leaves_alone_what_is_not_ours(what: str) -> None:
    gone = dead_owner()
    assert not gone.alive
    marks = {
        "living owner": Owner.this_process().mark(),
        "another namespace": Owner(gone.id, "4026530000").mark(),
        "foreign mark": "somebody else's idea of an owner",
    }
    env = {MARK: marks[what]} if what in marks else {}
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, env=env) as process:
        assert process.pid not in {killed.pid for killed in sweep().killed}
        assert process.poll() is None


@pytest.mark.usefixtures("namespace")
def test_a_sweep_ends_what_a_gone_gateway_marked() -> None:
    mark = dead_owner().mark()
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, env={MARK: mark}) as process:
        assert process.pid in {killed.pid for killed in sweep().killed}
        assert process.wait(PATIENCE_S) == -signal.SIGKILL


@pytest.mark.parametrize("mark", ["", "1:2", "1:2:3", "x:2:4-5", "1:y:4-5", "1:2:-5", "1:2:4-", "1:2:4-5:6"])
def test_what_is_no_mark_names_no_owner(mark: str) -> None:
    assert Owner.of_mark(mark) is None
