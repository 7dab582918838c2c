"""Patches, taken over into texts: what `difflib` makes of two texts leads from the one to the other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adapters import kit
from adapters.editor.patch import applied
from adapters.lsp.edits import Change, diff

text = st.lists(
    st.sampled_from(["", "a", "b", "- a", "+ b", "-- a", "++ b", "\\ a", "@@ -1 +1 @@", "c\r", "\x0c"])
).flatmap(lambda lines: st.sampled_from(["\n".join(lines), "\n".join([*lines, ""])]))


@settings(max_examples=300, deadline=None)
@given(text, text)
@example("", "a")
@example("a", "a\n")
@example("a\n", "")
def test_the_difference_of_two_texts_leads_from_the_one_to_the_other(before: str, after: str) -> None:
    if before != after:
        patch = diff(
            [Change("other.txt", "1\n", "2\n"), Change("d/x.txt", before, after), Change("z", "3\n", "4\n")]
        )
        assert applied(before, patch, "d/x.txt") == after


def test_a_part_that_stands_elsewhere_is_found_where_that_is_clear() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -40,2 +40,2 @@\n b\n-c\n+C\n"
    assert applied("a\nb\nc\n", patch, "x") == "a\nb\nC\n"
    with pytest.raises(kit.ToolError, match="part 1 does not fit: line 40 of x"):
        applied("b\nc\nb\nc\n", patch, "x")


@pytest.mark.parametrize("quotes", ["true", "false"])
def test_a_patch_of_git_names_its_file_however_git_writes_that(tmp_path: Path, quotes: str) -> None:
    name = 'gr\xfcn "\\\x07\x1f\N{GRINNING FACE}.txt'
    git = ["git", "-c", f"core.quotePath={quotes}"]
    for words in (["init", "-q"], ["add", "."], ["diff"]):
        (tmp_path / name).write_text("b\n" if words == ["diff"] else "a\n")
        done = subprocess.run([*git, *words], cwd=tmp_path, check=True, timeout=20, capture_output=True)
    assert applied("a\n", done.stdout.decode(), name) == "b\n"


def test_empty_lines_may_have_lost_their_blank_and_names_their_prefix() -> None:
    patch = "--- x\t2026-01-01\n+++ x\t2026-01-02\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n"
    assert applied("a\n\nb\n", patch, "x") == "a\n\nc\n"
    assert applied("", "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+new\n", "x") == "new\n"


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ("", "it has no `--- a/"),
        ("what?", "it has no `--- a/"),
        ("@@ -1 +1 @@\n-a\n+b\n", "about no file"),
        ("--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "it is about y, and not about x"),
        ("--- a/x\n+++ b/x\n@@ -1,3 +1 @@\n-a\n+b\n", "ends early"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-z\n+b\n", "does not fit"),
        ("--- a/x\n+++ b/x\n@@ -9,0 +9 @@\n+b\n", "does not fit"),
    ],
)
def test_a_patch_that_is_none_or_does_not_fit_is_refused_with_the_reason(patch: str, says: str) -> None:
    with pytest.raises(kit.ToolError, match=says) as caught:
        applied("a\n", patch, "x")
    assert caught.value.code == "invalid_request"
