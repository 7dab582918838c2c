"""Rules of a project: how they are read, which requests they speak about, and how answers are used up."""

from __future__ import annotations

import tomllib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordings.form import form_of
from recordings.formats import places_of_formats, rules_of_schema
from recordings.globs import Globs, glob_fault, pointer_of
from recordings.profile import BUILT_IN, Profile, ProfileError, Rule, consumption, profile_of


def rules(text: str) -> Profile:
    """The profile that this TOML describes."""
    return profile_of(tomllib.loads(text))


def test_rules_are_read_from_a_table() -> None:
    profile = rules(
        """
        exact = ["hex", "cwd"]
        [[rule]]
        at = "/params/arguments/**/ts"
        as = "timestamp"
        tool = "query"
        [[rule]]
        at = "/params/arguments/price"
        tolerance = 0.5
        [[rule]]
        format = "uri"
        as = "ignore"
        [[rule]]
        peer = "db*"
        tool = "drop_*"
        consume = "once"
        note = "nobody drops a table twice"
        """
    )
    assert profile == Profile(
        exact=("hex", "cwd"),
        rules=(
            Rule(at="/params/arguments/**/ts", kind="timestamp", tool="query"),
            Rule(at="/params/arguments/price", tolerance=0.5),
            Rule(format="uri", kind="ignore"),
            Rule(peer="db*", tool="drop_*", consume="once", note="nobody drops a table twice"),
        ),
    )


def test_no_table_is_the_built_in_profile() -> None:
    assert rules("") == BUILT_IN
    assert rules("version = 1") == BUILT_IN


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules = []", "`rules` is not known here; did you mean `rule`?"),
        ("version = 2", "`version` must be 1"),
        ("rule = 3", "`rule` must be a list of tables: write `[[rule]]`"),
        ("rule = [3]", "`rule[0]` must be a table"),
        ('exact = "hex"', "`exact` must be a list of classes"),
        ('exact = ["hax"]', "`exact[0]` must be one of uuid, hex"),
        ('[[rule]]\nat = "/params/x"', "`rule[0]` must say exactly one of `as`, `tolerance` and `consume`"),
        ('[[rule]]\nas = "uuid"', "`rule[0]` must say by `at` or `format`"),
        ('[[rule]]\nat = "/params/x"\nas = "uid"', "`rule[0].as` must be `ignore`, one of uuid"),
        ('[[rule]]\nat = "/params/x"\nas = "uid"', "did you mean `uuid`?"),
        ('[[rule]]\nat = "/params/x"\nas = "x-"', "`rule[0].as` must be"),
        ('[[rule]]\nat = "params.x"\nas = "uuid"', "`rule[0].at` must be a JSON Pointer"),
        ('[[rule]]\nat = "/arguments/x"\nas = "uuid"', "`rule[0].at` must begin with `/params`"),
        ('[[rule]]\nat = "/params/a~b"\nas = "uuid"', "`rule[0].at` has a `~`"),
        ('[[rule]]\nat = "/params/x"\nformat = "uuid"\nas = "uuid"', "`rule[0]` has both `at` and `format`"),
        ('[[rule]]\nat = "/params/x"\nconsume = "once"', "`rule[0]` speaks of whole requests"),
        ('[[rule]]\nconsume = "once"', "`rule[0]` must say by `method`, `peer` or `tool`"),
        ('[[rule]]\ntool = "x"\nconsume = "onse"', "did you mean `once`?"),
        ('[[rule]]\nat = "/params/x"\ntolerance = 0', "`rule[0].tolerance` must be a number greater than 0"),
        ('[[rule]]\nat = "/params/x"\ntolerance = true', "`rule[0].tolerance` must be a number"),
        ('[[rule]]\nat = "/params/x"\ntolerance = inf', "`rule[0].tolerance` must be a number"),
        ('[[rule]]\nat = ""\nas = "uuid"', "`rule[0].at` must be a text that is not empty"),
        ('[[rule]]\nat = "/params/x"\nas = "uuid"\ntol = "x"', "`rule[0].tol` is not known in a rule"),
    ],
)
def test_a_mistake_is_told_with_its_key_and_what_would_be_right(text: str, said: str) -> None:
    with pytest.raises(ProfileError) as caught:
        rules(text)
    assert said in str(caught.value)
    assert caught.value.code == "invalid_request"


def test_all_mistakes_are_told_at_once_with_file_and_line() -> None:
    table: dict[str, object] = {"rule": [{"at": "x", "as": "uuid"}, {"as": "nonsense"}]}
    lines: dict[tuple[str | int, ...], int] = {("replay", "rule", 0, "at"): 4, ("replay", "rule", 1): 7}
    with pytest.raises(ProfileError) as caught:
        profile_of(table, at=("replay",), file="tieline.toml", lines=lines)
    first, second = str(caught.value).splitlines()
    assert first.startswith("tieline.toml:4: `replay.rule[0].at` must be a JSON Pointer")
    assert second.startswith("tieline.toml:7: `replay.rule[1].as` must be")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner)
            | (
                st.dictionaries(
                    st.sampled_from(["rule", "at", "as", "consume", "exact", "format", "x"]), inner
                )
            )
        ),
        max_leaves=8,
    )
)
@settings(deadline=None, max_examples=60)
def test_any_table_is_a_profile_or_a_list_of_mistakes(table: Any) -> None:
    if isinstance(table, dict):
        try:
            told = profile_of(table).version  # pyright: ignore[reportUnknownArgumentType]
        except ProfileError as error:
            told = len(error.faults)
        assert told >= 1


# Consumption


@pytest.mark.parametrize(
    ("method", "how"),
    [
        ("tools/call", "fifo"),
        ("resources/read", "fifo"),
        ("tools/list", "sticky"),
        ("resources/templates/list", "sticky"),
        ("server/discover", "sticky"),
        ("initialize", "sticky"),
        ("ping", "sticky"),
        ("logging/setLevel", "sticky"),
        ("tasks/get", "sampled"),
        ("tasks/list", "sampled"),
    ],
)
def test_answers_are_used_up_by_method(method: str, how: str) -> None:
    assert consumption(BUILT_IN, method) == how


@pytest.mark.parametrize(
    ("annotations", "how"),
    [
        ({}, "fifo"),
        ({"destructiveHint": True}, "once"),
        ({"idempotentHint": False}, "once"),
        ({"destructiveHint": False, "idempotentHint": True}, "fifo"),
        ({"readOnlyHint": True, "destructiveHint": True}, "fifo"),
    ],
)
def test_a_tool_that_says_that_it_destroys_is_called_once(annotations: dict[str, object], how: str) -> None:
    assert consumption(BUILT_IN, "tools/call", "x", annotations=annotations) == how


def test_a_rule_comes_before_what_a_tool_says_of_itself() -> None:
    profile = rules('[[rule]]\ntool = "poll_*"\npeer = "ci"\nconsume = "sampled"')
    says = {"destructiveHint": True}
    assert consumption(profile, "tools/call", "poll_build", peer="ci", annotations=says) == "sampled"
    assert consumption(profile, "tools/call", "poll_build", peer="other", annotations=says) == "once"


# Globs


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("/params/a", ("params", "a"), True),
        ("/params/a", ("params", "a", "b"), False),
        ("/params/*", ("params", "a"), True),
        ("/params/*/b", ("params", "b"), False),
        ("/params/**/ts", ("params", "ts"), True),
        ("/params/**/ts", ("params", "a", 3, "ts"), True),
        ("/params/**/ts", ("params", "a", "tss"), False),
        ("/params/**", ("params",), True),
        ("/**/a/**/b", ("params", "x", "a", "b"), True),
        ("/params/*_id", ("params", "x_id"), True),
        ("/params/*_id", ("params", "x_idx"), False),
        ("/params/a~1b", ("params", "a/b"), True),
        ("/params/a~0b", ("params", "a~b"), True),
        ("/params/~2", ("params", "*"), True),
        ("/params/~2", ("params", "x"), False),
        ("/params/*é*", ("params", "caféx"), True),
        ("/params/a.c*", ("params", "abc"), False),
        ("/params/x*y", ("params", "x\ny"), True),
    ],
)
def test_a_pointer_glob_matches_places(glob: str, path: tuple[str | int, ...], fits: bool) -> None:
    assert reaches(glob, path) is fits


@given(st.lists(st.text(max_size=5) | st.integers(0, 9), min_size=1, max_size=5))
@settings(deadline=None, max_examples=60)
def test_the_pointer_of_a_place_matches_it_and_no_other(path: list[str | int]) -> None:
    whole = ("params", *path)
    assert glob_fault(pointer_of(whole)) is None
    assert reaches(pointer_of(whole), whole)
    assert not reaches(pointer_of(whole), (*whole[:-1], f"{whole[-1]}x"))


def reaches(glob: str, path: tuple[str | int, ...]) -> bool:
    """Whether a glob matches a place."""
    globs = Globs([glob])
    place = globs.start
    for part in path:
        place = globs.below(place, str(part))
    return globs.hits(place) == [0]


# Schemas

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "since": {"type": "string", "format": "date-time"},
        "a/b": {"anyOf": [{"type": "null"}, {"format": "uuid"}]},
        "list": {"type": "array", "items": {"$ref": "#/$defs/Entry"}},
        "page": {"type": "string", "format": "uri"},
    },
    "$defs": {"Entry": {"properties": {"at": {"format": "date"}, "next": {"$ref": "#/$defs/Entry"}}}},
}


def test_the_formats_of_a_schema_are_found_behind_references() -> None:
    places = places_of_formats(SCHEMA)
    assert ("/params/arguments/since", "date-time") in places
    assert ("/params/arguments/a~1b", "uuid") in places
    assert ("/params/arguments/list/*/at", "date") in places
    assert ("/params/arguments/list/*/next/at", "date") in places
    assert len(places) < 200


def test_a_schema_that_refers_to_itself_without_end_has_one() -> None:
    assert places_of_formats({"$ref": "#"}) == []
    assert places_of_formats({"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "format": "uuid"})
    assert places_of_formats({"properties": {str(n): {"$ref": "#"} for n in range(50)}, "format": 3}) == []
    assert places_of_formats({"$ref": "#/$defs/none/such", "properties": [], "anyOf": {}}) == []


def test_a_schema_makes_classes_of_arguments_of_one_tool() -> None:
    made = rules_of_schema(SCHEMA, tool="re*d", peer="db")
    profile = BUILT_IN.with_rules(made)

    def form(since: str, tool: str = "re*d", peer: str = "db") -> Any:
        params = msgspec.json.encode({"name": tool, "arguments": {"since": since}})
        return form_of(profile, "tools/call", tool, params, peer=peer)

    assert form("yesterday").key == form("today").key
    assert form("yesterday").values == (("timestamp", "yesterday"),)
    assert form("yesterday", "read").key != form("today", "read").key
    assert form("yesterday", peer="x").key != form("today", peer="x").key


def test_a_project_says_what_a_format_means() -> None:
    own = rules(
        '[[rule]]\nformat = "uri"\nas = "ignore"\n[[rule]]\nformat = "date-time"\nas = "x-moment"'
    ).rules
    made = {rule.at: rule.kind for rule in rules_of_schema(SCHEMA, tool="t", rules=own)}
    assert made["/params/arguments/page"] == "ignore"
    assert made["/params/arguments/since"] == "x-moment"
    assert made["/params/arguments/a~1b"] == "uuid"
