"""Other tools' recordings become ours: each fixture in `imports/` was written by the tool that it is named after.

The log of mcpsnoop and the two HARs are the exception: they hold what the others do, in the shape that those tools
give it.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main
from recordings.extras import extra_hint
from recordings.frame import Frame
from recordings.importers.base import ForeignFormatError, Imported, Source
from recordings.importers.conversation import told
from recordings.importers.detect import FORMATS, format_of, imported
from recordings.importers.http import Exchange, events, talk_of
from recordings.importers.messages import Said
from recordings.importers.yaml_core import load
from recordings.incoming import write_recording
from recordings.store import open_recording

HERE = Path(__file__).parent / "imports"
STDIO = (
    ("core>", "initialize"), (">peer", "initialize"), ("core>", "tools/list"), ("core>", "tools/call progress"),
    ("core>", "tools/call echo"), ("core>", "tools/call elicit"), ("peer>", "elicitation/create"),
    ("core>", "tools/call nope"), ("core>", "ping"),
)  # fmt: skip
HTTP = (
    ("core>", "initialize"), (">peer", "initialize"), ("core>", "tools/list"), ("core>", "tools/call echo"),
    ("core>", "tools/call steps"), ("core>", "tools/call nope"),
)  # fmt: skip
WITHOUT = ("tools/call echo", "elicitation/create")
FILES = {
    "mcp-rec.jsonl": ("mcp-rec", STDIO),
    "mcp-cassette.json": ("mcp-cassette", STDIO),
    "mcp-vcr.yaml": ("mcp-vcr", STDIO),
    "mcp-vcr.ndjson": ("mcp-vcr", STDIO),
    "mcpsnoop.jsonl": ("mcpsnoop", STDIO),
    "websocket.har": ("har", STDIO),
    "agent-vcr.vcr": ("agent-vcr", tuple(each for each in STDIO if each[1] not in WITHOUT)),
    "mcp-recorder.json": ("mcp-recorder", HTTP[:-1]),
    "vcrpy.yaml": ("vcrpy", HTTP),
    "cassetter.yaml": ("cassetter", HTTP),
    "cassetter.toml": ("cassetter", HTTP),
    "browser.har": ("har", HTTP),
}
TWO_WAY = [name for name, (_, requests) in FILES.items() if requests is STDIO]
STREAMS = ["vcrpy.yaml", "cassetter.yaml", "cassetter.toml", "browser.har"]


def read(name: str) -> Imported:
    return imported(Source(name, (HERE / name).read_bytes()))[1]


def requests(frames: list[Frame]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (frame.way or "", " ".join(part for part in (frame.method, frame.name) if part))
        for frame in frames
        if frame.kind == "request"
    )


def body(frame: Frame) -> dict[str, Any]:
    return json.loads(bytes(frame.body))


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_known_by_what_is_in_it(name: str) -> None:
    assert format_of(Source("recording", (HERE / name).read_bytes())).name == FILES[name][0]


@pytest.mark.parametrize("name", FILES)
def test_every_request_of_a_file_is_a_frame_in_its_order(name: str) -> None:
    assert requests(read(name).frames) == FILES[name][1]


@pytest.mark.parametrize("name", FILES)
def test_what_an_import_leaves_is_a_whole_recording(tmp_path: Path, name: str) -> None:
    made = read(name)

    write_recording(tmp_path / "out", made.header, made.frames)

    recording = open_recording(tmp_path / "out")
    assert recording.state == "sealed"
    assert list(recording.header.peers) == [next(iter(made.header.peers))]
    assert [frame.seq for frame in made.frames] == list(range(len(made.frames)))
    for frame in made.frames:
        for reference in (frame.re, frame.parent, frame.after):
            assert reference is None or reference < frame.seq


@pytest.mark.parametrize("name", FILES)
def test_an_answer_names_its_request_and_the_gateways_own_part_is_flagged(name: str) -> None:
    frames = read(name).frames

    hello = frames[0]
    assert (hello.way, hello.method, hello.peer) == ("core>", "initialize", None)
    assert [frame.kind for frame in frames[1:7]] == [
        "open", "request", "response", "notification", "ready", "response",
    ]  # fmt: skip
    assert [frame.way for frame in frames[1:7]] == ["inside", ">peer", "peer>", ">peer", "inside", ">core"]
    assert all("synthetic" in frame.flags for frame in frames if frame.way in (">peer", ">core"))
    for frame in frames:
        if frame.kind in ("response", "error") and not frame.flags:
            asked = frames[frame.re or 0]
            assert asked.kind == "request"
            assert asked.way != ">peer" or asked.id == frame.id
            assert asked.method == frame.method


@pytest.mark.parametrize("name", TWO_WAY)
def test_a_question_of_the_server_is_on_behalf_of_the_call_that_it_came_in(name: str) -> None:
    frames = read(name).frames

    ask = next(frame for frame in frames if frame.method == "elicitation/create" and frame.kind == "request")
    call = frames[ask.parent or 0]
    assert (call.name, call.way) == ("elicit", "core>")
    said = next(frame for frame in frames if frame.re == ask.seq and frame.way == "core>")
    passed_on = next(frame for frame in frames if frame.re == ask.seq and frame.way == ">peer")
    assert passed_on.parent == said.seq
    assert body(said)["result"]["content"] == {"name": "Ada"}
    answer = next(frame for frame in frames if frame.re == call.seq and frame.way == "peer>")
    assert answer.after == passed_on.seq


@pytest.mark.parametrize("name", TWO_WAY)
def test_a_call_that_was_taken_back_ends_as_the_gateway_ends_it(name: str) -> None:
    frames = read(name).frames

    call = next(frame for frame in frames if frame.name == "echo")
    ends = [(frame.kind, frame.way) for frame in frames if frame.re == call.seq]
    assert ends == [("notification", "core>"), ("drop", "inside"), ("notification", ">peer")]


@pytest.mark.parametrize("name", [*TWO_WAY, "agent-vcr.vcr", *STREAMS])
def test_progress_belongs_to_its_call_and_names_it_by_the_id_of_the_gateways_leg(name: str) -> None:
    frames = read(name).frames

    call = next(frame for frame in frames if frame.name in ("progress", "steps"))
    notes = [frame for frame in frames if frame.method == "notifications/progress"]
    answer = next(frame for frame in frames if frame.re == call.seq and frame.kind == "response")
    assert [frame.re for frame in notes] == [call.seq, call.seq]
    assert {body(frame)["params"]["progressToken"] for frame in notes} == {answer.id}
    assert all(frame.seq < answer.seq for frame in notes)


@pytest.mark.parametrize("name", ["cassetter.yaml", "cassetter.toml"])
def test_what_a_cassette_has_in_another_order_is_put_in_that_of_its_times(name: str) -> None:
    text = (HERE / name).read_text()

    assert text.index("DELETE") < text.index("initialize")
    assert next(frame.method for frame in read(name).frames if frame.kind == "request") == "initialize"


def test_a_version_in_yaml_is_no_date() -> None:
    hello = body(read("cassetter.yaml").frames[0])

    assert hello["params"]["protocolVersion"] == "2025-06-18"
    assert hello["params"]["clientInfo"]["version"] == "1"


def test_a_message_in_lines_of_json_stays_as_it_was_written() -> None:
    first = json.loads((HERE / "mcp-rec.jsonl").read_text().splitlines()[0])

    assert bytes(read("mcp-rec.jsonl").frames[0].body).decode() == json.dumps(first["msg"])


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("mcp-rec.jsonl", ["stderr"]),
        ("mcp-cassette.json", ["redacted in 3 messages", "progress tokens"]),
        ("mcp-recorder.json", ["first message of 4", "answers of 1 of them", "answers of 1 requests"]),
        ("agent-vcr.vcr", ["what the server asked", "notifications/initialized"]),
        ("vcrpy.yaml", ["times: the file has none", "each event of a stream"]),
        ("cassetter.yaml", ["how long anything took"]),
        ("browser.har", ["1 HTTP exchanges that are not MCP"]),
        ("mcpsnoop.jsonl", ["1 lines of stderr", "arguments"]),
    ],
)
def test_what_a_format_does_not_hold_is_said(name: str, lacks: list[str]) -> None:
    said = "\n".join(read(name).lacks)

    for each in lacks:
        assert each in said


def test_our_own_har_comes_back_with_lanes_directions_and_the_gateways_own_questions(tmp_path: Path) -> None:
    from recordings.export import exported

    made = read("mcp-rec.jsonl")
    for frame in made.frames:
        if frame.name == "progress":
            frame.lane = "turn1/tool1"
    recording = write_recording(tmp_path / "out", made.header, made.frames)

    back = imported(Source("ours.har", b"".join(exported(recording, "har"))))[1]

    assert requests(back.frames) == requests(made.frames)
    assert [frame.lane for frame in back.frames if frame.lane] == ["turn1/tool1"]
    answers = Counter(frame.kind for frame in back.frames if frame.kind in ("response", "error"))
    assert answers == Counter(frame.kind for frame in made.frames if frame.kind in ("response", "error"))


# What is not as it should be


@pytest.mark.parametrize(
    ("data", "line", "what"),
    [
        (
            b'{"ts": 1, "dir": "client->server", "msg": {}}\n{"ts": 2, "dir": "sideways", "msg": {}}\n',
            2,
            "sideways",
        ),
        (b'{"ts": 1, "dir": "client->server", "msg": {}}\n{"ts": 2, "dir"\n', 2, "truncated"),
        (b'{\n  "format_version": 3,\n  "messages": [\n    {"sender": "clien', None, "truncated"),
        (b'{\n  "format_version": 4,\n  "messages": []\n}', None, "format 4"),
        (b"interactions:\n- request: [\n", 3, "expected"),
        (b"interactions: &a\n- *a\n", 1, "alias"),
        (b"interactions:\n- request: !!python/object/apply:os.system ['ls']\n", 2, "Python type"),
        (b"interactions:\n- {request: {body: !!python/object:x.Y hi}, response: {}}\n", 2, "Python type"),
        (b"interactions: []\n", None, "none of its 0 interactions is MCP"),
        (b'{"log": {"entries": []}}', None, "none of its 0 entries is MCP"),
        (b"hello", None, "not known"),
        (b"", None, "not known"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_with_its_place(data: bytes, line: int | None, what: str) -> None:
    with pytest.raises(ForeignFormatError) as caught:
        imported(Source("some.file", data))

    assert what in caught.value.message
    assert caught.value.message.startswith("some.file")
    assert caught.value.line == line


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_breaks_off_anywhere_is_read_or_refused_but_never_a_fault(name: str) -> None:
    data = (HERE / name).read_bytes()

    for end in range(0, len(data), max(1, len(data) // 60)):
        source = Source(name, data[:end])
        with suppress(ForeignFormatError):
            imported(source, FILES[name][0])


def test_a_conversation_without_a_handshake_gets_one_that_is_flagged_and_told() -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{}}}'
    answer = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
    said = [Said(side="core", body=call, peer="p"), Said(side="peer", body=answer, peer="p")]

    story = told(said, transport="stdio", started=None)

    assert requests(story.frames) == (
        ("core>", "initialize"),
        (">peer", "initialize"),
        ("core>", "tools/call a"),
    )
    assert all("synthetic" in frame.flags for frame in story.frames[:8] if frame.way != "inside")
    made_up = next(frame for frame in story.frames if frame.way == "peer>")
    assert body(made_up)["result"]["capabilities"] == {"tools": {}}
    assert "one was made up" in story.lacks[0]
    assert "`tools/list` is not in the file" in story.lacks[1]


def test_a_client_of_the_modern_era_is_discovered_and_not_initialized() -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}).encode()

    story = told([Said(side="core", body=call, peer="p")], transport="http", started=None)

    assert requests(story.frames)[:2] == (("core>", "server/discover"), (">peer", "server/discover"))
    assert story.peers["p"].version == "2026-07-28"


def test_ids_are_each_senders_own() -> None:
    """A server's question with the id of the client's call answers nothing: it is a question."""
    said = [
        Said(side="core", body=b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}', peer="p"),
        Said(
            side="peer", body=b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}', peer="p"
        ),
        Said(
            side="core",
            body=b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}',
            peer="p",
        ),
        Said(side="peer", body=b'{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage"}', peer="p"),
        Said(side="core", body=b'{"jsonrpc":"2.0","id":2,"result":{"role":"assistant"}}', peer="p"),
        Said(side="peer", body=b'{"jsonrpc":"2.0","id":2,"result":{"content":[]}}', peer="p"),
    ]

    frames = told(said, transport="stdio", started=None).frames

    call = next(frame for frame in frames if frame.method == "tools/call" and frame.kind == "request")
    ask = next(frame for frame in frames if frame.method == "sampling/createMessage")
    ends = [(frame.way, frame.re) for frame in frames if frame.kind == "response" and frame.seq > ask.seq]
    assert ends == [("core>", ask.seq), (">peer", ask.seq), ("peer>", call.seq)]


# HTTP


def test_a_question_in_a_stream_stands_before_the_post_that_answers_it() -> None:
    ask = b'{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}'
    answer = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
    stream = b"event: message\ndata: " + ask + b"\n\nevent: message\ndata: " + answer + b"\n\n"
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}'
    reply = b'{"jsonrpc":"2.0","id":"q","result":{"action":"accept"}}'
    url = "https://x.example/mcp"

    talk = talk_of(
        [
            Exchange(method="POST", url=url, asked=call, said=stream, at=0, took=1000),
            Exchange(method="POST", url=url, asked=reply, status=202, at=500, took=10),
        ]
    )

    assert [each.body for each in talk.said] == [call, ask, reply, answer]
    assert any("1 messages" in each for each in talk.lacks)


def test_two_sessions_with_one_server_are_two_peers() -> None:
    hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
    answer = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}'
    exchanges = [
        Exchange(
            method="POST",
            url="https://x.example/mcp",
            asked=hello,
            said=answer,
            response_headers={"mcp-session-id": session},
            at=at,
        )
        for at, session in enumerate("ab")
    ]

    talk = talk_of(exchanges)

    assert [each.peer for each in talk.said] == ["x-example", "x-example", "x-example-2", "x-example-2"]
    assert any("several peers are one server" in each for each in talk.lacks)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_are_told_apart_with_any_line_ending(end: bytes) -> None:
    lines = [
        b"\xef\xbb\xbf: hello",
        b"id: 1",
        b"data: one",
        b"data: more",
        b"",
        b"data:two",
        b"",
        b"",
        b"data: cut",
    ]

    assert list(events(end.join(lines))) == [b"one\nmore", b"two", b"cut"]


def test_plain_scalars_of_yaml_are_those_of_the_core_schema() -> None:
    text = b"[yes, on, 1:30, 010, 2025-06-18, ~, true, 0x10, 1e3, .5, 'true', \"1\", !!binary aGk=, 12]"

    assert load(Source("x", text)) == [
        "yes", "on", "1:30", 10, "2025-06-18", None, True, 16, 1000.0, 0.5, "true", "1", b"hi", 12,
    ]  # fmt: skip


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_body_that_is_still_compressed_is_unpacked(pack: Callable[[bytes], bytes]) -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}'
    answer = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
    name = "gzip" if pack is gzip.compress else "deflate"

    talk = talk_of(
        [
            Exchange(
                method="POST",
                url="https://x.example/mcp",
                asked=call,
                said=pack(answer),
                response_headers={"content-encoding": name, "content-type": "application/json"},
            )
        ]
    )

    assert [each.body for each in talk.said] == [call, answer]


def test_a_time_that_is_none_is_taken_for_the_beginning() -> None:
    text = (HERE / "mcp-vcr.yaml").read_text().replace("  t: 57\n", "  t: -1e400\n")

    assert requests(imported(Source("x", text.encode()))[1].frames) == STDIO


def test_a_cassette_of_vcrpy_in_json_is_one() -> None:
    document = load(Source("x", (HERE / "vcrpy.yaml").read_bytes()))
    source = Source("cassette.json", json.dumps(document).encode())

    assert format_of(source).name == "vcrpy"
    assert requests(imported(source)[1].frames) == HTTP


# The command


@pytest.fixture
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))


@pytest.mark.usefixtures("_state")
def test_the_command_tells_and_keeps_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["tieline", "import", str(HERE / "vcrpy.yaml"), "--out", str(out)])

    code = main()

    printed, err = capsys.readouterr()
    assert (code, printed) == (0, f"{out}\n")
    assert "note: not in vcrpy.yaml:\n  - times: the file has none\n" in err
    header = open_recording(out).header
    assert header.imported is not None
    assert header.imported.format == "vcrpy (vcrpy)"
    assert "times: the file has none" in header.imported.lacks


@pytest.mark.usefixtures("_state")
def test_secrets_of_an_imported_file_are_redacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 5
    lines = (HERE / "mcp-rec.jsonl").read_text().replace("step 1", f"Authorization: Bearer {secret}")
    (tmp_path / "in.jsonl").write_text(lines)
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["tieline", "import", str(tmp_path / "in.jsonl"), "--out", str(out)])

    assert main() == 0

    recording = open_recording(out)
    bodies = b"".join(recording.body(frame) for frame in recording)
    assert secret.encode() not in bodies
    assert b"[REDACTED:" in bodies


@pytest.mark.usefixtures("_state")
@pytest.mark.parametrize("instead", ["[]", '"text"', "5"])
@pytest.mark.parametrize("member", ["request", "response"])
def test_an_interaction_of_agent_vcr_whose_messages_are_none_is_an_error_and_no_traceback(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    member: str,
    instead: str,
) -> None:
    tape = json.loads((HERE / "agent-vcr.vcr").read_text())
    tape["session"]["interactions"][0][member] = json.loads(instead)
    (tmp_path / "in.vcr").write_text(json.dumps(tape))
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["tieline", "import", str(tmp_path / "in.vcr"), "--out", str(out)])

    assert main() in (0, 3)

    said = capsys.readouterr().err
    assert said
    assert "Traceback" not in said


@pytest.mark.usefixtures("_state")
def test_what_was_imported_is_told_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr(
        sys, "argv", ["tieline", "import", str(HERE / "browser.har"), "--json", "--out", str(out)]
    )

    assert main() == 0

    said = json.loads(capsys.readouterr().out)
    recording = open_recording(out)
    assert said["path"] == str(out)
    assert said["format"].startswith("har")
    assert (said["frames"], said["peers"]) == (recording.frames, list(recording.header.peers))
    assert "1 HTTP exchanges that are not MCP" in said["lacks"]


@pytest.mark.usefixtures("_state")
def test_yaml_that_cannot_be_read_tells_how_it_can(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.setattr(sys, "argv", ["tieline", "import", str(HERE / "vcrpy.yaml")])

    assert main() == 3

    assert f"needs the extra `import`: {extra_hint('import')}" in capsys.readouterr().err


@pytest.mark.usefixtures("_state")
def test_a_format_can_be_named_and_must_be_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tieline", "import", str(HERE / "vcrpy.yaml"), "--from", "tape"])

    assert main() == 2

    assert f"Formats are {', '.join(FORMATS)}" in capsys.readouterr().err


@pytest.mark.usefixtures("_state")
@pytest.mark.parametrize("name", [name for name in FILES if name != "mcp-recorder.json"])
def test_an_imported_session_runs_again_and_every_frame_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Agent and server are played, the gateway between them is real. mcp-recorder has lost the answer of a call."""
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["tieline", "import", str(HERE / name), "--out", str(out)])
    assert main() == 0
    monkeypatch.setattr(sys, "argv", ["tieline", "replay", str(out), "--drive"])

    code = main()

    assert (code, capsys.readouterr().out.partition(" ")[0]) in ((0, "SAME"), (0, f"{out}\nSAME"))
