"""`tieline conformance`: fixtures made of a session, and servers that keep to them or do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.processes.replay_kit import Call, recorded, tieline, varied
from tests.processes.test_verify import recorded_with_handles

SESSION: tuple[Call, ...] = (("tools/list", {}), ("get", {"key": "a"}), ("fresh", {}), ("elicit", {}))


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fixture of a session with the varied peer."""
    folder = tmp_path_factory.mktemp("fixtures")
    session = recorded(folder, folder / "peer", *SESSION)
    done = tieline("conformance", "capture", session, "--out", "fixtures/varied.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "fixtures" / "varied.json"


def check(folder: Path, fixture: Path, *variants: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Check the varied peer against a fixture; give the exit code and what was printed."""
    command = varied(folder / "live", *variants)
    done = tieline("conformance", "check", fixture, *options, "--", *command, cwd=folder)
    return done.returncode, done.stdout + done.stderr


def edited(fixture: Path, folder: Path, name: str, **changes: Any) -> Path:
    """A copy of a fixture in which one tool's request is changed by hand."""
    found = json.loads(fixture.read_bytes())
    for request in found["requests"]:
        if request.get("name") == name:
            request.update(changes)
    path = folder / fixture.name
    path.write_text(json.dumps(found, indent=2))
    return path


def test_a_fixture_says_how_each_answer_is_compared(fixture: Path) -> None:
    found = json.loads(fixture.read_bytes())

    assert (found["schema"], found["scenario_id"]) == ("tieline.fixture.v1", "varied")
    compared = {one.get("name", one["method"]): one.get("compare", "exact") for one in found["requests"]}
    assert compared["get"] == "exact"
    assert compared["fresh"] == "normalised"
    (got,) = [one for one in found["requests"] if one.get("name") == "get"]
    assert (got["outcome"], got["answer"]["structuredContent"]["key"]) == ("result", "a")


def test_the_log_of_a_fixture_is_normalised(fixture: Path) -> None:
    log = json.loads(fixture.read_bytes())["log"]

    assert {entry["ts"] for entry in log} == {"<ts>"}
    assert {entry["correlation"]["session_id"] for entry in log} == {"<session_id>"}
    assert {entry["correlation"]["scenario_id"] for entry in log} == {"varied"}
    assert [entry["event"] for entry in log].count("tool_call.start") == 3
    for entry in log:
        assert "seq" not in entry.get("data", {})
        for name in ("trace_id", "span_id"):
            assert entry["correlation"].get(name, f"<{name}>") == f"<{name}>"


def test_the_same_server_keeps_to_its_fixture(fixture: Path, tmp_path: Path) -> None:
    # What the tool says to have taken is neither id nor time: a rule beside the fixture leaves it out.
    path = tmp_path / fixture.name
    path.write_bytes(fixture.read_bytes())
    (tmp_path / "replay.toml").write_text(
        '[[rule]]\nat = "/result/structuredContent/took"\nas = "ignore"\n'
        '[[rule]]\nat = "/result/structuredContent/order_id"\nas = "ignore"\n'
        '[[rule]]\nat = "/result/structuredContent/log"\nas = "ignore"\n'
    )
    code, said = check(tmp_path, path)

    assert code == 0, said
    assert said.startswith("SAME  varied")
    lines = (tmp_path / "logs" / "varied.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == json.loads(fixture.read_bytes())["log"]


@pytest.mark.parametrize("variant", ["field-added", "field-removed", "other-type", "other-value", "failing"])
def test_another_answer_is_named_by_event_and_ids(variant: str, fixture: Path, tmp_path: Path) -> None:
    code, said = check(tmp_path, fixture, variant, options=("--json", "--junit", "out.xml"))
    (found,) = json.loads(said)

    assert code == 1
    told = [one for one in found["failures"] if one["event"] == "tools/call get"]
    assert len(told) == 1
    assert told[0]["ids"]["tool_call_id"] == f"tool-{told[0]['seq']}"
    suite = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert any(case.get("name", "").startswith("tools/call get ") for case in suite)
    assert suite.get("failures") == str(len(found["failures"]))


def test_how_an_answer_is_compared_can_be_changed_by_hand(fixture: Path, tmp_path: Path) -> None:
    path = edited(fixture, tmp_path, "fresh", compare="exact")
    code, said = check(tmp_path, path)

    assert code == 1
    assert "/structuredContent/token" in said


def test_white_space_of_a_fixture_does_not_count_and_the_order_of_members_does(
    fixture: Path, tmp_path: Path
) -> None:
    (got,) = [one for one in json.loads(fixture.read_bytes())["requests"] if one.get("name") == "get"]
    turned = dict(reversed(got["answer"].items()))
    code, said = check(tmp_path, edited(fixture, tmp_path, "get", answer=turned), options=("--json",))

    assert code == 1
    (found,) = json.loads(said)
    assert [one["what"] for one in found["failures"] if one["event"] == "tools/call get"] == [
        "not the same bytes"
    ]


def test_values_that_the_server_makes_up_are_brought_back_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    session = recorded_with_handles(folder)
    assert tieline("conformance", "capture", session, "--out", "f.json", cwd=tmp_path).returncode == 0
    again = tieline("conformance", "capture", session, "--out", "f.json", cwd=tmp_path)
    assert again.stderr.startswith("error: `f.json` is there already"), again.stderr
    code, said = check(tmp_path, tmp_path / "f.json", options=("--json",))
    (found,) = json.loads(said)

    assert not [one for one in found["failures"] if one["event"].startswith("tools/call use")], said
    assert not [one for one in found["failures"] if one["event"].startswith("tools/call poll")], said
    assert code in (0, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "is no fixture"),
        ('{"schema":"other","scenario_id":"x","peers":[],"requests":[]}', "is of schema `other`"),
    ],
)
def test_a_fixture_that_cannot_be_used_ends_with_3(text: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text)
    done = tieline("conformance", "check", path, "--", *varied(tmp_path / "live"), cwd=tmp_path)

    assert done.returncode == 3
    assert done.stderr.startswith("error: `")
    assert said in done.stderr
    assert not (tmp_path / "live" / "started").exists()


def test_without_a_server_to_hold_against_both_ways_to_name_one_are_told(
    fixture: Path, tmp_path: Path
) -> None:
    done = tieline("conformance", "check", fixture, cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no `tieline.toml`" in done.stderr
    assert "or put the server's command after `--`" in done.stderr
