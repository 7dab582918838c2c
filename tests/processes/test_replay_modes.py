"""Every mode of `tieline replay` as an agent runs it: who is asked, what is answered, what becomes of recordings."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import jsonschema_rs
import pytest

from recordings.store import open_recording
from tests.processes import varied_peer
from tests.processes.gateway_kit import TIELINE
from tests.processes.replay_kit import (
    Call,
    called,
    environment,
    played,
    recorded,
    report,
    starts,
    tieline,
    tree,
    varied,
)

SESSION: tuple[Call, ...] = (
    ("tools/list", {}),
    ("get", {"key": "a"}),
    ("get", {"key": "b"}),
    ("drop", {"key": "a"}),
)
SAID = ["value of a", "value of b", "drop a: done"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording that no test changes."""
    folder = tmp_path_factory.mktemp("kept")
    return recorded(folder, folder / "peer", *SESSION)


@pytest.fixture
def session(kept: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(kept, tmp_path / "session"))


@pytest.fixture
def peer(tmp_path: Path) -> Path:
    """Where the live peer leaves its traces."""
    return tmp_path / "peer"


@pytest.fixture(autouse=True)
def _nothing_is_left_beside(tmp_path: Path) -> object:
    yield
    left = [one.name for one in tmp_path.iterdir() if one.name.startswith(".")]
    assert left == []


def test_a_replay_answers_from_the_recording_and_is_the_same(session: Path, tmp_path: Path) -> None:
    before = tree(session)
    out, junit = tmp_path / "report.json", tmp_path / "junit.xml"
    served = played(tmp_path, ["replay", session, "--report", out, "--junit", junit], *SESSION)

    assert served.texts[1:] == SAID
    assert served.code == 0, served.said
    assert "SAME" in served.said
    found = report(out)
    assert (found["verdict"], found["exit_code"], found["served"]) == ("same", 0, found["of"])
    suite = ElementTree.parse(junit).getroot()
    assert suite.get("failures") == "0"
    assert tree(session) == before


def test_the_report_may_lie_in_the_folder_that_the_replay_is_recorded_to(
    session: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    served = played(tmp_path, ["replay", session, "--record", out, "--report", out / "report.json"], *SESSION)

    assert served.code == 0, served.said
    assert report(out / "report.json")["verdict"] == "same"
    assert [open_recording(path).state for path in out.iterdir() if path.is_dir()] == ["sealed"]


def test_a_replay_never_goes_live_on_a_miss_nor_when_all_is_used_up(session: Path, tmp_path: Path) -> None:
    guard, out = tmp_path / "guard.log", tmp_path / "report.json"
    calls: list[Call] = [*SESSION, ("get", {"key": "c"}), ("get", {"key": "a"}), ("drop", {"key": "a"})]
    served = played(tmp_path, ["replay", session, "--report", out], *calls, guard=guard)

    assert served.texts[1:4] == SAID
    assert guard.read_text() == ""
    assert ["error" in answer for answer in served.answers] == [False] * 4 + [True] * 3
    assert served.answers[4]["error"]["data"]["reason"] == "not_recorded"
    assert served.code == 1
    classes = [one["class"] for one in report(out)["divergences"]]
    assert classes == ["extra", "exhausted", "exhausted"]


def test_the_guard_sees_a_live_peer_start(session: Path, peer: Path, tmp_path: Path) -> None:
    guard = tmp_path / "guard.log"
    arguments = ["replay", session, "--peer", f"{name_of(session)}=live", "--", *varied(peer)]
    served = played(tmp_path, arguments, SESSION[1], guard=guard)

    assert "error" in served.answers[0]
    assert "subprocess.Popen" in guard.read_text()
    assert starts(peer) == 0


def name_of(session: Path) -> str:
    """The one peer of a recording."""
    (name,) = json.loads((session / "recording.json").read_bytes())["peers"]
    return name


def test_what_is_not_played_makes_a_replay_incomplete(session: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    served = played(tmp_path, ["replay", session, "--report", out], *SESSION[:2])

    assert served.code == 2, served.said
    assert report(out)["verdict"] == "incomplete"


def test_a_bad_recording_ends_with_3(session: Path, tmp_path: Path) -> None:
    frames = next(session.glob("frames.jsonl*"))
    frames.write_bytes(b"x" + frames.read_bytes()[1:])
    for path, said in ((session, "error:"), (tmp_path / "nowhere", "error:")):
        done = tieline("replay", path, cwd=tmp_path)
        assert done.returncode == 3
        assert done.stderr.startswith(said)
        assert done.stdout == ""


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may read everything")
@pytest.mark.parametrize("command", ["replay", "diff", "verify"])
def test_a_directory_that_may_not_be_read_ends_with_3(session: Path, tmp_path: Path, command: str) -> None:
    less = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    paths = [session, session] if command == "diff" else [session]
    session.chmod(0)
    try:
        done = subprocess.run(
            [*less, *TIELINE, command, *map(str, paths)],
            cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        session.chmod(0o700)
    assert done.stderr == f"error: `{session}` cannot be read: Permission denied\n"
    assert done.returncode == 3


def test_once_records_where_there_is_nothing_and_replays_from_then_on(peer: Path, tmp_path: Path) -> None:
    new, guard = tmp_path / "new", tmp_path / "guard.log"
    arguments = ["replay", new, "--mode", "once", "--", *varied(peer)]
    first = played(tmp_path, arguments, *SESSION)
    again = played(tmp_path, arguments, *SESSION, guard=guard)

    assert (first.code, again.code) == (0, 0), again.said
    assert first.texts == again.texts
    assert starts(peer) == 1
    assert guard.read_text() == ""


def test_once_adds_nothing_to_a_recording_that_is_there(session: Path, peer: Path, tmp_path: Path) -> None:
    before, out = tree(session), tmp_path / "report.json"
    arguments = ["replay", session, "--mode", "once", "--report", out, "--", *varied(peer)]
    served = played(tmp_path, arguments, *SESSION, ("get", {"key": "c"}))

    assert served.texts[-1] == "value of c"
    assert called(peer) == ["get"]
    assert report(out)["live_calls"] == 1
    assert tree(session) == before


def test_extend_asks_what_is_missing_and_adds_it(session: Path, peer: Path, tmp_path: Path) -> None:
    more: list[Call] = [*SESSION, ("get", {"key": "c"})]
    served = played(tmp_path, ["replay", session, "--mode", "extend", "--", *varied(peer)], *more)

    assert served.texts[1:] == [*SAID, "value of c"]
    assert "extended" in served.said
    assert (served.code, called(peer)) == (0, ["get"])
    again = played(tmp_path, ["replay", session], *more)
    assert (again.code, again.texts) == (0, served.texts), again.said


def test_extend_that_misses_nothing_leaves_the_recording_as_it_is(
    session: Path, peer: Path, tmp_path: Path
) -> None:
    before = tree(session)
    served = played(tmp_path, ["replay", session, "--mode", "extend", "--", *varied(peer)], *SESSION)

    assert (served.code, starts(peer)) == (0, 0)
    assert tree(session) == before


def test_extend_that_leaves_a_part_unplayed_leaves_the_recording_as_it_is(
    session: Path, peer: Path, tmp_path: Path
) -> None:
    before = tree(session)
    calls: list[Call] = [SESSION[1], ("get", {"key": "c"})]
    served = played(tmp_path, ["replay", session, "--mode", "extend", "--", *varied(peer)], *calls)

    assert served.code == 2, served.said
    assert f"left a part of the recording unplayed, so `{session}` stays as it is" in served.said
    assert tree(session) == before


@pytest.mark.parametrize("mode", ["extend", "rewrite"])
def test_a_live_server_that_cannot_start_leaves_the_recording_as_it_is(
    mode: str, session: Path, tmp_path: Path
) -> None:
    before = tree(session)
    arguments = ["replay", session, "--mode", mode, "--", "no-such-server"]
    served = played(tmp_path, arguments, ("get", {"key": "c"}))

    assert "cannot start 'no-such-server': command not found" in served.texts[0] + served.said
    assert served.code != 0
    assert tree(session) == before


def test_rewrite_records_all_anew(session: Path, peer: Path, tmp_path: Path) -> None:
    arguments = ["replay", session, "--mode", "rewrite", "--", *varied(peer, "other-value")]
    served = played(tmp_path, arguments, *SESSION)
    again = played(tmp_path, ["replay", session], *SESSION)

    assert served.code == 0, served.said
    assert called(peer) == ["get", "get", "drop"]
    assert again.code == 0, again.said
    assert "news of a" in json.dumps(again.answers[1])


def test_hybrid_asks_live_what_is_allowed_and_flags_it(session: Path, peer: Path, tmp_path: Path) -> None:
    before, made = tree(session), tmp_path / "made"
    arguments = ["replay", session, "--mode", "hybrid", "--allow", "*:tools/call", "--record", made]
    calls: list[Call] = [*SESSION, ("get", {"key": "c"}), ("drop", {"key": "z"}), ("tools/list", {})]
    served = played(tmp_path, [*arguments, "--", *varied(peer)], *calls)

    assert served.texts[1:5] == [*SAID, "value of c"]
    # Its recorded annotations say that it destroys.
    assert served.answers[5]["error"]["data"]["reason"] == "not_recorded"
    assert called(peer) == ["get"]
    assert tree(session) == before
    (inner,) = list(made.iterdir())
    shown = tieline("frames", inner, "--json", cwd=tmp_path).stdout.splitlines()
    flagged = [one for one in map(json.loads, shown) if "live" in one.get("flags", ())]
    assert [one["way"] for one in flagged] == ["peer>"]


def test_hybrid_never_asks_live_what_a_rule_says_has_effects(
    session: Path, peer: Path, tmp_path: Path
) -> None:
    (tmp_path / "replay.toml").write_text(
        '[[rule]]\nmethod = "tools/call"\ntool = "plain"\nconsume = "once"\n'
    )
    arguments = ["replay", session, "--mode", "hybrid", "--allow", "*", "--", *varied(peer)]
    served = played(tmp_path, arguments, ("plain", {"key": "c"}), ("get", {"key": "c"}))

    assert served.answers[0]["error"]["data"]["reason"] == "not_recorded"
    assert served.texts[1] == "value of c"
    assert called(peer) == ["get"]


def test_hybrid_asks_nothing_that_is_not_allowed(session: Path, peer: Path, tmp_path: Path) -> None:
    arguments = ["replay", session, "--mode", "hybrid", "--allow", "*:resources/*", "--", *varied(peer)]
    served = played(tmp_path, arguments, ("get", {"key": "c"}))

    assert served.answers[0]["error"]["data"]["reason"] == "not_recorded"
    assert (served.code, starts(peer)) == (1, 0)


@pytest.mark.parametrize("lenient", ["error", "nearest", "stub"])
def test_lenient_answers_a_miss_as_it_is_told_and_still_tells_of_it(
    lenient: str, session: Path, tmp_path: Path
) -> None:
    guard, out = tmp_path / "guard.log", tmp_path / "report.json"
    arguments = ["replay", session, "--mode", "lenient", "--lenient", lenient, "--report", out]
    served = played(tmp_path, arguments, *SESSION, ("get", {"key": "c"}), guard=guard)
    answer = served.answers[-1]

    assert guard.read_text() == ""
    assert served.code == 1
    assert [one["class"] for one in report(out)["divergences"]] == ["extra"]
    if lenient == "error":
        assert answer["error"]["data"]["reason"] == "not_recorded"
        return
    made = answer["result"]["structuredContent"]
    jsonschema_rs.validate(varied_peer.GOT, made)
    assert made["value"] == ("value of a" if lenient == "nearest" else "xxx")


def test_shadow_serves_live_and_compares(session: Path, peer: Path, tmp_path: Path) -> None:
    before = tree(session)
    same = played(tmp_path, ["replay", session, "--mode", "shadow", "--", *varied(peer)], *SESSION)
    other = ["replay", session, "--mode", "shadow", "--", *varied(peer, "other-value")]
    changed = played(tmp_path, other, *SESSION)

    assert (same.code, changed.code) == (0, 1), same.said
    assert "SAME" in same.said
    assert "value changed" in changed.said
    assert tree(session) == before


def test_a_peer_alone_can_be_live_or_off(session: Path, peer: Path, tmp_path: Path) -> None:
    name = name_of(session)
    live = played(
        tmp_path,
        ["replay", session, "--peer", f"{name}=live", "--", *varied(peer, "other-value")],
        SESSION[1],
    )
    assert live.answers[0]["result"]["structuredContent"]["value"] == "news of a"
    assert called(peer) == ["get"]
    guard = tmp_path / "guard.log"
    off = played(tmp_path, ["replay", session, "--peer", f"{name}=off"], SESSION[1], guard=guard)
    assert "error" in off.answers[0]
    mock = played(tmp_path, ["replay", session, "--peer", f"{name}=mock"], *SESSION, guard=guard)
    assert (mock.code, mock.texts[1:]) == (0, SAID)
    assert guard.read_text() == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--mode", "extend"], "`--mode extend` may need live services"),
        (["--mode", "rewrite"], "`--mode rewrite` may need live services"),
        (["--mode", "shadow"], "`--mode shadow` may need live services"),
        (["--mode", "hybrid", "--", "x"], "mode `hybrid` asks nothing live that is not allowed"),
        (["--mode", "later"], "`--mode later` is not known"),
        (["--gate", "none"], "`--gate none` is not known"),
        (["--lenient", "yes"], "`--lenient yes` is not known"),
        (["--pace", "scaled:x"], "`--pace scaled:x` is not known"),
        (["--peer", "x"], "`--peer x` says nothing"),
        (["--peer", "x=mock"], "the recording has no peer `x`"),
        (["--allow", "x"], "what may be asked live is named for mode `hybrid` alone"),
        (["--mode", "extend", "--config", "c.toml", "--", "x"], "a command and `--config` are two ways"),
        (["--mode", "extend", "--config", "c.toml"], "`c.toml` does not exist"),
        (["--json"], "`--json` means nothing without `--drive`"),
        (["--lenient", "stub"], "`--lenient` means nothing without `--mode lenient`"),
        (["--mode", "shadow", "--fault", "drop", "--", "x"], "`--fault` means nothing in mode `shadow`"),
        (["--drive", "--mode", "extend"], "`--mode` means nothing beside `--drive`"),
        (["--drive", "--fault", "drop peer=x"], "`--fault` means nothing beside `--drive`"),
        (["--drive", "--http", "0"], "`--http` means nothing beside `--drive`"),
        (["--drive", "--record", "more"], "`--record` means nothing beside `--drive`"),
        (["--drive", "--", "x"], "a command means nothing beside `--drive`"),
        (["--", "x"], "a server's command is named, and `--mode replay` asks nothing live"),
    ],
)
def test_options_that_do_not_go_together_are_a_sentence_with_a_hint(
    options: list[str], said: str, session: Path, tmp_path: Path
) -> None:
    before = tree(session)
    done = tieline("replay", session, *options, cwd=tmp_path)

    assert done.stderr.startswith(f"error: {said}"), done.stderr
    assert "hint: " in done.stderr
    assert done.returncode in (2, 3)
    assert tree(session) == before


def test_a_live_peer_has_to_stand_in_the_configuration(session: Path, tmp_path: Path) -> None:
    (tmp_path / "tieline.toml").write_text('[peers.other]\ncommand = ["x"]\n')
    arguments = ["--peer", f"{name_of(session)}=live", "--config", "tieline.toml"]
    done = tieline("replay", session, *arguments, cwd=tmp_path)

    assert done.stderr.startswith("error: the configuration has no peer")
    assert done.returncode in (2, 3)


def test_a_sweep_of_faults_tries_its_command_without_any_first(session: Path, tmp_path: Path) -> None:
    done = tieline("faults", session, "--sweep", "false {}", cwd=tmp_path)
    assert done.stderr.startswith("error: the command fails without any fault too: exit code 1"), done.stderr
    assert done.returncode == 2
    assert tieline("faults", session, "--sweep", "true {}", cwd=tmp_path).returncode == 0
