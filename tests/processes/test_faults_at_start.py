"""Peers that do not come up, or come up wrong, each through a whole gateway with an innocent peer beside it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.processes.fault_kit import Case, check_answer, check_answers, comes_back, faulty_house, kinds_of
from tests.processes.gateway_kit import (
    PATIENCE_S,
    Message,
    bad,
    bystander,
    echo,
    eventually,
    house,
    run,
    text_of,
    told,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

RETRY: dict[str, Any] = {"restart": {"backoff_s": 0.02, "backoff_max_s": 0.05}}


@dataclass(frozen=True, kw_only=True)
class Start:
    """A peer whose first call is refused, and what is said of it."""

    name: str
    peer: Message
    case: Case
    is_final: bool = False
    """Whether it is not started again."""

    def __str__(self) -> str:
        return self.name


def refused(name: str, peer: Message, *frames: str, is_final: bool = False, **facts: Any) -> Start:
    said: dict[str, Any] = {"code": "io", "outcome": "not_sent", **facts}
    case = Case(fault=name, frames=frames, **said)
    return Start(name=name, peer=peer, case=case, is_final=is_final)


SAID = {"exit": {"code": 3}, "stderr": "starting\nfatal: cannot open the database"}
NOT_THERE: Message = {"command": ["no-such-program-here", "--flag"], **RETRY}

STARTS = [
    refused("command not found", NOT_THERE, "spawn", reason="not_found", says="no-such-program-here"),
    refused(
        "not executable", {"command": [__file__], **RETRY}, "spawn", reason="not_executable", says=__file__
    ),
    refused(
        "wrong directory",
        {**echo(), "cwd": "/no/such/directory", **RETRY},
        "spawn",
        reason="no_directory",
        says="/no/such/directory",
    ),
    refused("exit-0", bad("exit-0"), "exit", reason="peer_exited", data={"exit": {"code": 0}}),
    refused("exit-3", bad("exit-3"), "exit", "raw", reason="peer_exited", data=SAID),
    refused(
        "killed-at-start",
        bad("killed-at-start"),
        "exit",
        reason="peer_exited",
        data={"exit": {"signal": "SIGKILL"}},
    ),
    refused(
        "segfault-at-start",
        bad("segfault-at-start"),
        "exit",
        reason="peer_exited",
        data={"exit": {"signal": "SIGSEGV"}},
    ),
    refused(
        "no-handshake",
        bad("no-handshake", start_timeout_s=0.6),
        "timeout",
        "exit",
        code="timeout",
        reason="deadline",
    ),
    refused(
        "wrong-version",
        bad("wrong-version"),
        "error",
        "exit",
        code="invalid_request",
        reason="version",
        says="speaks protocol version '1999-12-31'; Tieline speaks 2024-11-05",
        is_final=True,
    ),
]


@pytest.mark.parametrize("start", STARTS, ids=str)
def test_a_peer_that_does_not_come_up(start: Start, tmp_path: Path) -> None:
    async def main() -> None:
        async with faulty_house(tmp_path, start.peer) as (here, core):
            check_answer(start.case, await core.tool("bad__echo", text="hello"))
            if start.is_final:
                check_answer(start.case, await core.tool("bad__echo", text="hello"))
                assert here.life("bad") == 1
            listed = (await core.ask("tools/list"))["result"]["tools"]
            assert {tool["name"].split("__")[0] for tool in listed} == {"good"}
        kinds = kinds_of(here)
        assert set(start.case.frames) <= kinds, sorted(kinds)
        assert here.recording().unanswered == []

    run(main())


def test_who_asks_for_a_peer_in_the_moment_in_which_it_is_given_up_is_told_too(tmp_path: Path) -> None:
    """A resource that nobody lists is looked for in two lists: the second one is asked for in that moment."""

    async def main() -> None:
        peers = {"bad": bad("wrong-version", start="lazy"), "good": bad("banner", start="eager")}
        async with house(tmp_path, peers) as here:
            core = await here.core()
            for _ in range(2):
                answer = await core.ask("resources/read", {"uri": "file:///nowhere"}, within=10.0)
                assert "bad speaks protocol version" in told(answer)["advice"]
            check_answers(core)

    run(main())


@pytest.mark.parametrize("peer", [NOT_THERE, bad("exit-3")], ids=["command not found", "exit-3"])
def test_after_five_tries_the_breaker_is_open_and_says_why(peer: Message, tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"bad": {**peer, **RETRY}, "good": echo()}) as here:
            core = await here.core()
            reasons: list[str] = []
            answer: Message = {}
            async with bystander(core):
                while not reasons or reasons[-1] != "breaker_open":
                    answer = await core.tool("bad__echo", text="hello")
                    assert told(answer)["code"] == "io"
                    assert told(answer)["outcome"] == "not_sent"
                    reasons.append(told(answer)["reason"])
                    assert len(reasons) < 50
            assert "is given up for now: bad" in answer["error"]["message"]
            assert "tried again in" in told(answer)["advice"]
            again = await core.tool("bad__echo", text="hello")
            assert told(again)["reason"] == "breaker_open"
            assert answer["error"]["message"] == again["error"]["message"]
            check_answers(core)
        spawns = [frame for frame in here.frames() if frame.peer == "bad" and frame.kind == "spawn"]
        assert len(spawns) == 5
        restarts = [
            frame.x or {} for frame in here.frames() if frame.peer == "bad" and frame.kind == "restart"
        ]
        assert [one["state"] for one in restarts] == ["backing_off"] * 4 + ["failed"]

    run(main())


@pytest.mark.parametrize(
    ("fault", "frames"),
    [
        ("banner", {"raw"}),
        ("bom", set[str]()),
        ("stderr-before-handshake", {"raw"}),
        ("many-tools", set[str]()),
    ],
)
def test_a_noisy_start_is_a_start_all_the_same(fault: str, frames: set[str], tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"bad": bad(fault), "good": echo()}) as here:
            notices: list[str] = []
            here.gateway.exchange.on_notice = notices.append
            core = await here.core()
            async with bystander(core):
                assert text_of(await core.tool("bad__echo", text="hello")) == "hello"
                assert text_of(await core.tool("bad__fault")) == "no fault is set for calls"
                listed = (await core.ask("tools/list"))["result"]["tools"]
                assert len(listed) == (10_005 if fault == "many-tools" else 5)
            assert here.life("bad") == 1
            check_answers(core)
        assert frames <= kinds_of(here)
        assert [note for note in notices if "no message" in note] == (
            ["bad sends what is no message (not-json); it is recorded and passed over"]
            if fault == "banner"
            else []
        )

    run(main())


def test_a_peer_that_exits_while_idle_is_there_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with faulty_house(tmp_path, bad("exits-idle")) as (here, core):
            await comes_back(core)
            await eventually(lambda: here.life("bad") >= 2)
            await comes_back(core)
        assert {"exit", "restart", "close"} <= kinds_of(here)

    run(main())


@pytest.mark.parametrize("exits", [True, False])
def test_secrets_in_what_a_peer_says_that_does_not_come_up_are_told_to_nobody(
    exits: bool, tmp_path: Path
) -> None:
    secret = "sk-ant-api03-" + "Q7w8E9r0" * 8
    # One dies, the other one never answers the greeting.
    after = "sys.exit(1)" if exits else "sys.stdin.read()"
    code = f"import sys; print('cannot log in with {secret}', file=sys.stderr, flush=True); {after}"
    # Time enough for its words, and for its end where it comes to one.
    within = PATIENCE_S if exits else 3.0
    peer: Message = {"command": [sys.executable, "-S", "-E", "-c", code], "start_timeout_s": within, **RETRY}

    async def main() -> None:
        async with house(tmp_path, {"bad": peer, "good": echo()}) as here:
            core = await here.core()
            answer = await core.tool("bad__echo", text="hello")
            assert told(answer).get("exit") == ({"code": 1} if exits else None)
            assert told(answer)["reason"] == ("peer_exited" if exits else "deadline")
            assert told(answer)["stderr"].startswith("cannot log in with ")
            assert secret not in str(answer)
        assert secret.encode() not in b"".join(bytes(frame.body) for frame in here.frames())

    run(main())
