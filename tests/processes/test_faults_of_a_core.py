"""A core that misbehaves: refused or dropped for what it does, and nothing to another core."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path

import pytest

from tests.processes.fault_kit import check_answers, comes_back, kinds_of
from tests.processes.gateway_kit import (
    House,
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

CALL = b'"method":"tools/call","params":{"name":"good__echo","arguments":{"text":"hi"}}'
GARBAGE: dict[str, tuple[bytes, Message | None]] = {
    "no JSON": (b"\x00\xff\x13 this is no JSON {]", {"id": None, "code": -32700}),
    "truncated": (b'{"jsonrpc":"2.0","id":901,' + CALL[:40], {"id": 901, "code": -32700}),
    "invalid UTF-8": (b'{"jsonrpc":"2.0","id":902,"method":"ping","params":{"x":"\xff"}}', {"id": 902, "code": -32700}),
    "NaN": (b'{"jsonrpc":"2.0","id":903,"method":"ping","params":{"x":NaN}}', {"id": 903, "code": -32700}),
    "two ids": (b'{"jsonrpc":"2.0","id":904,"id":905,"method":"ping"}', {"id": None, "code": -32600}),
    "a null id": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', {"id": None, "code": -32600}),
    "a float id": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', {"id": None, "code": -32600}),
    "a batch": (b'[{"jsonrpc":"2.0","id":906,"method":"ping"}]', {"id": None, "code": -32600}),
    "a number": (b"42", {"id": None, "code": -32600}),
    "too deep": (
        b'{"jsonrpc":"2.0","id":907,"method":"ping","params":' + b"[" * 5000 + b"]" * 5000 + b"}",
        {"id": 907},
    ),
    "neither method nor result": (b'{"jsonrpc":"2.0","id":908}', None),
    "an answer to nothing": (b'{"jsonrpc":"2.0","id":909,"result":{}}', None),
    "a mark and a request": (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":910,' + CALL + b"}", {"id": 910}),
    "an unknown notification": (b'{"jsonrpc":"2.0","method":"notifications/nonsense"}', None),
    "a cancellation of nothing": (
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"no such"}}',
        None,
    ),
}  # fmt: skip


def test_garbage_is_refused_piece_by_piece_and_the_session_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"good": echo()}) as here:
            core, other = await here.core(), await here.core()
            async with bystander(other):
                for name, (data, expected) in GARBAGE.items():
                    count = len(core.messages)
                    core.send_raw(data)
                    assert text_of(await core.tool("good__echo", text=name)) == name
                    said = [m for m in core.messages[count:-1] if "method" not in m]
                    if expected is None:
                        assert all("error" in m for m in said), (name, said)
                        continue
                    assert [m["id"] for m in said] == [expected["id"]], (name, said)
                    if "code" in expected:
                        assert said[0]["error"]["code"] == expected["code"], (name, said)
                        assert said[0]["error"]["data"]["code"] == "invalid_request"
            assert max(count for key, count in core.answered.items() if key != ("NoneType", None)) == 1
        raws = [frame for frame in here.frames() if frame.kind == "raw" and frame.way == "core>"]
        assert len(raws) >= 8
        assert here.recording().state == "sealed"

    run(main())


def test_what_a_core_that_leaves_has_asked_for_is_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        peers = {"bad": bad("answers-cancelled", scope="shared"), "good": echo(scope="shared")}
        async with house(tmp_path, peers) as here:
            core, other = await here.core(), await here.core()
            async with bystander(other):
                await comes_back(core, "good__echo")
                await comes_back(core)
                _, answer = core.start_tool("bad__fault")
                peer = here.gateway.exchange.shared["bad"]
                await eventually(lambda: peer.pending)
                core.close()
                await eventually(lambda: not peer.pending)
                # The peer answers what is cancelled: that it does shows that it was told.
                await eventually(lambda: any(f.kind == "late" for f in here.frames(1)), "the late answer")
                await comes_back(other)
                await eventually(lambda: here.recording(0).state == "sealed")
                with pytest.raises(ConnectionError):
                    await answer
        close = next(f for f in here.frames(0) if f.kind == "close" and f.way == "core>")
        assert close.x == {"reason": "closed", "in_flight": 1}
        [drop] = [f for f in here.frames(0) if f.kind == "drop"]
        assert drop.x == {"reason": "the core has disconnected"}
        assert here.recording(0).unanswered == []

    run(main())


def test_ten_thousand_calls_at_once_are_served_up_to_the_limit(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"good": echo()}, limits={"max_in_flight_per_session": 500}) as here:
            core, other = await here.core(), await here.core()
            await core.tool("good__echo", text="up")
            async with bystander(other, within=30.0):
                calls = [
                    core.start_tool("good__echo", text=f"call {n}", delay_ms=500)[1] for n in range(10_000)
                ]
                answers = [await call for call in calls]
            served = [n for n, answer in enumerate(answers) if "result" in answer]
            assert all(text_of(answers[n]) == f"call {n}" for n in served)
            assert 500 <= len(served) < 10_000
            refusals = [told(answer) for answer in answers if "error" in answer]
            assert {(r["code"], r["reason"], r["outcome"], r["retryable"]) for r in refusals} == {
                ("io", "overloaded", "not_sent", True)
            }
            check_answers(core)
            assert text_of(await core.tool("good__echo", text="again")) == "again"
        assert here.recording(0).unanswered == []

    run(main())


def test_a_core_that_cancels_everything_leaves_nothing_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"good": echo()}) as here:
            core, other = await here.core(), await here.core()
            await core.tool("good__echo", text="up")
            async with bystander(other):
                calls = [core.start_tool("good__echo", text="x", delay_ms=60_000) for _ in range(500)]
                for id_, _ in calls:
                    core.send(
                        {"method": "notifications/cancelled", "params": {"requestId": id_, "reason": "bored"}}
                    )
                assert text_of(await core.tool("good__echo", text="still")) == "still"
            assert not any(answer.done() for _, answer in calls)
            [session, _] = here.gateway.exchange.sessions
            assert all(peer.pending == {} for peer in session.peers())
            assert all(one.open == {} for one in session.cores)
            check_answers(core)
        cancelled = [f for f in here.frames(0) if f.method == "notifications/cancelled" and f.way == "core>"]
        assert len(cancelled) == 500
        assert all(f.re is not None and f.peer == "good" for f in cancelled)
        assert here.recording(0).unanswered == []

    run(main())


async def flood_without_reading(here: House, calls: int, size: int) -> socket.socket:
    """Connect, ask for `calls` answers of `size` bytes, read nothing. Gives the socket."""
    loop = asyncio.get_running_loop()
    path = str(here.directory / "sock" / "core.sock")
    raw = socket.socket(socket.AF_UNIX)
    raw.setblocking(False)
    await loop.sock_connect(raw, path)
    lines: list[Message] = [
        {"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}},
        {"method": "notifications/initialized"},
    ]
    for n in range(1, calls + 1):
        params = {"name": "good__echo", "arguments": {"text": str(n), "size": size}}
        lines.append({"id": n, "method": "tools/call", "params": params})
    data = b"".join(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n" for line in lines)
    await loop.sock_sendall(raw, data)
    return raw


def listening(directory: Path) -> Message:
    return {"unix": {"path": str(directory / "sock" / "core.sock")}}


def test_a_core_that_never_reads_holds_up_its_own_peers_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"good": echo()}, listen=listening(tmp_path)) as here:
            other = await here.core()
            async with bystander(other):
                raw = await flood_without_reading(here, 800, 64 * 1024)
                lazy = await eventually(lambda: here.gateway.exchange.sessions[1:])
                await eventually(lambda: lazy[0].cores[0].is_full, "a full queue")
                await asyncio.sleep(0.3)  # to see that it grows no further
                assert lazy[0].cores[0].link.queued_bytes < 16 * 1024 * 1024
                raw.close()
                await eventually(lambda: len(here.gateway.exchange.sessions) == 1)
        assert here.recording(1).state == "sealed"

    run(main())


def test_a_core_that_reads_late_gets_everything_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"good": echo()}, listen=listening(tmp_path)) as here:
            raw = await flood_without_reading(here, 400, 64 * 1024)
            await eventually(
                lambda: here.gateway.exchange.sessions and here.gateway.exchange.sessions[0].cores[0].is_full
            )
            loop = asyncio.get_running_loop()
            data = bytearray()
            while data.count(b"\n") < 401:
                part = await asyncio.wait_for(loop.sock_recv(raw, 1 << 20), 20)
                assert part
                data += part
            raw.close()
            ids = [json.loads(line)["id"] for line in data.splitlines()]
            assert sorted(ids) == list(range(401))

    run(main())


def test_a_request_under_an_id_in_flight_is_refused_and_the_first_one_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"good": echo()}) as here:
            core = await here.core()
            _, first = core.start(
                "tools/call", {"name": "good__echo", "arguments": {"text": "a", "delay_ms": 300}}, id_=7
            )
            core.send(
                {
                    "id": 7,
                    "method": "tools/call",
                    "params": {"name": "good__echo", "arguments": {"text": "b"}},
                }
            )
            await core.until(lambda: core.answered["int", 7] == 2)
            first_said, second = [m for m in core.messages if m.get("id") == 7]
            assert first_said["error"]["data"]["reason"] == "duplicate_id"
            assert text_of(second) == "a"
            assert (await first) == first_said
        assert "response" in kinds_of(here, "good")

    run(main())
