"""Clients that other people wrote, in front of a recording of a server that other people wrote: the server is gone.

A recording, made by one of them, serves others too. They differ in ids, tokens and in the order in which they ask,
so the gate is the causal one, and a rule beside the recording leaves out what they say of themselves.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import tooling
from tests.e2e.clients.report import NAME, PROMPT, ROOT, SAMPLED, STEPS
from tests.e2e.house import TIELINE
from tests.e2e.test_real_clients import CLIENTS, HERE, SEEN, TOOLS, everything, ran
from tests.processes.gateway_kit import eventually
from tests.processes.replay_kit import environment, tree


def words(client: str, to: dict[str, Any]) -> list[str]:
    """The command of a client that connects there."""
    program, more, _ = CLIENTS[client]
    to = {**to, **more}
    if program.endswith(".mjs"):
        told = {"NAME": NAME, "PROMPT": PROMPT, "ROOT": ROOT, "SAMPLED": SAMPLED, "STEPS": STEPS}
        return [str(tooling.node()), str(tooling.HERE / program), json.dumps({**to, "words": told})]
    if client == "mcp-1":
        return [str(tooling.old_python()), str(HERE / program), json.dumps(to)]
    return [sys.executable, "-m", f"tests.e2e.clients.{program.removesuffix('.py')}", json.dumps(to)]


def reported(client: str, to: dict[str, Any], log: Path) -> dict[str, Any]:
    """What a client says of its round."""
    report = json.loads(ran(words(client, to), log).splitlines()[-1])
    if client == "node-sdk":
        # It forgets the listener of a call as it reads the answer, see `test_real_clients`; a replay makes no pauses.
        assert report["progress"] == SEEN["progress"][: len(report["progress"])]
        report["progress"] = SEEN["progress"]
    return report


MAKERS = {"legacy": "node-sdk", "modern": "mcp-2-auto", "fastmcp": "fastmcp-auto"}
"""Whose session is recorded. Between eras, a question of a server is another message; and where its answer is part of
a request, as in the modern era, who answers in other words asks for something else.
"""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Sessions with the reference server, by era of the client."""
    folder = tmp_path_factory.mktemp("replayed")
    made: dict[str, Path] = {}
    for era, client in MAKERS.items():
        out = made[era] = folder / era
        command = [TIELINE, "record", "--out", str(out), "--", *everything()]
        log = folder / f"{era}.log"
        report = reported(client, {"command": command, "env": environment(folder)}, log)
        assert report["echo"] == SEEN["echo"]
    (folder / "replay.toml").write_text('[[rule]]\nat = "/params/_meta"\nas = "ignore"\n')
    return made


@contextmanager
def over_http(recording: Path, folder: Path) -> Generator[dict[str, Any]]:
    """The recording behind HTTP, and what a client has to know."""
    import asyncio

    ready = folder / "ready.json"
    command = [
        TIELINE,
        "replay",
        str(recording),
        "--gate",
        "causal",
        "--http",
        "0",
        "--ready-file",
        str(ready),
    ]
    with (
        (folder / "replay.log").open("wb") as stderr,
        subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stderr=stderr, env=environment(folder)
        ) as process,
    ):
        try:
            asyncio.run(eventually(lambda: ready.exists() or process.poll() is not None, "the listener"))
            (address,) = json.loads(ready.read_bytes())["listeners"]
            token = (folder / "state" / "token").read_text().strip()
            yield {"url": address["url"], "token": token}
        finally:
            process.terminate()
            process.wait(20)


@pytest.mark.parametrize(
    ("client", "front"), [pytest.param(c, f, id=f"{c}/{f}") for c in CLIENTS for f in ("stdio", "http")]
)
@pytest.mark.xdist_group("real-clients")
def test_a_client_sees_the_server_as_it_was(
    client: str, front: str, recordings: dict[str, Path], tmp_path: Path
) -> None:
    recording = recordings[
        "fastmcp" if client == "fastmcp-auto" else "modern" if client.endswith("auto") else "legacy"
    ]
    before = tree(recording)
    if front == "stdio":
        command = [TIELINE, "replay", str(recording), "--gate", "causal"]
        to: dict[str, Any] = {"command": command, "env": environment(tmp_path)}
        report = reported(client, to, tmp_path / "client.log")
    else:
        with over_http(recording, tmp_path) as to:
            report = reported(client, to, tmp_path / "client.log")
    assert set(report.pop("tools")) >= TOOLS
    report.pop("protocol", None)
    assert report == SEEN
    assert tree(recording) == before
