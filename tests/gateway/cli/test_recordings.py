"""`tieline frames`, `show`, `doctor` and `export`: what they print where, and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main
from gateway.cli.reading import bar
from gateway.protocol.canonical import params_hash
from gateway.runtime.speedups import speedups
from recordings import files
from recordings.frame import Frame
from recordings.store import Recorder, open_recording
from tests.recordings.recording_kit import frame, recorded, session

ESCAPE = "\x1b[31m"


def talk() -> list[Frame]:
    """A call that is answered, one that fails, one that is lost, and a peer that writes to the terminal."""
    ask = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"query"}}'
    return [
        frame(1, ask, "request", way="core>", peer="db", id=1, method="tools/call", name="query"),
        frame(2, b'{"progress":1}', way="peer>", peer="db", re=1, method="notifications/progress"),
        frame(
            3,
            b'{"jsonrpc":"2.0","id":1,"result":{}}',
            "response",
            at=400_000_000,
            way="peer>",
            peer="db",
            re=1,
        ),
        frame(
            4, ask, "request", at=500_000_000, way="core>", peer="lsp", id=2, method="tools/call", name=ESCAPE
        ),
        frame(5, b'{"error":{}}', "error", at=501_000_000, way="peer>", peer="lsp", re=4, after=3),
        frame(6, f"{ESCAPE} loud".encode(), "raw", at=502_000_000, way="peer>", peer="lsp"),
        frame(7, ask, "request", at=503_000_000, way="core>", peer="db", id=3, method="ping"),
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return recorded(tmp_path / "r", talk(), seal=True)


class Told:
    """What a command printed, and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def tieline(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: object) -> Told:
        monkeypatch.setattr(sys, "argv", ["tieline", *map(str, arguments)])
        code = main()
        said = capfd.readouterr()
        return Told(code, said.out, said.err)

    return run


def test_frames_are_listed_a_row_each(tieline: Any, path: Path) -> None:
    told = tieline("frames", path)
    assert told.code == 0
    rows = [line.split() for line in told.out.splitlines() if line.strip()[:1].isdigit()]
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5", "6", "7", "8"]
    assert "399 ms" in told.out
    assert told.err == "warning: 1 request has no answer and counts as lost\n"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stdout as a terminal of 80 columns."""
    for name in ("frames", "show"):
        monkeypatch.setattr(f"gateway.cli.{name}.terminal_width", lambda: 80)


@pytest.mark.usefixtures("terminal")
def test_a_row_of_a_frame_is_one_line_of_a_narrow_terminal(tieline: Any, tmp_path: Path) -> None:
    uri = "file:///home/somebody/projects/shop/README.md"
    ask = frame(
        1, b"{}", "request", way="core>", peer="a-peer-with-a-name", method="resources/read", name=uri
    )
    answer = frame(2, b"{}", "response", at=20_500_000, way="peer>", peer="a-peer-with-a-name", re=1)
    answer.flags = ("redacted",)
    path = recorded(tmp_path / "r", [ask, answer], seal=True)

    head, rule, *body = tieline("frames", path).out.splitlines()
    assert head.split() == ["seq", "at", "way", "peer", "kind", "took", "what"]
    assert len(rule) <= 80
    assert body == [
        "  1  0.001  core>  a-peer-with-a-name  request            resources/read file:/…",
        "  2  0.021  peer>  a-peer-with-a-name  response  19.5 ms  resources/… [redacted]",
    ]
    assert max(map(len, tieline("show", path, 2).out.splitlines())) <= 80


def test_a_file_has_whole_names_and_a_long_one_moves_no_column(tieline: Any, tmp_path: Path) -> None:
    notice = "the tool is offered by two peers " * 8
    told = frame(2, kind="route", way="inside", x={"notice": notice.strip()})
    path = recorded(tmp_path / "r", [*talk()[:1], told], seal=False)

    lines = tieline("frames", path).out.splitlines()
    assert lines[0] == "seq     at  way     peer  kind     bytes  what"
    assert lines[2] == "  1  0.001  core>   db    request     72  tools/call query"
    assert lines[3].endswith("notice " + notice.strip())
    assert len(lines[1]) == 100


def test_a_line_of_a_servers_stderr_is_shown_where_it_was_said(tieline: Any, tmp_path: Path) -> None:
    said = frame(1, b"boom: set API_KEY\nTraceback\n", "raw", way="peer>", peer="db")
    path = recorded(tmp_path / "r", [said], seal=True)
    assert tieline("frames", path).out.splitlines()[-1].endswith("  boom: set API_KEY")


def test_what_went_wrong_is_said_in_its_row(tieline: Any, tmp_path: Path) -> None:
    ask = frame(1, b"{}", "request", way="core>", peer="db", method="tools/call", name="query")
    refused = b'{"error":{"code":-32602,"message":"no table nowhere\\nask for schema"}}'
    error = frame(2, refused, "error", way="peer>", peer="db", re=1)
    again = frame(3, b"{}", "request", way="core>", peer="db", method="tools/call", name="query")
    told = b'{"result":{"isError":true,"content":[{"type":"text","text":"the disk is full"}]}}'
    path = recorded(
        tmp_path / "r", [ask, error, again, frame(4, told, "response", way="peer>", re=3)], seal=True
    )
    *_, first, second = tieline("frames", path, "--errors").out.splitlines()
    assert first.endswith("  tools/call query: no table nowhere")
    assert second.endswith("  tools/call query: the disk is full")


def test_a_lane_has_a_column_where_there_is_one(tieline: Any, tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", [frame(1, lane="turn1/tool2"), frame(2)], seal=True)
    head, _, first, second = tieline("frames", path).out.splitlines()
    assert head.split() == ["seq", "at", "lane", "kind", "what"]
    assert first.split() == ["1", "0.001", "turn1/tool2", "notification"]
    assert second.split() == ["2", "0.002", "notification"]


def test_followed_rows_have_a_head_and_begin_the_same_columns(tieline: Any, path: Path) -> None:
    told = tieline("frames", path, "--follow", "--peer", "db").out.splitlines()
    assert told[0].split() == ["seq", "at", "way", "peer", "kind", "took", "what"]
    starts = {line.index(word) for line, word in zip(told, ("what", "tools/call query"), strict=False)}
    assert len(starts) == 1
    assert told[3].split() == ["3", "0.400", "peer>", "db", "response", "399", "ms", "tools/call", "query"]


def test_what_peers_say_cannot_move_the_cursor(tieline: Any, path: Path) -> None:
    for arguments in (("frames",), ("frames", "--summary"), ("show", 4), ("show", 6)):
        command, *rest = arguments
        told = tieline(command, path, *rest)
        assert "\x1b" not in told.out
        assert "\\x1b[31m" in told.out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--errors"], [5, 8]),
        (["--peer", "lsp"], [4, 5, 6]),
        (["--method", "tools/*", "--slow", "100"], [3]),
        (["--kind", "raw", "--kind", "lost"], [6, 8]),
        (["--since", "0.4", "--until", "0.5"], [3, 4]),
        (["--last", "2"], [7, 8]),
        (["--name", "query"], [1, 2, 3]),
    ],
)
def test_filters_go_together_and_json_is_an_object_a_line(
    tieline: Any, path: Path, options: list[str], expected: list[int]
) -> None:
    told = tieline("frames", path, "--json", *options)
    assert [each["seq"] for each in told.objects] == expected
    assert told.code == 0


def test_json_holds_the_frame_as_it_is_stored_and_how_long_it_took(tieline: Any, path: Path) -> None:
    (answer,) = tieline("frames", path, "--json", "--kind", "response").objects
    assert answer["took_ns"] == 399_000_000
    assert answer["body"] == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert "crc" not in answer


def test_no_frame_that_fits_is_a_no(tieline: Any, path: Path) -> None:
    for told in (tieline("frames", path, "--peer", "nobody", *more) for more in ((), ("--summary",))):
        assert (told.code, told.out) == (1, "no such frame\n")
    assert tieline("frames", path, "--peer", "nobody", "--json").out == ""


def test_where_nothing_went_wrong_there_is_nothing_to_complain_of(tieline: Any, path: Path) -> None:
    clean = ("frames", path, "--errors", "--method", "notifications/*")
    for told in (tieline(*clean, *more) for more in ((), ("--summary",), ("--follow",))):
        assert (told.code, told.out) == (0, "nothing went wrong\n")
    assert (tieline(*clean, "--json").code, tieline(*clean, "--json").out) == (0, "")
    nobody = tieline("frames", path, "--errors", "--peer", "nobody")
    assert (nobody.code, nobody.out) == (1, "no such frame\n")


@pytest.mark.parametrize(
    "arguments", [["--kind", "novel"], ["--follow", "--last", "3"], ["--last", "0"], ["--no-such-option"]]
)
def test_wrong_use_is_told_as_such(tieline: Any, path: Path, arguments: list[str]) -> None:
    told = tieline("frames", path, *arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("error: ")


@pytest.mark.parametrize("command", [["frames"], ["show", "1"], ["doctor"], ["export", "--har"]])
def test_a_directory_that_is_not_there_is_wrong_use_and_one_that_is_no_recording_is_bad_input(
    tieline: Any, tmp_path: Path, command: list[str]
) -> None:
    name, *rest = command
    assert tieline(name, tmp_path / "nowhere", *rest).code == 2
    told = tieline(name, tmp_path, *rest)
    assert (told.code, told.out) == (3, "")
    assert "holds no recording" in told.err


def test_what_is_no_recording_is_told_with_what_to_do_instead(tieline: Any, tmp_path: Path) -> None:
    def hint(place: Path) -> str:
        return tieline("frames", place).err.partition("\nhint: ")[2]

    (tmp_path / "empty").mkdir()
    assert hint(tmp_path / "empty") == "`tieline recordings` lists those that lie in the usual place\n"
    (tmp_path / "some.har").touch()
    assert f"`tieline import {tmp_path / 'some.har'}`" in hint(tmp_path / "some.har")
    (tmp_path / "as text").mkdir()
    (tmp_path / "as text" / "session.json").touch()
    assert f"`tieline import '{tmp_path / 'as text'}'`" in hint(tmp_path / "as text")
    path = recorded(tmp_path / "many" / "r", session(3))
    assert hint(tmp_path / "many") == f"1 recording in it; name one, as `{path}`\n"


def test_a_place_that_is_taken_is_told_with_what_to_do(tieline: Any, path: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    told = tieline("fork", path, "--at", "1", "--out", tmp_path / "taken")
    assert told.code == 3
    assert told.err.endswith(
        f"error: the directory `{tmp_path / 'taken'}` is not empty: a recording needs its own\n\n"
        "hint: Name another one, or remove it\n"
    )


@pytest.mark.parametrize("command", [["frames"], ["show", "40"], ["export", "--json"]])
def test_damage_is_bad_input_that_names_the_place_and_the_way_out(
    tieline: Any, tmp_path: Path, command: list[str]
) -> None:
    path = recorded(tmp_path / "r", session(30))
    data = (path / files.FRAMES).read_bytes()
    (path / files.FRAMES).write_bytes(data[:2000] + b"~" + data[2001:])
    name, *rest = command
    told = tieline(name, path, *rest)
    assert told.code == 3
    assert "damaged at seq" in told.err
    assert f"`tieline doctor {path} --salvage OUT`" in told.err


def test_the_summary_counts_calls(tieline: Any, path: Path) -> None:
    told = tieline("frames", path, "--summary").out
    assert "7 frames in 503 ms, 3 calls, 1 error, 0 cancelled, 1 without an answer (sealed)\n" in told
    calls = [line.split() for line in told.splitlines() if "tools/call" in line or "ping" in line]
    assert [(row[0], row[1], row[-1]) for row in calls] == [
        ("db", "1", "ping"), ("db", "1", "query"), ("lsp", "1", "\\x1b[31m"),
    ]  # fmt: skip
    counted = json.loads(tieline("frames", path, "--summary", "--json").out)
    assert (counted["frames"], counted["calls"], counted["errors"], counted["unanswered"]) == (7, 3, 1, 1)
    assert counted["methods"][0]["calls"] == 1


def test_a_summary_of_some_frames_counts_the_calls_that_they_belong_to(tieline: Any, path: Path) -> None:
    counted = json.loads(tieline("frames", path, "--errors", "--summary", "--json").out)
    # The error's call, and the one whose answer never came; the latter's frame is not stored.
    assert (counted["frames"], counted["calls"], counted["errors"], counted["unanswered"]) == (1, 2, 1, 1)
    counted = json.loads(tieline("frames", path, "--peer", "db", "--summary", "--json").out)
    assert (counted["frames"], counted["calls"], counted["errors"]) == (4, 2, 0)


def test_that_a_server_is_of_the_older_era_is_no_error(tieline: Any, tmp_path: Path) -> None:
    refusal = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}'
    frames = [
        frame(1, b"{}", "request", way=">peer", peer="old", id=1, method="server/discover"),
        frame(2, refusal, "error", way="peer>", peer="old", re=1, id=1),
        frame(3, b"{}", "request", way="core>", id=1, method="server/discover"),
        frame(4, refusal, "error", way=">core", re=3, id=1),
    ]
    path = recorded(tmp_path / "r", frames, seal=True)
    assert [each["seq"] for each in tieline("frames", path, "--errors", "--json").objects] == [4]
    assert json.loads(tieline("frames", path, "--summary", "--json").out)["errors"] == 1


def test_kinds_are_completed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("_TIELINE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "tieline frames session --kind re")
    monkeypatch.setenv("COMP_CWORD", "4")
    monkeypatch.setattr(sys, "argv", ["tieline"])
    with pytest.raises(SystemExit):
        main()
    assert capfd.readouterr().out.split() == ["request", "response", "ready", "restart"]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory with two recordings; the one called `a` is the newer one."""
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))
    for number, name in enumerate(("b", "a")):
        path = recorded(tmp_path / "state" / "recordings" / name, talk()[: number + 1], seal=True)
        os.utime(path / "recording.json", ns=(number, number))
    return tmp_path / "state" / "recordings"


def test_recordings_are_listed_the_newest_first(tieline: Any, state: Path) -> None:
    told = tieline("recordings")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith(f"in {state}\n")
    assert [line.split()[-1] for line in told.out.splitlines()[-2:]] == ["a", "b"]
    listed = json.loads(tieline("recordings", "--json", "--last", 1).out)
    assert [(each["path"], each["frames"], each["state"]) for each in listed] == [
        (str(state / "a"), 2, "sealed")
    ]


def test_a_recording_that_cannot_be_read_is_told_and_the_others_listed(tieline: Any, state: Path) -> None:
    (state / "a" / "recording.json").write_text("{}")
    told = tieline("recordings", state, "--json")
    assert told.code == 0
    assert [Path(each["path"]).name for each in json.loads(told.out)] == ["b"]
    assert told.err.startswith(f"warning: {state / 'a'}: ")


def test_where_no_recording_is_there_is_none_to_list_or_to_show(tieline: Any, tmp_path: Path) -> None:
    told = tieline("recordings", tmp_path)
    assert (told.code, told.out) == (1, f"no recording in {tmp_path}\n")
    assert tieline("recordings", tmp_path / "nowhere").code == 3


@pytest.mark.parametrize("command", [["frames"], ["show", "1"], ["doctor"], ["export", "--json"]])
def test_no_name_means_the_newest_recording_and_a_bare_name_one_of_the_list(
    tieline: Any, state: Path, command: list[str]
) -> None:
    name, *rest = command
    newest = tieline(name, *rest)
    assert newest.err.startswith(f"note: the newest recording is `{state / 'a'}`\n")
    assert newest.out == tieline(name, state / "a", *rest).out
    assert tieline(name, "b", *rest).out == tieline(name, state / "b", *rest).out


def test_a_live_recording_is_followed_until_it_ends(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    recorder.append(frame(1, b'{"n":1}'))
    script = "import sys; from gateway.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "frames", str(tmp_path / "r"), "--follow", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        watchdog = threading.Timer(40, process.kill)
        watchdog.start()
        try:
            for seq in range(2, 5):
                assert json.loads(process.stdout.readline())["seq"] == seq - 1
                recorder.append(frame(seq, b'{"n":1}'))
            assert json.loads(process.stdout.readline())["seq"] == 4
            recorder.seal()
            assert process.stdout.read() == b""
            assert process.wait() == 0
        finally:
            watchdog.cancel()
            recorder.close()


def test_a_frame_is_shown_with_its_body_its_causes_and_its_answer(tieline: Any, path: Path) -> None:
    told = tieline("show", path, 3)
    assert '  "result": {}' in told.out
    assert "took         399 ms" in told.out
    assert "caused by" in told.out
    assert "led to" in tieline("show", path, 1).out
    shown = json.loads(tieline("show", path, 5, "--json").out)
    assert shown["frame"]["kind"] == "error"
    assert {name: cause["seq"] for name, cause in shown["causes"].items()} == {"re": 4, "after": 3}
    shown = json.loads(tieline("show", path, 1, "--json").out)
    assert [each["seq"] for each in shown["results"]] == [2, 3]


def test_a_frame_is_shown_in_words(tieline: Any, tmp_path: Path) -> None:
    about = {"reason": "closed", "peers": ["a", "b"], "left": None, "own": True}
    closed = frame(2, kind="close", at=1_500_000_000, wall=1_795_829_078_651_367_889, x=about)
    closed.flags = ("redacted", "late")
    told = tieline("show", recorded(tmp_path / "r", [frame(1), closed], seal=True), 2)
    assert told.out.splitlines() == [
        "seq          2",
        "at           1.500000 s",
        f"wall         {datetime.fromtimestamp(1_795_829_078.651368).astimezone()}",
        "kind         close",
        "flags        redacted, late",
        "reason       closed",
        "peers        a, b",
        "left         none",
        "own          yes",
    ]


@pytest.mark.parametrize("words", [[], ["session"], ["session", "x"]])
def test_show_without_a_number_is_wrong_use(tieline: Any, words: list[str]) -> None:
    told = tieline("show", *words)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("error: name a recording and the number of a frame\n")


def test_a_frame_that_is_not_there_is_wrong_use(tieline: Any, path: Path) -> None:
    told = tieline("show", path, 99)
    assert told.code == 2
    assert "no frame 99" in told.err


def test_a_body_that_is_gone_is_told_and_the_frame_shown(tieline: Any, tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", [frame(1, b'"' + b"x" * 40_000 + b'"')])
    assert "x" * 40_000 in tieline("show", path, 1).out
    assert json.loads(tieline("show", path, 1, "--json").out)["frame"]["body"] == "x" * 40_000
    for each in (path / "blobs").rglob("*"):
        if each.is_file():
            each.unlink()
    told = tieline("show", path, 1)
    assert told.code == 0
    assert "the body of frame 1 is missing" in told.err


def test_the_doctor_says_whole_usable_or_damaged(tieline: Any, tmp_path: Path) -> None:
    whole = recorded(tmp_path / "whole", [frame(1), frame(2)])
    told = tieline("doctor", whole)
    assert (told.code, told.out.splitlines()[-1]) == (0, speedups().in_words())
    data = (whole / files.FRAMES).read_bytes()
    (whole / files.FRAMES).write_bytes(data + b'{"seq":3')
    told = tieline("doctor", whole, "--json")
    assert (told.code, json.loads(told.out)["healthy"]) == (1, True)
    (whole / files.FRAMES).write_bytes(data[:10] + b"~" + data[11:])
    told = tieline("doctor", whole)
    assert (told.code, told.out) == (3, "")
    assert "damaged at seq 1" in told.err
    assert json.loads(tieline("doctor", whole, "--json").out)["healthy"] is False


def test_the_doctor_salvages(tieline: Any, tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(30))
    data = (path / files.FRAMES).read_bytes()
    (path / files.FRAMES).write_bytes(data[:2000] + b"~" + data[2001:])
    told = tieline("doctor", path, "--salvage", tmp_path / "out", "--json")
    assert told.code == 0
    assert json.loads(told.out)["kept"] == 29
    assert tieline("frames", tmp_path / "out").code == 0
    told = tieline("doctor", path, "--salvage", tmp_path / "out")
    assert told.code == 3
    assert "not empty" in told.err


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every recording is of the size that gets a replay index."""
    for module in ("sealing", "lookup"):
        monkeypatch.setattr(f"recordings.{module}.TABLE_BYTES", 1)


@pytest.mark.parametrize("name", [files.INDEX, files.REPLAY_INDEX])
def test_the_doctor_tells_of_an_index_that_is_gone_and_makes_it_anew(
    tieline: Any, tmp_path: Path, all_are_large: None, name: str
) -> None:
    path = recorded(tmp_path / "r", [frame(1), frame(2)], seal=True)
    before = (path / name).read_bytes()
    (path / name).unlink()
    told = tieline("doctor", path)
    assert told.code == 1
    assert "--reindex" in told.err
    assert not (path / name).exists()
    told = tieline("doctor", path, "--reindex")
    assert (told.code, told.err) == (0, "")
    assert "sealed and indexed: 2 frames" in told.out
    assert (path / name).read_bytes() == before
    told = tieline("doctor", path)
    assert (told.code, told.err) == (0, "")


def test_what_takes_long_is_shown_on_a_terminal_and_nothing_before_it_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with bar("indexing"):
        pass
    assert capsys.readouterr() == ("", "")
    with bar("indexing") as tell:
        tell(1, 4)
        tell(4, 4)
    told = capsys.readouterr()
    assert told.out == ""
    assert "indexing" in told.err
    assert "100 %" in told.err


def test_the_doctor_seals_what_was_broken_off(tieline: Any, tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(30))
    told = tieline("doctor", path, "--reindex", "--json")
    assert (told.code, json.loads(told.out)["state"], json.loads(told.out)["frames"]) == (0, "sealed", 30)
    assert (path / files.SEALED).exists()
    assert tieline("doctor", path, "--reindex", "--salvage", tmp_path / "out").code == 2
    (path / files.SEALED_FRAMES).unlink()
    told = tieline("doctor", path, "--reindex")
    assert (told.code, told.out) == (3, "")
    (path / files.SEALED).unlink()
    told = tieline("doctor", path, "--reindex")
    assert (told.code, told.out) == (3, "")
    assert "there is no `frames.jsonl`" in told.err


def test_the_doctor_seals_anew_what_has_lost_its_seal_and_is_whole(tieline: Any, tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(30), seal=True)
    before = (path / files.SEALED).read_bytes()
    (path / files.SEALED).unlink()
    told = tieline("doctor", path)
    assert told.code == 1
    assert "`sealed` is lost" in told.err
    assert "30 frames" in told.out
    told = tieline("frames", path)
    assert told.code == 0
    assert "`sealed` is lost" in told.err
    assert tieline("doctor", path, "--reindex").code == 0
    assert (path / files.SEALED).read_bytes() == before
    told = tieline("doctor", path)
    assert (told.code, told.err) == (0, "")


def test_what_has_lost_both_seal_and_index_is_never_taken_for_whole(tieline: Any, tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(30), seal=True)
    (path / files.SEALED).unlink()
    (path / files.INDEX).unlink()
    for command in (("doctor",), ("doctor", "--reindex"), ("frames",), ("replay", "--drive")):
        told = tieline(command[0], path, *command[1:])
        assert told.code == 3
        assert "`sealed` and `index` are lost" in told.err
        assert f"tieline doctor {path} --salvage" in told.err
    assert not (path / files.SEALED).exists()
    assert tieline("doctor", path, "--salvage", tmp_path / "out").code == 0
    assert len(list(open_recording(tmp_path / "out"))) >= 30


@pytest.mark.parametrize("form", ["har", "trace", "json"])
def test_an_export_goes_to_stdout_or_to_a_private_file(
    tieline: Any, path: Path, tmp_path: Path, form: str
) -> None:
    told = tieline("export", path, f"--{form}")
    assert json.loads(told.out)
    out = tmp_path / "out.json"
    assert tieline("export", path, f"--{form}", "-o", out).out == ""
    assert out.read_text() == told.out
    assert out.stat().st_mode & 0o777 == 0o600
    assert tieline("export", path, f"--{form}", "-o", tmp_path / "no" / "dir").code == 3


def test_an_export_is_of_one_format(tieline: Any, path: Path) -> None:
    assert tieline("export", path).code == 2
    assert tieline("export", path, "--har", "--json").code == 2


@pytest.mark.parametrize("command", ["recordings", "frames", "show", "doctor", "export"])
def test_the_help_has_examples(tieline: Any, command: str) -> None:
    told = tieline(command, "--help")
    assert told.code == 0
    assert f"$ tieline {command}" in told.out


def test_a_request_is_shown_with_the_hash_that_the_extension_log_has_of_it(tieline: Any, path: Path) -> None:
    body = json.loads(tieline("show", path, 1, "--json").out)["frame"]["body"]
    expected = params_hash("tools/call", json.dumps(body["params"]).encode())

    assert json.loads(tieline("show", path, 1, "--json").out)["frame"]["params_hash"] == expected
    assert f"params_hash  {expected}" in tieline("show", path, 1).out
    assert "params_hash" not in tieline("show", path, 3, "--json").out.partition('"causes"')[0]
    listed = {each["seq"]: each for each in tieline("frames", path, "--json").objects}
    assert listed[1]["params_hash"] == expected
    assert all(("params_hash" in each) == (each["kind"] == "request") for each in listed.values())


@pytest.mark.parametrize(
    "body", [b'{"params":{"a":1,"a":2}}', b'{"params":1e999}', b'{"params":' + b"[" * 5000]
)
def test_a_request_whose_params_have_no_canonical_form_has_no_hash(
    tieline: Any, tmp_path: Path, body: bytes
) -> None:
    path = recorded(tmp_path / "r", [frame(1, body, "request", method="tools/call")])
    told = tieline("frames", path, "--json")
    assert (told.code, "params_hash" in told.out) == (0, False)
    assert tieline("show", path, 1).code == 0
    assert tieline("show", path, 1, "--json").code == 0


def test_the_hash_of_a_request_is_had_also_where_its_body_lies_in_a_blob(
    tieline: Any, tmp_path: Path
) -> None:
    params = json.dumps({"text": "x" * 50_000}).encode()
    path = recorded(tmp_path / "r", [frame(1, b'{"params":%b}' % params, "request", method="tools/call")])
    told, _ = tieline("frames", path, "--json").objects
    assert told["params_hash"] == params_hash("tools/call", params)
