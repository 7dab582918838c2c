"""Writes recordings in child processes, kills those at random points, and judges what they left.

Run as a program: `python killed_writer.py DIR COUNT SEED`. Prints one JSON object: how many were killed where, and what
was wrong. Children are forked from here, where there is one thread and everything is imported.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import msgspec

from recordings.errors import RecordingError
from recordings.frame import Frame
from recordings.store import Recorder, open_recording

FRAMES = 120


def write(path: Path, acks: int) -> float:
    """The child: append, say so, now and then a barrier, in the end seal; the seconds that sealing took."""
    recorder = Recorder(path, durability="barrier")
    for seq in range(1, FRAMES + 1):
        size = 33_000 if seq % 20 == 0 else 30 + seq % 300
        body = msgspec.Raw(msgspec.json.encode("x" * size + str(seq)))
        recorder.append(Frame(seq=seq, at=seq * 3_000_000, kind="notification", body=body))
        if seq % 25 == 0:
            recorder.barrier()
        os.write(acks, b"a")
    began = time.monotonic()
    recorder.seal()
    return time.monotonic() - began


def kill_one(path: Path, dice: random.Random, seal_s: float) -> tuple[int, str, str]:
    """Start a child, kill it at a random point; the frames that it said are written, its state, what is wrong."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        write(path, writer)
        os._exit(0)
    os.close(writer)
    said = b""
    # Some die while appending, some while sealing.
    target = dice.randrange(FRAMES) if dice.random() < 0.7 else FRAMES
    while len(said) < target and (more := os.read(reader, 1)):
        said += more
    time.sleep(dice.random() * (0.001 if target < FRAMES else 2 * seal_s))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while more := os.read(reader, 4096):
        said += more
    os.close(reader)
    return said.count(b"a"), *judge(path, said.count(b"a"))


def judge(path: Path, acknowledged: int) -> tuple[str, str]:
    """The state of what was left, and what is wrong with it."""
    if acknowledged == 0 and not (path / "recording.json").exists():
        return "unborn", ""
    try:
        recording = open_recording(path)
        frames = list(recording)
        for frame in frames:
            body = recording.body(frame)
            if not body.endswith(b'x%d"' % frame.seq):
                return recording.state, f"frame {frame.seq} has another body"
    except RecordingError as error:
        return "", str(error)
    if [frame.seq for frame in frames] != list(range(1, len(frames) + 1)):
        return recording.state, "numbers are missing"
    if len(frames) < acknowledged:
        return recording.state, f"{acknowledged} frames were acknowledged and {len(frames)} are there"
    if any("torn" not in warning for warning in recording.warnings):
        return recording.state, f"warnings {recording.warnings}"
    return recording.state, ""


def main() -> None:
    """Kill as many as asked for, and print the outcome."""
    parent, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    dice = random.Random(seed)
    states: dict[str, int] = {}
    wrong: list[str] = []
    acknowledged = 0
    seal_s = write(parent / "timing", os.open(os.devnull, os.O_WRONLY))
    for number in range(count):
        path = parent / str(number)
        frames, state, fault = kill_one(path, dice, seal_s)
        acknowledged += frames
        states[state] = states.get(state, 0) + 1
        if fault:
            wrong.append(f"{number}: {fault}")
        else:
            shutil.rmtree(path, ignore_errors=True)
    print(json.dumps({"states": states, "wrong": wrong, "acknowledged": acknowledged}))


if __name__ == "__main__":
    main()
