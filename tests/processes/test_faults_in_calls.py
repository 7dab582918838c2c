"""Peers that misbehave in the middle of a call, each through a whole gateway with an innocent peer beside it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.processes.fault_kit import (
    DEADLINE_S,
    Case,
    check_answers,
    comes_back,
    drive,
    faulty_house,
    kinds_of,
    timeout,
)
from tests.processes.gateway_kit import bad, bystander, echo, eventually, house, run, text_of, told

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

MIB = 1024 * 1024
DAMAGED: dict[str, Any] = {"code": "io", "reason": "peer_protocol"}
TOO_LARGE: dict[str, Any] = {"code": "io", "reason": "frame_too_large", "says": "too large"}

FRAMING = [
    Case(fault="garbage-line", text="after garbage", frames=("raw",)),
    timeout("garbage-only", "raw"),
    Case(fault="invalid-utf8", **DAMAGED, frames=("raw",)),
    Case(fault="truncated-line", **DAMAGED, frames=("raw",)),
    timeout("partial-then-stall", then="stuck"),
    Case(fault="partial-then-exit", code="io", frames=("raw", "exit"), then="restarted"),
    Case(fault="no-final-newline", text="no newline", frames=("response", "exit"), then="restarted"),
    Case(fault="bom-line", text="after BOM", frames=("raw",)),
    Case(fault="crlf", text="CRLF"),
    Case(fault="two-in-one-line", text="two", frames=("raw", "notification")),
    Case(fault="blank-lines", text="after blanks"),
    Case(fault="batch", text="in a batch", frames=("raw",)),
    Case(
        fault="huge-line",
        **TOO_LARGE,
        frames=("raw", "fault", "fault/re"),
        env={"BAD_PEER_COUNT": str(3 * MIB)},
        settings={"limits": {"max_message_bytes": MIB}},
    ),
    Case(
        fault="endless-line",
        **TOO_LARGE,
        frames=("raw",),
        settings={"limits": {"max_message_bytes": MIB}},
        then="stuck",
    ),
    Case(fault="depth-bomb", **TOO_LARGE, frames=("raw", "fault/re")),
    Case(fault="huge-number", **TOO_LARGE, frames=("raw", "fault/re")),
    Case(fault="not-a-number", **DAMAGED, frames=("raw",)),
    timeout("duplicate-keys", "raw"),
    timeout("byte-a-second", env={"BAD_PEER_PAUSE": "0.5"}, then="stuck"),
    Case(fault="tiny-writes", text="x" * 20_000, env={"BAD_PEER_COUNT": "20000"}),
]

IDS = [
    timeout("never-answers", "notifications/cancelled"),
    Case(fault="answers-twice", text="same", frames=("response/duplicate",)),
    Case(fault="answers-twice-differently", text="first", frames=("response/duplicate",)),
    timeout("wrong-id", "response/orphan"),
    timeout("id-of-other-type", "response/orphan"),
    timeout("float-id", "raw"),
    timeout("null-id", "response/orphan"),
    Case(fault="result-and-error", **DAMAGED, frames=("raw",)),
    Case(fault="neither-result-nor-error", **DAMAGED, frames=("raw",)),
    timeout("answers-late", "late", env={"BAD_PEER_PAUSE": str(DEADLINE_S * 2.5)}, then="late"),
    Case(fault="answers-before-asked", text="asked", frames=("response/orphan",)),
    Case(fault="asks-under-pending-id", text='asked and got ["id", "jsonrpc", "result"]'),
    Case(fault="request-storm", text="after the storm"),
]

FLOODS = [
    Case(
        fault="flood-notifications", text="after the flood", env={"BAD_PEER_COUNT": "60000"}, frames=("drop",)
    ),
    Case(fault="flood-logs", text="after the flood", env={"BAD_PEER_COUNT": "60000"}, frames=("drop",)),
    Case(fault="flood-progress", text="after the flood", env={"BAD_PEER_COUNT": "60000"}, frames=("drop",)),
    Case(fault="flood-stderr", text="after the flood", frames=("raw",)),
    Case(fault="stderr-without-newline", text="after the flood", frames=("raw",)),
]

PANIC: dict[str, Any] = {"exit": {"code": 3}, "stderr": "panic: out of luck"}
EXITED: dict[str, Any] = {
    "code": "io",
    "reason": "peer_exited",
    "frames": ("exit", "close", "lost"),
    "then": "restarted",
}
ENDS = [
    Case(fault="dies-in-call", **EXITED, data=PANIC),
    Case(fault="killed-in-call", **EXITED, data={"exit": {"signal": "SIGKILL"}}),
    Case(fault="segfault-in-call", **EXITED, data={"exit": {"signal": "SIGSEGV"}}),
    timeout("stops-itself", then="stuck"),
    Case(
        fault="closes-stdout",
        code="io",
        reason="peer_closed",
        frames=("exit", "close", "lost"),
        then="restarted",
    ),
    Case(fault="closes-stdin", text="my stdin is closed", frames=("close",), then="restarted"),
    Case(fault="ignores-eof-and-term", frames=("exit",), then="stuck"),
    Case(fault="grandchild", frames=("exit",)),
    Case(fault="setsid-grandchild", frames=("exit",)),
    Case(fault="daemon", frames=("exit",)),
    Case(fault="whole-family", frames=("exit",), then="stuck"),
    Case(fault="exits-before-grandchild", frames=("exit", "close"), then="restarted"),
    Case(
        fault="memory-hog",
        **EXITED,
        data={"exit": {"code": 1, "limit": "memory"}},
        settings={"limits": {"memory_bytes": 200 * MIB}},
    ),
    Case(
        fault="cpu-spin",
        **EXITED,
        data={"exit": {"signal": "SIGXCPU", "limit": "cpu"}},
        settings={"limits": {"cpu_s": 1}},
    ),
    Case(
        fault="fork-bomb",
        **EXITED,
        data={"exit": {"signal": "SIGKILL", "limit": "processes"}},
        env={"BAD_PEER_COUNT": "64"},
        settings={"limits": {"processes": 8}},
    ),
]


@pytest.mark.parametrize("case", FRAMING, ids=str)
def test_bad_framing(case: Case, tmp_path: Path) -> None:
    run(drive(case, tmp_path))


@pytest.mark.parametrize("case", IDS, ids=str)
def test_bad_answers_and_ids(case: Case, tmp_path: Path) -> None:
    run(drive(case, tmp_path))


@pytest.mark.parametrize("case", FLOODS, ids=str)
def test_floods(case: Case, tmp_path: Path) -> None:
    run(drive(case, tmp_path))


@pytest.mark.parametrize("case", ENDS, ids=str)
def test_bad_ends(case: Case, tmp_path: Path) -> None:
    run(drive(case, tmp_path))


@pytest.mark.parametrize(
    ("fault", "reason", "most"), [("stops-itself", "deadline", 3), ("not-a-number", "peer_protocol", 20)]
)
def test_a_peer_that_only_does_wrong_is_started_anew(
    fault: str, reason: str, most: int, tmp_path: Path
) -> None:
    async def main() -> None:
        async with faulty_house(tmp_path, bad(fault, call_timeout_s=DEADLINE_S)) as (here, core):
            await comes_back(core)
            for _ in range(most):
                assert told(await core.tool("bad__fault"))["reason"] == reason
            await eventually(lambda: here.life("bad") == 2)
            await comes_back(core)
        assert {"close", "exit", "restart"} <= kinds_of(here)

    run(main())


def test_how_a_peer_has_ended_is_told_though_its_keeper_does_not_get_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.runtime.connection.EXIT_WAIT_S", 0.0)

    async def main() -> None:
        async with faulty_house(tmp_path, bad("never-answers")) as (here, core):
            await comes_back(core)
            _, answer = core.start_tool("bad__fault")
            pid = here.pid("bad")
            assert pid is not None
            peer = psutil.Process(pid)
            keeper = peer.parent()
            assert keeper is not None
            keeper.suspend()
            peer.kill()
            # Its output is closed a moment before it has ended: the gateway, on this loop, is not to look in between.
            until = time.monotonic() + 20
            while peer.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
                pass
            for _ in range(5):
                # Meanwhile the end of its output is seen.
                assert text_of(await core.tool("good__echo", text="on")) == "on"
            assert not answer.done()
            keeper.resume()
            assert told(await answer)["exit"] == {"signal": "SIGKILL"}

    run(main())


def test_a_cancelled_call_is_not_answered_even_where_its_peer_does(tmp_path: Path) -> None:
    async def main() -> None:
        async with faulty_house(tmp_path, bad("answers-cancelled")) as (here, core):
            await comes_back(core)
            id_, answer = core.start_tool("bad__fault")
            core.send({"method": "notifications/cancelled", "params": {"requestId": id_}})
            await eventually(lambda: "late" in kinds_of(here), "the late answer")
            await comes_back(core)
            assert not answer.done()
            assert ("int", id_) not in core.answered

    run(main())


@pytest.mark.parametrize("fault", ["never-reads", "reads-slowly"])
def test_a_peer_that_does_not_read_is_refused_more_before_memory_grows(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.runtime.connection.STALL_S", 1.5)
    text = "x" * MIB

    async def main() -> None:
        async with faulty_house(tmp_path, bad(fault, call_timeout_s=20.0)) as (here, core):
            await comes_back(core)
            await core.tool("bad__fault")
            calls = [core.start_tool("bad__echo", text=text)[1] for _ in range(12)]
            reasons = [told(await call)["reason"] for call in calls]
            assert "queue_full" in reasons
            assert set(reasons) == {"queue_full", "slow_consumer"}
            await comes_back(core)
            assert here.life("bad") >= 2

    run(main())


def test_all_bad_peers_at_once_are_nothing_to_another_session(tmp_path: Path) -> None:
    """One gateway, one session with a peer for each of these faults, and one session that does its work."""
    faults = [
        "garbage-only", "huge-line", "depth-bomb", "never-answers", "answers-twice", "wrong-id", "request-storm",
        "flood-logs", "flood-stderr", "dies-in-call", "killed-in-call", "stops-itself", "closes-stdout",
        "whole-family", "exit-3", "no-handshake",
    ]  # fmt: skip
    env = {"BAD_PEER_COUNT": "30000"}
    peers = {
        fault: bad(fault, call_timeout_s=2.0, start_timeout_s=5.0, env=env if "flood" in fault else {})
        for fault in faults
    }

    async def main() -> None:
        async with house(tmp_path, {**peers, "good": echo()}) as here:
            core, other = await here.core(), await here.core()
            async with bystander(other, within=20.0), bystander(core, within=20.0):
                calls = {fault: core.start_tool(f"{fault}__fault")[1] for fault in faults}
                for call in calls.values():
                    await call
            check_answers(core)
            check_answers(other)

    run(main())
