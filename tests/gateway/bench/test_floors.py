"""The programs that a gateway is compared with do what they are said to do, and one that cannot be had is told."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.bench import floors
from gateway.bench.exact import MissingError

TURNS_AROUND = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"result": {"id": "inner", "said": asked}, "id": asked["id"]} if "id" in asked else {"told": asked}
    print(json.dumps(answer, separators=(",", ":")), flush=True)
"""
ASKED = [
    {"jsonrpc": "2.0", "id": 7, "method": "m", "params": {"id": 9, "text": '\\"id\\":1 } ] { \\\\'}},
    {"id": 'a"b', "method": "\u00e9\n"},
    {"method": "told", "params": [{"id": 3}]},
    {"method": "last", "params": {"large": "x" * 300_000}, "id": 12345678901234567890},
]


@pytest.fixture
def floor(tmp_path: Path) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler, `cc`")
    return floors.compiled(tmp_path)


def through(command: list[str], lines: list[str]) -> list[str]:
    """The answers to lines that are written one by one."""
    process = subprocess.Popen(
        [*command, sys.executable, "-c", TURNS_AROUND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    got: list[str] = []
    with process:
        for line in lines:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            got.append(process.stdout.readline())
        process.stdin.close()
        assert process.wait(timeout=30) == 0
    return got


def test_the_gateway_in_c_gives_each_message_an_id_of_its_own_and_the_old_one_back_and_records_both(
    floor: Path, tmp_path: Path
) -> None:
    lines = [json.dumps(message, separators=(",", ":")) for message in ASKED[:3]]
    got = [json.loads(line) for line in through([str(floor), str(tmp_path / "f.jsonl")], lines)]

    assert [answer.get("id") for answer in got] == [7, 'a"b', None]
    assert [answer["result"]["said"]["id"] for answer in got[:2]] == [0, 1]
    assert got[0]["result"]["said"] == {**ASKED[0], "id": 0}
    assert got[2] == {"told": ASKED[2]}
    frames = [json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines()]
    assert [frame["seq"] for frame in frames] == list(range(6))
    assert [frame["body"] for frame in frames if frame["way"] == "core>"] == ASKED[:3]
    assert all(frame["body"]["result"]["id"] == "inner" for frame in frames if frame["body"].get("result"))


@pytest.mark.parametrize("options", [[], ["--splice"]], ids=["read and written", "moved by the kernel"])
def test_what_forwards_bytes_changes_none(options: list[str]) -> None:
    lines = [json.dumps(message) for message in ASKED]
    got = [json.loads(line) for line in through([sys.executable, str(floors.FORWARD), *options], lines)]

    assert [answer.get("told", answer.get("result", {}).get("said")) for answer in got] == ASKED


def test_a_compiler_that_is_missing_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(MissingError, match="needs a C compiler, `cc`: `apt-get install gcc"):
        floors.in_c()


def test_a_compiler_that_cannot_compile_it_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'no headers' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    with pytest.raises(MissingError, match="`cc` cannot compile the gateway in C: no headers"):
        floors.compiled(tmp_path)
