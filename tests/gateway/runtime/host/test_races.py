"""Somebody swaps files and folders for links while a call uses them, and not once does a call leave the root."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from gateway.runtime.host.base import HostFault
from tests.gateway.runtime.host.kit import Session, folders_of

SECRET = "the secret outside"
ATTACK_S = 0.08
"""How long each operation is attacked. Nothing is asserted about it."""
PATIENCE_S = 30.0
"""How long a busy machine may take until one try has met the real files."""
FEWEST = 20
"""Tries that an attack takes at least, however slow the machine is."""


@pytest.fixture
def by_kernel(both_ways: bool) -> bool:
    return both_ways


@pytest.fixture
def place(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    outside = tmp_path / "outside"
    for folder in (project / "folder", outside):
        folder.mkdir(parents=True)
    for name in ("file", "f"):
        (outside / name).write_text(SECRET)
    (project / "folder" / "f").write_text("inside")
    (project / "file").write_text("inside")
    (project / "file-link").symlink_to(outside / "file")
    (project / "folder-link").symlink_to(outside)
    return project


@contextlib.contextmanager
def swapping(place: Path, *names: str) -> Generator[None]:
    """Have another process swap names while the body runs."""
    swapper = subprocess.Popen(
        [sys.executable, "-S", str(Path(__file__).with_name("swapper.py")), str(place), *names],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert swapper.stdout is not None
    try:
        if swapper.stdout.readline() != "ready\n":
            pytest.skip("this system cannot exchange two names")
        yield
    finally:
        said, _ = swapper.communicate("")
    assert int(said) > 0


CALLS: list[dict[str, Any]] = [
    {"op": "read", "path": "file"},
    {"op": "read", "path": "folder/f"},
    {"op": "write", "path": "file", "content": "changed"},
    {"op": "write", "path": "folder/f", "content": "changed"},
    {"op": "write", "path": "folder/a/b", "content": "made", "parents": True},
    {"op": "append", "path": "file", "content": "changed"},
    {"op": "append", "path": "folder/new", "content": "made"},
    {"op": "list", "path": "folder"},
    {"op": "stat", "path": "folder/f"},
    {"op": "mkdir", "path": "folder/made", "parents": True},
    {"op": "delete", "path": "folder/f"},
    {"op": "rename", "path": "folder/f", "to": "got"},
    {"op": "rename", "path": "got", "to": "folder/f"},
    {"op": "copy", "path": "file", "to": "got"},
    {"op": "copy", "path": "got", "to": "folder/got"},
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call['op']}-{call['path'].replace('/', '-')}")
def test_no_swap_leads_a_call_out_of_the_root(place: Path, by_kernel: bool, call: dict[str, Any]) -> None:
    outside = place.parent / "outside"
    before = {name: os.stat(outside / name) for name in os.listdir(outside)}
    session = Session(folders_of(place, by_kernel=by_kernel))
    (place / "got").write_text("inside")
    tries = done = 0
    must_do = call["op"] not in ("delete", "rename")

    async def attack() -> None:
        nonlocal tries, done
        began = time.monotonic()
        while (passed := time.monotonic() - began) < ATTACK_S or tries < FEWEST or (must_do and not done):
            assert passed < PATIENCE_S, f"none of {tries} tries met the real files"
            tries += 1
            with contextlib.suppress(HostFault):
                found = await session.call("fs", **call)
                done += 1
                assert SECRET not in str(found)
                if call["op"] == "list":
                    assert {entry["name"] for entry in found["entries"]} == {"f"}
                if call["op"] == "stat":
                    assert found["size_bytes"] == len("inside")

    with swapping(place, "file", "file-link", "folder", "folder-link"):
        asyncio.run(attack())
    after = {name: os.stat(outside / name) for name in os.listdir(outside)}
    assert sorted(after) == sorted(before)
    for name, status in after.items():
        assert (outside / name).read_text() == SECRET
        assert (status.st_ino, status.st_nlink) == (before[name].st_ino, before[name].st_nlink)
    got = place / "got"
    assert not got.exists() or SECRET not in got.read_text()
