"""How many frames a second the recording store takes: `python -m loadtest.append`.

Measures appends of bodies of one size through the whole path of `Recorder.append`: checking, encoding, checksum, chain
and one write to the file. The redaction's prefilter is measured beside it, and both together.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from recordings.frame import Frame
from recordings.redaction import Redactor
from recordings.store import Durability, Recorder

GOAL = 100_000
"""Frames a second of 1 KiB that the store is to take."""


def body_of(size: int) -> bytes:
    """A tool call of `size` bytes without secrets."""
    head = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"search","arguments":{"text":"'
    tail = b'"}}}'
    filler = b"The quick brown fox jumps over the lazy dog, 1234567890 times. " * (size // 60 + 1)
    return head + filler[: max(0, size - len(head) - len(tail))] + tail


def appended(
    directory: Path, body: bytes, frames: int, durability: Durability, redactor: Redactor | None
) -> float:
    """Seconds that `frames` appends take, without opening and closing."""
    raw = msgspec.Raw(body)
    with Recorder(directory, durability=durability, redactor=redactor) as recorder:
        append = recorder.append
        began = time.perf_counter()
        for seq in range(1, frames + 1):
            append(
                Frame(
                    seq=seq,
                    at=seq * 10_000,
                    kind="request",
                    peer="database",
                    way="core>",
                    id=seq,
                    method="tools/call",
                    name="search",
                    body=raw,
                )
            )
        return time.perf_counter() - began


def best(parent: Path, body: bytes, frames: int, durability: Durability, redactor: Redactor | None) -> float:
    """Frames a second in the best of five rounds: the others say more about the machine's other guests."""
    rates: list[float] = []
    for number in range(5):
        directory = parent / f"{durability}-{number}"
        rates.append(frames / appended(directory, body, frames, durability, redactor))
        shutil.rmtree(directory)
    return max(rates)


def prefilter_us(redactor: Redactor, body: bytes) -> float:
    """Microseconds that the prefilter takes for one body, in the best of five rounds."""
    rounds: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(2000):
            redactor.suspects(body)
        rounds.append((time.perf_counter() - began) / 2000 * 1e6)
    return min(rounds)


def main() -> None:
    """Run the benchmark and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=40_000, help="frames a round")
    parser.add_argument("--bytes", type=int, default=1024, help="bytes a body")
    parser.add_argument(
        "--dir", type=Path, default=None, help="where to write; a temporary directory by default"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    body = body_of(options.bytes)
    redactor = Redactor(b"benchmark" * 4)
    with tempfile.TemporaryDirectory(dir=options.dir) as parent:
        place = Path(parent)
        result: dict[str, Any] = {
            "body_bytes": len(body),
            "frames": options.frames,
            "frames_per_s_os": round(best(place, body, options.frames, "os", None)),
            "frames_per_s_group": round(best(place, body, options.frames, "group", None)),
            "frames_per_s_group_redacted": round(best(place, body, options.frames, "group", redactor)),
            "prefilter_us": round(prefilter_us(redactor, body), 2),
        }
    if options.json:
        print(json.dumps(result))
        return
    print(f"body {result['body_bytes']} bytes, {options.frames} frames a round, best of 5 rounds")
    for name, label in (
        ("frames_per_s_os", "append, durability os"),
        ("frames_per_s_group", "append, durability group"),
        ("frames_per_s_group_redacted", "append, group, with redaction"),
    ):
        print(f"{label:34} {result[name]:>10,} frames/s  {1e6 / result[name]:6.2f} us a frame")
    print(f"{'redaction prefilter alone':34} {'':>10}           {result['prefilter_us']:6.2f} us a body")
    print(f"goal {GOAL:,} frames/s of 1 KiB: {'met' if result['frames_per_s_group'] >= GOAL else 'missed'}")


if __name__ == "__main__":
    main()
