"""Host calls at work: each ends once, its parts keep to credits and to a reader's pace, and nothing of it goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.calls.call import Reply
from gateway.calls.host_call import Hosted
from gateway.policy.capability import need_of
from gateway.policy.decide import Facts, decide
from gateway.policy.model import PROFILES
from gateway.policy.rules import Rules
from gateway.runtime.host.base import Emit, HostFault, Work
from gateway.runtime.host.serving import Desk
from tests.gateway.runtime.host.kit import folders_of


class Call:
    """A host call as far as whoever serves it needs it."""

    def __init__(self, folder: Path, credits: int | None = None) -> None:  # noqa: A002
        self.folders = folders_of(folder)
        self.verb, self.params, self.call_id, self.time_s, self.credits = "log", {}, "h1", 5.0, credits
        need = need_of("log", {}, self.folders.roots)
        facts = Facts(extension="x", need=need, standing="declared")
        self.decision = decide(Rules(PROFILES["full-auto"]), facts)
        self.parts: list[Any] = []
        self.ends: list[Reply] = []

        class Peer:
            name = "x"

        self.peer = Peer

    def reach(self, need: Any) -> bool:
        return False

    def gave(self, output: bytes) -> None:
        self.parts.append(json.loads(output))

    def ended(self, reply: Reply) -> None:
        self.ends.append(reply)

    def __getattr__(self, name: str) -> Any:
        # What is asked of a call besides is nothing to these tests.
        return {} if name in ("context", "correlation") else None


class Given:
    def __init__(self, do: Callable[[Work, Emit], Awaitable[dict[str, Any]]]) -> None:
        self.do = do

    async def serve(self, work: Work, emit: Emit) -> dict[str, Any]:
        return await self.do(work, emit)


def run(
    folder: Path,
    do: Callable[[Work, Emit], Awaitable[Any]],
    then: Callable[[Call, Any], Awaitable[None]],
    **more: Any,
) -> Call:
    async def main() -> Call:
        call = Call(folder, **more)
        desk = Desk({"log": Given(do)}, call.folders)
        served = desk.serve(cast("Hosted", call), on_fault=lambda task: None)
        await then(call, served)
        await desk.close()
        return call

    return asyncio.run(main())


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_parts_wait_for_credits_and_for_a_reader(tmp_path: Path) -> None:
    async def do(work: Work, emit: Emit) -> dict[str, Any]:
        for number in range(4):
            await emit({"n": number})
        return {"done": True}

    async def then(call: Call, served: Any) -> None:
        await settle()
        assert [part["n"] for part in call.parts] == [0]
        served.hold(full=True)
        served.credit(2)
        await settle()
        assert len(call.parts) == 1
        served.hold(full=False)
        await settle()
        assert len(call.parts) == 3
        served.credit(1)
        await settle()
        # The last part leaves no credit, and the end needs none.
        served.credit(1)
        await served.task

    call = run(tmp_path, do, then, credits=1)
    assert [part["n"] for part in call.parts] == [0, 1, 2, 3]
    assert [json.loads(end.result) for end in call.ends] == [{"done": True}]


def test_a_call_that_nobody_wants_any_more_is_ended_and_says_nothing(tmp_path: Path) -> None:
    left: list[str] = []

    async def do(work: Work, emit: Emit) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            left.append("cleaned up")
        return {}

    async def then(call: Call, served: Any) -> None:
        await settle()
        served.cancel()
        served.cancel()
        await settle()

    call = run(tmp_path, do, then)
    assert (left, call.ends) == (["cleaned up"], [])


@pytest.mark.parametrize(
    ("raised", "code", "reason"),
    [
        (HostFault("io", "no", "enoent"), "io", "enoent"),
        (RuntimeError("secret words"), "internal", "RuntimeError"),
        (None, "internal", "bad_output"),
    ],
)
def test_whatever_a_connector_does_there_is_one_end(
    tmp_path: Path, raised: Exception | None, code: str, reason: str
) -> None:
    async def do(work: Work, emit: Emit) -> dict[str, Any]:
        if raised is not None:
            raise raised
        return {"odd": object()}

    async def then(call: Call, served: Any) -> None:
        await served.task

    call = run(tmp_path, do, then)
    [end] = call.ends
    assert end.fault is not None
    assert (end.fault.code, end.fault.reason) == (code, reason)
    assert "secret words" not in end.fault.message
