"""The divergence report: what fails, what is a headline, and what a person, a program and a CI are shown."""

from __future__ import annotations

import json
from typing import get_args
from xml.etree import ElementTree

import msgspec
import pytest

from recordings.difference import Change, differences
from recordings.divergence import (
    CLASSES,
    MEANING,
    Divergence,
    DivergenceClass,
    Given,
    Near,
    Report,
    next_steps,
)
from recordings.report import as_json, changes_text, junit, lines, text, value_text


def changed(lane: str | None = "turn3/tool2", **fields: object) -> Divergence:
    made: dict[str, object] = {
        "cls": "changed-params",
        "lane": lane,
        "peer": "ext.index",
        "method": "tools/call",
        "name": "search",
        "live": 118,
        "recorded": 204,
        **fields,
    }
    return Divergence(**made)  # pyright: ignore[reportArgumentType]


PICTURE = changed(
    nearest=(Near(204, "turn3/tool2", 2, "1 of 14 values"), Near(97, "turn1/tool1")),
    changes=(
        Change("/params/arguments/limit", "value", msgspec.Raw(b"20"), msgspec.Raw(b"50")),
        Change(
            "/params/arguments/path",
            "value",
            msgspec.Raw(b'"/a/src/a.py"'),
            msgspec.Raw(b'"/b/src/a.py"'),
            "same after normalisation",
        ),
    ),
    last_given=Given(199, "result of tools/call read"),
    next=("tieline fork s/ --at 199 --out s.fork",),
)
REPORT = Report(
    path="s/",
    session="8f2c",
    served=187,
    of=260,
    lanes=("turn1", "turn3/tool2"),
    unplayed={"turn4": 61},
    relaxed=2,
    divergences=(PICTURE, changed(live=130), changed(live=131)),
)


def test_the_text_says_where_what_and_how_to_go_on() -> None:
    assert text(REPORT) == (
        "DIVERGED  lane turn3/tool2  at live frame 118  (recording s/, expected seq 204)"
        "  class changed-params\n"
        "  live      tools/call search @ ext.index\n"
        "  because   the recording has this request with other values\n"
        "  nearest   seq 204 (same lane, occurrence 2), distance 1 of 14 values; also seq 97 (lane turn1/tool1)\n"
        "    /params/arguments/limit  20  ->  50\n"
        '    /params/arguments/path   "/a/src/a.py"  ->  "/b/src/a.py"  same after normalisation\n'
        "  causes    last given to this lane: seq 199 (result of tools/call read, identical)\n"
        "  next      tieline fork s/ --at 199 --out s.fork\n"
        "  later     2 divergences more in this lane, folded\n"
        "\n"
        "DIVERGED  recording s/ (replay)\n"
        "  served    187 of 260 frames; unplayed 61 (1 lane: turn4), relaxed 2, ambiguous 0, races 0\n"
    )


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            Report(path="s", loose=2),
            "nothing but greetings and lists was recorded; 2 answers to them given",
        ),
        (Report(path="s"), "nothing but greetings and lists was recorded; none was asked for"),
        (
            Report(path="s", mode="drive"),
            "0 of 0 frames; unplayed 0, relaxed 0, ambiguous 0, races 0",
        ),
    ],
)
def test_a_replay_of_greetings_and_lists_alone_says_so(report: Report, said: str) -> None:
    assert text(report).endswith(f"  served    {said}\n")
    assert as_json(report)["loose"] == report.loose


def test_the_first_of_each_lane_is_the_headline_and_others_are_counted() -> None:
    report = Report(
        path="s",
        divergences=(
            changed("a", live=1),
            changed("b", live=2),
            changed("a", live=3, cls="missing"),
            changed(None, live=4),
        ),
    )
    assert [(each.divergence.live, each.later) for each in report.headlines] == [(1, 1), (2, 0), (4, 0)]


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (Report(path="s", served=3, of=3, relaxed=2, ambiguous=1, races=4), 0),
        (Report(path="s", divergences=(changed(cls="race"),), races=1), 0),
        (Report(path="s", divergences=(changed(),), unplayed={"a": 1}), 1),
        (Report(path="s", unplayed={"a": 1}), 2),
        (Report(path="s", aborted="the core left"), 2),
        (Report(path="s", unplayed={"a": 0}), 0),
    ],
)
def test_divergence_comes_before_incompleteness_and_races_fail_nothing(report: Report, code: int) -> None:
    assert report.exit_code == code
    assert as_json(report)["exit_code"] == code


def test_every_class_has_a_meaning() -> None:
    assert set(MEANING) == set(CLASSES) == set(get_args(DivergenceClass))


def test_a_race_is_told_and_not_a_headline() -> None:
    report = Report(path="s", divergences=(changed(cls="race"),), races=1)
    assert report.headlines == ()
    assert "race      lane turn3/tool2: tools/call search @ ext.index" in text(report)
    assert text(report).startswith("SAME  recording s (replay)\n")


def test_what_was_not_sent_is_shown_as_recorded() -> None:
    report = Report(path="s", divergences=(changed(cls="missing", live=None),))
    assert "  recorded  tools/call search @ ext.index\n" in text(report)
    assert "at live frame" not in text(report)


def test_long_values_are_cut_and_their_length_is_said() -> None:
    long = msgspec.Raw(msgspec.json.encode("x" * 50_000))
    assert value_text(long) == '"' + "x" * 59 + "… (50,002 characters)"
    one, other = (msgspec.json.encode("x" * 100 + end + "y" * 100) for end in ("before", "after"))
    (told,) = changes_text(differences(one, other))
    assert "xxxbeforeyyy" in told
    assert "xxxafteryyy" in told
    many = differences(b"{}", msgspec.json.encode({f"k{number:03}": number for number in range(40)}))
    told = changes_text(many)
    assert len(told) == 13
    assert told[-1] == "… and 28 changes more"


def test_what_a_peer_says_moves_no_cursor_and_breaks_no_document() -> None:
    evil = "\x1b[2J\u202e<&>\ufffe\n"
    divergence = changed(
        evil,
        name=evil,
        detail=evil,
        changes=(Change(f"/{evil}", "value", msgspec.Raw('"\u009b\u2028"'.encode()), None),),
        last_given=Given(1, evil),
        next=(evil,),
    )
    report = Report(path=evil, session=evil, divergences=(divergence,), aborted=evil, unplayed={evil: 1})
    told = text(report)
    assert all(char == "\n" or char.isprintable() for char in told)
    suite = ElementTree.fromstring(junit(report))
    assert suite.findtext("testcase/failure")
    json.loads(msgspec.json.encode(as_json(report)))


def test_the_json_holds_values_whole_and_points_at_headlines() -> None:
    found = json.loads(msgspec.json.encode(as_json(REPORT)))
    assert found["verdict"] == "diverged"
    assert found["headlines"] == [{"lane": "turn3/tool2", "divergence": 0, "later": 2}]
    first = found["divergences"][0]
    assert first["class"] == "changed-params"
    assert first["nearest"][0] == {"seq": 204, "lane": "turn3/tool2", "nth": 2, "distance": "1 of 14 values"}
    assert first["changes"][0] == {
        "pointer": "/params/arguments/limit",
        "kind": "value",
        "before": 20,
        "after": 50,
    }


def test_junit_has_a_case_a_lane_and_fails_those_that_diverged_or_were_not_played() -> None:
    suite = ElementTree.fromstring(junit(REPORT))
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")
    outcomes = {
        case.get("name"): None if (failure := case.find("failure")) is None else failure.get("type")
        for case in suite.iter("testcase")
    }
    assert outcomes == {"turn1": None, "turn3/tool2": "changed-params", "turn4": "incomplete"}


def test_junit_fails_where_a_replay_ended_early_whatever_its_lanes() -> None:
    suite = ElementTree.fromstring(junit(Report(path="s", lanes=("a",), aborted="the core left")))
    assert suite.get("failures") == "1"
    suite = ElementTree.fromstring(junit(Report(path="s")))
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")


def test_the_commands_to_go_on_with_name_the_recording_as_a_shell_takes_it() -> None:
    assert next_steps(PICTURE, "my session/") == (
        "tieline fork 'my session/' --out 'my session.fork' --set 204:/params/arguments/limit=50",
        "tieline fork 'my session/' --out 'my session.fork' --at 199",
        "tieline replay 'my session/' --mode rewrite --config tieline.toml",
    )
    assert next_steps(changed(cls="extra", recorded=None), "s")[-1] == (
        "tieline replay s --mode extend --config tieline.toml"
    )
    removed = changed(changes=(Change("/params/x", "removed", msgspec.Raw(b"1")),))
    assert next_steps(removed, "s")[0] == "tieline fork s --out s.fork --at 203"
    assert next_steps(changed(cls="ambiguous", recorded=None), "s") == ("tieline rules s",)
    assert next_steps(changed(cls="version", recorded=None), "s") == ()


def test_each_line_has_its_tone() -> None:
    tones = [tone for tone, _ in lines(REPORT)]
    assert tones[0] == "bad"
    assert tones[-2:] == ["bad", "plain"]
