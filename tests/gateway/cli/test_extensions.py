"""`tieline extensions`: what is printed, and what may start afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "agent"))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tieline", "extensions", *arguments])
        code = main()
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def put(folder: Path, **members: Any) -> None:
    folder.mkdir(parents=True)
    manifest = {"name": folder.name, "version": "1", "command": ["python3", "run.py"], **members}
    (folder / "extension.json").write_text(json.dumps(manifest))


def test_everything_that_is_found_is_shown_and_why_it_is_not_served(tmp_path: Path, run: Run) -> None:
    put(tmp_path / "project" / ".pi" / "extensions" / "todo")
    put(tmp_path / "agent" / "extensions" / "mine")
    put(tmp_path / "agent" / "extensions" / "again", name="mine")

    code, out, _ = run("show", "--json")

    shown = {one["manifest"].split("/")[-2]: one for one in json.loads(out)["extensions"]}
    assert code == 0
    assert {name: (one["state"], one["from"]) for name, one in shown.items()} == {
        "todo": ("untrusted", "project"),
        "again": ("served", "user"),
        "mine": ("shadowed", "user"),
    }
    assert "extensions trust todo" in run("show")[1]


def test_what_is_broken_is_told_beside_what_is_not_and_ends_with_1(tmp_path: Path, run: Run) -> None:
    put(tmp_path / "agent" / "extensions" / "good")
    put(tmp_path / "agent" / "extensions" / "bad", version=None)

    code, out, _ = run("show")

    assert code == 1
    assert "good" in out
    assert "bad/extension.json:1: `version` must be text" in out


def test_nothing_found_is_said(run: Run) -> None:
    assert run("show") == (0, "no extensions\n", "")


def test_a_manifest_is_checked_before_anybody_finds_it(tmp_path: Path, run: Run) -> None:
    put(tmp_path / "good")
    put(tmp_path / "bad", command=[])

    assert run("check", str(tmp_path / "good"))[:2] == (
        0,
        f"`{tmp_path}/good/extension.json` is right: good 1\n",
    )
    code, _, err = run("check", str(tmp_path / "bad"))
    assert code == 3
    assert "`command` must name a program" in err
    assert "docs/howto/pi-extensions.md" in err
    code, out, _ = run("check", str(tmp_path / "bad"), "--json")
    assert (code, json.loads(out)["ok"]) == (3, False)
    assert run("check", str(tmp_path / "state"))[0] == 3


def test_what_a_project_brings_is_shown_and_may_start_once_it_is_confirmed(tmp_path: Path, run: Run) -> None:
    put(tmp_path / "project" / ".pi" / "extensions" / "todo", env={"KEY": "sesame"}, cwd="..")

    code, out, err = run("trust", "todo")
    assert (code, "add `--yes`" in err) == (2, True)
    assert f"runs     python3 run.py\n  in       {tmp_path}/project/.pi/extensions\n  sets     KEY\n" in out
    assert re.search(r"^  is       sha256:[0-9a-f]{64}$", out, re.M)
    assert "sesame" not in out

    assert run("trust", "todo", "--yes")[0] == 0
    assert json.loads(run("show", "--json")[1])["extensions"][0]["state"] == "served"
    assert run("trust", "todo", "--yes")[1] == "nothing to do: trusted already\n"
    assert run("trust", "none")[0] == 2
