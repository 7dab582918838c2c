"""What waits for a core to be initialized."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from gateway.calls import held
from gateway.calls.held import Held
from transports.base import Stamp

STAMP = Stamp(kind="notification", method="x")


def released(subject: Held, *, stamped: bool = False) -> tuple[list[Any], list[Any]]:
    """What a core is sent, and the frames that are recorded."""
    core = Mock()
    core.link.stamped = stamped
    subject.release(core)
    return [call.args for call in core.link.send.mock_calls], core.session.tap.record.mock_calls


def test_what_waited_is_sent_in_order_and_nothing_is_told_of_it() -> None:
    subject = Held()
    subject.offer(b"1", STAMP)
    subject.add(b"2", STAMP)

    assert released(subject) == ([(b"1", None), (b"2", None)], [])
    assert released(subject, stamped=True)[0] == [(b"1", STAMP), (b"2", STAMP)]


def test_what_has_no_room_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "MOST_HELD", 3)
    monkeypatch.setattr(held, "MOST_HELD_BYTES", 5)
    subject = Held()
    for message in (b"1", b"22222", b"333", b"4", b"5"):
        subject.offer(message, STAMP)

    sent, (told,) = released(subject)
    assert [message for message, _ in sent] == [b"1", b"333", b"4"]
    assert told.kwargs["x"] == {"reason": "not_initialized", "notifications": 2}
