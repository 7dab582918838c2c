"""The thread that brings a recording onto the disk, where the system has none to give."""

from __future__ import annotations

import threading

import pytest

from recordings.syncing import Syncer


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_where_there_is_no_thread_who_waits_for_the_disk_is_served_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    syncer = Syncer(lambda: done.append("flush"), lambda: done.append("sync"), interval_s=0.01)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        assert syncer.soon().result(0) is None
        assert done == ["flush", "sync"]
        syncer.stop()


def test_what_is_dirty_while_there_is_no_thread_is_synced_when_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    synced = threading.Event()
    syncer = Syncer(lambda: None, synced.set, interval_s=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        syncer.dirty()
        assert not syncer.is_dirty
    syncer.dirty()
    assert synced.wait(20)
    syncer.stop()


@pytest.mark.parametrize("interval_s", [None, 0.0])
def test_what_may_wait_is_synced_with_the_next_or_at_once_where_there_is_no_next(
    interval_s: float | None,
) -> None:
    synced = threading.Event()
    syncer = Syncer(lambda: None, synced.set, interval_s=interval_s)
    syncer.with_next()
    assert synced.wait(20)
    syncer.stop()


def test_what_may_wait_is_not_hurried_where_there_is_a_next_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    syncer = Syncer(lambda: None, lambda: None, interval_s=0.0)
    hurried: list[Syncer] = []

    def soon(which: Syncer) -> None:
        hurried.append(which)

    monkeypatch.setattr(Syncer, "soon", soon)
    syncer.with_next()
    syncer.stop()
    assert not hurried
