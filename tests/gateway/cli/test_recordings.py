"""`tieline frames`, `show`, `doctor` and `export`: what they print where, and how they end."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main
from recordings import files
from recordings.frame import Frame
from recordings.store import Recorder
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
    assert told.err == "warning: 1 request has no answer and count as lost\n"


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
    assert tieline("frames", path, "--peer", "nobody").code == 1
    assert tieline("frames", path, "--peer", "nobody", "--json").out == ""


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
    assert "--salvage" in told.err


def test_the_summary_counts_calls(tieline: Any, path: Path) -> None:
    assert "3 calls, 1 errors, 0 cancelled, 1 without an answer (sealed)" in tieline("frames", path, "--summary").out
    counted = json.loads(tieline("frames", path, "--summary", "--json").out)
    assert (counted["frames"], counted["calls"], counted["errors"], counted["unanswered"]) == (7, 3, 1, 1)
    assert counted["methods"][0]["calls"] == 1


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
    assert tieline("doctor", whole).code == 0
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


@pytest.mark.parametrize("command", ["frames", "show", "doctor", "export"])
def test_the_help_has_examples(tieline: Any, command: str) -> None:
    told = tieline(command, "--help")
    assert told.code == 0
    assert f"$ tieline {command} " in told.out
