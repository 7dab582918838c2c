"""The files adapter as a real process, in both eras; and the opening of paths beneath a root, both ways of it."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pytest
from mcp import MCPError
from mcp_types import BlobResourceContents, TextResourceContents

from adapters import kit
from adapters.files.beneath import Root
from adapters.files.server import Files
from tests.adapters.kit_client import ERAS, code, connected, data, run, text

MODULE = "adapters.files"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root with a few files, links of every kind, and a secret beside it."""
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.txt").write_text("one\ntwo\nthree\n")
    (root / "b.py").write_text("def two():\n    return 'grüße'\n")
    (root / "blob.bin").write_bytes(b"\x00\xfftwo")
    (tmp_path / "secret").write_text("two: secret")
    (root / "in").symlink_to("sub/a.txt")
    (root / "out").symlink_to("../secret")
    (root / "abs").symlink_to(tmp_path / "secret")
    (root / "up").symlink_to("..")
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.parametrize("era", ERAS)
def test_a_directory_is_listed_read_and_searched(tree: Path, era: str) -> None:
    async def work() -> None:
        async with connected(era, MODULE, str(tree)) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert tools == {"list_directory", "read_file", "search_files"}
            listed = data(await client.call_tool("list_directory", {}))
            kinds = {entry["name"]: entry["kind"] for entry in listed["entries"]}
            assert kinds["sub"] == "directory"
            assert kinds["b.py"] == "file"
            assert kinds["out"] == "link"
            assert kinds["pipe"] == "other"
            part = data(
                await client.call_tool("read_file", {"path": "sub/a.txt", "first_line": 2, "max_lines": 1})
            )
            assert (part["content"], part["next_line"]) == ("two\n", 3)
            found = data(await client.call_tool("search_files", {"pattern": "two"}))
            assert [(match["path"], match["line"]) for match in found["matches"]] == [
                ("b.py", 1),
                ("sub/a.txt", 2),
            ]
            assert (found["files_searched"], found["skipped"]) == (2, 1)
            assert found["complete"] is True

    run(work())


@pytest.mark.parametrize("era", ERAS)
def test_files_are_resources_by_their_uri(tree: Path, era: str) -> None:
    async def work() -> None:
        async with connected(era, MODULE, str(tree)) as client:
            listed = {each.name: str(each.uri) for each in (await client.list_resources()).resources}
            assert listed.keys() == {"b.py", "blob.bin", "sub/a.txt"}
            assert listed["sub/a.txt"] == f"file://{quote(str(tree / 'sub/a.txt'))}"
            [read] = (await client.read_resource(listed["sub/a.txt"])).contents
            assert isinstance(read, TextResourceContents)
            assert read.text == "one\ntwo\nthree\n"
            [raw] = (await client.read_resource(listed["blob.bin"])).contents
            assert isinstance(raw, BlobResourceContents)
            for uri in (
                f"file://{tree}/../secret",
                f"file://{tree}/out",
                "file:///etc/passwd",
                "https://x/y",
            ):
                with pytest.raises(MCPError):
                    await client.read_resource(uri)

    run(work())


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "path", ["../secret", "sub/../../secret", "out", "abs", "up/secret", "/etc/passwd", "/proc/self/environ"]
)
def test_nothing_outside_of_the_root_is_ever_read(tree: Path, era: str, path: str) -> None:
    async def work() -> None:
        async with connected(era, MODULE, str(tree)) as client:
            for name in ("read_file", "list_directory"):
                result = await client.call_tool(name, {"path": path})
                assert code(result) == "denied"
                assert "secret:" not in text(result)

    run(work())


def test_writing_is_off_unless_it_was_allowed(tree: Path) -> None:
    async def work() -> None:
        async with connected("legacy", MODULE, str(tree)) as client:
            with pytest.raises(MCPError, match="unknown tool"):
                await client.call_tool("write_file", {"path": "new", "content": "x"})
        assert not (tree / "new").exists()

    run(work())


def test_a_file_is_written_whole_beneath_the_root_and_never_through_a_link(tree: Path) -> None:
    async def work() -> None:
        async with connected("legacy", MODULE, str(tree), "--writable") as client:
            written = data(await client.call_tool("write_file", {"path": "sub/new.txt", "content": "grüße"}))
            assert written == {"path": "sub/new.txt", "bytes": 7, "created": True}
            again = await client.call_tool("write_file", {"path": "sub/new.txt", "content": "x"})
            assert code(again) == "invalid_request"
            over = {"path": "out", "content": "mine", "overwrite": True}
            assert data(await client.call_tool("write_file", over))["created"] is False
            for path in ("../made", "up/made", "/tmp/made-by-a-test", "sub/..", ""):
                assert code(await client.call_tool("write_file", {"path": path, "content": "x"})) in (
                    "denied",
                    "invalid_request",
                )
        assert (tree / "sub" / "new.txt").read_text() == "grüße"
        assert (tree.parent / "secret").read_text() == "two: secret"
        assert (tree / "out").read_text() == "mine"
        assert not (tree / "out").is_symlink()
        assert not (tree.parent / "made").exists()
        assert [each.name for each in tree.iterdir() if each.name.endswith(".tmp")] == []

    run(work())


@pytest.mark.parametrize("path", ["pipe", "sub", "nothing", "blob.bin", "a\0b"])
def test_what_is_no_text_file_is_refused_at_once(tree: Path, path: str) -> None:
    with pytest.raises(kit.ToolError) as caught:
        Files(Root(str(tree))).read_file(path)
    assert caught.value.code in ("invalid_request", "io")


@pytest.mark.parametrize("by_kernel", [True, False])
@pytest.mark.parametrize("path", ["../secret", "out", "abs", "up/secret", "sub/../../secret", "/etc/passwd"])
def test_both_ways_of_opening_refuse_what_leads_outside(tree: Path, path: str, *, by_kernel: bool) -> None:
    root = Root(str(tree), by_kernel=by_kernel)
    with pytest.raises(kit.ToolError) as caught:
        root.open_file(path)
    assert caught.value.code == "denied"


@pytest.mark.parametrize("by_kernel", [True, False])
@pytest.mark.parametrize("path", ["b.py", "./b.py", "sub/../b.py", "sub//a.txt"])
def test_both_ways_of_opening_find_what_lies_inside(tree: Path, path: str, *, by_kernel: bool) -> None:
    root = Root(str(tree), by_kernel=by_kernel)
    for given in (path, str(tree / path)):
        os.close(root.open_file(given))


def test_a_link_that_stays_inside_is_followed_by_the_kernel_alone(tree: Path) -> None:
    kernel, walk = Root(str(tree)), Root(str(tree), by_kernel=False)
    if kernel.by_kernel:
        os.close(kernel.open_file("in"))
    with pytest.raises(kit.ToolError):
        walk.open_file("in")


def test_a_long_list_of_resources_is_paged_without_gap_or_repeat(tmp_path: Path) -> None:
    for index in range(450):
        (tmp_path / f"{index:04}.txt").touch()
    files = Files(Root(str(tmp_path)))
    names: list[str] = []
    cursor: str | None = None
    for _ in range(3):
        page, cursor = files.page(cursor)
        names += [each.name for each in page]
    assert cursor is None
    assert names == [f"{index:04}.txt" for index in range(450)]
    with pytest.raises(kit.ToolError):
        files.page("ä")


def test_a_root_that_is_no_directory_ends_the_program_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Root(str(tmp_path / "nothing"))
