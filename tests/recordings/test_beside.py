"""Files of long bodies: private, brought onto the disk by the descriptors that wrote them, and always let go of."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from recordings import beside, files
from recordings.beside import Blobs
from recordings.segment import digest_of

BODIES = [b"%d" % number * 50 for number in range(5)]
ROOM = 3


@contextmanager
def directory(path: Path) -> Generator[int]:
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    made = threading.Semaphore(ROOM)
    monkeypatch.setattr(beside, "_room", made)
    return made


def descriptors(path: Path) -> int:
    """How many files below are open here."""
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    return sum(os.readlink(link).startswith(f"{path}/") for link in links if os.path.islink(link))


def left(room: threading.Semaphore) -> int:
    count = 0
    while room.acquire(blocking=False):
        count += 1
    for _ in range(count):
        room.release()
    return count


@pytest.mark.parametrize("umask", [0, 0o022, 0o277])
def test_every_body_is_private_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    with directory(tmp_path) as fd:
        blobs = Blobs(fd, os.write, stay_open=False)
        for shelf in {digest_of(body)[:2] for body in BODIES}:
            (tmp_path / files.BLOBS / shelf).mkdir(0o700)
        before = os.umask(umask)
        try:
            for body in BODIES:
                blobs.put(digest_of(body), body)
        finally:
            os.umask(before)
    found = [each for each in (tmp_path / files.BLOBS).rglob("*") if each.is_file()]
    assert [stat.S_IMODE(each.stat().st_mode) for each in found] == [0o600] * len(BODIES)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors")
@pytest.mark.parametrize("stay_open", [True, False])
def test_files_stay_open_until_they_are_on_the_disk_and_no_more_of_them_than_there_is_room_for(
    stay_open: bool, tmp_path: Path, room: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def note(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))

    with directory(tmp_path) as fd:
        blobs = Blobs(fd, os.write, stay_open=stay_open)
        for body in BODIES:
            blobs.put(digest_of(body), body)
        assert descriptors(tmp_path) == (ROOM if stay_open else 0)
        monkeypatch.setattr(os, "fsync", note)
        blobs.sync(blobs.take_unsynced())
        monkeypatch.undo()
    assert descriptors(tmp_path) == 0
    names = [digest_of(body) for body in BODIES]
    shelves = {name[:2] for name in names}
    assert [Path(path).name for path in synced[: len(names)]] == names
    assert {Path(path).name for path in synced[len(names) :]} == {*shelves, files.BLOBS}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors")
@pytest.mark.parametrize("how", ["fsync", "close"])
def test_no_file_stays_open_where_it_is_never_synced(
    how: str, tmp_path: Path, room: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with directory(tmp_path) as fd:
        blobs = Blobs(fd, os.write, stay_open=True)
        for body in BODIES:
            blobs.put(digest_of(body), body)
        assert left(room) == 0
        if how == "fsync":
            monkeypatch.setattr(os, "fsync", fail)
            with pytest.raises(OSError, match="Input/output error"):
                blobs.sync(blobs.take_unsynced())
            monkeypatch.undo()
        blobs.close()
    assert descriptors(tmp_path) == 0
    assert left(room) == ROOM


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors")
@pytest.mark.parametrize("how", ["sync", "close"])
def test_no_file_stays_open_where_the_closing_of_one_fails(
    how: str, tmp_path: Path, room: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file system over a network says so late that something was not written."""
    close = os.close
    failing: list[int] = []

    def fails_once(fd: int) -> None:
        close(fd)
        if not failing:
            failing.append(fd)
            raise OSError(5, "Input/output error")

    with directory(tmp_path) as fd:
        blobs = Blobs(fd, os.write, stay_open=True)
        for body in BODIES[:ROOM]:
            blobs.put(digest_of(body), body)
        assert left(room) == 0
        monkeypatch.setattr(os, "close", fails_once)
        with pytest.raises(OSError, match="Input/output error"):
            blobs.sync(blobs.take_unsynced()) if how == "sync" else blobs.close()
        monkeypatch.undo()
        assert left(room) == ROOM
    assert descriptors(tmp_path) == 0


class FewDescriptors:
    """As many descriptors for bodies as are said, whatever else is open."""

    def __init__(self, directory: Path, most: int) -> None:
        self._directory = directory
        self._most = most
        self._create = files.create_under_umask

    def __call__(self, directory: int, name: str, flags: int = 0) -> int:
        if descriptors(self._directory) >= self._most:
            raise OSError(errno.EMFILE, "Too many open files")
        return self._create(directory, name, flags)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors")
def test_files_that_stay_open_are_let_go_of_where_no_descriptor_is_left(
    tmp_path: Path, room: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "create_under_umask", FewDescriptors(tmp_path, 2))
    with directory(tmp_path) as fd:
        blobs = Blobs(fd, os.write, stay_open=True)
        for body in BODIES:
            blobs.put(digest_of(body), body)
        written = blobs.take_unsynced()
        assert [each.name.rpartition("/")[2] for each in written] == [digest_of(body) for body in BODIES]
        blobs.sync(written)
    assert descriptors(tmp_path) == 0
    assert left(room) == ROOM


def test_no_descriptor_for_a_body_is_an_error_where_none_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "create_under_umask", FewDescriptors(tmp_path, 0))
    with directory(tmp_path) as fd, pytest.raises(OSError, match="Too many open files"):
        Blobs(fd, os.write, stay_open=True).put(digest_of(BODIES[0]), BODIES[0])


@pytest.mark.parametrize(("limit", "most"), [(-1, 64), (1024, 64), (256, 32), (40, 5), (7, 0)])
def test_no_more_files_stay_open_than_an_eighth_of_what_the_process_may_have(
    limit: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(name: str) -> int:
        assert name == "SC_OPEN_MAX"
        return limit

    monkeypatch.setattr(os, "sysconf", told)
    assert beside.most_open() == most
