"""Fault rules: they strike what they name, the same frames every time, and mistakes in them are told."""

from __future__ import annotations

import tomllib
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordings.faultrules import (
    DEEDS,
    STRIKES,
    TAKES,
    Action,
    Deed,
    FaultPlan,
    FaultRule,
    Target,
    corrupted,
    half,
    planned,
    sweep,
    targets_of,
)
from recordings.faulttext import FaultRuleError, rule_of, rules_of, text_of
from tests.recordings.call_kit import Call, frames_of
from tests.recordings.recording_kit import frame

ANSWERS = [
    Target(seq, "answer", peer, "tools/call", name, lane, seq - 1)
    for seq, peer, name, lane in (
        (1, "db", "query", "turn1"),
        (3, "db", "export", "turn1/tool1"),
        (5, "lsp", "hover", "turn2"),
        (7, "db", "query", "turn2"),
        (9, "db", "query", ""),
    )
]


def struck(*rules: FaultRule, targets: list[Target] = ANSWERS, seed: int = 1) -> dict[int, list[Deed]]:
    return {
        seq: [action.deed for action in actions] for seq, actions in planned(rules, targets, seed).items()
    }


@pytest.mark.parametrize(
    ("rule", "seqs"),
    [
        ("drop", [1, 3, 5, 7, 9]),
        ("drop peer=db", [1, 3, 7, 9]),
        ("drop name=query", [1, 7, 9]),
        ("drop method=tools/*", [1, 3, 5, 7, 9]),
        ("drop method=prompts/*", []),
        ("drop lane=turn1*", [1, 3]),
        ("drop 'lane='", [9]),
        ("drop name=query nth=2", [7]),
        ("drop peer=db times=2", [1, 3]),
        ("drop at=5", [5]),
        ("drop at=5 peer=db", []),
        ("drop on=question", []),
        ("slow", []),
    ],
)
def test_a_rule_strikes_what_it_names(rule: str, seqs: list[int]) -> None:
    assert list(struck(rule_of(rule))) == seqs


def test_rules_go_together_until_the_frame_does_not_arrive() -> None:
    rules = [rule_of(text) for text in ("delay", "corrupt", "drop at=3", "duplicate", "exit when=after")]
    found = struck(*rules)
    assert found[1] == ["delay", "corrupt", "duplicate", "exit"]
    assert found[3] == ["delay", "corrupt", "drop"]


def test_an_action_says_how_and_a_fault_frame_can_tell_of_it() -> None:
    plan = FaultPlan([rule_of("delay seconds=0.5"), rule_of("error code=timeout message='too late'")])
    delay, error = plan.strike(ANSWERS[0])
    assert delay == Action(deed="delay", rule=0, seconds=0.5)
    assert error == Action(deed="error", rule=1, code="timeout", message="too late")
    assert error.facts == {
        "event": "injected",
        "deed": "error",
        "rule": 1,
        "code": "timeout",
        "message": "too late",
    }


@given(st.integers(), st.floats(0.05, 0.95))
def test_chance_hangs_on_the_seed_and_not_on_order_or_on_other_rules(seed: int, chance: float) -> None:
    targets = [Target(seq, "answer") for seq in range(50)]
    rule = FaultRule(deed="drop", probability=chance)
    found = struck(rule, targets=targets, seed=seed)
    assert found == struck(rule, targets=targets, seed=seed)
    assert set(found) == set(struck(rule, targets=targets[::-1], seed=seed))
    assert set(found) == set(struck(rule, FaultRule(deed="drop", peer="none"), targets=targets, seed=seed))


def test_chance_is_about_what_was_asked_for() -> None:
    targets = [Target(seq, "answer") for seq in range(4_000)]
    found = struck(FaultRule(deed="drop", probability=0.25), targets=targets)
    assert 800 < len(found) < 1_200


def test_seeds_differ() -> None:
    targets = [Target(seq, "answer") for seq in range(100)]
    one, other = (
        struck(FaultRule(deed="drop", probability=0.5), targets=targets, seed=seed) for seed in (1, 2)
    )
    assert one != other


# Recordings


def test_the_frames_of_a_recording_are_seen_with_what_their_requests_say() -> None:
    calls = [
        Call("query", {}, {}, lane="t1", progress=2),
        Call("hover", {}, {}, peer="lsp", cancelled=True),
        Call("export", {}, error={"code": 1}),
    ]
    found = list(targets_of(frames_of(*calls)))
    assert [(each.seq, each.on, each.peer, each.name, each.lane, each.request) for each in found] == [
        (0, "request", "db", "query", "t1", 0),
        (1, "notification", "db", "query", "t1", 0),
        (2, "notification", "db", "query", "t1", 0),
        (3, "answer", "db", "query", "t1", 0),
        (4, "request", "lsp", "hover", "", 4),
        (8, "request", "db", "export", "", 8),
        (9, "answer", "db", "export", "", 8),
    ]
    assert [each.place for each in found if each.on == "notification"] == [0, 1]


def test_questions_and_the_gateways_own_requests_are_seen_and_its_own_legs_are_not_twice() -> None:
    frames = [
        frame(0, b"{}", "request", way=">peer", peer="db", method="tools/list"),
        frame(1, b"{}", "response", way="peer>", peer="db", re=0),
        frame(2, b"{}", "request", way="core>", peer="db", method="tools/call", name="q", lane="t"),
        frame(3, b"{}", "request", way=">peer", peer="db", parent=2, method="tools/call", name="q"),
        frame(4, b"{}", "request", way="peer>", peer="db", parent=2, method="roots/list"),
        frame(5, b"{}", "response", way="core>", peer="db", re=4),
        frame(6, b"{}", "response", way="peer>", peer="db", re=3),
        frame(7, b"{}", "request", way="core>", method="tools/list"),
        frame(8, b"{}", "response", way=">core", re=7),
        frame(9, b"{}", "response", way="peer>", peer="db", re=99),
    ]
    assert [(each.seq, each.on, each.method, each.lane) for each in targets_of(frames)] == [
        (0, "request", "tools/list", ""),
        (1, "answer", "tools/list", ""),
        (2, "request", "tools/call", "t"),
        (4, "question", "roots/list", "t"),
        (6, "answer", "tools/call", "t"),
    ]


def test_a_cut_stream_keeps_its_beginning_and_loses_the_rest_and_its_answer() -> None:
    calls = [Call("export", {}, {}, progress=3), Call("export", {}, {}, progress=3), Call("read", {}, {})]
    targets = list(targets_of(frames_of(*calls)))
    found = struck(rule_of("cut on=notification keep=1 nth=2"), targets=targets)
    assert found == {7: ["drop"], 8: ["drop"], 9: ["drop"]}
    assert struck(rule_of("cut keep=0"), targets=targets) == {}


def test_a_sweep_has_a_rule_for_each_frame_and_deed_and_each_strikes_that_frame_alone() -> None:
    calls = [Call("query", {}, {}, progress=2), Call("hover", {}, {}, peer="lsp")]
    targets = list(targets_of(frames_of(*calls)))
    rules = list(sweep(targets, ("exit", "error", "slow")))
    assert Counter(rule.deed for rule in rules) == {"exit": 6, "error": 4, "slow": 2}
    for rule in rules:
        assert list(struck(rule, targets=targets)) == [rule.at]
    (cut,) = sweep(targets, ("cut",))
    assert struck(cut, targets=targets) == {1: ["drop"], 2: ["drop"], 3: ["drop"]}


def test_everything_that_can_be_struck_is_swept_by_every_deed_that_can_strike_it() -> None:
    kinds = ("request", "answer", "question", "notification", "chunk")
    targets = [Target(seq, on, request=100 + seq) for seq, on in enumerate(kinds)]
    found = Counter(rule.deed for rule in sweep(targets, DEEDS))
    assert found == {deed: len(strikes) for deed, strikes in STRIKES.items()}


# Bytes


@given(st.binary(max_size=200), st.integers(1, 20), st.integers(), st.integers(0, 10**6))
def test_corruption_changes_so_many_bytes_and_no_line_end(
    data: bytes, count: int, seed: int, seq: int
) -> None:
    found = corrupted(data, count, seed, seq)
    differing = sum(one != other for one, other in zip(data, found, strict=True))
    assert differing == min(count, len(data) - data.count(b"\n"))
    assert [byte == 10 for byte in data] == [byte == 10 for byte in found]
    assert found == corrupted(data, count, seed, seq)


def test_corruption_never_makes_a_line_end() -> None:
    data = bytes(range(256)).replace(b"\n", b"") * 4
    assert all(b"\n" not in corrupted(data, len(data), 1, seq) for seq in range(5))


@given(st.binary(min_size=2, max_size=50))
def test_half_a_message_is_a_beginning_of_it(data: bytes) -> None:
    assert data.startswith(half(data))
    assert 0 < len(half(data)) < len(data)


# Words

GLOBS = st.text(alphabet="abc/*?[ '\"=é\\", max_size=8)


@st.composite
def rules(draw: st.DrawFn) -> FaultRule:
    deed = draw(st.sampled_from(DEEDS))
    facts: dict[str, Any] = {"deed": deed}
    for key in ("peer", "method", "name", "lane"):
        facts[key] = draw(st.none() | GLOBS)
    for key in ("nth", "times"):
        facts[key] = draw(st.none() | st.integers(1, 9))
    facts["at"] = draw(st.none() | st.integers(0, 9))
    facts["on"] = draw(st.none() | st.sampled_from(STRIKES[deed]))
    facts["probability"] = draw(st.sampled_from([0.25, 1.0]))
    values = {
        "seconds": st.sampled_from([0.5, 1.0, 30.0]),
        "behind": st.integers(1, 5),
        "keep": st.integers(0, 5),
        "bytes": st.none() | st.integers(1, 5000),
        "code": st.sampled_from(["timeout", "denied", "io", "invalid_request", "internal"]),
        "message": GLOBS,
        "when": st.sampled_from(["before", "after"]),
        "status": st.integers(0, 255),
    }
    facts |= {key: draw(values[key]) for key in TAKES.get(deed, {})}
    return FaultRule(**facts)


@given(rules())
def test_a_rule_is_read_back_as_it_was_written(rule: FaultRule) -> None:
    assert rule_of(text_of(rule)) == rule


def test_rules_of_a_file_are_tables() -> None:
    table = tomllib.loads(
        """
        [[fault]]
        deed = "error"
        peer = "db"
        nth = 3
        code = "timeout"
        [[fault]]
        deed = "delay"
        seconds = 2
        probability = 0.5
        """
    )
    assert rules_of(table["fault"]) == (
        rule_of("error peer=db nth=3 code=timeout"),
        rule_of("delay seconds=2.0 probability=0.5"),
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "`` is no rule: write a deed, as in `drop peer=db nth=2`"),
        ("drop 'x", "`drop 'x` is no rule: write a deed, as in `drop peer=db nth=2`"),
        ("dorp", "`dorp`: 'dorp' is no deed; did you mean `drop`?; deeds are delay, drop,"),
        ("drop peer", "`peer` in `drop peer` must be `key=value`"),
        ("drop nth=1 nth=2", "`nth` stands twice in `drop nth=1 nth=2`"),
        ("drop pear=db", "`drop pear=db`: `pear` is not known in a rule; did you mean `peer`?"),
        ("drop seconds=1", "`seconds` says nothing of `drop`, but of delay"),
        ("drop bytes=1", "`bytes` says nothing of `drop`, but of corrupt, stderr, slow"),
        ("drop nth=0", "`nth` must be from 1 to"),
        ("drop nth=x", "`nth` must be a number"),
        ("drop nth=1.5", "`nth` must be a whole number"),
        ("drop nth=true", "`nth` must be a number"),
        ("drop probability=0", "`probability` must be greater than 0, and 1 at most"),
        ("delay seconds=1e9", "`seconds` must be greater than 0, and 3600 at most"),
        ("error code=late", "`code` must be one of timeout, denied, io, invalid_request, internal"),
        ("exit when=befor", "`when` must be one of before, after; did you mean `before`?"),
        ("slow on=answer", "`on` cannot be `answer`: `slow` strikes request"),
        ("drop on=anser", "`on` must be one of answer, request, question, notification, chunk; did you mean"),
        ("exit status=256", "`status` must be from 0 to 255"),
    ],
)
def test_a_mistake_is_told_with_the_way_out(text: str, why: str) -> None:
    with pytest.raises(FaultRuleError) as caught:
        rule_of(text)
    assert why in caught.value.message


def test_every_mistake_of_a_file_is_told_at_once() -> None:
    tables = [{"deed": "drop", "x": 1}, 5, {}, {"deed": "drop", "peer": 3, "nth": True}, {"deed": "drop"}]
    with pytest.raises(FaultRuleError) as caught:
        rules_of(tables, file="faults.toml")
    assert [mistake.partition(";")[0] for mistake in caught.value.mistakes] == [
        "faults.toml: `fault[0]`: `x` is not known in a rule",
        "faults.toml: `fault[1]` must be a table",
        "faults.toml: `fault[2]`: there is no `deed`",
        "faults.toml: `fault[3]`: `peer` must be a text",
        "faults.toml: `fault[3]`: `nth` must be a number",
    ]
    with pytest.raises(FaultRuleError, match="must be a list of tables"):
        rules_of({"deed": "drop"})


def test_every_deed_has_what_it_strikes_and_what_it_takes() -> None:
    assert set(STRIKES) == set(DEEDS)
    assert set(TAKES) <= set(DEEDS)
    for deed in DEEDS:
        (rule,) = (rule_of(deed),)
        assert rule.target == STRIKES[deed][0]
