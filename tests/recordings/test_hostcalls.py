"""What belongs to a recorded host call, and what only looks like it."""

from __future__ import annotations

from typing import Any

from recordings.frame import Frame
from recordings.hostcalls import HOST_CALL, HostCalls


def frame(seq: int, kind: str, way: str, **more: Any) -> Frame:
    return Frame(seq=seq, at=seq, kind=kind, way=way, peer="helper", **more)  # pyright: ignore[reportArgumentType]


def test_a_host_call_has_its_decisions_what_was_shown_and_what_was_given_in_order() -> None:
    calls = HostCalls()
    calls.asks(frame(1, "request", "peer>", method=HOST_CALL))
    for seq, kind in ((2, "policy"), (3, "ui"), (4, "policy")):
        calls.decides(frame(seq, kind, "inside", parent=1, re=2 if kind == "ui" else None))
    for seq, kind in ((5, "chunk"), (6, "response")):
        calls.gives(frame(seq, kind, ">peer", re=1))

    assert (calls.decided, calls.shown, calls.given) == ({1: [2, 4]}, {1: [3]}, {1: [5, 6]})


def test_what_is_said_of_other_requests_belongs_to_no_host_call() -> None:
    calls = HostCalls()
    calls.asks(frame(1, "request", "peer>", method="sampling/createMessage"))
    calls.decides(frame(2, "policy", "inside", parent=1))
    calls.gives(frame(3, "response", ">peer", re=1))
    calls.asks(frame(4, "request", "peer>", method=HOST_CALL))
    calls.decides(frame(5, "fault", "inside", parent=4))
    calls.gives(frame(6, "notification", ">peer", re=4))

    assert (calls.decided, calls.shown, calls.given) == ({}, {}, {4: []})
