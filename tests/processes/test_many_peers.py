"""Fifty peers, sixty-four calls at a time, ten thousand calls: none lost, none crossed, and memory flat."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from gateway.runtime.keeping import keeper_works
from tests.processes.fault_kit import check_answers
from tests.processes.gateway_kit import eventually, marked_by, peak_memory, program, run, text_of

pytestmark = pytest.mark.skipif(not keeper_works(), reason="needs Linux with /proc")

MIB = 1024 * 1024
PEERS = 50
AT_ONCE = 64
CALLS = 10_000

TINY = """
import os, sys
HEAD = b'{"jsonrpc":"2.0","id":'
rest = b""
while data := os.read(0, 65536):
    *lines, rest = (rest + data).split(b"\\n")
    out = []
    for line in lines:
        if b'"id":' not in line:
            continue
        call = line[len(HEAD):line.index(b",", len(HEAD))]
        if b'"initialize"' in line:
            info = b'"serverInfo":{"name":"tiny","version":"1"}}'
            body = b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},' + info
        elif b'"tools/list"' in line:
            body = b'{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}'
        else:
            text = line.split(b'"text"', 1)[1].split(b'"')[1]
            body = b'{"content":[{"type":"text","text":"' + sys.argv[1].encode() + b":" + text + b'"}]}'
        out.append(HEAD + call + b',"result":' + body + b"}\\n")
    view = memoryview(b"".join(out))
    while view:
        view = view[os.write(1, view):]
"""  # fmt: skip


def test_no_answer_is_lost_or_crossed_among_fifty_peers(tmp_path: Path) -> None:
    script = tmp_path / "tiny.py"
    script.write_text(TINY)
    names = [f"peer{number:02}" for number in range(PEERS)]
    python = (sys.executable, "-S", "-E", "-X", "frozen_modules=on")
    peers = {
        name: {
            "command": [*python, str(script), name],
            "era": "legacy",
            "stop_grace_s": 0.2,
            "start_timeout_s": 60.0,
        }
        for name in names
    }

    async def main() -> None:
        with program(tmp_path, peers) as gateway:
            core = await gateway.core()
            # Starting fifty processes is not what is to be seen here: a few at a time.
            for start in range(0, PEERS, 5):
                ups = [core.start_tool(f"{name}__echo", text="up")[1] for name in names[start : start + 5]]
                assert [text_of(await up) for up in ups] == [
                    f"{name}:up" for name in names[start : start + 5]
                ]

            async def work(first: int) -> None:
                for number in range(first, CALLS, AT_ONCE):
                    name = names[number % PEERS]
                    answer = await core.tool(f"{name}__echo", text=f"call {number}")
                    assert text_of(answer) == f"{name}:call {number}"

            warm = [core.start_tool(f"{name}__echo", text="warm")[1] for name in names for _ in range(20)]
            await asyncio.gather(*warm)
            before = peak_memory(gateway.pid)
            await asyncio.gather(*(work(first) for first in range(AT_ONCE)))
            assert peak_memory(gateway.pid) - before < 8 * MIB
            assert len(core.answered) > CALLS
            check_answers(core)
            core.close()
            await eventually(lambda: marked_by(gateway.pid) == [], "the end of every server")

    run(main())
