"""`tieline rules`: what it proposes, what it writes, and how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gateway.cli.main import main
from gateway.cli.output import CliError
from gateway.cli.rule_files import add_rules, profile_from, profiles_for, rules_for
from recordings.profile import BUILT_IN, Rule
from recordings.store import open_recording
from tests.recordings.call_kit import Call, session_of

ONE = Call("query", {"order_id": 17, "sql": "select 1"}, {"took": "1 ms"})
OTHER = Call("query", {"order_id": 18, "sql": "select 1"}, {"took": "2 ms"})


def rules(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["tieline", "rules", *map(str, arguments)])
    return main()


def test_rules_are_printed_as_toml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (
        session_of(tmp_path / "a" / "one", ONE),
        session_of(tmp_path / "b" / "other", OTHER, seal=True),
    )
    assert rules(monkeypatch, one, other) == 0
    told = capsys.readouterr()
    (tmp_path / "printed.toml").write_text(told.out)
    assert profile_from(tmp_path / "printed.toml").rules == (
        Rule(
            at="/params/arguments/order_id", method="tools/call", peer="db", tool="query", kind="x-order-id"
        ),
        Rule(at="/result/took", method="tools/call", peer="db", tool="query", kind="ignore"),
    )
    assert told.err == "2 rules proposed from 1 call\n"


@pytest.mark.parametrize("name", ["replay.toml", "tieline.toml"])
def test_rules_are_added_to_a_file_and_nothing_is_proposed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    one, other = session_of(tmp_path / "a" / "one", ONE), session_of(tmp_path / "b" / "other", OTHER)
    file = tmp_path / name
    file.write_text("# mine" if name == "replay.toml" else "[peers.db]\ncommand = 'x'\n")
    assert rules(monkeypatch, one, other, "--write", file) == 0
    assert f"2 rules proposed from 1 call, added to `{file}`" in capsys.readouterr().err
    assert len(profile_from(file).rules) == 2
    before = file.read_text()
    assert rules(monkeypatch, one, other, "--write", file) == 0
    assert capsys.readouterr().err == "0 rules proposed from 1 call\n"
    assert file.read_text() == before


def test_rules_that_are_no_good_end_with_a_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = session_of(tmp_path / "one", ONE, ONE._replace(arguments={"order_id": 17, "sql": "select 2"}))
    file = tmp_path / "own.toml"
    file.write_text(
        '[[rule]]\nat = "/params/arguments/sql"\nas = "ignore"\n[[rule]]\ntool = "none"\nconsume = "once"\n'
    )
    assert rules(monkeypatch, one, "--rules", file) == 1
    told = capsys.readouterr().err
    assert "rule 1 (at /params/arguments/sql) makes 2 different requests the same, such as 0 and 2" in told
    assert "rule 2 (consume once) never fires" in told
    assert rules(monkeypatch, one, "--rules", file, "--json") == 1
    value = json.loads(capsys.readouterr().out)
    assert value["silent"] == [1]
    assert value["merges"][0]["seqs"] == [0, 2]


def test_the_rules_that_lie_beside_a_recording_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = session_of(tmp_path / "a" / "one", ONE)
    assert rules_for(one) == BUILT_IN
    (tmp_path / "a" / "replay.toml").write_text('exact = ["hex"]\n')
    assert rules_for(one).exact == ("hex",)
    (one / "replay.toml").write_text('exact = ["uuid"]\n')
    assert rules_for(one).exact == ("uuid",)
    assert rules(monkeypatch, one) == 0
    assert "tried 0 rules" in capsys.readouterr().err


def test_calls_that_only_one_recording_has_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = session_of(tmp_path / "one", ONE, ONE), session_of(tmp_path / "other", ONE)
    assert rules(monkeypatch, one, other) == 0
    assert "calls 1 only in A" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("replay.toml", "rule = [", "replay.toml: "),
        (
            "replay.toml",
            '\n[[rule]]\nat = "x"\nas = "uuid"\n',
            "replay.toml:3: `rule[0].at` must be a JSON Pointer",
        ),
        ("tieline.toml", "replay = 3\n", "`replay` must be a table"),
        (
            "tieline.toml",
            "[replay]\nexakt = []\n",
            "tieline.toml:2: `replay.exakt` is not known here",
        ),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(CliError) as caught:
        profile_from(tmp_path / name)
    assert said in str(caught.value)


def test_a_file_that_cannot_take_rules_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "replay.toml"
    file.write_text("rule = []\n")
    with pytest.raises(CliError, match="cannot be added"):
        add_rules(file, '[[rule]]\nat = "/params/x"\nas = "uuid"\n')
    assert file.read_text() == "rule = []\n"
    with pytest.raises(CliError, match="cannot be written"):
        add_rules(tmp_path / "none" / "replay.toml", "")
    with pytest.raises(CliError, match="cannot be read"):
        profile_from(tmp_path / "none.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["replay.toml"]


def recorded_with(path: Path, call: Call, **settings: object) -> Path:
    """A recording of one call, with what its header says of the settings it was made under."""
    session_of(path, call)
    header = path / "recording.json"
    header.write_text(json.dumps(json.loads(header.read_text()) | {"settings": settings}))
    return path


def test_rules_and_folders_under_which_a_recording_was_made_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = {"at": "/params/arguments/n", "as": "ignore"}
    here = Call("read", {"n": 1, "path": "/home/ann/shop/a.py"}, {})
    there = Call("read", {"n": 2, "path": "/builds/7/a.py"}, {})
    one = recorded_with(
        tmp_path / "one", here, roots={"cwd": "/home/ann/shop", "tmp": "/tmp"}, replay={"rule": [rule]}
    )
    other = recorded_with(tmp_path / "other", there, roots={"cwd": "/builds/7"})
    assert rules(monkeypatch, one, other) == 0
    assert capsys.readouterr() == ("", "0 rules proposed from 1 call\n")
    mine, theirs = profiles_for(open_recording(one), open_recording(other))
    assert [root.path for root in (*mine.roots, *theirs.roots)] == ["/home/ann/shop", "/builds/7"]
    plain = session_of(tmp_path / "plain", here)
    assert profiles_for(open_recording(one), open_recording(plain))[0].roots == ()
