"""`tieline policy`: explanations, cases, decisions made again, and answers that are forgotten."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.cli.main import main
from gateway.policy.evidence import MOST_WEIGHT
from gateway.policy.grants import Grant, with_grant
from tests.gateway.telemetry.recorded import session

Run = Callable[..., tuple[int, str, str]]

STRICT = 'mode = "strict"\ndefault_caps = ["read"]\ndeny_caps = ["env"]\n'
RECORDED = 'deny_caps = ["env"]\ndefault_caps = ["read"]\n'


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tieline", "policy", *map(str, arguments)])
        code = main()
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def file(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_an_explanation_says_what_decided_and_shows_the_sum(run: Run) -> None:
    code, out, err = run("explain", "notes", "read", "--path", "src/a.md")
    assert code == 0
    assert out.startswith("allow: read for notes: default_caps (read)\n")
    assert "may be at most: 1000 ln(2/99), rounded down" in out
    assert "--manifest" in err


def test_an_explanation_takes_the_policy_of_the_configuration(run: Run, tmp_path: Path) -> None:
    file(tmp_path / "tieline.toml", '[extensions.policy]\nprofile = "safe"\n')
    code, out, _ = run("explain", "notes", "http", "--host", "api.example.com")
    assert code == 1
    assert out.startswith("deny: http for notes: not_in_default_caps\n")
    assert "api.example.com:443" in out


def test_evidence_can_be_given_and_is_shown_as_data(run: Run) -> None:
    code, out, _ = run("explain", "notes", "http", "--host", "a.b", "--signal", "unsigned=1000", "--json")
    x = json.loads(out)
    assert (code, x["decision"], x["reason"]) == (1, "ask", "loss_rule")
    assert {term["name"]: term["term"] for term in x["evidence"]["terms"]}["unsigned"] == 1000 <= MOST_WEIGHT


def test_a_manifest_and_the_lack_of_anybody_to_ask_count(run: Run, tmp_path: Path) -> None:
    scope = {"paths": ["docs/**"]}
    manifest = {"schema": "pi.ext.cap.v1", "capabilities": [{"capability": "read", "scope": scope}]}
    for name, document in (
        ("cap.json", manifest),
        ("extension.json", {"name": "notes", "capability_manifest": manifest}),
    ):
        place = file(tmp_path / name, json.dumps(document))
        assert run("explain", "notes", "read", "--path", "docs/a", "--manifest", place)[0] == 0
        code, out, _ = run("explain", "notes", "read", "--path", "src/a", "--manifest", place)
        assert (code, out.partition("\n")[0]) == (1, "deny: read for notes: out_of_scope")
    code, out, _ = run("explain", "notes", "tool:deploy", "--no-ui")
    assert out.startswith("deny: tool:deploy for notes: no_ui, asked because prompt_required")


def test_the_manifest_of_an_extension_that_is_found_counts_by_itself(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / ".pi" / "extensions" / "notes"
    folder.mkdir(parents=True)
    manifest = {"name": "notes", "version": "1", "command": ["notes"], "capabilities": ["read"]}
    file(folder / "extension.json", json.dumps(manifest))
    assert run("explain", "notes", "read", "--path", "a")[0] == 0
    code, out, err = run("explain", "notes", "http", "--host", "a.b")
    assert (code, out.partition("\n")[0]) == (1, "deny: http for notes: undeclared")
    assert "taken as declared" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reed",), "is no capability"),
        (("tool:bash",), "needs `exec`"),
        (("exec", "--path", "x"), "says nothing of `exec`"),
        (("read", "--method", "http"), "is never used through `http`"),
        (("read", "--path", "../x"), "has no `..`"),
        (("http", "--host", "a b"), "no host name"),
        (("read", "--signal", "unsigned"), "is none"),
    ],
)
def test_what_cannot_be_asked_is_wrong_use(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = run("explain", "notes", *arguments)
    assert code == 2
    assert message in err


def test_cases_hold_or_are_told_with_how_they_were_decided(run: Run, tmp_path: Path) -> None:
    head = '[[cases]]\nextension = "a"\nmethod = "fs"\n'
    case = head + 'name = "%s"\nparams = { op = "read", path = "%s" }\nexpect = "%s"\n'
    policy = file(
        tmp_path / "policy.toml",
        '[[rules]]\nid = "no-env"\nverdict = "deny"\npaths = ["**/.env"]\n\n'
        '[[rules]]\nid = "unused"\nverdict = "deny"\npaths = ["x"]\n',
    )
    good = file(tmp_path / "good.toml", case % ("env", ".env", "deny") + case % ("src", "src/a", "allow"))
    assert run("test", good, "--policy", policy)[:2] == (0, "2 cases hold\n")
    assert "no case is decided by the rule `unused`" in run("test", good, "--policy", policy)[2]
    bad = file(tmp_path / "bad.toml", case % ("env", ".env", "allow"))
    code, out, _ = run("test", bad, "--policy", policy)
    assert code == 1
    assert out == (
        "`env` is `deny` and should be `allow`\n  deny: read for a: rule_deny (no-env)\n1 of 1 case does not hold\n"
    )
    told = json.loads(run("test", bad, "--policy", policy, "--json")[1])
    assert (told[0]["holds"], told[0]["decision"]["rule"]) == (False, "no-env")
    assert run("test", file(tmp_path / "no.toml", "x = 1"))[0] == 3
    assert run("test", tmp_path / "missing.toml")[0] == 3


def test_decisions_of_a_recording_are_made_again_under_another_policy(run: Run, tmp_path: Path) -> None:
    recording = session(tmp_path / "s")
    same = file(tmp_path / "same.toml", RECORDED)
    assert run("replay", recording, "--policy", same)[:2] == (0, "3 decisions, 0 changed\n")
    code, out, _ = run("replay", recording, "--policy", file(tmp_path / "strict.toml", STRICT))
    assert code == 1
    assert "3 decisions, 1 changed: 1 from allow to deny\n" in out
    assert "not_in_default_caps" in out
    told = json.loads(run("replay", recording, "--policy", tmp_path / "strict.toml", "--all", "--json")[1])
    assert [each["changes"] for each in told] == [False, True, False]


def test_a_question_that_nobody_was_asked_stays_one(run: Run, tmp_path: Path) -> None:
    recording = session(tmp_path / "s")
    asking = file(tmp_path / "asking.toml", 'default_caps = []\ndeny_caps = ["env"]\n')
    code, out, _ = run("replay", recording, "--policy", asking)
    assert code == 1
    assert "prompt_required (nobody was asked then)" in out


def test_without_a_policy_the_recorded_one_is_taken_and_a_reason_may_not_change(
    run: Run, tmp_path: Path
) -> None:
    # Its header says nothing of a policy, so that it is `standard`, which these decisions were not made under.
    code, out, _ = run("replay", session(tmp_path / "s"))
    assert (code, "allow to deny" in out) == (1, True)


GRANT = Grant(
    extension="notes", capability="exec", verdict="allow", scope="always", executable="sha256:e",
    decided=datetime(2026, 1, 2, tzinfo=UTC),
)  # fmt: skip
OTHER = Grant(extension="todo", capability="http", verdict="deny", scope="project", project="/p")


def remembered(path: Path) -> Path:
    place = file(path / "grants.toml", with_grant(with_grant("", GRANT), OTHER))
    place.chmod(0o600)
    return place


def test_answers_are_listed_and_forgotten_one_by_one_or_by_extension(run: Run, tmp_path: Path) -> None:
    place = remembered(tmp_path)
    code, out, _ = run("grants", "list", "--grants", place)
    assert code == 0
    assert GRANT.id in out
    assert "project /p" in out
    told = json.loads(run("grants", "list", "--grants", place, "--json")[1])
    assert [each["id"] for each in told] == [GRANT.id, OTHER.id]

    code, out, _ = run("grants", "revoke", GRANT.id, "--grants", place)
    assert (code, out) == (0, f"forgotten: allow exec for notes ({GRANT.id})\n")
    assert run("grants", "revoke", "--extension", "notes", "--grants", place)[0] == 1
    assert run("grants", "revoke", "--extension", "todo", "--grants", place)[0] == 0
    assert place.stat().st_mode & 0o777 == 0o600
    assert "nothing is remembered" in run("grants", "list", "--grants", place)[1]


def test_what_is_not_there_cannot_be_forgotten_and_then_nothing_is(run: Run, tmp_path: Path) -> None:
    place = remembered(tmp_path)
    before = place.read_bytes()
    code, _, err = run("grants", "revoke", GRANT.id, "000000000000", "--grants", place)
    assert code == 1
    assert "no answer has the id `000000000000`" in err
    assert run("grants", "revoke", "--grants", place)[0] == 2
    assert place.read_bytes() == before


def test_a_file_that_others_may_write_is_not_believed(run: Run, tmp_path: Path) -> None:
    place = remembered(tmp_path)
    place.chmod(0o666)
    code, _, err = run("grants", "list", "--grants", place)
    assert code == 3
    assert "can be written by others" in err
