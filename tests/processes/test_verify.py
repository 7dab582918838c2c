"""`tieline verify` against real servers: the same one, one that has changed, one that asks, one that hangs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gateway.cli.main import main
from tests.processes.replay_kit import Call, called, recorded, tieline, tree, varied

SESSION: tuple[Call, ...] = (("tools/list", {}), ("get", {"key": "a"}), ("plain", {"key": "b"}))
MADE_UP: tuple[Call, ...] = (("resources/list", {}),)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording that no test changes."""
    folder = tmp_path_factory.mktemp("kept")
    return recorded(folder, folder / "peer", *SESSION)


def verify(folder: Path, session: Path, *variants: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Verify a recording against the varied peer; give the exit code and what was printed."""
    done = tieline("verify", session, *options, "--", *varied(folder / "live", *variants), cwd=folder)
    return done.returncode, done.stdout + done.stderr


def test_the_same_server_has_not_drifted(kept: Path, tmp_path: Path) -> None:
    before = tree(kept)
    code, said = verify(tmp_path, kept)

    assert code == 0, said
    assert "SAME" in said
    assert called(tmp_path / "live") == ["get", "plain"]
    assert tree(kept) == before


@pytest.mark.parametrize(
    ("variant", "severity", "what", "pointer"),
    [
        ("field-added", "added", "field added", "/result/structuredContent/colour"),
        ("field-removed", "breaking", "field removed", "/result/structuredContent/size"),
        ("other-type", "breaking", "type changed", "/result/structuredContent/size"),
        ("other-value", "changed", "value changed", "/result/structuredContent/value"),
        ("failing", "breaking", "response became error", ""),
        ("fewer-tools", "breaking", "", ""),
    ],
)
def test_a_change_has_its_severity_and_decides_the_exit_code(
    variant: str, severity: str, what: str, pointer: str, kept: Path, tmp_path: Path
) -> None:
    grades = ("breaking", "changed", "added")
    for fail_on in grades:
        code, said = verify(tmp_path, kept, variant, options=("--json", "--fail-on", fail_on))
        drifts: list[dict[str, Any]] = json.loads(said)["drifts"]
        assert (
            any(
                one["severity"] == severity
                and one["what"].startswith(what)
                and one.get("pointer", "") == pointer
                for one in drifts
            )
            or variant == "fewer-tools"
        ), drifts
        gravest = min(grades.index(one["severity"]) for one in drifts)
        assert gravest == grades.index(severity)
        assert code == (1 if gravest <= grades.index(fail_on) else 0)


def test_the_drift_is_told_as_junit(kept: Path, tmp_path: Path) -> None:
    code, _ = verify(tmp_path, kept, "field-removed", options=("--junit", "drift.xml"))
    suite = ElementTree.parse(tmp_path / "drift.xml").getroot()

    assert code == 1
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
    (failure,) = suite.iter("failure")
    assert failure.get("type") == "breaking"
    assert "field removed /result/structuredContent/size" in str(failure.get("message"))


def test_values_that_the_server_makes_up_anew_are_put_in_the_place_of_recorded_ones(tmp_path: Path) -> None:
    # What the second call needs, only the first answer of this very run has.
    folder = tmp_path / "made"
    folder.mkdir()
    first = recorded_with_handles(folder)
    code, said = verify(tmp_path, first)

    assert code == 0, said
    assert called(tmp_path / "live") == ["open", "use", "start", "poll"]


def recorded_with_handles(folder: Path) -> Path:
    """A session in which a cursor, a handle and a task id of the server's are brought back to it."""
    from tests.processes.gateway_kit import TIELINE, run
    from tests.processes.replay_kit import program, text

    out = folder / "session"

    async def main() -> None:
        command = [*TIELINE, "record", "--out", out, "--", *varied(folder / "peer")]
        async with program(folder, command) as (client, _):
            await client.shake_hands()
            cursor = (await client.ask("resources/list"))["result"]["nextCursor"]
            assert "result" in await client.ask("resources/list", {"cursor": cursor})
            opened = (await client.tool("open"))["result"]["structuredContent"]["handle"]
            assert text(await client.tool("use", handle=opened)) == f"used {opened}"
            task = (await client.tool("start"))["result"]["structuredContent"]["taskId"]
            assert text(await client.tool("poll", taskId=task)) == "state 0"

    run(main())
    return out


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
def test_questions_are_answered_as_they_were_when_it_was_recorded(modern: bool, tmp_path: Path) -> None:
    calls: list[Call] = [("elicit", {})] if modern else [("elicit", {}), ("sample", {})]
    session = recorded(tmp_path, tmp_path / "peer", *calls, modern=modern)
    code, said = verify(tmp_path, session)

    assert code == 0, said
    assert called(tmp_path / "live") == (["elicit", "elicit"] if modern else ["elicit", "sample"])


def test_a_question_that_was_not_recorded_is_refused_and_the_call_is_drift(
    kept: Path, tmp_path: Path
) -> None:
    code, said = verify(tmp_path, kept, "curious", options=("--json",))

    assert code == 1 or json.loads(said)["drifts"], said
    (drift,) = [one for one in json.loads(said)["drifts"] if one["call"].endswith("get")]
    assert drift["pointer"] == "/result/structuredContent/told"
    assert drift["after"] is False


def test_a_server_that_hangs_leaves_the_verification_incomplete(kept: Path, tmp_path: Path) -> None:
    # The others start and answer in that time, however busy the machine is.
    options = ("--timeout", "3", "--json", "--junit", "drift.xml")
    code, said = verify(tmp_path, kept, "silent", options=options)

    found = json.loads(said)
    assert code == 2, said
    assert len(found["unanswered"]) == 1
    assert called(tmp_path / "live") == ["get", "plain"]
    assert ElementTree.parse(tmp_path / "drift.xml").getroot().get("errors") == "1"


def test_who_waits_for_a_server_that_hangs_is_told_what_for(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gateway.runtime.verifying.TOLD_S", 1.0)
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))
    command = varied(tmp_path / "live", "silent")
    words = ["tieline", "verify", str(kept), "--timeout", "2.5", "--", *command]
    monkeypatch.setattr(sys, "argv", [str(word) for word in words])

    assert main() == 2

    told = capfd.readouterr().err
    assert (
        "note: 1 s without an answer, of 2.5 s that are waited; 1 request in flight: tools/call get" in told
    )
    assert "note: 2 s" in told


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (["--", "no-such-program"], "command not found"),
        (["--", "false"], "exited with code 1"),
        (["--url", "http://127.0.0.1:9/mcp"], "cannot connect to http://127.0.0.1:9"),
    ],
)
def test_a_live_server_that_cannot_be_reached_is_an_error_and_no_drift(
    server: list[str], why: str, kept: Path, tmp_path: Path
) -> None:
    done = tieline("verify", kept, *server, cwd=tmp_path)

    assert done.returncode == 3
    assert "error: the live server cannot be reached: " in done.stderr
    assert why in done.stderr
    assert "DRIFT" not in done.stdout


def test_an_answer_that_was_not_recorded_is_not_waited_for(tmp_path: Path) -> None:
    from tests.processes.gateway_kit import TIELINE, eventually, run
    from tests.processes.replay_kit import program

    out = tmp_path / "session"

    async def main() -> None:
        command = [*TIELINE, "record", "--out", out, "--", *varied(tmp_path / "peer")]
        async with program(tmp_path, command) as (client, _):
            await client.shake_hands()
            await client.tool("get", key="a")
            client.start_tool("wait")
            await eventually(lambda: "wait" in called(tmp_path / "peer"), "the call")

    run(main())
    # Where it were waited for, this would take longer than a test may.
    code, said = verify(tmp_path, out, options=("--timeout", "3600"))

    assert code == 0, said
    assert "0 without an answer" in said


def test_calls_that_ran_together_run_together_again(tmp_path: Path) -> None:
    from tests.processes.replay_kit import played

    out = tmp_path / "session"
    calls: list[Call] = [("get", {"key": str(number)}) for number in range(8)]
    served = played(
        tmp_path, ["record", "--out", out, "--", *varied(tmp_path / "peer")], *calls, together=True
    )
    assert served.code == 0
    code, said = verify(tmp_path, out)

    assert code == 0, said
    assert "9 calls" in said
    assert called(tmp_path / "live") == ["get"] * 8


def test_a_cancelled_call_is_cancelled_again(tmp_path: Path) -> None:
    from tests.processes.gateway_kit import TIELINE, run
    from tests.processes.replay_kit import program, text

    out = tmp_path / "session"

    async def main() -> None:
        command = [*TIELINE, "record", "--out", out, "--", *varied(tmp_path / "peer")]
        async with program(tmp_path, command) as (client, _):
            await client.shake_hands()
            id_, _waiting = client.start_tool("wait")
            client.send({"method": "notifications/cancelled", "params": {"requestId": id_}})
            assert text(await client.tool("plain", key="after")) == "plain after: done"
            _waiting.cancel()

    run(main())
    code, said = verify(tmp_path, out, options=("--timeout", "5"))

    assert code == 0, said
    assert called(tmp_path / "live") == ["wait", "plain"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere", "--", "x"], 3, "error: "),
        (["SESSION", "--fail-on", "all", "--", "x"], 2, "error: `--fail-on all` is not known"),
        (
            ["SESSION", "--url", "http://127.0.0.1:1/mcp", "--", "x"],
            2,
            "error: a command and `--url` are two",
        ),
        (["SESSION", "--out", "SESSION", "--", "x"], 2, "error: "),
    ],
)
def test_wrong_use_is_a_sentence(
    arguments: list[str], code: int, said: str, kept: Path, tmp_path: Path
) -> None:
    done = tieline("verify", *(str(kept) if one == "SESSION" else one for one in arguments), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr.startswith(said)


def test_the_live_run_is_kept_where_it_is_asked_for(kept: Path, tmp_path: Path) -> None:
    code, said = verify(tmp_path, kept, options=("--out", "live-run"))

    assert code == 0, said
    assert tieline("diff", kept, "live-run", cwd=tmp_path).returncode == 0
