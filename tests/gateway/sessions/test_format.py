"""Session files as bytes: what was written is read again, and a file that was not written whole gives what it has."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sessions import format as session_format
from gateway.sessions.format import SessionError
from gateway.sessions.ids import Ids
from gateway.sessions.places import directory_of, file_of
from gateway.sessions.snapshot import BranchHash, snapshot
from gateway.sessions.tree import Tree
from tests.gateway.sessions.steps import bytes_of, lists_of_steps, settle

HEADER = b'{"type":"session","version":3,"id":"s","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/work"}'


def again(data: bytes) -> Tree:
    file = session_format.read(data)
    return Tree(file.header, file.entries)


def one(id_: str, parent: str | None = None, **members: Any) -> bytes:
    return json.dumps({"type": "custom", "id": id_, "parentId": parent, **members}).encode()


@given(lists_of_steps)
def test_reading_what_was_written_gives_the_same_tree(steps: list[dict[str, Any]]) -> None:
    tree, _, _ = settle(steps)
    found = again(bytes_of(tree))
    assert (found.entries, found.header, found.labels, found.name) == (
        tree.entries, tree.header, tree.labels, tree.name,
    )  # fmt: skip
    assert found.leaf == (tree.entries[-1].id if tree.entries else None)
    assert not session_format.read(bytes_of(tree)).notes


@settings(max_examples=30, deadline=None)
@given(lists_of_steps.filter(bool))
def test_a_file_torn_at_any_byte_gives_the_entries_before_and_says_so(steps: list[dict[str, Any]]) -> None:
    tree, _, _ = settle(steps)
    data = bytes_of(tree)
    for end in range(len(tree.header.line), len(data)):
        file = session_format.read(data[:end])
        whole = data[:end].count(b"\n") - 1 + (data[end : end + 1] == b"\n")
        assert file.entries == tree.entries[: max(0, whole)]
        torn = data[end : end + 1] != b"\n" and data[end - 1 : end] != b"\n"
        assert [note.reason for note in file.notes] == ["torn"] * torn
        assert data[: file.kept] == data[:end][: file.kept]
        assert file.is_terminated == data[: file.kept].endswith(b"\n")


def test_an_unknown_type_is_kept_to_the_letter() -> None:
    line = b'{"type" : "later", "id":"a", "parentId":null, "more": [1.50, {"x":  null}]}'
    [entry] = session_format.read(HEADER + b"\n" + line + b"\n").entries
    assert entry.line == line
    assert entry.fields["more"] == [1.5, {"x": None}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{]", "malformed"),
        (b"[]", "not_an_object"),
        (b"17", "not_an_object"),
        (b'{"type":"custom"}', "no_id"),
        (b'{"type":"custom","id":7}', "no_id"),
        (b'{"type":"custom","id":"b","parentId":"a","data":"\xff"}', "not_text"),
        (b'{"type":"custom","id":"b","parentId":"a","data":"\\ud800"}', "not_text"),
        (b'{"type":"custom","id":"a"}', "duplicate_id"),
        (b'{"type":"custom","id":"b","parentId":"gone"}', "no_parent"),
        (b'{"type":"custom","id":"b","parentId":"b"}', "no_parent"),
        (HEADER, "second_header"),
        (b"[" * 5000, "malformed"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_and_the_others_are_read(line: bytes, reason: str) -> None:
    file = session_format.read(b"\n".join([HEADER, one("a"), line, one("z", "a"), b""]))
    assert [(note.line, note.reason) for note in file.notes] == [(3, reason)]
    assert (file.entries[0].id, file.entries[-1].id) == ("a", "z")


@pytest.mark.parametrize(
    "data",
    [b"", b"\n\n", b"{}", b'{"type":"session"}', b'{"type":"session","id":3}', one("a") + b"\n" + HEADER],
)
def test_a_file_that_does_not_begin_with_a_header_is_refused(data: bytes) -> None:
    with pytest.raises(SessionError, match="no session file"):
        session_format.read(data)


def test_parents_in_a_circle_end_where_the_circle_closes() -> None:
    tree = again(b"\n".join([HEADER, one("a", "c"), one("b", "a"), one("c", "b")]))
    assert [entry.id for entry in tree.branch()] == ["a", "b", "c"]
    assert tree.roots() == []


def test_a_line_with_halves_of_letters_is_written_again_as_it_was() -> None:
    line = one("a", None, data="x").replace(b'"x"', b'"\\ud800"')
    [entry] = session_format.read(HEADER + b"\n" + line).entries
    assert (entry.line, entry.fields["data"]) == (line, "�")


def test_an_old_list_becomes_the_same_tree_each_time() -> None:
    lines = [b'{"type":"session","id":"old"}', *(b'{"type":"message","message":{}}' for _ in range(5))]
    first, second = (session_format.read(b"\n".join(lines)) for _ in range(2))
    assert first.lines == second.lines
    assert first.is_old
    assert [entry.parent for entry in first.entries] == [None, *(entry.id for entry in first.entries[:-1])]
    raised = session_format.read(b"\n".join(first.lines))
    assert (raised.version, raised.entries, raised.is_old) == (3, first.entries, False)


@given(st.text(max_size=20), st.integers(1, 50))
def test_ids_of_a_seed_are_always_the_same_and_never_taken(seed: str, count: int) -> None:
    first, second = Ids(seed), Ids(seed)
    taken = set[str]()
    for _ in range(count):
        id_ = first.entry(taken)
        assert id_ == second.entry(taken)
        assert id_ not in taken
        taken.add(id_)
    made = uuid.UUID(first.session(1_764_000_000_000))
    assert (made.version, made.int >> 80) == (7, 1_764_000_000_000)


def test_an_id_that_is_taken_is_passed_over() -> None:
    first, second = Ids("x").entry(()), Ids("x")
    assert second.entry({first}) != first


def test_names_are_those_of_pi() -> None:
    assert directory_of("/home/me/a:b\\c") == "--home-me-a-b-c--"
    assert directory_of("/") == "----"
    assert file_of("id-1", "2025-01-02T03:04:05.678Z") == "2025-01-02T03-04-05-678Z_id-1.jsonl"


@given(lists_of_steps)
def test_the_hash_of_a_branch_is_that_of_its_lines_however_it_grew(steps: list[dict[str, Any]]) -> None:
    tree, ids, _ = settle(steps)
    grown = BranchHash()
    for id_ in ids:
        tree.move(id_)
        assert grown.of(tree) == BranchHash().of(tree)
    assert len({snapshot(tree), snapshot(again(HEADER))}) == 2
