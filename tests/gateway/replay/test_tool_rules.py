"""What recorded input schemas say of arguments, as the rules of a replay."""

from __future__ import annotations

from typing import Any

from gateway.replay.tools import rules_of_tools
from recordings.held import Held
from recordings.profile import BUILT_IN, Rule
from recordings.script import Script
from tests.recordings.call_kit import Call, frames_of


def listing(name: str, **properties: Any) -> Call:
    """A recorded `tools/list` with one tool."""
    tool = {"name": name, "inputSchema": {"type": "object", "properties": properties}}
    return Call("", {}, {"tools": [tool]}, method="tools/list")


def rules(*calls: Call) -> list[Rule]:
    """The rules that follow from a recording of calls."""
    return rules_of_tools(Script(Held(frames_of(*calls)), BUILT_IN))


def test_arguments_that_a_schema_calls_times_are_times_whenever_it_was_listed() -> None:
    when, text = {"type": "string", "format": "date-time"}, {"type": "string"}
    made = rules(
        listing("read", since=when), listing("read", since=when), listing("write", text=text, until=when)
    )
    assert [(rule.at, rule.kind, rule.peer, rule.tool) for rule in made] == [
        ("/params/arguments/since", "timestamp", "db", "read"),
        ("/params/arguments/until", "timestamp", "db", "write"),
    ]


def test_a_listing_that_failed_or_names_no_format_makes_no_rules() -> None:
    failed = listing("read")._replace(result=None, error={"code": 1, "message": '"format"'})
    assert rules(failed, listing("read", text={"type": "string"})) == []
