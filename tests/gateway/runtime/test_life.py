"""One life of a peer: what it says reaches the peer, until its connection is hung up."""

from __future__ import annotations

from typing import Any, cast

from gateway.runtime.connection import Life


class Heard:
    """A peer that keeps what it hears; stands for its connection too."""

    stderr_bytes = 0

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def message(self, *what: Any) -> None:
        self.heard.append(what)

    stray = failed = writable = hook_answered = message

    def together(self, many: list[bytes]) -> int:
        self.heard.append(tuple(many))
        return len(many)


def test_a_life_that_was_hung_up_is_not_taken_for_the_next_one() -> None:
    peer = Heard()
    life = Life(cast("Any", peer), cast("Any", peer))
    life.message(b"before")
    life.mute()
    life.message(b"after", None)
    life.stray(b"after", "binary", size=5)
    life.writable(False)
    life.answered(1, b"{}")
    assert life.together([b"after", b"after"]) == 2

    assert peer.heard == [(b"before",)]
