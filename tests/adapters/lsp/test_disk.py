"""The files beneath a root: what is refused, what is seen, and writing that is all or nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import kit
from adapters.lsp import disk, stamps, writing
from adapters.lsp.disk import Disk
from adapters.lsp.edits import Change
from adapters.lsp.globs import pattern
from adapters.lsp.uris import path_of, uri_of

STAMPS = st.dictionaries(st.sampled_from("abcd"), st.tuples(*[st.integers(0, 1)] * 3))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    here = tmp_path / "root"
    (here / "sub").mkdir(parents=True)
    (here / "a.py").write_bytes(b"\xef\xbb\xbfone\r\n")
    (here / "sub" / "b.py").write_text("two\n")
    (tmp_path / "secret.py").write_text("secret\n")
    (here / "out").symlink_to(tmp_path)
    return here


def over(root: Path) -> Disk:
    return Disk(str(root), lambda path: path.endswith(".py"))


@pytest.mark.parametrize(
    "path", ["../secret.py", "out/secret.py", "/etc/passwd", "sub/../../secret.py", "../root2/x.py", "out"]
)
def test_a_path_outside_is_refused_however_it_is_written(root: Path, path: str) -> None:
    with pytest.raises(kit.ToolError, match="outside of the root") as met:
        over(root).inside(path)
    assert met.value.code == "denied"
    with pytest.raises(kit.ToolError):
        over(root).write([Change(path, None, "x")])


def test_a_path_inside_is_the_same_however_it_is_written(root: Path) -> None:
    found = over(root)
    for path in ("a.py", "./a.py", "sub/../a.py", str(root / "a.py")):
        assert found.relative(path) == "a.py"
    with pytest.raises(kit.ToolError, match="NUL"):
        found.inside("a\0.py")


def test_the_files_are_seen_without_those_behind_links_and_in_skipped_directories(root: Path) -> None:
    (root / "node_modules").mkdir()
    (root / "node_modules" / "c.py").write_text("")
    (root / "note.txt").write_text("")
    seen = asyncio.run(over(root).look())
    assert (sorted(seen.stamps), seen.whole) == (["a.py", "sub/b.py"], True)


def test_too_many_files_are_said_to_be_too_many(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "MAX_FILES", 1)
    seen = asyncio.run(over(root).look())
    assert (len(seen.stamps), seen.whole) == (1, False)


def test_who_asks_while_a_look_runs_gets_the_next_one(root: Path) -> None:
    async def work() -> None:
        begun, go_on = threading.Event(), threading.Event()

        def wanted(path: str) -> bool:
            begun.set()
            return go_on.wait(10) and path.endswith(".py")

        here = Disk(str(root), wanted)
        first = asyncio.create_task(here.look())
        await asyncio.to_thread(begun.wait, 10)
        (root / "late.py").write_text("")
        waiting = [asyncio.create_task(here.look()) for _ in range(2)]
        go_on.set()
        others = await asyncio.gather(*waiting)
        await first
        assert others[0] is others[1]
        assert "late.py" in others[0].stamps

    asyncio.run(work())


@given(STAMPS, STAMPS)
def test_changes_lead_from_one_look_to_the_next(
    before: dict[str, tuple[int, int, int]], after: dict[str, tuple[int, int, int]]
) -> None:
    found = dict(stamps.changes(before, after))
    assert found == {
        path: stamps.CREATED
        if path not in before
        else stamps.DELETED
        if path not in after
        else stamps.CHANGED
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    }


def test_several_files_are_written_with_their_modes_and_marks(root: Path) -> None:
    os.chmod(root / "sub" / "b.py", 0o750)
    over(root).write(
        [
            Change("a.py", "one\r\n", "ONE\r\n"),
            Change("new/c.py", None, "three\n"),
            Change("sub/b.py", "two\n", "TWO\n"),
        ]
    )
    assert (root / "a.py").read_bytes() == b"\xef\xbb\xbfONE\r\n"
    assert (root / "new" / "c.py").read_text() == "three\n"
    assert (root / "sub" / "b.py").read_text() == "TWO\n"
    assert (root / "sub" / "b.py").stat().st_mode & 0o777 == 0o750


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_where_one_file_has_changed_none_is_written(root: Path) -> None:
    before = files(root)
    with pytest.raises(kit.ToolError, match=r"sub/b\.py is not as it was when this was planned"):
        over(root).write([Change("a.py", "one\r\n", "ONE\r\n"), Change("sub/b.py", "other\n", "x")])
    assert files(root) == before


@pytest.mark.parametrize("fails_at", range(1, 5))
def test_where_one_step_fails_all_are_taken_back(
    root: Path, fails_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "old.py").write_text("old\n")
    before, count = files(root), 0

    def failing(name: str) -> None:
        real = getattr(os, name)

        def step(*arguments: str) -> None:
            nonlocal count
            count += 1
            if count == fails_at:
                raise OSError(28, "No space left on device", arguments[0])
            real(*arguments)

        monkeypatch.setattr(disk.os, name, step)

    failing("link")
    failing("replace")
    changes = [
        Change("a.py", "one\r\n", "ONE\r\n"),
        Change("new.py", None, "new\n"),
        Change("old.py", "old\n", None),
        Change("sub/b.py", "two\n", "TWO\n"),
    ]
    with pytest.raises(kit.ToolError, match="No space left on device; nothing is written"):
        over(root).write(changes)
    monkeypatch.undo()
    assert files(root) == before


@pytest.mark.parametrize("touched", ["sub/b.py", "new.py"])
def test_what_somebody_else_writes_meanwhile_is_not_written_over(
    root: Path, touched: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = files(root), os.fsync

    def meanwhile(handle: int) -> None:
        (root / touched).write_text("theirs\n")
        real(handle)

    monkeypatch.setattr(writing.os, "fsync", meanwhile)
    changes = [
        Change("a.py", "one\r\n", "ONE\r\n"),
        Change("new.py", None, "n"),
        Change("sub/b.py", "two\n", "x"),
    ]
    with pytest.raises(kit.ToolError, match=f"{touched} is not as it was when this was planned"):
        over(root).write(changes)
    assert files(root) == before | {touched: b"theirs\n"}


def test_what_cannot_be_put_back_is_kept_and_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, count = os.replace, 0

    def failing(source: str, target: str) -> None:
        nonlocal count
        count += 1
        if count > 1:
            raise OSError(30, "Read-only file system", source, None, target)
        real(source, target)

    monkeypatch.setattr(writing.os, "replace", failing)
    with pytest.raises(kit.ToolError, match=r"nor all of it taken back: .*Read-only file system") as met:
        over(root).write([Change("a.py", "one\r\n", "ONE\r\n"), Change("sub/b.py", "two\n", "TWO\n")])
    assert files(root).keys() - {"a.py", "sub/b.py"} == {kept := next(root.glob("a.py.*")).name}
    assert (root / kept).read_bytes() == b"\xef\xbb\xbfone\r\n"
    assert kept in str(met.value)


def test_a_file_that_may_not_be_written_to_is_not_and_a_file_system_without_hard_links_is(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(source: str, target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", source, None, target)

    before = files(root)
    monkeypatch.setattr(writing.os, "link", refused)
    os.chmod(root / "sub" / "b.py", 0o444)
    with pytest.raises(kit.ToolError, match="may not be written to"):
        over(root).write([Change("a.py", "one\r\n", "ONE\r\n"), Change("sub/b.py", "two\n", "TWO\n")])
    assert files(root) == before
    over(root).write([Change("a.py", "one\r\n", "ONE\r\n")])
    assert files(root) == before | {"a.py": b"\xef\xbb\xbfONE\r\n"}


def test_folders_that_were_made_for_nothing_go_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "x").mkdir()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", full)
    with pytest.raises(kit.ToolError, match="No space left on device"):
        over(root).write([Change("x/y/z/new.py", None, "n\n")])
    assert list((root / "x").iterdir()) == []


def test_a_link_within_the_root_stays_a_link_and_its_file_is_written(root: Path) -> None:
    (root / "link.py").symlink_to("sub/b.py")
    os.link(root / "sub" / "b.py", root / "hard.py")
    over(root).write([Change("link.py", "two\n", "TWO\n"), Change("hard.py", "two\n", "2\n")])
    assert (root / "link.py").is_symlink()
    assert [(root / name).read_text() for name in ("sub/b.py", "hard.py")] == ["TWO\n", "2\n"]


def test_what_is_no_utf_8_is_shown_but_not_edited(root: Path) -> None:
    (root / "latin.py").write_bytes("ü = 1\n".encode("latin-1"))
    assert over(root).read("latin.py") == "\ufffd = 1\n"
    with pytest.raises(kit.ToolError, match="not UTF-8, so it is not edited"):
        over(root).read_exactly("latin.py")


@pytest.mark.parametrize(
    ("glob", "matched", "unmatched"),
    [
        ("**/*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py/b"]),
        ("*.{ts,js}", ["a.ts", "a.js"], ["a.tsx", "x/a.ts"]),
        ("src/**", ["src/a", "src/x/y"], ["other/a"]),
        ("**/[!.]*.[ch]", ["a.c", "x/b.h"], ["a.d"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("tsconfig.json", ["tsconfig.json"], ["x/tsconfig.json", "tsconfigxjson"]),
    ],
)
def test_globs_mean_what_the_protocol_says(glob: str, matched: list[str], unmatched: list[str]) -> None:
    compiled = re.compile(pattern(glob))
    assert [path for path in matched + unmatched if compiled.fullmatch(path)] == matched


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30))
def test_a_path_survives_as_a_uri(path: str) -> None:
    assert path_of(uri_of("/" + path)) == "/" + path
    assert uri_of("/" + path).isascii()
