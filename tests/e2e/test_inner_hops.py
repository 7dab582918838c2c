"""Adapters that run again while what is behind them is absent: the recording stands in for the language server.

The adapter is a real one, and so was its server when the session was recorded.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import adapters.lsp
from recordings.frame import is_hop
from recordings.store import open_recording
from tests.processes.gateway_kit import Message, eventually, house, run, state, toml_of
from tests.processes.replay_kit import Call, played, report, tieline

__all__ = ["state"]

SAMPLE = Path(adapters.lsp.__file__).parent / "sample"
TY = Path(sys.executable).with_name("ty")
PID = re.compile(rb'"processId":[0-9]+')
CALLS: tuple[Call, ...] = (
    ("code__definition", {"symbol": "Money.plus"}),
    ("code__hover", {"symbol": "Money.plus"}),
    ("code__rename", {"symbol": "Money.plus", "new_name": "add"}),
    ("code__diagnostics", {"path": "shop/money.py"}),
)


def shop_of(folder: Path) -> dict[str, Message]:
    """A shop with a language server of its own; the configuration of the adapter for it."""
    shop = folder / "shop"
    shutil.copytree(SAMPLE, shop, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "bin").mkdir()
    (folder / "bin" / "ty").symlink_to(TY)
    server = f"ty={folder / 'bin' / 'ty'} server"
    command = [sys.executable, "-m", "adapters.lsp", "--root", str(shop), "--server", server]
    return {"code": {"command": command, "hops": True}}


def recorded(folder: Path, peers: dict[str, Message], *calls: Call) -> tuple[Path, list[Message]]:
    """A sealed recording of these calls, and what each of them was answered."""

    async def main() -> tuple[Path, list[Message]]:
        async with house(folder, peers) as here:
            core = await here.core()
            answers = [await core.tool(name, **arguments) for name, arguments in calls]
            core.close()
            await eventually((here.recordings()[0] / "sealed").exists, "the recording is sealed")
            return here.recordings()[0], answers

    return run(main())


class Crossed(NamedTuple):
    """What has crossed one hop: what the adapter said, sorted, since its calls go on beside each other; what came."""

    said: list[tuple[Any, ...]]
    came: list[tuple[Any, ...]]


def crossed(recording: Path) -> dict[str, Crossed]:
    """What has crossed each hop; but for the number of the adapter's process, which it tells its server."""
    found: dict[str, Crossed] = {}
    for frame in open_recording(recording):
        if is_hop(frame.peer):
            hop = found.setdefault(frame.peer or "", Crossed([], []))
            body = PID.sub(b"", bytes(frame.body))
            what = (frame.kind, str(frame.id), frame.method, body)
            (hop.said if frame.way == ">peer" else hop.came).append(what)
    for hop in found.values():
        hop.said.sort()
    return found


def test_an_adapter_runs_without_its_language_server_and_answers_as_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    peers = shop_of(tmp_path)
    recording, answers = recorded(tmp_path, peers, *CALLS)
    before = crossed(recording)
    assert list(before) == ["code/lsp:ty"]

    (tmp_path / "bin" / "ty").unlink()
    (tmp_path / "tieline.toml").write_text(toml_of(peers))
    again = played(
        tmp_path,
        [
            "replay",
            recording,
            "--cut",
            "lsp",
            "--config",
            "tieline.toml",
            "--record",
            "again",
            "--report",
            "report.json",
        ],
        *CALLS,
    )
    assert [answer["result"] for answer in again.answers] == [answer["result"] for answer in answers]
    assert again.code == 0, again.said
    assert report(tmp_path / "report.json")["divergences"] == []
    [copy] = (tmp_path / "again").iterdir()
    assert crossed(copy) == before
    driven = tieline("replay", copy, "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr
