"""Session files against Pi's own session manager: what either writes, the other reads the same way."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gateway.sessions import format as session_format
from gateway.sessions.tree import Tree
from tests.gateway.sessions import pi_reference
from tests.gateway.sessions.pi_reference import Pi
from tests.gateway.sessions.steps import bytes_of, forked, lists_of_steps, nameless, settle, values

COMPARED = ("entries", "leaf", "branch", "tree", "labels", "name", "context", "contextEntries")


@pytest.fixture(scope="module")
def pi() -> Generator[Pi]:
    with pi_reference.running() as one:
        yield one


def said_by(pi: Pi, path: Path) -> dict[str, Any]:
    said = pi.ask("read", path=str(path))
    return {name: said[name] for name in COMPARED}


def read(path: Path) -> Tree:
    file = session_format.read(path.read_bytes())
    return Tree(file.header, file.entries)


many = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


@many
@given(lists_of_steps)
def test_pi_reads_every_file_of_ours_as_we_do(pi: Pi, tmp_path: Path, steps: list[dict[str, Any]]) -> None:
    tree, _, _ = settle(steps)
    path = tmp_path / "session.jsonl"
    path.write_bytes(bytes_of(tree))
    assert said_by(pi, path) == json.loads(json.dumps(pi_reference.told(read(path))))


@many
@given(lists_of_steps)
def test_the_same_steps_make_the_same_session_in_pi_and_here(pi: Pi, steps: list[dict[str, Any]]) -> None:
    tree, ids, exact = settle(steps)
    said = pi.ask("write", steps=exact)
    for name in COMPARED:
        ours, theirs = pi_reference.told(tree)[name], said[name]
        assert nameless(theirs, said["ids"]) == nameless(ours, ids), name
    assert len(said["refused"]) == len(exact) - len(ids) - sum(one["op"] == "move" for one in exact)


@many
@given(lists_of_steps, st.integers(0, 40))
def test_a_fork_takes_along_what_a_fork_of_pi_takes(pi: Pi, steps: list[dict[str, Any]], place: int) -> None:
    tree, ids, exact = settle(steps)
    if not ids:
        return
    at = place % len(ids)
    new = forked(tree, ids[at])
    said = pi.ask("write", steps=[*exact, {"op": "fork", "at": at}])
    for name in ("branch", "entries", "context", "contextEntries", "name"):
        ours, theirs = pi_reference.told(new)[name], said[name]
        ours_ids = [*ids, *(entry.id for entry in new.entries if entry.id not in ids)]
        their_ids = [*said["ids"], *(e["id"] for e in said["entries"] if e["id"] not in said["ids"])]
        assert nameless(theirs, their_ids) == nameless(ours, ours_ids), name


@many
@given(values)
def test_lines_of_ours_are_spelled_as_javascript_spells_them(pi: Pi, value: Any) -> None:
    line = session_format.encode({"type": "custom", "data": value})
    # JavaScript puts members whose names are whole numbers first, whatever their order was.
    assume(not re.search(rb'"[0-9]+":', line))
    assert pi.ask("spell", lines=[line.decode()]) == [line.decode()]


def test_a_file_that_pi_has_written_is_read_with_the_same_branch_and_context(pi: Pi, tmp_path: Path) -> None:
    user = {"role": "user", "content": "hello", "timestamp": 1}
    assistant = {
        "role": "assistant", "content": [{"type": "text", "text": "hi"}], "provider": "p", "model": "m", "timestamp": 2,
    }  # fmt: skip
    steps = [
        {"op": "message", "message": user},
        {"op": "message", "message": assistant},
        {"op": "custom", "kind": "todo", "data": {"items": [1, 2]}},
        {"op": "label", "target": 0, "label": "start"},
        {"op": "message", "message": {**user, "content": "more"}},
        {"op": "compaction", "summary": "so far", "first": 4, "tokens": 100},
        {"op": "message", "message": assistant},
        {"op": "move", "to": 1},
        {"op": "summary", "onto": 1, "summary": "left behind"},
        {"op": "name", "name": "a\nname"},
    ]
    said = pi.ask("write", cwd=str(tmp_path), dir=str(tmp_path), steps=steps)
    tree = read(Path(said["file"]))
    assert tree.header.id == said["header"]["id"]
    assert json.loads(json.dumps(pi_reference.told(tree))) == {name: said[name] for name in COMPARED}
    assert (tree.name, len(tree.branch()), next(iter(tree.labels.values())).text) == ("a name", 4, "start")


def line(type_: str, id_: str, parent: str | None, **members: Any) -> bytes:
    said = {
        "type": type_,
        "id": id_,
        "parentId": parent,
        "timestamp": f"2025-01-01T00:00:0{id_[1]}.000Z",
        **members,
    }
    return json.dumps(said, ensure_ascii=True).encode()


ODD_LINES = st.sampled_from(
    [
        b"",
        b"  ",
        b"{",
        b"no json",
        b"\xff\xfe",
        b'{"type":"label","id":"x"',
        line("custom", "u1", "gone"),
        line("custom", "u2", None, customType="a"),
        line("from the future", "u3", "u2", what=[1]),
        line("message", "u4", "u3", message={"role": "user"}),
        line("message", "u5", "u4", message={"role": "hookMessage", "content": "\u00e9"}),
        line("compaction", "u6", "u5", summary="s", firstKeptEntryId="u4"),
        line("message", "u7", "u6", message={"role": "user", "content": "\ud800 x"}) + b"\r",
        line("custom_message", "u8", "u7"),
        line("branch_summary", "u9", "u8", summary="left"),
    ]
)


@many
@given(
    st.sampled_from([b'"version":2,', b'"version":3,', b'"version":7,']),
    st.lists(ODD_LINES, max_size=8, unique=True),
)
def test_what_is_wrong_in_a_file_is_passed_over_as_pi_passes_over_it(
    pi: Pi, tmp_path: Path, version: bytes, lines: list[bytes]
) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(b"\n".join([b'{"type":"session",%s"id":"s","cwd":"/"}' % version, *lines]))
    ours = json.loads(json.dumps(pi_reference.told(read(path))))
    said = said_by(pi, path)
    text = json.dumps(said).replace("\\ud800", "\\ufffd")
    assert json.loads(text) == ours


def test_a_list_of_the_first_version_becomes_the_same_tree(pi: Pi, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"type": "session", "id": "old", "timestamp": "2024-01-01T00:00:00.000Z", "cwd": "/"},
        {"type": "message", "timestamp": "2024-01-01T00:00:01.000Z", "message": {"role": "user", "content": "a"}},
        {"type": "message", "timestamp": "2024-01-01T00:00:02.000Z",
         "message": {"role": "hookMessage", "content": "b"}},
        {"type": "compaction", "timestamp": "2024-01-01T00:00:03.000Z", "summary": "s", "firstKeptEntryIndex": 2,
         "tokensBefore": 5},
        {"type": "compaction", "timestamp": "2024-01-01T00:00:03.000Z", "summary": "t", "firstKeptEntryIndex": 0,
         "tokensBefore": 5},
        {"type": "thinking_level_change", "timestamp": "2024-01-01T00:00:04.000Z", "thinkingLevel": "low"},
    ]  # fmt: skip
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    tree = read(path)
    ours = pi_reference.told(tree)
    said = pi.ask("read", path=str(path))
    their_ids = [entry["id"] for entry in said["entries"]]
    for name in COMPARED:
        expected = nameless(said[name], their_ids)
        assert nameless(ours[name], [entry.id for entry in tree.entries]) == expected, name
    assert session_format.read(path.read_bytes()).version == 3, "Pi has written it anew"
