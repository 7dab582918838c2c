"""`tieline record --twice`: what differs between two runs of a server becomes rules, and the rules are enough."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.processes.replay_kit import Call, called, played, starts, tieline, varied

SESSION: tuple[Call, ...] = (("tools/list", {}), ("get", {"key": "a"}), ("fresh", {}))


def test_what_differs_is_proposed_as_rules_on_stderr(tmp_path: Path) -> None:
    peer = tmp_path / "peer"
    served = played(
        tmp_path, ["record", "--twice", "--out", tmp_path / "session", "--", *varied(peer)], *SESSION
    )

    assert served.code == 0, served.said
    assert (starts(peer), called(peer)) == (2, ["get", "fresh"] * 2)
    text = served.said
    rules = tomllib.loads("\n".join(line for line in text.splitlines() if "proposed from" not in line))[
        "rule"
    ]
    places = {rule["at"] for rule in rules}
    # The uuid and the time are known by themselves.
    assert places == {f"/result/structuredContent/{name}" for name in ("log", "order_id", "took")}
    assert "3 rules proposed from" in text
    assert not (tmp_path / "replay.toml").exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["peer", "session", "state", "stderr.log"]


def test_rules_that_are_written_make_two_runs_the_same(tmp_path: Path) -> None:
    peer, session = tmp_path / "peer", tmp_path / "session"
    arguments = ["record", "--twice", "--write-rules", "--out", session, "--", *varied(peer)]
    served = played(tmp_path, arguments, *SESSION)

    assert served.code == 0, served.said
    assert "3 rules proposed" in served.said
    assert len(tomllib.loads((tmp_path / "replay.toml").read_text())["rule"]) == 3
    done = tieline("verify", session, "--", *varied(peer), cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_server_that_answers_the_same_needs_no_rules(tmp_path: Path) -> None:
    served = played(tmp_path, ["record", "--twice", "--", *varied(tmp_path / "peer")], *SESSION[:2])

    assert served.code == 0
    assert served.said.splitlines() == ["0 rules proposed from 3 calls"], served.said
    (kept,) = (tmp_path / "state" / "recordings").iterdir()
    assert tieline("doctor", kept, cwd=tmp_path).returncode == 0


def test_rules_are_written_beside_one_recording_alone(tmp_path: Path) -> None:
    for options in (["--write-rules"], ["--write-rules", "--twice"]):
        done = tieline("record", *options, "--", *varied(tmp_path / "peer"), cwd=tmp_path)

        assert done.returncode == 2
        assert done.stderr.startswith("error: `--write-rules` needs `--twice` and `--out`")
    assert starts(tmp_path / "peer") == 0
