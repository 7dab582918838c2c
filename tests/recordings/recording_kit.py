"""Frames to record, and small recordings of them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import msgspec

from recordings.frame import Frame
from recordings.header import Header
from recordings.store import Recorder

SECRET_KEY = bytes(range(32))


def frame(seq: int, body: bytes = b"", kind: str = "notification", **fields: object) -> Frame:
    """One frame, with what a test does not care about filled in."""
    made: dict[str, object] = {"seq": seq, "at": seq * 1_000_000, "kind": kind, **fields}
    if body:
        made["body"] = msgspec.Raw(body)
    return Frame(**made)  # pyright: ignore[reportArgumentType]


def session(count: int, *, seed: int = 1, text: int = 40, large: bool = False) -> list[Frame]:
    """A session of requests with their answers, stray lines and lifecycle frames, numbered from 1."""
    dice = random.Random(seed)
    frames: list[Frame] = []
    for seq in range(1, count + 1):
        words = "".join(dice.choices('abc déf\\"\n—€ 0123', k=dice.randrange(text)))
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": seq, "text": words, "n": dice.random()})
        if large and seq % 17 == 0:
            body = msgspec.json.encode("x" * 40_000 + str(seq))
        match seq % 5:
            case 0:
                stray = dice.randbytes(dice.randrange(1, 30))
                frames.append(frame(seq, stray, "raw", way="peer>", peer="files"))
            case 1 | 3:
                asked = frame(seq, body, "request", way="core>", peer="files", id=seq, method="tools/call")
                asked.name = "read"
                frames.append(asked)
            case _:
                frames.append(frame(seq, body, "response", way="peer>", peer="files", id=seq, re=seq - 1))
    return frames


def recorded(path: Path, frames: Iterable[Frame], *, seal: bool = False) -> Path:
    """A recording of these frames that ended in order."""
    with Recorder(path, header=Header(session="test"), durability="os", reserve_bytes=0) as recorder:
        for each in frames:
            recorder.append(each)
        if seal:
            recorder.seal()
    return path


def same(one: Iterable[Frame], other: Iterable[Frame]) -> bool:
    """Whether two runs of frames are equal in every field, bodies compared as bytes."""
    return [_plain(each) for each in one] == [_plain(each) for each in other]


def _plain(each: Frame) -> dict[str, object]:
    return {**msgspec.structs.asdict(each), "body": bytes(each.body)}
