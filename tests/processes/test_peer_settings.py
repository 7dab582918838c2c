"""Settings of peers that are about processes: restarts, their waits and their end, warm processes, shared ones."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.processes.gateway_kit import (
    House,
    bad,
    echo,
    eventually,
    house,
    is_alive,
    run,
    text_of,
    told,
)


def restarts(here: House) -> list[dict[str, Any]]:
    """What was recorded of each end of a peer: the state that followed, the wait, the count of failures."""
    return [frame.x or {} for frame in here.frames() if frame.kind == "restart"]


def pids(here: House, peer: str) -> set[int]:
    """The processes of one peer, over all sessions."""
    found = [here.gateway.world.pid(one) for one in here.gateway.exchange.peers_named(peer)]
    return {pid for pid in found if pid is not None and is_alive(pid)}


async def kill(here: House, peer: str = "calc") -> None:
    """End the peer's process, and wait until the gateway has noticed."""
    pid, before = here.pid(peer), len(restarts(here))
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: len(restarts(here)) > before, "the frame of the end")


def test_a_peer_is_started_again_and_not_where_that_is_switched_off(tmp_path: Path) -> None:
    async def main() -> None:
        peers = {
            "again": echo(start="eager", restart={"backoff_s": 0.01}),
            "never": echo(start="eager", restart={"enabled": False}),
        }
        async with house(tmp_path, peers) as here:
            core = await here.core()
            for peer in peers:
                await kill(here, peer)
            assert text_of(await core.tool("again__echo", text="back")) == "back"
            assert (here.life("again"), here.life("never")) == (2, 1)
            data = told(await core.tool("never__echo", text="no"))
            assert (data["code"], data["outcome"]) == ("io", "not_sent")
            assert here.life("never") == 1

    run(main())


def test_waits_begin_with_backoff_double_up_to_the_longest_and_end_with_the_budget(tmp_path: Path) -> None:
    restart = {"backoff_s": 0.04, "backoff_max_s": 0.1, "budget": 5}

    async def main() -> None:
        async with house(tmp_path, {"calc": bad("exit-3", restart=restart)}) as here:
            core = await here.core(shake=False)
            core.start("initialize", {})
            await eventually(lambda: len(restarts(here)) == 5, "five failures")
        waits = [facts["wait_ms"] for facts in restarts(here)]
        for wait, most in zip(waits[:4], (40, 80, 100, 100), strict=True):
            assert most // 2 <= wait <= most
        assert [facts["state"] for facts in restarts(here)] == ["backing_off"] * 4 + ["failed"]

    run(main())


@pytest.mark.parametrize(("window_s", "failures"), [(0.01, [1, 1, 1]), (60.0, [1, 2, 3])])
def test_a_life_that_was_ready_for_the_window_wipes_out_the_failures_before_it(
    window_s: float, failures: list[int], tmp_path: Path
) -> None:
    restart = {"backoff_s": 0.01, "window_s": window_s}

    async def main() -> None:
        async with house(tmp_path, {"calc": echo(restart=restart)}) as here:
            core = await here.core()
            for _ in range(3):
                await core.tool("calc__echo", text="ready", delay_ms=30)
                await kill(here)
        assert [facts["failures"] for facts in restarts(here)] == failures

    run(main())


def test_warm_processes_wait_for_sessions_and_others_take_their_place(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"calc": echo(warm=2)}) as here:
            await eventually(lambda: len(here.gateway.world.warm.pids("calc")) == 2, "two warm processes")
            before = here.gateway.world.warm.pids("calc")
            first = await here.core()
            assert text_of(await first.tool("calc__echo", text="warm")) == "warm"
            assert here.pid("calc") == before[0]
            await eventually(
                lambda: len(here.gateway.world.warm.pids("calc")) == 2, "one that takes its place"
            )

            os.kill(before[1], signal.SIGKILL)
            await eventually(lambda: not is_alive(before[1]), "the end of one that waited")
            second = await here.core()
            assert text_of(await second.tool("calc__echo", text="warm too")) == "warm too"

    run(main())


def test_a_shared_peer_is_one_process_and_a_sessions_own_is_one_each(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"own": echo(), "all": echo(scope="shared")}) as here:
            cores = [await here.core() for _ in range(3)]
            for number, core in enumerate(cores):
                for peer in ("own", "all"):
                    assert text_of(await core.tool(f"{peer}__echo", text=f"{number}")) == f"{number}"
            assert len(pids(here, "own")) == 3
            assert len(pids(here, "all")) == 1
            before = pids(here, "own")
            cores[0].close()
            await eventually(lambda: sum(map(is_alive, before)) == 2, "the end of one session's own process")
            assert len(pids(here, "all")) == 1
            assert text_of(await cores[1].tool("all__echo", text="still there")) == "still there"

    run(main())


def test_an_eager_peer_is_there_once_the_core_has_been_greeted_and_a_lazy_one_is_not(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"early": echo(start="eager"), "late": echo()}) as here:
            core = await here.core()
            assert here.pid("early") is not None
            assert here.pid("late") is None
            assert text_of(await core.tool("late__echo", text="now")) == "now"
            assert here.pid("late") is not None

    run(main())


def test_the_grace_at_the_end_is_that_of_the_configuration_of_then(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"calc": bad("ignores-eof-and-term", stop_grace_s=60.0)}) as here:
            core = await here.core()
            await core.tool("calc__fault")
            pid = here.pid("calc")
            assert pid is not None
            (one,) = here.gateway.exchange.peers_named("calc")
            one.adjust(msgspec.structs.replace(here.gateway.config.peers["calc"], stop_grace_s=0.1))
            core.close()
            await eventually(lambda: not is_alive(pid), "its end")

    run(main())
