"""Recordings to measure with, made up: small calls of sixteen lanes. Pure, and the same ones every time."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from recordings.frame import Frame


def frames_of(count: int) -> Iterator[Frame]:
    """Calls of sixteen lanes, a request and its answer in turn, of about 100 bytes each."""
    for seq in range(1, count + 1, 2):
        lane = f"turn{seq // 320 + 1}/tool{seq // 2 % 16}"
        # Scattered, and the same in every run.
        word = seq * 2654435761 % 2**32 // 4294968
        ask = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","arguments":{"text":"%d"}}}'
        told = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"found %d"}]}}'
        yield Frame(
            seq=seq,
            at=seq * 1_000_000,
            kind="request",
            peer="database",
            way="core>",
            lane=lane,
            id=seq,
            after=seq - 1,
            op=seq,
            method="tools/call",
            name="search",
            body=msgspec.Raw(ask % (seq, word)),
        )
        yield Frame(
            seq=seq + 1,
            at=seq * 1_000_000 + 400_000,
            kind="response",
            peer="database",
            way="peer>",
            lane=lane,
            id=seq,
            re=seq,
            op=seq,
            body=msgspec.Raw(told % (seq, word)),
        )
