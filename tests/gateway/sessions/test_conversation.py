"""The current session: what an extension is told has happened is in the file, and whoever is in an old one hears it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sessions import ops
from gateway.sessions.conversation import Claim, Conversation, StaleError
from gateway.sessions.files import StoreError
from gateway.sessions.tree import TreeError
from tests.gateway.sessions.kit import Talk


def test_nothing_is_written_before_the_first_entry_and_everything_from_then_on() -> None:
    talk = Talk()
    assert talk.ask("get_file")["file"].startswith("/sessions/--work--/2025-11-24T")
    assert talk.kept.files == {}
    first = talk.ask("append_entry", custom_type="todo", data={"items": [1]})
    talk.ask("setName", name="mine")
    assert talk.on_disk().entries == talk.tree.entries
    assert talk.on_disk().header == talk.tree.header
    assert first["session"]["leaf"] == first["id"] == talk.tree.entries[0].id


def test_the_state_of_an_extension_is_there_again_when_the_session_is_resumed() -> None:
    talk = Talk()
    talk.ask("appendEntry", customType="todo", data={"items": ["a"]})
    old = talk.ask("get_state")["session"]["id"]
    talk.ask("new")
    assert talk.ask("get_entries")["entries"] == []
    resumed = talk.ask("resume", target=old)
    [entry] = talk.ask("get_branch")["entries"]
    assert (entry["customType"], entry["data"]) == ("todo", {"items": ["a"]})
    assert resumed["session"]["id"] == old


def test_a_fork_before_a_users_message_gives_its_text_and_all_that_was_before() -> None:
    talk = Talk()
    first, second = talk.say("one"), talk.say("two", "assistant")
    third = talk.say("three")
    talk.ask("set_label", target_id=first, label="start")
    old = talk.conversation.file
    told = talk.ask("fork", entry_id=third)
    assert told["text"] == "three"
    assert [entry.id for entry in talk.tree.branch()][:2] == [first, second]
    assert talk.tree.labels[first].text == "start"
    assert talk.tree.header.parent == old
    assert old is not None
    assert len(talk.kept.files[old].splitlines()) == 5, "the old file stays as it is"
    assert talk.on_disk().entries == talk.tree.entries


def test_a_fork_before_the_first_message_is_empty_and_one_at_an_entry_has_it() -> None:
    talk = Talk()
    first = talk.say("one")
    assert talk.ask("fork", entry_id=first, position="at")["session"]["leaf"] == first
    assert talk.ask("fork", entry_id=first)["session"]["leaf"] is None


def test_navigation_goes_before_a_users_message_and_leaves_a_summary_of_what_was_left() -> None:
    talk = Talk()
    first, second = talk.say("one"), talk.say("two", "assistant")
    third = talk.say("three")
    told = talk.ask("navigate_tree", targetId=third)
    assert (told["leaf"], told["text"]) == (second, "three")
    told = talk.ask("navigate", target_id=second, summary="tried three", label="again")
    summary, label = talk.tree.entries[-2:]
    assert (summary.type, summary.parent, summary.fields["summary"]) == (
        "branch_summary",
        second,
        "tried three",
    )
    assert talk.tree.labels[summary.id].text == "again"
    assert told["leaf"] == label.id
    assert talk.on_disk().entries == talk.tree.entries
    talk.ask("navigate", target_id=None)
    assert talk.tree.leaf is None
    with pytest.raises(TreeError, match="no entry to put the label at"):
        talk.ask("navigate", target_id=None, label="x")
    assert first


def test_compaction_keeps_from_the_named_entry_on_and_a_model_sees_only_that() -> None:
    talk = Talk()
    talk.say("one")
    kept = talk.say("two")
    talk.say("three", "assistant")
    talk.ask("compact", summary="there was one", first_kept_entry_id=kept, tokens_before=9)
    roles = [said["role"] for said in talk.ask("get_messages")["messages"]]
    assert roles == ["compactionSummary", "user", "assistant"]
    with pytest.raises(TreeError, match="not on the branch"):
        talk.ask("compact", summary="s", firstKeptEntryId="gone")


@pytest.mark.parametrize("why", ["new", "fork", "resume", "reload"])
def test_who_is_still_in_the_session_before_is_told_which_one_is_the_current_one(why: str) -> None:
    talk = Talk()
    entry = talk.say("one")
    before = Claim(id=talk.tree.header.id, generation=1)
    if why == "resume":
        talk.ask("new")
        talk.say("other")
        talk.ask("switch", target=before.id)
    else:
        talk.ask(why, **({"entry_id": entry} if why == "fork" else {}))
    with pytest.raises(StaleError, match="stale session") as stale:
        talk.conversation.check(before)
    now = stale.value.session
    assert now["id"] in str(stale.value)
    talk.conversation.check(Claim(id=now["id"], generation=now["generation"]))
    talk.conversation.check(Claim(id=now["id"]))
    talk.conversation.check(None)


def test_an_entry_that_cannot_be_written_is_not_there() -> None:
    talk = Talk()
    entry = talk.say("one")
    before = talk.conversation.snapshot
    talk.kept.fails = True
    calls: list[dict[str, Any]] = [
        {"op": "append_entry", "custom_type": "x"},
        {"op": "fork", "entry_id": entry, "position": "at"},
        {"op": "new", "name": "n"},
        {"op": "navigate", "target_id": None, "summary": "s"},
        {"op": "compact", "summary": "s"},
    ]
    for call in calls:
        with pytest.raises(StoreError):
            talk.ask(**call)
        assert (talk.conversation.snapshot, talk.conversation.generation) == (before, 1), call


def test_a_session_that_is_full_takes_no_more() -> None:
    talk = Talk(most_bytes=400)
    talk.ask("append_entry", custom_type="x", data="a" * 100)
    with pytest.raises(StoreError, match="up to 400 bytes"):
        talk.ask("append_entry", custom_type="x", data="a" * 200)
    assert len(talk.tree.entries) == 1


def test_without_a_directory_a_session_is_kept_nowhere() -> None:
    talk = Talk(directory="")
    talk.say("one")
    assert talk.ask("get_file") == {"file": None}
    assert talk.ask("reload")["session"]["generation"] == 2
    assert talk.kept.files == {}


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({}, "op"),
        ({"op": "forget"}, "forget"),
        ({"op": "append_entry"}, "custom_type"),
        ({"op": "append_entry", "customType": "a", "custom_type": "b"}, "given twice"),
        ({"op": "get_entry", "id": 7}, "id"),
        ({"op": "fork", "entry_id": "a", "position": "behind"}, "position"),
        ({"op": "get_entries", "limit": 0}, "limit"),
    ],
)
def test_params_that_are_none_are_refused_by_name(params: dict[str, Any], why: str) -> None:
    with pytest.raises(ops.OpError, match=why):
        ops.read(params)


OPS = st.one_of(
    st.fixed_dictionaries({"op": st.just("append_entry"), "custom_type": st.just("x"), "data": st.text(max_size=4)}),
    st.fixed_dictionaries({"op": st.sampled_from(["new", "reload", "get_state", "get_branch", "get_tree"])}),
    st.fixed_dictionaries({"op": st.just("set_name"), "name": st.text(max_size=4)}),
    st.fixed_dictionaries({"op": st.just("compact"), "summary": st.text(max_size=4)}),
    st.fixed_dictionaries({"op": st.just("navigate"), "at": st.integers(0, 9)}),
    st.fixed_dictionaries({"op": st.just("fork"), "at": st.integers(0, 9)}),
)  # fmt: skip


def play(talk: Talk, calls: list[dict[str, Any]]) -> list[Any]:
    told: list[Any] = []
    for call in calls:
        params: dict[str, Any] = dict(call)
        at: int | None = params.pop("at", None)
        if at is not None:
            entries = talk.tree.entries
            name = "entry_id" if call["op"] == "fork" else "target_id"
            params |= {name: entries[at % len(entries)].id if entries else "none"}
            params |= {"position": "at"} if call["op"] == "fork" else {}
        try:
            told.append(talk.ask(**params))
        except TreeError as error:
            told.append(str(error))
    return told


@settings(max_examples=60)
@given(st.lists(OPS, max_size=10))
def test_the_same_calls_make_the_same_session_and_the_file_always_holds_it(
    calls: list[dict[str, Any]],
) -> None:
    first, second = Talk(), Talk()
    assert play(first, calls) == play(second, calls)
    assert first.conversation.snapshot == second.conversation.snapshot
    assert first.kept.files == second.kept.files
    if first.tree.entries:
        assert first.on_disk().entries == first.tree.entries


def test_what_no_recording_may_hold_does_not_count_in_hashes() -> None:
    def hashes(secret: str) -> tuple[str, str]:
        talk = Talk()

        def seen(line: bytes) -> bytes:
            return line.replace(secret.encode(), b"[REDACTED]")

        talk.conversation = Conversation(talk.conversation.beginning, talk.kept, seen=seen)
        talk.ask("append_entry", custom_type="x", data=secret)
        return talk.conversation.snapshot, talk.conversation.branch_hash

    assert hashes("s3cret-one") == hashes("another-secret")
