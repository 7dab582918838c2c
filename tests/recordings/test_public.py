"""What of a recording may be shown to others: the copy opens and replays, and says nothing of whose it was."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from gateway.cli.main import main
from recordings.frame import Frame
from recordings.header import Header, Origin, PeerFacts, encode_header
from recordings.importers.base import Source
from recordings.importers.detect import imported
from recordings.incoming import write_recording
from recordings.public import public_view
from recordings.reader import Recording
from recordings.store import open_recording

FIXTURE = Path(__file__).parent / "imports" / "mcp-rec.jsonl"
# A name that is no hexadecimal number: hashes and addresses hold those by chance.
HOME, CWD = "/srv/people/mira", "/srv/people/mira/code/agent"
MARKS = b"[REDACTED:bearer:1a2b3c4d] [REDACTED:env:5e6f7a8b]"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    made = imported(Source("x", FIXTURE.read_bytes()))[1]
    made.header.settings = {"peers": {"server": {}}, "transparent": True}
    made.header.peers["server"].command = ["/srv/people/mira/bin/server", "--key"]
    for frame in made.frames:
        frame.body = Raw(
            bytes(frame.body).replace(b"step 1", b"step 1 " + MARKS + b" in " + CWD.encode() + b"/x.py")
        )
    return write_recording(tmp_path / "in", made.header, made.frames)


def tieline(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["tieline", *map(str, arguments)])
    return main()


def sinks(directory: Path) -> bytes:
    copy = open_recording(directory)
    facts = (directory / "recording.json").read_bytes()
    return facts + b"".join(copy.body(frame) + repr(frame).encode() for frame in copy)


def test_a_public_copy_opens_is_whole_and_runs_as_the_session_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], recording: Recording
) -> None:
    assert tieline(monkeypatch, "export", recording.path, "--public", "-o", tmp_path / "out") == 0

    assert open_recording(tmp_path / "out").frames == recording.frames
    assert tieline(monkeypatch, "doctor", tmp_path / "out") == 0
    capsys.readouterr()
    assert tieline(monkeypatch, "replay", tmp_path / "out", "--drive") == 0
    assert capsys.readouterr().out.startswith("SAME")


def test_nothing_in_a_public_copy_tells_secrets_apart_or_whose_machine_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording
) -> None:
    monkeypatch.setenv("HOME", HOME)

    assert tieline(monkeypatch, "export", recording.path, "--public", "-o", tmp_path / "out") == 0

    said = sinks(tmp_path / "out")
    assert b"step 1 [REDACTED] [REDACTED] in /home/user/code/agent/x.py" in said
    for private in (b"1a2b3c4d", b"mira", b"--key", str(recording.header.started).encode()):
        assert private not in said


ROOTS = {"cwd": "/opt/grace/w", "home": "/opt/grace", "tmp": "/opt/grace/scratch"}


def shown(frame: Frame) -> tuple[Frame, bytes]:
    class One:
        header = Header(
            peers={"p": PeerFacts(command=["x"])}, started=7, session="s", settings={"roots": ROOTS}
        )

        def __iter__(self) -> Any:
            yield frame

        def body(self, frame: Frame) -> bytes:
            return bytes(frame.body)

    view = public_view(One(), HOME, CWD)
    assert (view.header.started, view.header.session, view.header.peers["p"].command) == (0, "public", [])
    (each,) = view
    return each, view.body(frame)


@pytest.mark.parametrize(
    ("said", "public"),
    [
        (f"{CWD}/a.py", "/home/user/project/a.py"),
        (f"file://{HOME}/notes", "file:///home/user/notes"),
        (f"{HOME}2/notes", f"{HOME}2/notes"),
        ("/home/grace/x", "/home/user/x"),
        ("/Users/grace/x", "/home/user/x"),
        ("C:\\Users\\grace\\x", "C:\\Users\\user\\x"),
        ("/home/user/x", "/home/user/x"),
        ("/home/username/x", "/home/user/x"),
        ("homely /homes/x", "homely /homes/x"),
        (f"Files beneath {CWD}.", "Files beneath /home/user/project."),
        (f"It is {CWD}... or not", "It is /home/user/project... or not"),
        (f"{CWD}.bak", "/home/user/code/agent.bak"),
        (f"two lines\n{CWD}\t{HOME}", "two lines\n/home/user/project\t/home/user"),
        ("/home/jörg/x", "/home/user/x"),
        ("C:\\Users\\Grace Hopper\\x", "C:\\Users\\user\\x"),
        ("/opt/grace/w/x", "/home/user/project/x"),
        ("/opt/grace/notes", "/home/user/notes"),
        ("/opt/grace/scratch/tmp-1", "/tmp/tmp-1"),
        ("file:///opt/grace", "file:///home/user"),
    ],
)
def test_folders_of_people_become_those_of_a_user(said: str, public: str) -> None:
    body = json.dumps({"text": said}).encode()

    frame, whole = shown(Frame(seq=1, kind="notification", name=said, body=Raw(body)))

    assert json.loads(bytes(frame.body)) == json.loads(whole) == {"text": public}
    assert frame.name == public


def cleaned(said: bytes, home: str) -> bytes:
    class One:
        header = Header()

        def __iter__(self) -> Any:
            yield Frame(seq=1, kind="raw", body=Raw(said))

        def body(self, frame: Frame) -> bytes:
            return bytes(frame.body)

    (frame,) = public_view(One(), home, CWD)
    return bytes(frame.body)


@pytest.mark.parametrize(
    "said",
    [
        rb'{"a":"\/srv\/people\/j\u00f6rg m\/x"}',
        rb'{"a":"{\"b\":\"\\/srv\\/people\\/j\u00f6rg m\\/x\"}"}',
        '{"a":"/srv/people/jörg m/x"}'.encode(),
        b'{"a":"file:///srv/people/j%C3%B6rg%20m/x"}',
        b'{"a":"\\n/srv/people/j\\u00f6rg m/x"}'.replace(b"\\\\", b"\\"),
        rb'{"a":"\/home\/j\u00f6rg\/x"}',
        rb'{"a":"C:\\\\Users\\\\j\u00f6rg\\\\x"}',
    ],
)
def test_a_folder_is_known_however_it_is_written(said: bytes) -> None:
    public = cleaned(said, "/srv/people/jörg m")

    json.loads(public)
    for part in (b"people", b"j\\u00f6rg", "jörg".encode(), b"j%C3"):
        assert part not in public


def test_a_windows_folder_is_known_with_either_slash() -> None:
    assert cleaned(rb'{"a":"D:\\w\\ada\\x"}', "D:\\w\\ada") == b'{"a":"/home/user\\\\x"}'
    assert cleaned(b'{"a":"file:///D:/w/ada/x"}', "D:\\w\\ada") == b'{"a":"file:////home/user/x"}'


def test_lanes_ids_and_methods_are_changed_as_the_bodies_are() -> None:
    each, _ = shown(
        Frame(seq=1, kind="request", lane=f"{CWD}/a", id=f"{HOME}#1", method=f"x{CWD}", body=Raw(b"{}"))
    )

    assert (each.lane, each.id, each.method) == ("/home/user/project/a", "/home/user#1", f"x{CWD}")


def test_the_header_names_no_folder_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording
) -> None:
    header = recording.header
    header.settings |= {
        "roots": {"cwd": "/opt/ada/w", "home": "/opt/ada", "tmp": "/opt/ada/tmp"},
        "replay": {"rule": [{"at": "/params/arguments/path", "values": ["/opt/ada/w/x"]}]},
    }
    header.peers["server"].software = "server of /opt/ada/bin 1.0"
    header.core = PeerFacts(software="agent of /opt/ada", command=["/opt/ada/agent"])
    header.imported = Origin(format="x", file="/opt/ada/f.har", lacks=["times of /opt/ada/w/y."])
    (recording.path / "recording.json").write_bytes(encode_header(header))
    monkeypatch.setenv("HOME", HOME)

    assert tieline(monkeypatch, "export", recording.path, "--public", "-o", tmp_path / "out") == 0
    assert tieline(monkeypatch, "export", recording.path, "--git", "--public", "-o", tmp_path / "text") == 0

    for file in (tmp_path / "out" / "recording.json", tmp_path / "text" / "session.json"):
        assert b"ada" not in file.read_bytes(), file
    settings = open_recording(tmp_path / "out").header.settings
    assert settings["roots"] == {"cwd": "/home/user/project", "home": "/home/user", "tmp": "/tmp"}
    assert settings["replay"]["rule"][0]["values"] == ["/home/user/project/x"]


def test_what_the_host_gave_is_left_out() -> None:
    x = {"pid": 4242, "program": f"{HOME}/bin/x", "code": 1, "why": f"no {CWD}/y"}

    frame, _ = shown(Frame(seq=1, wall=9, kind="exit", peer="p", x=x))

    assert frame.wall is None
    assert frame.x == {"code": 1, "why": "no /home/user/project/y"}
    assert shown(Frame(seq=1, kind="env", x={"names": ["SECRET_NAME"]}))[0].x is None


@pytest.mark.parametrize("form", ["--har", "--json", "--trace", "--otlp"])
def test_other_formats_can_be_public_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording, form: str
) -> None:
    monkeypatch.setenv("HOME", HOME)

    assert tieline(monkeypatch, "export", recording.path, form, "--public", "-o", tmp_path / "out.json") == 0

    data = (tmp_path / "out.json").read_bytes()
    json.loads(data)
    assert b"1a2b3c4d" not in data
    assert b"ada" not in data


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        ((), 2, "name one of"),
        (("--har", "--git", "-o", "x"), 2, "name one of"),
        (("--git",), 2, "name the directory to write"),
        (("--public",), 2, "name the directory to write"),
    ],
)
def test_what_to_write_and_where_must_be_said(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    recording: Recording,
    arguments: tuple[str, ...],
    code: int,
    what: str,
) -> None:
    assert tieline(monkeypatch, "export", recording.path, *arguments) == code

    assert what in capsys.readouterr().err


def test_a_public_copy_takes_no_place_of_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], recording: Recording
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("keep")

    assert tieline(monkeypatch, "export", recording.path, "--public", "-o", tmp_path / "out") == 3

    assert "not empty" in capsys.readouterr().err
    assert (tmp_path / "out" / "mine").read_text() == "keep"
