"""The gateway itself is ended, killed, reloaded with nonsense: what its core sees, and what the recording holds."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.audit import verified
from gateway.config.options import ServeOptions
from gateway.runtime.keeping import keeper_works
from gateway.serve import DRAIN_S
from recordings.store import open_recording
from tests.processes.fault_kit import check_answers, comes_back
from tests.processes.gateway_kit import (
    PATIENCE_S,
    PYTHON,
    Message,
    bad,
    bystander,
    echo,
    eventually,
    house,
    marked_by,
    peak_memory,
    program,
    run,
    stdio_program,
    text_of,
    told,
    toml_of,
)

pytestmark = pytest.mark.skipif(not keeper_works(), reason="needs Linux with /proc")

MIB = 1024 * 1024
NAMED_PEER = str(Path(__file__).parent / "bad_peers" / "named_peer.py")


def test_a_gateway_told_to_end_answers_what_is_in_flight_and_takes_nothing_new(tmp_path: Path) -> None:
    async def main() -> None:
        with program(tmp_path, {"good": echo(), "family": bad("whole-family")}) as gateway:
            core = await gateway.core()
            await comes_back(core, "good__echo")
            family: dict[str, int] = json.loads(text_of(await core.tool("family__fault")))
            _, answer = core.start_tool("good__echo", text="in time", delay_ms=1000)
            await core.tool("good__echo", text="the one before is on its way")
            gateway.process.send_signal(signal.SIGTERM)
            refusal: Message = {}
            while not refusal:
                said = await core.tool("good__echo", text="too late?")
                refusal = said if "error" in said else {}
            assert told(refusal) == {
                "code": "io",
                "reason": "draining",
                "outcome": "not_sent",
                "retryable": True,
            }
            assert "shutting down" in refusal["error"]["message"]
            assert text_of(await answer) == "in time"
            assert await gateway.ended() == 0
            await core.until(lambda: core.endings)
            check_answers(core)
            [recording] = map(open_recording, gateway.recordings)
            assert recording.state == "sealed"
            assert recording.unanswered == []
            await eventually(lambda: marked_by(gateway.pid) == [])
            assert len(family) == 4

    run(main())


def test_what_does_not_end_in_the_drain_time_is_told_that_the_gateway_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.serve.DRAIN_S", 0.3)

    async def main() -> None:
        async with house(tmp_path, {"bad": bad("never-answers"), "good": echo()}) as here:
            core = await here.core()
            await comes_back(core)
            _, answer = core.start_tool("bad__fault")
            await core.tool("good__echo", text="the one before is on its way")
            await here.gateway.stop()
            data = told(await answer)
            assert (data["code"], data["reason"], data["outcome"]) == ("io", "draining", "unknown")
            check_answers(core)
        assert here.recording().state == "sealed"
        assert here.recording().unanswered == []

    run(main())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_a_gateway_that_is_told_to_end_twice_tells_at_once_what_is_open_and_waits_for_nobody(
    tmp_path: Path, number: signal.Signals
) -> None:
    async def main() -> None:
        peers = {"bad": bad("never-answers"), "family": bad("whole-family"), "good": echo()}
        log = tmp_path / "log.jsonl"
        with program(tmp_path, peers, telemetry={"log": True, "log_file": str(log)}) as gateway:
            core = await gateway.core()
            await comes_back(core, "good__echo")
            await comes_back(core)
            await core.tool("family__fault")
            _, answer = core.start_tool("bad__fault")
            gateway.process.send_signal(number)
            while "error" not in await core.tool("good__echo", text="is it heard?"):
                pass
            began = time.monotonic()
            gateway.process.send_signal(number)
            data = told(await answer)
            assert (data["code"], data["reason"], data["outcome"]) == ("io", "draining", "unknown")
            assert await gateway.ended() == 0
            assert time.monotonic() - began < DRAIN_S / 2
            assert "Traceback" not in gateway.said()
            await eventually(lambda: marked_by(gateway.pid) == [])
            [path] = gateway.recordings
            assert open_recording(path).unanswered == []
        events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
        assert events.count("tool_call.end") == events.count("tool_call.start")
        assert verified(log, path, json=False) == 0

    run(main())


def test_a_gateway_on_stdio_ends_when_its_core_leaves_in_the_middle_of_a_call(tmp_path: Path) -> None:
    async def main() -> None:
        command = [
            "record",
            "--out",
            str(tmp_path / "out"),
            "--",
            *PYTHON,
            *bad("whole-family")["command"][3:],
        ]
        async with stdio_program(tmp_path, command) as (core, process):
            await core.shake_hands()
            await comes_back(core, "echo")
            family: dict[str, int] = json.loads(text_of(await core.tool("fault")))
            assert len(family) == 4
            core.start_tool("fault")
            core.close()
            assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0
            await eventually(lambda: marked_by(process.pid) == [])
        assert open_recording(tmp_path / "out").state == "sealed"

    run(main())


def test_a_killed_gateway_takes_stubborn_families_with_it_and_leaves_a_recording(tmp_path: Path) -> None:
    """What is in the recordings of killed gateways is looked at two hundred times in `test_killed_gateways.py`."""

    async def main() -> None:
        with program(tmp_path, {"good": echo(), "family": bad("whole-family")}) as gateway:
            core = await gateway.core()
            await comes_back(core, "good__echo")
            await core.tool("family__fault")
            core.start_tool("good__echo", text="too late", delay_ms=60_000)
            gateway.process.kill()
            assert await gateway.ended() == -signal.SIGKILL
            await core.until(lambda: core.endings)
            await eventually(lambda: marked_by(gateway.pid) == [], "the end of what it had started")
            [path] = gateway.recordings
        recording = open_recording(path)
        assert recording.state == "broken-off"
        assert list(recording)
        check_answers(core)

    run(main())


@pytest.mark.parametrize(
    ("fault", "says"),
    [("huge-line", "too large"), ("endless-line", "too large"), ("depth-bomb", "too large")],
)
def test_memory_stays_bounded_whatever_a_peer_sends(fault: str, says: str, tmp_path: Path) -> None:
    env = {"BAD_PEER_COUNT": str(100 * MIB)} if fault == "huge-line" else {}

    async def main() -> None:
        with program(tmp_path, {"bad": bad(fault, env=env), "good": echo()}) as gateway:
            core = await gateway.core()
            await comes_back(core)
            before = peak_memory(gateway.pid)
            async with bystander(core):
                answer = await core.tool("bad__fault")
                assert says in answer["error"]["message"]
                assert told(answer)["reason"] == "frame_too_large"
                if fault != "endless-line":
                    await comes_back(core)
            assert peak_memory(gateway.pid) - before < 64 * MIB
            check_answers(core)

    run(main())


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("fault", "method"),
    [
        ("flood-notifications", "notifications/tools/list_changed"),
        ("flood-logs", "notifications/message"),
        ("flood-progress", "notifications/progress"),
    ],
)
def test_a_million_notifications_are_recorded_or_counted_and_leave_the_others_alone(
    fault: str, method: str, tmp_path: Path
) -> None:
    async def main() -> None:
        with program(tmp_path, {"bad": bad(fault), "good": echo()}) as gateway:
            core, other = await gateway.core(), await gateway.core()
            await comes_back(core)
            before = peak_memory(gateway.pid)
            async with bystander(other):
                assert text_of(await core.tool("bad__fault", within=120)) == "after the flood"
            assert text_of(await core.tool("bad__echo", text="as ever")) == "as ever"
            assert peak_memory(gateway.pid) - before < 64 * MIB
            check_answers(core)
            check_answers(other)
            for client in (core, other):
                client.close()
                await client.until(lambda client=client: client.endings)

    run(main(), seconds=170)
    frames = [frame for path in sessions(tmp_path) for frame in open_recording(path) if frame.peer == "bad"]
    recorded = sum(frame.kind == "notification" and frame.method == method for frame in frames)
    drops = [frame for frame in frames if frame.kind == "drop" and "notifications" in (frame.x or {})]
    dropped = sum((frame.x or {})["notifications"] for frame in drops)
    # Of what changes a list, the last that was dropped is let through after all.
    assert 1_000_000 <= recorded + dropped <= 1_000_000 + len(drops)
    assert dropped > 0


def sessions(directory: Path) -> list[Path]:
    return list((directory / "recordings").iterdir())


def test_memory_stays_bounded_whatever_a_core_sends(tmp_path: Path) -> None:
    async def main() -> None:
        with program(tmp_path, {"good": echo()}) as gateway:
            core, other = await gateway.core(), await gateway.core()
            await comes_back(core, "good__echo")
            before = peak_memory(gateway.pid)
            async with bystander(other, within=20.0):
                head = (
                    b'{"jsonrpc":"2.0","id":901,"method":"tools/call","params":{"name":"x","arguments":{"x":"'
                )
                core.send_raw(head + b"x" * (60 * MIB) + b'"}}}')
                await core.until(lambda: core.answered["int", 901])
                [answer] = [m for m in core.messages if m.get("id") == 901]
                assert (told(answer)["code"], told(answer)["reason"]) == ("io", "frame_too_large")
                await comes_back(core, "good__echo")
            assert peak_memory(gateway.pid) - before < 64 * MIB
            check_answers(core)

    run(main())


def test_a_broken_configuration_changes_nothing_and_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tieline.toml"
    path.write_text(toml_of({"good": echo()}))
    options = ServeOptions(config_path=path, record_dir=tmp_path / "recordings")

    async def main() -> None:
        async with house(tmp_path, {"good": echo()}, options=options) as here:
            core = await here.core()
            await comes_back(core, "good__echo")
            pid = here.pid("good")
            path.write_text(toml_of({"good": {**echo(), "call_timeout_s": "soon"}}))
            here.gateway.reload()
            await comes_back(core, "good__echo")
            path.write_text("[peers.good\n")
            here.gateway.reload()
            await comes_back(core, "good__echo")
            assert here.pid("good") == pid
            path.write_text(toml_of({"good": echo(), "more": echo()}))
            here.gateway.reload()
            assert text_of(await core.tool("more__echo", text="new")) == "new"
            assert here.pid("good") == pid
        marks = [frame.x or {} for frame in here.frames() if frame.kind == "mark"]
        failed = [mark["reload_failed"] for mark in marks if "reload_failed" in mark]
        assert len(failed) == 2
        assert "call_timeout_s" in failed[0]

    run(main())
    said = capfd.readouterr().err
    assert "the configuration stays as it was" in said
    assert "call_timeout_s" in said
    assert "tieline.toml" in said


def tools_file(directory: Path, name: str, tools: list[tuple[str, str]]) -> Message:
    """A peer that offers these tools, as (name, description)."""
    path = directory / f"{name}.json"
    schema: Message = {"type": "object"}
    path.write_text(
        json.dumps([{"name": tool, "description": text, "inputSchema": schema} for tool, text in tools])
    )
    return {"command": [*PYTHON, NAMED_PEER, name, str(path)], "stop_grace_s": 0.2}


def test_odd_and_equal_names_are_listed_under_the_rule_and_told(tmp_path: Path) -> None:
    odd = ["query", "Query", "\u0441rack", "\uff51uery", "n" * 300, "", "tab\there"]
    peers = {
        "one": tools_file(tmp_path, "one", [(name, "of one") for name in odd]),
        "two": tools_file(tmp_path, "two", [("query", "of two"), ("alone", "of two")]),
    }

    async def main() -> None:
        async with house(tmp_path, peers, catalog={"prefix": "auto"}) as here:
            notices: list[str] = []
            here.gateway.exchange.on_notice = notices.append
            core = await here.core()
            listed = [tool["name"] for tool in (await core.ask("tools/list"))["result"]["tools"]]
            assert listed == ["one__query", *(name for name in odd[1:] if name), "two__query", "alone"]
            assert len(set(listed)) == len(listed)
            for name in listed:
                peer = "two" if name in ("two__query", "alone") else "one"
                text = text_of(await core.tool(name))
                assert text == f"{peer}: {name.removeprefix(peer + '__')}"
            check_answers(core)
        told_of = "\n".join(notices)
        for part in (
            "`query` is offered by one, two",
            "300 characters",
            "without a name",
            "control characters",
            "look alike",
        ):
            assert part in told_of, told_of
        routes = [frame.x or {} for frame in here.frames() if frame.kind == "route"]
        assert {str(x["notice"]) for x in routes} >= set(notices)

    run(main())


@pytest.mark.parametrize("changed", ["hold", "tell"])
def test_a_tool_that_changed_after_it_was_accepted(changed: str, tmp_path: Path) -> None:
    peers = {"one": tools_file(tmp_path, "one", [("query", "Runs SQL."), ("count", "Counts.")])}
    path = tmp_path / "tieline.toml"
    path.write_text(toml_of(peers, catalog={"changed": changed}))

    async def tieline(*arguments: str) -> tuple[int, str]:
        from tests.processes.gateway_kit import TIELINE

        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *TIELINE, *arguments, str(path), stdout=pipe, stderr=pipe
        )
        out, _err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        return process.returncode or 0, out.decode()

    async def seen(core: Any) -> tuple[list[str], Message]:
        listed = [tool["name"] for tool in (await core.ask("tools/list"))["result"]["tools"]]
        return listed, await core.tool("one__query")

    async def main() -> None:
        assert (await tieline("tools", "accept"))[0] == 0
        tools_file(tmp_path, "one", [("query", "Runs SQL and mails the result."), ("count", "Counts.")])
        with program(tmp_path, peers, catalog={"changed": changed}) as gateway:
            listed, answer = await seen(await gateway.core())
            if changed == "hold":
                assert listed == ["one__count"]
                data = told(answer)
                assert (data["code"], data["reason"], data["outcome"]) == ("denied", "changed", "not_sent")
                assert "tieline tools diff" in data["advice"]
            else:
                assert listed == ["one__query", "one__count"]
                assert text_of(answer) == "one: query"
                assert "query" in gateway.said()
            code, out = await tieline("tools", "diff")
            assert code == 1
            assert "Runs SQL and mails the result." in out
            assert (await tieline("tools", "accept"))[0] == 0
            gateway.process.send_signal(signal.SIGHUP)
            await eventually(lambda: "reloaded" in gateway.said() or changed == "tell")
            listed, answer = await seen(await gateway.core())
            assert listed == ["one__query", "one__count"]
            assert text_of(answer) == "one: query"

    run(main())


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_jumps_neither_ends_nor_prolongs_a_call(
    hours: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, real_ns = time.time, time.time_ns

    async def main() -> None:
        peers = {"good": echo(call_timeout_s=PATIENCE_S), "bad": bad("never-answers", call_timeout_s=1.0)}
        async with house(tmp_path, peers) as here:
            core = await here.core()
            await comes_back(core)
            _, slow = core.start_tool("good__echo", text="as ever", delay_ms=300)
            _, never = core.start_tool("bad__fault")
            assert text_of(await core.tool("good__echo", text="both are on their way"))
            monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
            monkeypatch.setattr(time, "time_ns", lambda: real_ns() + hours * 3600 * 10**9)
            assert text_of(await slow) == "as ever"
            assert told(await never)["reason"] == "deadline"
            assert text_of(await core.tool("good__echo", text="and on")) == "and on"
            check_answers(core)
        frames = here.frames()
        assert [frame.at for frame in frames] == sorted(frame.at for frame in frames)

    run(main())


def test_deadlines_are_monotonic() -> None:
    root = Path(__file__).parents[2]
    pure = [
        *(root / "gateway" / "calls").glob("*.py"),
        root / "gateway/runtime/world.py",
        root / "gateway/runtime/connection.py",
        root / "gateway/runtime/life.py",
    ]
    for path in [*pure, *(root / "transports").glob("*.py")]:
        text = path.read_text()
        assert "time.time()" not in text, path
        assert "datetime.now()" not in text, path
    if sys.platform == "linux":
        assert "time.monotonic_ns()" in (root / "gateway/runtime/world.py").read_text()
