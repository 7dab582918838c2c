"""What edits make of texts, in the shapes that real servers send them in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import kit
from adapters.lsp import edits, wire
from adapters.lsp.edits import Change, Plan
from adapters.lsp.plans import Plans
from adapters.lsp.text import Encoding, Text

TEXTS = st.text(st.sampled_from("ab\n\r é😀"), max_size=40)
ENCODINGS: list[Encoding] = ["utf-8", "utf-16", "utf-32"]


def span(text: Text, begin: int, end: int, encoding: Encoding) -> wire.Range:
    return wire.Range(
        wire.Position(*text.position(begin, encoding)), wire.Position(*text.position(end, encoding))
    )


@given(TEXTS, st.data(), st.sampled_from(ENCODINGS))
def test_edits_do_what_slices_do_in_any_order_and_encoding(
    whole: str, data: st.DataObject, encoding: Encoding
) -> None:
    # Between a carriage return and its line feed is no position.
    places = [at for at in range(len(whole) + 1) if whole[at - 1 : at + 1] != "\r\n"]
    cuts = sorted(data.draw(st.lists(st.sampled_from(places), max_size=8, unique=True)))
    spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    news = [data.draw(TEXTS) for _ in spans]
    expected, text = whole, Text(whole)
    for (begin, end), new in reversed(list(zip(spans, news, strict=True))):
        expected = expected[:begin] + new + expected[end:]
    given_edits = [
        wire.TextEdit(span(text, *each, encoding), new) for each, new in zip(spans, news, strict=True)
    ]
    shuffled = data.draw(st.permutations(given_edits))
    assert edits.apply(whole, shuffled, encoding) == expected


def test_insertions_at_one_place_keep_their_order() -> None:
    here = wire.Range(wire.Position(0, 1), wire.Position(0, 1))
    both = [wire.TextEdit(here, "1"), wire.TextEdit(here, "2")]
    assert edits.apply("ab", both, "utf-16") == "a12b"


def test_an_edit_of_the_whole_file_beyond_its_end_is_an_edit_of_the_whole_file() -> None:
    everything = wire.Range(wire.Position(0, 0), wire.Position(8, 0))
    assert edits.apply("a\nb\n", [wire.TextEdit(everything, "c\n")], "utf-16") == "c\n"


def test_edits_that_overlap_are_refused() -> None:
    first = wire.Range(wire.Position(0, 0), wire.Position(0, 2))
    second = wire.Range(wire.Position(0, 1), wire.Position(0, 3))
    with pytest.raises(kit.ToolError, match="overlap"):
        edits.apply("abc", [wire.TextEdit(first, ""), wire.TextEdit(second, "")], "utf-16")


def drafted(edit: object, files: dict[str, str]) -> dict[str, str | None]:
    read = msgspec.convert(edit, wire.WorkspaceEdit)
    return {each.path: each.after for each in edits.draft(read, lambda uri: uri, files.get, "utf-16")}


AB = {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}, "newText": "B"}


@pytest.mark.parametrize(
    "edit",
    [
        {"changes": {"x": [AB]}},
        {"documentChanges": [{"textDocument": {"uri": "x", "version": None}, "edits": [AB]}]},
        # One server says version 0 of a file that was never opened.
        {"documentChanges": [{"textDocument": {"uri": "x", "version": 0}, "edits": [AB]}], "changes": {}},
    ],
)
def test_both_shapes_of_a_workspace_edit_mean_the_same(edit: object) -> None:
    assert drafted(edit, {"x": "abc"}) == {"x": "Bbc"}


def test_operations_on_files_happen_in_their_order() -> None:
    steps = [
        {"kind": "rename", "oldUri": "x", "newUri": "y"},
        {"textDocument": {"uri": "y", "version": 1}, "edits": [AB]},
        {"kind": "create", "uri": "z"},
        {"textDocument": {"uri": "z", "version": None}, "edits": [AB]},
        {"kind": "delete", "uri": "w"},
    ]
    found = drafted({"documentChanges": steps}, {"x": "abc", "w": "old"})
    assert found == {"x": None, "y": "Bbc", "z": "B", "w": None}


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"textDocument": {"uri": "no", "version": None}, "edits": [AB]}, "edits no, which does not exist"),
        ({"kind": "create", "uri": "x"}, "x exists already"),
        ({"kind": "rename", "oldUri": "no", "newUri": "y"}, "renames no"),
        ({"kind": "rename", "oldUri": "x", "newUri": "w"}, "w exists already"),
        ({"kind": "delete", "uri": "no"}, "deletes no"),
    ],
)
def test_what_cannot_be_done_is_refused_as_a_whole(step: object, words: str) -> None:
    with pytest.raises(kit.ToolError, match=words):
        drafted({"documentChanges": [step]}, {"x": "abc", "w": "old"})


@given(TEXTS | st.none(), TEXTS | st.none())
def test_a_plan_is_known_by_what_it_does(before: str | None, after: str | None) -> None:
    one = edits.plan("a", [Change("x", before, after)])
    assert one.id == edits.plan("b", [Change("x", before, after)]).id
    assert bool(one.changes) == (before != after)
    if before != after:
        assert one.id != edits.plan("a", [Change("y", before, after)]).id
        assert one.id != edits.plan("a", [Change("x", after, before)]).id


def test_a_patch_is_what_git_takes(tmp_path: Path) -> None:
    changes = [
        Change("kept.txt", "one\ntwo\nthree", "one\n2\nthree"),
        Change("crlf.txt", "a\r\nb\r\n", "a\r\nB\r\n"),
        Change("new.txt", None, "first\n"),
        Change("old.txt", "gone\n", None),
        Change('odd "name"\\\n+++ b\t\x7fé.txt', "a\n", "b\n"),
        Change("with blanks .txt", "a\n", "b\n"),
    ]
    for each in changes:
        if each.before is not None:
            (tmp_path / each.path).write_bytes(each.before.encode())
    patch = tmp_path / "patch"
    patch.write_bytes(edits.diff(changes).encode())
    subprocess.run(["git", "apply", "patch"], cwd=tmp_path, check=True, timeout=20)
    for each in changes:
        path = tmp_path / each.path
        assert (path.read_bytes().decode() if path.exists() else None) == each.after


def linked(*steps: tuple[str, str]) -> list[Change]:
    """What edits of `x` and of links to it make of a text; each step is a URI and what stands for its first letter."""
    given = [
        {
            "textDocument": {"uri": uri},
            "edits": [{"range": msgspec.to_builtins(span(Text("old"), 0, 1, "utf-8")), "newText": new}],
        }
        for uri, new in steps
    ]
    edit = msgspec.convert({"documentChanges": given}, wire.WorkspaceEdit)
    return edits.draft(edit, lambda uri: "x", lambda path: "old", "utf-8")


def test_a_file_that_a_server_knows_under_two_names_is_edited_once() -> None:
    assert linked(("file:///x", "gg"), ("file:///link", "gg")) == [Change("x", "old", "ggld")]
    assert linked(("file:///x", "gg"), ("file:///x", "gg")) == [Change("x", "old", "gggld")]
    with pytest.raises(kit.ToolError, match="edits x under two names, each in its own way"):
        linked(("file:///x", "gg"), ("file:///link", "hh"))


@given(st.text(st.sampled_from("ab\n"), max_size=60), st.integers(1, 60))
def test_a_patch_is_cut_between_lines(patch: str, most: int) -> None:
    shown = edits.cut(patch, most)
    assert patch.startswith(shown)
    assert shown == patch if len(patch) <= most else len(shown) <= most
    assert shown in ("", patch) or shown.endswith("\n")


def test_the_oldest_plans_go_first_and_the_last_one_stays_however_large() -> None:
    plans = Plans(most=3, most_characters=100)
    made = [edits.plan(str(n), [Change("x", "", str(n))]) for n in range(4)]
    for each in made:
        plans.add(each)
    with pytest.raises(kit.ToolError, match="Ask for the change again"):
        plans.get(made[0].id)
    assert [plans.get(each.id) for each in made[1:]] == made[1:]
    large: Plan = edits.plan("large", [Change("x", "", "y" * 200)])
    plans.add(large)
    assert plans.get(large.id) is large
    with pytest.raises(kit.ToolError):
        plans.get(made[3].id)
