"""What an extension reads of the session: pages, the tree, settings, and small questions."""

from __future__ import annotations

from gateway.sessions.pages import PAGE_BYTES
from tests.gateway.sessions.kit import Talk


def test_entries_come_in_pages_and_all_of_them_come() -> None:
    talk = Talk()
    ids = [talk.ask("append_entry", custom_type="x", data="a" * (PAGE_BYTES // 4))["id"] for _ in range(9)]
    for op in ("get_entries", "get_branch"):
        seen: list[str] = []
        more = True
        while more:
            told = talk.ask(op, **({"since": seen[-1]} if seen else {}))
            seen += [entry["id"] for entry in told["entries"]]
            more = told["more"]
            assert sum(len(entry["data"]) for entry in told["entries"]) <= PAGE_BYTES
        assert seen == ids


def test_a_tree_is_told_flat_with_children_and_labels() -> None:
    talk = Talk()
    first = talk.say("one")
    second = talk.say("two", "assistant")
    talk.ask("navigate", target_id=second)
    third = talk.say("three")
    talk.ask("navigate", target_id=second)
    fourth = talk.say("four")
    label = talk.ask("set_label", target_id=first, label="a")["id"]
    told = talk.ask("get_tree")
    assert told["roots"] == [first]
    nodes = {node["id"]: node for node in told["nodes"]}
    assert nodes[second]["children"] == [third, fourth]
    assert (nodes[first]["label"], nodes[label]["parent"]) == ("a", fourth)


def test_settings_and_small_questions_are_answered() -> None:
    talk = Talk()
    first = talk.say("one")
    talk.ask("setModel", provider="p", modelId="m")
    talk.ask("set_thinking_level", level="high")
    assert talk.ask("get_model") == {"model": {"provider": "p", "model_id": "m"}}
    assert talk.ask("getThinkingLevel") == {"level": "high"}
    assert talk.ask("get_entry", id=first)["entry"]["message"]["role"] == "user"
    assert talk.ask("get_leaf")["entry"]["type"] == "thinking_level_change"
    assert talk.ask("get_label", id=first) == {"label": None}
    assert talk.ask("get_header")["header"]["version"] == 3
    talk.ask("append_custom_message", custom_type="note", content="psst")
    talk.ask("edit_context", target_id=first, content="otherwise")
    told = talk.ask("get_messages", offset=0, limit=1)
    assert (told["messages"][0]["content"], told["of"], told["more"]) == ("otherwise", 2, True)
