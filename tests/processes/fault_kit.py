"""One fault through a whole gateway: what the core sees, what is recorded, what follows, and who notices nothing."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes.gateway_kit import (
    PATIENCE_S,
    Client,
    House,
    Message,
    bad,
    bystander,
    echo,
    eventually,
    house,
    text_of,
)

SOON_S = 10.0
"""For what the contract wants within a second of being knowable: a bound that a busy machine keeps too."""
DEADLINE_S = 0.6
"""The call timeout of peers that are expected to run into it."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row: a fault of `bad_peer.py`, called as the tool `fault` of a peer that has served until then."""

    fault: str
    code: str = "ok"
    """The taxonomy's code that the core sees, or `ok`."""
    reason: str = ""
    outcome: str = "unknown"
    text: str | None = None
    """The text of a result; None leaves it open."""
    says: str = ""
    """What the message must say."""
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Members of the error's `data`."""
    frames: tuple[str, ...] = ()
    """Kinds, or `kind/flag`, that must be in the recording as frames of the peer."""
    then: str = "serves"
    """`serves`: the same life goes on. `restarted`: another one does. `stuck`: it answers nothing any more.
    `late`: what it was too late for is recorded as late."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of the peer's configuration."""

    def __str__(self) -> str:
        return self.fault


def timeout(fault: str, *frames: str, **more: Any) -> Case:
    """The row of a fault that is only known by the deadline."""
    return Case(
        fault=fault,
        code="timeout",
        reason="deadline",
        frames=("timeout", *frames),
        settings={"call_timeout_s": DEADLINE_S, **more.pop("settings", {})},
        **more,
    )


@asynccontextmanager
async def faulty_house(
    directory: Path, peer: Message, **sections: Any
) -> AsyncGenerator[tuple[House, Client]]:
    """A gateway with the peer `bad`, its core, and an innocent peer that is called all the while.

    At the end every request of the core has been answered once.
    """
    async with house(directory, {"bad": peer, "good": echo()}, **sections) as here:
        core = await here.core()
        async with bystander(core):
            yield here, core
        check_answers(core)


async def drive(case: Case, directory: Path) -> None:
    """Play one row."""
    async with faulty_house(directory, bad(case.fault, env=case.env, **case.settings)) as (here, core):
        await serves(case, core)
        began = time.monotonic()
        answer = await core.tool("bad__fault")
        took = time.monotonic() - began
        check_answer(case, answer)
        assert took < SOON_S + float(case.settings.get("call_timeout_s", 0))
        if case.then == "serves":
            await serves(case, core)
            assert here.life("bad") == 1
        elif case.then == "restarted":
            # A call may have been sent already when the end is noticed.
            await comes_back(core)
            assert await eventually(lambda: here.life("bad") >= 2)
            await comes_back(core)
        elif case.then == "late":
            await eventually(lambda: "late" in kinds_of(here), "the late answer")
    check_frames(case, here)


async def serves(case: Case, core: Client) -> None:
    """The peer does its work, at the first try; but for a short deadline, which a busy machine may miss as well."""
    assert await comes_back(core) == 1 or case.code == "timeout"


def check_answer(case: Case, answer: Message) -> None:
    """The core sees what the row says."""
    if case.code == "ok":
        text = text_of(answer)
        assert case.text is None or text == case.text
        return
    error = answer.get("error")
    assert error is not None, answer
    seen = {key: error["data"].get(key) for key in ("code", "reason", "outcome", "peer")}
    reason = case.reason or seen["reason"]
    assert seen == {"code": case.code, "reason": reason, "outcome": case.outcome, "peer": "bad"}, error
    assert case.says in error["message"]
    for key, value in case.data.items():
        assert error["data"].get(key) == value, error


async def comes_back(core: Client, tool: str = "bad__echo") -> int:
    """Call until the peer serves; until then every call is refused with `io` or `timeout`. Gives the tries."""
    deadline = time.monotonic() + PATIENCE_S
    tries = 0
    while True:
        tries += 1
        answer = await core.tool(tool, text="are you there")
        if "result" in answer:
            assert text_of(answer) == "are you there"
            return tries
        assert answer["error"]["data"]["code"] in ("io", "timeout"), answer
        assert time.monotonic() < deadline, answer


def check_answers(core: Client) -> None:
    """Every request of the core was answered exactly once, and nothing else was."""
    twice = {key: count for key, count in core.answered.items() if count != 1}
    assert twice == {}
    assert all(key[0] == "int" for key in core.answered), core.answered


def kinds_of(here: House, peer: str = "bad") -> set[str]:
    """Kinds of the frames about one peer, `kind/flag` where they have flags, and methods of notifications."""
    found: set[str] = set()
    for frame in here.frames():
        if frame.peer == peer:
            found |= {frame.kind, *(f"{frame.kind}/{flag}" for flag in frame.flags)}
            if frame.kind == "notification" and frame.method:
                found.add(frame.method)
            if frame.way == "inside" and frame.re is not None:
                found.add(f"{frame.kind}/re")
    return found


def check_frames(case: Case, here: House) -> None:
    """The recording holds what the row names; whatever was answered counts as answered."""
    kinds = kinds_of(here)
    assert set(case.frames) <= kinds, sorted(kinds)
    if case.then == "restarted":
        assert {"exit", "restart"} <= kinds, sorted(kinds)
    recording = here.recording()
    assert recording.state == "sealed"
    assert recording.unanswered == [], recording.warnings
