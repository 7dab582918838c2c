"""The host call `fs`: what each operation answers, what it never opens, and what it says where it cannot."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.calls.host.bounds import Bounds
from gateway.policy.model import Rule
from gateway.policy.paths import Root
from gateway.protocol.capabilities import CallError
from gateway.protocol.errors import Fault
from gateway.runtime.host.base import HostFault
from gateway.runtime.host.beneath import Folders
from tests.gateway.runtime.host.kit import ALL, Session, folders_of, with_rules

SECRET = "the secret outside"


@pytest.fixture
def by_kernel(both_ways: bool) -> bool:
    return both_ways


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A project beside something that nobody may see, with links in all directions."""
    project = tmp_path / "project"
    outside = tmp_path / "outside"
    for folder in (project / "src", outside):
        folder.mkdir(parents=True)
    (outside / "secret.txt").write_text(SECRET)
    (project / "src" / "a.py").write_text("a = 1\n")
    (project / "src" / ".env").write_text("KEY=hidden\n")
    (project / "file-out").symlink_to(outside / "secret.txt")
    (project / "folder-out").symlink_to(outside)
    (project / "up").symlink_to("..")
    (project / "magic").symlink_to("/proc/self/root")
    (project / "inside").symlink_to("src")
    (project / "env-inside").symlink_to("src/.env")
    (project / "loop").symlink_to("loop")
    (project / "dangling").symlink_to("nothing")
    return project


def fs(session: Session, op: str, path: str, **more: Any) -> dict[str, Any]:
    return asyncio.run(session.call("fs", op=op, path=path, **more))


def fault(session: Session, op: str, path: str, **more: Any) -> Fault:
    return asyncio.run(session.fault("fs", op=op, path=path, **more))


def errno_of(session: Session, op: str, path: str, **more: Any) -> tuple[str, str]:
    found = fault(session, op, path, **more)
    return found.code, found.details.get("errno", "")


# What each operation answers.


def test_a_file_is_read(session: Session) -> None:
    assert fs(session, "read", "src/a.py") == {"content": "a = 1\n", "size_bytes": 6, "truncated": False}


def test_a_part_of_a_file_is_read_and_said_to_be_one(session: Session) -> None:
    assert fs(session, "read", "src/a.py", offset=2, length=3) == {
        "content": "= 1",
        "size_bytes": 6,
        "truncated": True,
    }


def test_what_is_no_text_comes_as_base64(session: Session, place: Path) -> None:
    (place / "blob").write_bytes(b"\xff\x00")
    assert fs(session, "read", "blob")["content_bytes"] == base64.b64encode(b"\xff\x00").decode()


def test_a_long_file_is_cut_at_the_bound(folders: Folders, place: Path) -> None:
    (place / "long").write_bytes(b"x" * 2000)
    found = fs(Session(folders, bounds=Bounds(read_bytes=1000)), "read", "long")
    assert (len(found["content"]), found["size_bytes"], found["truncated"]) == (1000, 2000, True)


def test_a_file_is_read_by_its_absolute_path(session: Session, place: Path) -> None:
    assert fs(session, "read", str(place / "src" / "a.py"))["content"] == "a = 1\n"


def test_a_new_file_is_written(session: Session, place: Path) -> None:
    assert fs(session, "write", "new.txt", content="héllo") == {"size_bytes": 6, "created": True}
    assert (place / "new.txt").read_text() == "héllo"


def test_a_file_is_replaced_and_keeps_its_mode(session: Session, place: Path) -> None:
    (place / "src" / "a.py").chmod(0o750)
    assert fs(session, "write", "src/a.py", content_bytes=base64.b64encode(b"\xff").decode()) == {
        "size_bytes": 1,
        "created": False,
    }
    assert (place / "src" / "a.py").read_bytes() == b"\xff"
    assert (place / "src" / "a.py").stat().st_mode & 0o777 == 0o750
    assert sorted(os.listdir(place / "src")) == [".env", "a.py"]


def test_a_file_is_written_into_folders_that_are_made_for_it(session: Session, place: Path) -> None:
    assert errno_of(session, "write", "a/b/c.txt", content="") == ("io", "ENOENT")
    fs(session, "write", "a/b/c.txt", content="x", parents=True)
    assert (place / "a" / "b" / "c.txt").read_text() == "x"


def test_bytes_are_put_behind_a_file_and_into_a_new_one(session: Session, place: Path) -> None:
    assert fs(session, "append", "src/a.py", content="b = 2\n") == {"size_bytes": 6, "created": False}
    assert (place / "src" / "a.py").read_text() == "a = 1\nb = 2\n"
    assert fs(session, "append", "log", content="1")["created"]
    assert (place / "log").read_text() == "1"


def test_a_folder_is_listed_by_name_with_kinds_and_sizes(session: Session) -> None:
    found = fs(session, "list", ".")
    assert [(entry["name"], entry["type"]) for entry in found["entries"]] == [
        ("dangling", "link"), ("env-inside", "link"), ("file-out", "link"), ("folder-out", "link"),
        ("inside", "link"), ("loop", "link"), ("magic", "link"), ("src", "directory"), ("up", "link"),
    ]  # fmt: skip
    (env, source) = fs(session, "list", "src")["entries"]
    assert (env["name"], source["name"], source["size_bytes"]) == (".env", "a.py", 6)


def test_a_list_is_cut_where_there_are_more(session: Session) -> None:
    found = fs(session, "list", ".", limit=2)
    assert ([entry["name"] for entry in found["entries"]], found["truncated"]) == (
        ["dangling", "env-inside"],
        True,
    )


def test_a_name_that_is_no_text_is_listed_all_the_same(session: Session, place: Path) -> None:
    try:
        os.close(os.open(os.fsencode(place) + b"/src/\xff", os.O_CREAT))
    except OSError:
        pytest.skip("this file system wants text")
    assert [entry["name"] for entry in fs(session, "list", "src")["entries"]][-1] == "�"


def test_a_path_is_looked_at(session: Session) -> None:
    found = fs(session, "stat", "src/a.py")
    assert (found["type"], found["size_bytes"]) == ("file", 6)
    assert found["modified_ms"] > 1_600_000_000_000
    assert fs(session, "stat", "src")["type"] == "directory"


def test_folders_are_made(session: Session, place: Path) -> None:
    assert fs(session, "mkdir", "one") == {"created": True}
    assert errno_of(session, "mkdir", "one") == ("io", "EEXIST")
    assert errno_of(session, "mkdir", "x/y") == ("io", "ENOENT")
    assert fs(session, "mkdir", "x/y/z", parents=True) == {"created": True}
    assert fs(session, "mkdir", "x/y/z", parents=True) == {"created": False}
    assert (place / "x" / "y" / "z").is_dir()
    assert errno_of(session, "mkdir", "src/a.py", parents=True) == ("io", "EEXIST")


def test_files_links_and_empty_folders_are_deleted(session: Session, place: Path) -> None:
    (place / "empty").mkdir()
    assert fs(session, "delete", "src/a.py") == {"deleted": "file"}
    assert fs(session, "delete", "empty") == {"deleted": "directory"}
    assert fs(session, "delete", "file-out") == {"deleted": "link"}
    assert errno_of(session, "delete", "src") == ("io", "ENOTEMPTY")
    assert (place.parent / "outside" / "secret.txt").read_text() == SECRET


def test_a_file_is_moved_and_copied(session: Session, place: Path) -> None:
    assert fs(session, "copy", "src/a.py", to="b.py") == {"size_bytes": 6}
    assert fs(session, "rename", "b.py", to="src/c.py") == {}
    assert (place / "src" / "c.py").read_text() == "a = 1\n"
    assert not (place / "b.py").exists()


# What is never opened.


@pytest.mark.parametrize(
    "path",
    ["file-out", "folder-out/secret.txt", "up/outside/secret.txt", "inside/../../outside/secret.txt",
     "magic/etc/hostname", "folder-out/../secret.txt", "/etc/hostname", "../outside/secret.txt", "loop",
     "src/../../outside/secret.txt", "inside\\..\\..", "a\0b", "/proc/self/root/etc/hostname", "//etc/hostname"],
)  # fmt: skip
@pytest.mark.parametrize("op", ["read", "write", "append", "stat", "list"])
def test_what_lies_outside_is_out_of_reach(session: Session, place: Path, op: str, path: str) -> None:
    more = {"content": "changed"} if op in ("write", "append") else {}
    try:
        found = fault(session, op, path, **more)
    except ValueError:
        return  # refused before anything is decided
    assert found.code == "denied"
    assert (place.parent / "outside" / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize("op", ["rename", "copy"])
@pytest.mark.parametrize(
    ("path", "to"),
    [("src/a.py", "folder-out/a.py"), ("folder-out/secret.txt", "got"), ("src/a.py", "up/outside/a.py")],
)
def test_nothing_is_moved_across_the_border(
    session: Session, place: Path, op: str, path: str, to: str
) -> None:
    assert fault(session, op, path, to=to).code == "denied"
    assert os.listdir(place.parent / "outside") == ["secret.txt"]
    assert not (place / "got").exists()


@pytest.mark.parametrize("path", ["folder-out/x", "up/x", "folder-out/secret.txt"])
@pytest.mark.parametrize("op", ["mkdir", "delete"])
def test_nothing_is_made_or_deleted_outside(session: Session, place: Path, op: str, path: str) -> None:
    assert fault(session, op, path).code == "denied"
    assert os.listdir(place.parent / "outside") == ["secret.txt"]


def test_the_root_itself_stays(session: Session, place: Path) -> None:
    assert errno_of(session, "delete", ".") == ("io", "EBUSY")
    assert place.is_dir()


def test_a_link_that_stays_inside_is_followed_by_the_kernel_alone(session: Session, by_kernel: bool) -> None:
    if by_kernel:
        assert fs(session, "read", "inside/a.py")["content"] == "a = 1\n"
    else:
        assert errno_of(session, "read", "inside/a.py") == ("denied", "ELOOP")


@pytest.mark.parametrize("op", ["read", "write", "append"])
def test_a_pipe_a_device_and_a_socket_are_refused_without_waiting(
    session: Session, place: Path, op: str
) -> None:
    os.mkfifo(place / "pipe")
    os.mknod(place / "socket", stat.S_IFSOCK | 0o600)
    more = {} if op == "read" else {"content": "x"}
    for name in ("pipe", "socket"):
        found = fault(session, op, name, **more)
        assert (found.code, found.reason) in {("invalid_request", "not_regular"), ("io", "enxio")}


def test_a_folder_is_no_file(session: Session) -> None:
    assert errno_of(session, "read", "src") == ("invalid_request", "EISDIR")
    assert fault(session, "write", "src", content="x").code in ("invalid_request", "io")
    assert errno_of(session, "rename", "src", to="other") == ("invalid_request", "EISDIR")


@pytest.mark.parametrize("op", ["write", "append", "rename"])
def test_a_file_with_several_names_is_not_changed(session: Session, place: Path, op: str) -> None:
    os.link(place.parent / "outside" / "secret.txt", place / "hard")
    more = {"to": "moved"} if op == "rename" else {"content": "changed"}
    found = fault(session, op, "hard", **more)
    assert (found.code, found.reason) == ("denied", "hard_link")
    assert (place.parent / "outside" / "secret.txt").read_text() == SECRET


def test_a_device_is_not_read(tmp_path: Path, by_kernel: bool) -> None:
    with_devices = Session(Folders([Root(id="dev", path="/dev")], by_kernel=by_kernel))
    found = fault(with_devices, "read", "zero")
    assert (found.code, found.reason) == ("invalid_request", "not_regular")


# The scope holds for what was opened.


def test_a_rule_holds_for_where_a_link_leads(folders: Folders, by_kernel: bool) -> None:
    session = Session(
        folders, with_rules(Rule(verdict="allow", extension="ext", capability="read", paths=["*", "src/*"]))
    )
    assert fs(session, "read", "src/a.py")["content"]
    found = fault(session, "read", "env-inside")
    assert (found.code, found.reason) == ("denied", "out_of_scope" if by_kernel else "outside_root")
    assert "src/.env" not in found.message


@pytest.mark.parametrize("op", ["write", "append", "delete", "mkdir", "rename", "copy"])
def test_no_change_reaches_through_a_link_what_a_rule_denies(folders: Folders, place: Path, op: str) -> None:
    (place / "kept").mkdir()
    (place / "kept" / "k").write_text("kept")
    (place / "free").symlink_to("kept")
    rules = with_rules(
        Rule(verdict="allow", extension="ext", paths=["**"]), Rule(verdict="deny", paths=["kept/**"])
    )
    session = Session(folders, rules)
    path = "free/new" if op == "mkdir" else "free/k"
    more: dict[str, Any] = {"to": "got"} if op in ("rename", "copy") else {}
    if op in ("write", "append"):
        more = {"content": "changed"}
    assert fault(session, op, path, **more).code == "denied"
    if op in ("rename", "copy"):
        assert fault(session, op, "src/a.py", to="free/k").code == "denied"
    assert os.listdir(place / "kept") == ["k"]
    assert (place / "kept" / "k").read_text() == "kept"


def test_folders_made_on_the_way_follow_no_link_into_what_is_denied(folders: Folders, place: Path) -> None:
    (place / "kept").mkdir()
    (place / "free").symlink_to("kept")
    session = Session(
        folders,
        with_rules(
            Rule(verdict="allow", extension="ext", paths=["**"]), Rule(verdict="deny", paths=["kept/**"])
        ),
    )
    assert fault(session, "write", "free/a/b", content="x", parents=True).code == "denied"
    assert os.listdir(place / "kept") == []


# What it says where it cannot.


def test_what_is_missing_has_its_posix_name(session: Session) -> None:
    for op in ("read", "stat", "list", "delete"):
        found = fault(session, op, "nothing")
        assert (found.code, found.reason, found.details["errno"]) == ("io", "enoent", "ENOENT")
        assert "nothing" in found.message


def test_a_file_where_a_folder_was_meant_has_its_posix_name(session: Session) -> None:
    assert errno_of(session, "read", "src/a.py/x") == ("io", "ENOTDIR")
    assert errno_of(session, "list", "src/a.py") == ("io", "ENOTDIR")


@pytest.mark.parametrize(
    "params",
    [{"op": "write", "path": "x"}, {"op": "write", "path": "x", "content": "a", "content_bytes": "YQ=="},
     {"op": "read", "path": "x", "offset": -1}, {"op": "read", "path": "x", "length": "1"},
     {"op": "rename", "path": "x"}, {"op": "write", "path": "x", "content_bytes": "no base64!"},
     {"op": "list", "path": "x", "limit": 0}, {"op": "write", "path": "x", "content": "\ud800"}],
)  # fmt: skip
def test_params_that_cannot_be_read_are_an_invalid_request(session: Session, params: dict[str, Any]) -> None:
    found = asyncio.run(session.fault("fs", **params))
    assert (found.code, found.reason) == ("invalid_request", "bad_params")


def test_no_more_is_written_than_the_bound(folders: Folders, place: Path) -> None:
    small = Session(folders, bounds=Bounds(write_bytes=10, copy_bytes=3))
    assert errno_of(small, "write", "src/a.py", content="x" * 11) == ("invalid_request", "EFBIG")
    assert errno_of(small, "copy", "src/a.py", to="b") == ("invalid_request", "EFBIG")
    assert (place / "src" / "a.py").read_text() == "a = 1\n"
    assert not (place / "b").exists()


def test_nothing_is_left_of_a_copy_that_failed(folders: Folders, place: Path) -> None:
    before = sorted(os.listdir(place))
    fault(Session(folders, bounds=Bounds(copy_bytes=3)), "copy", "src/a.py", to="b")
    assert sorted(os.listdir(place)) == before


PARTS = st.sampled_from(
    ["..", ".", "", "src", "a.py", "inside", "up", "folder-out", "file-out", "secret.txt", "outside", "magic",
     "etc", "hostname", "loop", "dangling", "project", "proc", "self", "root", "\\", "~"]
)  # fmt: skip


@given(
    parts=st.lists(PARTS, min_size=1, max_size=8),
    lead=st.sampled_from(["", "/", "./", "//", "/proc/self/cwd/"]),
)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_spelling_of_a_path_reads_what_lies_outside(
    session: Session, place: Path, parts: list[str], lead: str
) -> None:
    path = lead + "/".join(parts)
    try:
        found = fs(session, "read", path)
    except (CallError, HostFault):
        return
    assert found["content"] == "a = 1\n"


def test_the_first_root_is_where_relative_paths_begin_and_each_keeps_to_itself(
    place: Path, by_kernel: bool
) -> None:
    other = Root(id="outside", path=str(place.parent / "outside"))
    with_two = folders_of(place, by_kernel=by_kernel, more=[other])
    session = Session(with_two, ALL)
    assert fs(session, "read", "src/a.py")["content"] == "a = 1\n"
    assert fs(session, "read", str(place.parent / "outside" / "secret.txt"))["content"] == SECRET
    # A link from one root into another leads out of the first all the same.
    assert fault(session, "read", "file-out").code == "denied"
    with_two.close()
