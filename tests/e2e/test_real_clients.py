"""Clients that other people wrote, in front of a server that other people wrote, with a gateway between them.

Each client is a program that does the same round and reports what it saw; in front of a command (`tieline record`)
and over HTTP with the listener's token (`tieline run`). Whatever era a client prefers, the server is a legacy one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from recordings.store import open_recording
from tests import tooling
from tests.e2e.clients.report import NAME, PROMPT, ROOT, SAMPLED, STEPS
from tests.e2e.house import ROOT as CHECKOUT
from tests.e2e.house import TIELINE, House

HERE = Path(__file__).parent / "clients"
PATIENCE_S = 50
FRONTS = ("stdio", "http")
OLD = {"protocol": "2025-11-25"}
NEW = {"protocol": "2026-07-28"}
SILENT = {"protocol": None}

CLIENTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "mcp-2-auto": ("mcp2_client.py", {"mode": "auto"}, NEW),
    "mcp-2-legacy": ("mcp2_client.py", {"mode": "legacy"}, OLD),
    "mcp-1": ("mcp1_client.py", {}, OLD),
    "fastmcp-auto": ("fastmcp_client.py", {"mode": "auto"}, SILENT),
    "fastmcp-legacy": ("fastmcp_client.py", {"mode": "legacy"}, SILENT),
    "node-sdk": ("sdk_client.mjs", {}, {}),
}
"""The program of each client, what it is told besides, and what it says of the protocol version."""

TOOLS = {
    "echo",
    "get-annotated-message",
    "get-roots-list",
    "get-structured-content",
    "trigger-elicitation-request",
    "trigger-long-running-operation",
    "trigger-sampling-request",
}
SEEN: dict[str, Any] = {
    "echo": "Echo: hällo",
    "failed": True,
    "structured": {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82},
    "progress": [1, 2, 3],
    "sampled": True,
    "elicited": True,
    "roots": True,
    "resource": True,
    "prompt": "What's weather in Bern?",
}
CALLS = 7
"""Tool calls of a round."""


def everything() -> list[str]:
    """The command of the reference server."""
    return [str(tooling.node()), str(tooling.script("server-everything")), "stdio"]


def fronted(house: House, front: str, out: Path) -> dict[str, Any]:
    """What a client is told to connect to."""
    if front == "stdio":
        command = [TIELINE, "record", "--out", str(out), "--", *everything()]
        return {"command": command, "env": house.env}
    token = house.folder / "clients-token"
    listen = {"http": {"token_file": str(token)}}
    addresses = house.gateway("clients", {"everything": {"command": everything()}}, listen=listen)
    return {"url": addresses["http"], "token": token.read_text().strip()}


def ran(command: list[str], log: Path) -> str:
    """Run a client; give the last line that it printed."""
    with log.open("wb") as stderr:
        done = subprocess.run(
            command,
            cwd=CHECKOUT,
            env=tooling.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            timeout=PATIENCE_S,
            check=False,
        )
    said = log.read_text(errors="replace")[-4000:]
    assert done.returncode == 0, f"ended with {done.returncode}: {said}"
    assert done.stdout, said
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("client", "front"), [pytest.param(c, f, id=f"{c}/{f}") for c in CLIENTS for f in FRONTS]
)
@pytest.mark.xdist_group("real-clients")
def test_a_client_sees_the_server_as_it_is(client: str, front: str, house: House, tmp_path: Path) -> None:
    program, more, expected = CLIENTS[client]
    to = {**fronted(house, front, tmp_path / "recording"), **more}
    if program.endswith(".mjs"):
        words = {"NAME": NAME, "PROMPT": PROMPT, "ROOT": ROOT, "SAMPLED": SAMPLED, "STEPS": STEPS}
        command = [str(tooling.node()), str(tooling.HERE / program), json.dumps({**to, "words": words})]
    elif client == "mcp-1":
        command = [str(tooling.old_python()), str(HERE / program), json.dumps(to)]
    else:
        command = [sys.executable, "-m", f"tests.e2e.clients.{program.removesuffix('.py')}", json.dumps(to)]
    report = json.loads(ran(command, tmp_path / "client.log").splitlines()[-1])
    if client == "node-sdk":
        # It forgets the listener of a call as it reads the answer, and calls it a moment after it has read the
        # progress before that: what comes in one piece with the answer, to a client that was busy, is lost.
        assert report["progress"] == SEEN["progress"][: len(report["progress"])]
        report["progress"] = SEEN["progress"]
    assert set(report.pop("tools")) >= TOOLS
    protocol = report.pop("protocol")
    assert report == SEEN
    assert protocol == expected.get("protocol", protocol)
    if front == "stdio":
        _holds_the_round(tmp_path / "recording")


def _holds_the_round(directory: Path) -> None:
    """The recording has every call with its answer, and what the server asked."""
    frames = list(open_recording(directory))
    assert [frame.seq for frame in frames] == list(range(frames[0].seq, frames[0].seq + len(frames)))
    sent = Counter(frame.method for frame in frames if frame.kind == "request" and frame.way == "core>")
    assert sent["tools/call"] >= CALLS
    asked = Counter(frame.method for frame in frames if frame.kind == "request" and frame.way == "peer>")
    assert asked.keys() >= {"sampling/createMessage", "elicitation/create", "roots/list"}
    assert not [frame for frame in frames if frame.kind == "lost"]
    steps = [frame for frame in frames if frame.method == "notifications/progress"]
    assert len(steps) == STEPS
    # A server that asks for the roots meanwhile makes several legs of the call.
    legs = {steps[0].re, *(frame.seq for frame in frames if frame.op == steps[0].re)}
    answers = [frame.seq for frame in frames if frame.kind == "response" and frame.re in legs]
    assert max(step.seq for step in steps) < max(answers)


INSPECTED: dict[str, tuple[list[str], Any]] = {
    "list": (["--method", "tools/list"], None),
    "call": (
        ["--method", "tools/call", "--tool-name", "echo", "--tool-arg", "message=hi"],
        {"content": [{"type": "text", "text": "Echo: hi"}]},
    ),
    "prompt": (
        ["--method", "prompts/get", "--prompt-name", "args-prompt", "--prompt-args", "city=Bern"],
        {"messages": [{"role": "user", "content": {"type": "text", "text": "What's weather in Bern?"}}]},
    ),
}


@pytest.mark.parametrize(
    ("what", "front"), [pytest.param(w, f, id=f"inspector/{f}/{w}") for w in INSPECTED for f in FRONTS]
)
@pytest.mark.xdist_group("real-clients")
def test_the_inspector_sees_the_server_as_it_is(what: str, front: str, house: House, tmp_path: Path) -> None:
    arguments, expected = INSPECTED[what]
    to = fronted(house, front, tmp_path / "recording")
    command = [str(tooling.node()), str(tooling.script("inspector")), "--cli"]
    if front == "stdio":
        config = tmp_path / "servers.json"
        program, *rest = to["command"]
        config.write_text(
            json.dumps({"mcpServers": {"it": {"command": program, "args": rest, "env": to["env"]}}})
        )
        command += ["--config", str(config), "--server", "it", *arguments]
    else:
        command += [to["url"], "--transport", "http", *arguments]
        command += ["--header", f"Authorization: Bearer {to['token']}"]
    report = json.loads(ran(command, tmp_path / "inspector.log"))
    if expected is None:
        names = {tool["name"] for tool in report["tools"]}
        assert names >= {"echo", "get-structured-content"}
    else:
        assert report == expected
