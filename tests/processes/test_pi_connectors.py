"""Every connector behind a real gateway, asked by an extension that is a real process; its recording driven again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.processes.gateway_kit import Client, Message, eventually, house, run, state, text_of
from tests.processes.replay_kit import tieline
from tests.processes.test_pi import extension

__all__ = ["state"]


def call(capability: str, method: str, **params: Any) -> Message:
    return {"capability": capability, "method": method, "params": params}


def tool(capability: str, name: str, **given: Any) -> Message:
    return call(capability, "tool", name=name, input=given)


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say hello over HTTP."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
    writer.close()
    await writer.wait_closed()


def test_every_connector_serves_a_real_extension_and_is_asked_for_nothing_when_driven_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk\n")

    async def main() -> Path:
        server = await asyncio.start_server(answered, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings: Message = {
            "policy": {"mode": "permissive", "deny_caps": []}, "roots": [str(tmp_path)],
            "private_hosts": [f"127.0.0.1:{port}"],
        }  # fmt: skip
        async with server, house(tmp_path, {"calc": extension(tmp_path)}, extensions=settings) as here:
            core = await here.core()

            async def gets(asked: Message) -> Any:
                said = text_of(await core.tool("calc__ask", **asked))
                return json.loads(said) if said.startswith("{") else said

            assert (await gets(call("exec", "exec", cmd="cat", args=["notes.txt"])))[
                "stdout"
            ] == "remember the milk\n"
            assert (await gets(tool("read", "grep", pattern="milk")))["content"][0]["text"].startswith(
                "notes.txt:1:"
            )
            edits = [{"oldText": "milk", "newText": "bread"}]
            assert (await gets(tool("write", "edit", path="notes.txt", edits=edits)))["details"][
                "firstChangedLine"
            ] == 1
            assert (await gets(tool("exec", "bash", command="cat notes.txt; exit 3")))["isError"]
            assert (await gets(call("http", "http", url=f"http://127.0.0.1:{port}/")))["body"] == "hello"
            assert await gets(call("http", "http", url=f"http://localhost:{port}/")) == "denied"
            assert await gets(call("http", "http", url=f"http://2130706433:{port}/")) == "invalid_request"
            assert "PATH" in (await gets(call("env", "env", name="PATH")))["values"]
            entry = call("log", "log", level="info", event="notes.changed", message="changed")
            assert (await gets(entry))["ok"]
            await gets(call("events", "events", op="subscribe", events=["changed"]))
            assert await gets(call("events", "events", op="emit", event="changed", data=1)) == {
                "delivered": 1
            }
            found = await gets(call("events", "events", op="receive"))
            assert [each["data"] for each in found["events"]] == [1]
            (tmp_path / "odd").write_bytes(b"\x01" * 3 * 1024 * 1024)
            assert await gets(call("read", "fs", op="read", path="odd")) == "io", (
                "escaped, it is no message any more"
            )
            assert (await gets(call("read", "fs", op="read", path="odd", length=2)))["content"] == "\x01\x01"
            return await sealed(core, here.recordings()[0])

    recording = run(main())
    assert (tmp_path / "notes.txt").read_text() == "remember the bread\n"
    (tmp_path / "notes.txt").unlink()

    driven = tieline("replay", recording, "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr
    assert not (tmp_path / "notes.txt").exists()


async def sealed(core: Client, recording: Path) -> Path:
    core.close()
    await eventually((recording / "sealed").exists, "the recording is sealed")
    return recording
