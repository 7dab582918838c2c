"""A core that speaks Pi, scripted line by line, before a real gateway with an MCP server and a Pi extension."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from tests.processes.gateway_kit import (
    PATIENCE_S,
    PATIENT_TIELINE,
    TIELINE,
    Client,
    Message,
    echo,
    house,
    run,
    state,
    toml_of,
)
from tests.processes.replay_kit import environment, program, report, tieline
from tests.processes.test_pi import extension, told
from transports.unix import connect_unix

__all__ = ["state"]


def line(id_: str, type_: str, payload: Message) -> bytes:
    return json.dumps({"id": id_, "version": "1.0", "type": type_, "payload": payload}).encode()


class Script:
    """What a Pi core says and hears over a raw connection."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.heard: list[Message] = []
        """The answers, in the order in which they were waited for."""
        self._last = 0

    def says(self, type_: str, payload: Message) -> str:
        self._last += 1
        self.client.send_raw(line(f"m{self._last}", type_, payload))
        return f"m{self._last}"

    def of(self, type_: str) -> list[Message]:
        return [each["payload"] for each in self.client.messages if each.get("type") == type_]

    async def starts(self) -> list[str]:
        """Wait for the registration, start the session, and return the names of the tools."""
        await self.client.until(lambda: self.of("register"))
        self.says("event_hook", {"event": "session_start", "data": {"reply": False}})
        return [tool["name"] for tool in self.of("register")[0]["tools"]]

    def starts_call(self, name: str, **given: Any) -> str:
        return self.says("tool_call", {"call_id": f"c{self._last + 1}", "name": name, "input": given})

    async def answer(self, id_: str) -> Message:
        def found() -> list[Message]:
            return [each for each in self.client.messages if each["id"] == id_]

        answers = await self.client.until(found)
        self.heard += answers
        return answers[0]["payload"]

    async def calls(self, name: str, **given: Any) -> str:
        """Call a tool, and return the text of its result."""
        result = await self.answer(self.starts_call(name, **given))
        return result["output"]["content"][0]["text"]


async def whole_session(script: Script) -> None:
    """Use what a core has: tools of both peers, a command, updates, a cancellation, errors, a changed list."""
    names = await script.starts()
    assert names == [
        *(f"calc__{name}" for name in ("add", "slow", "ask", "die", "twice", "late", "huge")),
        *(f"good__{name}" for name in ("echo", "elicit", "progress")),
    ]
    assert await script.calls("good__echo", text="hello") == "hello"
    assert await script.calls("calc__add", a=2, b=3) == "5"
    result = await script.answer(script.says("slash_command", {"name": "calc__greet", "args": ["to", "you"]}))
    assert result["output"]["content"][0]["text"] == "hello to you"
    await script.calls("good__progress", n=2)
    updates = [log for log in script.of("log") if log["event"] == "tool_call.update"]
    assert len(updates) == 2
    slow = script.starts_call("calc__slow")
    await script.client.until(lambda: len(script.of("log")) >= 4)
    script.says(
        "event_hook", {"event": "cancel", "data": {"call_id": slow.replace("m", "c"), "reply": False}}
    )
    cancelled = await script.answer(slow)
    assert (cancelled["is_error"], cancelled["output"]["error"]["details"]["reason"]) == (True, "cancelled")
    unknown = await script.answer(script.starts_call("calc__none"))
    assert unknown["output"]["error"]["code"] == "invalid_request"
    assert await script.calls("calc__ask") == "denied"
    assert await script.calls("calc__late") == "registered"
    await script.client.until(lambda: len(script.of("register")) == 2)
    assert "calc__more" in [tool["name"] for tool in script.of("register")[1]["tools"]]
    assert await script.calls("calc__more") == "more"


def played(folder: Path, *arguments: str | Path) -> tuple[list[Message], list[Message], str]:
    """Play the script before a command on stdio; return the answers, the registrations and what was said on stderr."""

    async def main() -> tuple[list[Message], list[Message], str]:
        async with program(folder, [*TIELINE, *arguments]) as (client, process):
            script = Script(client)
            await whole_session(script)
            script.says("event_hook", {"event": "session_shutdown", "data": {"reply": False}})
        said = (folder / "stderr.log").read_text()
        assert process.returncode == 0, said
        return script.heard, script.of("register"), said

    return run(main())


def test_a_pi_core_is_served_recorded_and_replayed(tmp_path: Path) -> None:
    peers = {"calc": extension(tmp_path), "good": echo()}
    (tmp_path / "tieline.toml").write_text(toml_of(peers, listen={"stdio": True, "stdio_dialect": "pi"}))
    live = played(tmp_path, "run", tmp_path / "tieline.toml", "--stdio", "--record", tmp_path / "kept")
    assert told(tmp_path) == ["session_start", "cancel", "session_shutdown"]
    (recording,) = (tmp_path / "kept").iterdir()
    assert json.loads((recording / "recording.json").read_bytes())["core"]["dialect"] == "pi"

    driven = tieline("replay", recording, "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr

    again = played(tmp_path, "replay", recording, "--report", tmp_path / "report.json")
    assert again[:2] == live[:2]
    assert report(tmp_path / "report.json")["verdict"] == "same"
    assert told(tmp_path) == ["session_start", "cancel", "session_shutdown"]


def test_pi_cores_come_over_a_unix_socket_and_over_websocket(tmp_path: Path) -> None:
    async def main() -> None:
        listen = {
            "unix": {"path": str(tmp_path / "s"), "dialect": "pi"},
            "websocket": {"port": 0, "dialect": "pi", "insecure_loopback": True},
        }
        async with house(tmp_path, {"good": echo()}, listen=listen) as here:
            addresses = {one["kind"]: one["url"] for one in here.gateway.addresses()}
            over_unix = Client()
            over_unix.link = await connect_unix(str(tmp_path / "s"), over_unix)
            here.clients.append(over_unix)
            script = Script(over_unix)
            assert "good__echo" in await script.starts()
            assert await script.calls("good__echo", text="over a socket") == "over a socket"
            async with connect(addresses["websocket"]) as socket:
                assert json.loads(await socket.recv())["type"] == "register"
                await socket.send(line("m1", "event_hook", {"event": "session_start"}).decode())
                call = {"call_id": "c", "name": "good__echo", "input": {"text": "over the web"}}
                await socket.send(line("m2", "tool_call", call).decode())
                answer = json.loads(await socket.recv())
                assert answer["payload"]["output"]["content"][0]["text"] == "over the web"

    run(main())


def test_a_pi_core_that_is_one_too_many_is_told_and_closed(tmp_path: Path) -> None:
    async def main() -> None:
        listen = {"unix": {"path": str(tmp_path / "s"), "dialect": "pi"}}
        async with house(tmp_path, {"good": echo()}, listen=listen, limits={"max_sessions": 1}) as here:
            first, second = Client(), Client()
            for client in (first, second):
                client.link = await connect_unix(str(tmp_path / "s"), client)
                here.clients.append(client)
                script = Script(client)
                if client is first:
                    await script.starts()
            await second.until(lambda: second.endings)
            [told] = second.messages
            assert (told["type"], told["payload"]["code"]) == ("error", "io")
            assert await Script(first).calls("good__echo", text="still here") == "still here"

    run(main())


def test_a_pi_core_that_has_sent_its_last_message_still_gets_its_answers(tmp_path: Path) -> None:
    (tmp_path / "tieline.toml").write_text(
        toml_of({"good": echo()}, listen={"stdio": True, "stdio_dialect": "pi"})
    )
    call = {"call_id": "c", "name": "good__echo", "input": {"text": "late", "delay_ms": 300}}
    command = [*PATIENT_TIELINE, "run", str(tmp_path / "tieline.toml"), "--stdio"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe, env=environment(tmp_path)
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["type"] == "register"
        lines = [line("m1", "event_hook", {"event": "session_start"}), line("m2", "tool_call", call), b""]
        out, said = process.communicate(b"\n".join(lines), timeout=PATIENCE_S)

    answer = json.loads(out)
    assert (answer["id"], answer["payload"]["output"]["content"][0]["text"]) == ("m2", "late"), said
    assert process.returncode == 0
