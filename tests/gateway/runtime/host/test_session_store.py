"""Session files on disk: what was said to be written is there after a kill, and what was cut off is not thrown away."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from gateway.runtime.host.session_store import SessionStore
from gateway.sessions import format as session_format
from gateway.sessions import ops
from gateway.sessions.conversation import Conversation, Done, Load
from gateway.sessions.files import Beginning, StoreError
from tests.gateway.sessions import pi_reference
from tests.gateway.sessions.pi_reference import Pi
from tests.gateway.sessions.steps import BEGAN

APPENDER = Path(__file__).with_name("appender.py")


class Gateway:
    """One agent session with a store on disk."""

    def __init__(self, directory: Path, seed: str = "seed") -> None:
        self.store = SessionStore(directory)
        beginning = Beginning(seed=seed, at_ms=BEGAN, cwd="/work", directory=str(directory))
        self.conversation = Conversation(beginning, self.store)
        self._calls = 0

    def ask(self, op: str, **params: Any) -> dict[str, Any]:
        self._calls += 1
        result = self.conversation.serve(ops.read({"op": op, **params}), BEGAN, f"{self._calls}")
        if isinstance(result, Load):
            read = self.store.load(result.target)
            found = session_format.read(b"\n".join(read.lines))
            result = self.conversation.loaded(result, read.file, found, read.notes)
        assert isinstance(result, Done)
        return result.output

    @property
    def path(self) -> Path:
        assert self.conversation.file is not None
        return Path(self.conversation.file)

    @property
    def ids(self) -> list[str]:
        return [entry.id for entry in self.conversation.tree.entries]


@pytest.fixture
def gateway(tmp_path: Path) -> Generator[Gateway]:
    one = Gateway(tmp_path)
    yield one
    one.store.close()


def again(tmp_path: Path, path: Path) -> Gateway:
    one = Gateway(tmp_path, seed="again")
    one.ask("resume", target=path.name)
    return one


def test_files_are_private_and_lie_where_pi_puts_them(tmp_path: Path) -> None:
    one = Gateway(tmp_path / "sessions")
    one.ask("append_entry", custom_type="x")
    assert one.path.parent.name == "--work--"
    assert one.path.stat().st_mode & 0o777 == 0o600
    assert one.path.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(one.path.parent) == [one.path.name]
    one.store.close()


def test_every_entry_that_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    for wanted in (1, 7, 60):
        with subprocess.Popen(
            [sys.executable, str(APPENDER), str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as one:
            assert one.stdout is not None
            acknowledged = [one.stdout.readline().strip() for _ in range(wanted)]
            one.kill()
            acknowledged += one.stdout.read().split()
        [path] = (tmp_path / "--work--").glob("*.jsonl")
        store = SessionStore(tmp_path)
        found = session_format.read(b"\n".join(store.load(path.name).lines))
        assert [entry.id for entry in found.entries][: len(acknowledged)] == acknowledged
        assert len(found.entries) <= len(acknowledged) + 1
        store.close()
        path.unlink()


def test_a_file_cut_off_at_any_byte_goes_on_and_the_end_is_put_aside(
    gateway: Gateway, tmp_path: Path
) -> None:
    for number in range(3):
        gateway.ask("append_entry", custom_type="x", data=number)
    gateway.store.close()
    path, whole, ids = gateway.path, gateway.path.read_bytes(), gateway.ids
    header = whole.index(b"\n")
    line_ends = [at for at in range(header + 1, len(whole)) if whole[at : at + 1] == b"\n"]
    ends = {*range(header, len(whole) + 1, 7), *(at + more for at in line_ends for more in (-1, 0, 1))}
    for end in sorted(ends):
        path.write_bytes(whole[:end])
        one = again(tmp_path, path)
        kept = len(one.ids)
        assert one.ids == ids[:kept]
        torn = sorted(path.parent.glob("*.torn*"))
        rest = b"".join(each.read_bytes() for each in torn)
        assert path.read_bytes().rstrip(b"\n") + (b"\n" + rest if rest else b"") == whole[:end].rstrip(b"\n")
        one.ask("append_entry", custom_type="more")
        assert not session_format.read(path.read_bytes()).notes
        one.store.close()
        for each in torn:
            each.unlink()


def test_a_second_gateway_cannot_write_to_the_same_session(gateway: Gateway, tmp_path: Path) -> None:
    gateway.ask("append_entry", custom_type="x")
    with pytest.raises(StoreError, match="in use by another gateway") as refused:
        again(tmp_path, gateway.path)
    assert refused.value.reason == "in_use"
    gateway.ask("new")
    gateway.ask("append_entry", custom_type="y")
    other = again(tmp_path, next(p for p in gateway.path.parent.glob("*.jsonl") if p != gateway.path))
    assert other.conversation.tree.entries[0].fields["customType"] == "x"
    other.store.close()


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(APPENDER), str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as one:
        assert one.stdout is not None
        one.stdout.readline()
        [path] = (tmp_path / "--work--").glob("*.jsonl")
        with pytest.raises(StoreError, match="in use"):
            SessionStore(tmp_path).load(path.name)
        one.kill()
        one.wait()
        store = SessionStore(tmp_path)
        store.load(path.name)
        store.close()


def test_what_does_not_fit_on_the_disk_is_refused_and_leaves_no_half_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(APPENDER), str(tmp_path), "3000"], capture_output=True, text=True, check=True
    )
    *ids, said = done.stdout.split()
    assert said == "efbig"
    assert len(ids) > 3
    [path] = (tmp_path / "--work--").glob("*.jsonl")
    found = session_format.read(path.read_bytes())
    assert ([entry.id for entry in found.entries], found.notes) == (ids, [])


def test_a_change_by_another_program_is_seen_before_something_is_written_over_it(gateway: Gateway) -> None:
    gateway.ask("append_entry", custom_type="x")
    with gateway.path.open("ab") as file:
        file.write(b'{"type":"custom","id":"other","parentId":null,"customType":"pi"}\n')
    with pytest.raises(StoreError, match="reload it first"):
        gateway.ask("append_entry", custom_type="y")
    gateway.ask("reload")
    gateway.ask("append_entry", custom_type="y")
    assert gateway.ids[1] == "other"
    assert len(gateway.path.read_bytes().splitlines()) == 4


def test_a_file_that_was_deleted_is_told(gateway: Gateway) -> None:
    gateway.ask("append_entry", custom_type="x")
    gateway.path.unlink()
    with pytest.raises(StoreError, match="was deleted"):
        gateway.ask("append_entry", custom_type="y")


@pytest.mark.parametrize(
    "target", ["../../etc/passwd", "/etc/passwd", "..", "nothing", "--work--", "%s/secret.jsonl"]
)
def test_only_sessions_of_the_directory_are_found(gateway: Gateway, tmp_path: Path, target: str) -> None:
    gateway.ask("append_entry", custom_type="x")
    (tmp_path / "secret.jsonl").write_text("{}")
    outside = tmp_path.parent / f"{tmp_path.name}-outside.jsonl"
    outside.write_bytes(gateway.path.read_bytes())
    (gateway.path.parent / "link.jsonl").symlink_to(outside)
    for each in (target.replace("%s", str(tmp_path)), "link.jsonl", str(outside)):
        with pytest.raises(StoreError, match="there is no session"):
            gateway.ask("switch", target=each)
    gateway.ask("append_entry", custom_type="still here")


def test_an_id_that_may_be_two_files_is_refused_with_both(gateway: Gateway) -> None:
    gateway.ask("append_entry", custom_type="x")
    other = gateway.path.with_name(f"2020_{gateway.conversation.tree.header.id}.jsonl")
    other.write_bytes(gateway.path.read_bytes())
    with pytest.raises(StoreError, match="any of") as refused:
        gateway.ask("switch", target=gateway.conversation.tree.header.id)
    assert other.name in str(refused.value)


def test_what_is_no_session_is_refused_and_the_open_one_goes_on(gateway: Gateway) -> None:
    gateway.ask("append_entry", custom_type="x")
    (gateway.path.parent / "no.jsonl").write_text("hello\n")
    with pytest.raises(StoreError, match="no session file"):
        gateway.ask("switch", target="no.jsonl")
    gateway.ask("append_entry", custom_type="y")
    os.mkfifo(gateway.path.parent / "pipe.jsonl")
    with pytest.raises(StoreError, match="there is no session"):
        gateway.ask("switch", target="pipe.jsonl")


def test_a_list_has_the_latest_first_with_their_names(gateway: Gateway, tmp_path: Path) -> None:
    gateway.ask("append_entry", custom_type="x")
    gateway.ask("set_name", name="first")
    older = gateway.path.with_name("2020-01-01T00-00-00-000Z_older.jsonl")
    older.write_bytes(b'{"type":"session","version":3,"id":"older","cwd":"/work"}\n')
    (older.parent / "junk.jsonl").write_text("junk")
    found = gateway.store.list("/work", 10)
    assert [(each["id"], each["name"], each["entries"]) for each in found] == [
        (gateway.conversation.tree.header.id, "first", 2),
        ("older", None, 0),
    ]
    assert len(gateway.store.list("/work", 1)) == 1
    assert gateway.store.list("/elsewhere", 10) == []
    assert SessionStore(tmp_path / "none").list("/work", 10) == []


def test_an_older_file_is_written_anew_once_and_the_old_one_stays(gateway: Gateway) -> None:
    gateway.ask("append_entry", custom_type="x")
    folder = gateway.path.parent
    old = b"".join(
        json.dumps(one).encode() + b"\n"
        for one in (
            {"type": "session", "id": "old", "timestamp": "2024-01-01T00:00:00.000Z", "cwd": "/work"},
            {
                "type": "message",
                "timestamp": "2024-01-01T00:00:01.000Z",
                "message": {"role": "user", "content": "a"},
            },
        )
    )
    path = folder / "1_old.jsonl"
    path.write_bytes(old)
    gateway.ask("resume", target="old")
    gateway.ask("append_entry", custom_type="y")
    found = session_format.read(path.read_bytes())
    assert (found.version, len(found.entries), found.notes) == (3, 2, [])
    assert (folder / "1_old.jsonl.v1").read_bytes() == old
    descriptor = os.open(path, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
    gateway.ask("reload")
    assert len(gateway.ids) == 2


@pytest.fixture(scope="module")
def pi() -> Generator[Pi]:
    with pi_reference.running() as one:
        yield one


def test_pi_opens_a_session_of_ours_and_we_go_on_with_one_of_pi(pi: Pi, gateway: Gateway) -> None:
    user = {"role": "user", "content": "hello", "timestamp": 1}
    assistant = {
        "role": "assistant", "content": [{"type": "text", "text": "hi"}], "provider": "p", "model": "m", "timestamp": 2,
    }  # fmt: skip
    gateway.ask("append_message", message=user)
    gateway.ask("append_entry", custom_type="todo", data={"items": [1]})
    first = gateway.path
    gateway.store.close()
    said = pi.ask("read", path=str(first))
    assert [entry["id"] for entry in said["entries"]] == gateway.ids
    written = pi.ask(
        "write", cwd="/work", dir=str(first.parent),
        steps=[{"op": "message", "message": user}, {"op": "message", "message": assistant},
               {"op": "custom", "kind": "todo", "data": {"items": [2]}}],
    )  # fmt: skip
    resumed = gateway.ask("resume", target=written["header"]["id"])
    assert resumed["file"] == written["file"]
    assert gateway.ids == written["ids"]
    more = gateway.ask("append_entry", custom_type="todo", data={"items": [3]})["id"]
    said = pi.ask("read", path=written["file"])
    assert (said["leaf"], said["branch"]) == (more, [*written["ids"], more])


def test_a_new_file_is_waited_for_to_be_on_the_disk_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    later: list[Callable[[], None]] = []
    store = SessionStore(tmp_path, aside=later.append)
    path = tmp_path / "here" / "one.jsonl"
    store.append(str(path), [b"{}"], new=True)
    assert (path.read_bytes(), synced, len(later)) == (b"{}\n", [], 1)

    store.append(str(path), [b"[]"], new=False)
    later.pop()()
    assert (path.read_bytes(), len(synced)) == (b"{}\n[]\n", 2), "the file, and the directory that names it"
    store.close()
    path.unlink()
    store.append(str(tmp_path / "two.jsonl"), [b"{}"], new=True)
    (tmp_path / "two.jsonl").unlink()
    later.pop()()
    store.close()
