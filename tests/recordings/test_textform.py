"""The text form: what is renamed, in which order things stand, and that the way back leads to the same text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from recordings.errors import RecordingError
from recordings.export_text import TextFiles, write_text_form
from recordings.form import form_of
from recordings.frame import Frame
from recordings.header import Header, PeerFacts
from recordings.profile import BUILT_IN
from recordings.textback import BadTextError, read_session
from recordings.textform import LONG_LANE, text_files
from recordings.textnames import Namer, Restorer, read, write
from recordings.textorder import natural
from tests.recordings.recording_kit import session

HEADER = Header(peers={"a": PeerFacts(dialect="mcp"), "b": PeerFacts(dialect="mcp")})
UUID = "9280a1c4-e9a4-49c2-97a3-832fd1c80b37"


def renamed(*bodies: object) -> list[Any]:
    namer = Namer(BUILT_IN)
    return [json.loads(write(namer.renamed(read(json.dumps(body).encode())))) for body in bodies]


def call(seq: int, text: str, *, lane: str | None = None, after: int | None = None, peer: str = "a") -> Frame:
    body = {
        "jsonrpc": "2.0",
        "id": seq,
        "method": "tools/call",
        "params": {"name": "t", "arguments": {"x": text}},
    }
    return Frame(
        seq=seq, kind="request", way="core>", peer=peer, id=seq, lane=lane, after=after, method="tools/call", name="t",
        body=Raw(json.dumps(body).encode()),
    )  # fmt: skip


def answer(seq: int, re: int, text: str = "", peer: str = "a") -> Frame:
    body = {"jsonrpc": "2.0", "id": seq, "result": {"text": text}}
    return Frame(
        seq=seq, kind="response", way="peer>", peer=peer, id=seq, re=re, method="tools/call",
        body=Raw(json.dumps(body).encode()),
    )  # fmt: skip


def text_of(frames: Iterable[Frame], header: Header = HEADER, *, public: bool = False) -> dict[str, bytes]:
    return dict(text_files(header, frames, lambda frame: bytes(frame.body), public=public))


def back(files: dict[str, bytes]) -> list[Frame]:
    def file(path: str) -> bytes:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    return list(read_session(file)[1])


# Names


def test_values_are_numbered_in_order_of_first_appearance_and_equal_ones_are_alike() -> None:
    other = UUID.replace("9", "8")

    assert renamed({"a": UUID, "b": f"run {other} of {UUID}"}) == [
        {"a": "<uuid#1>", "b": "run <uuid#2> of <uuid#1>"}
    ]


def test_numbering_goes_on_from_body_to_body_of_a_lane() -> None:
    assert renamed({"a": UUID}, {"a": UUID.replace("9", "8")}, {"a": UUID}) == [
        {"a": "<uuid#1>"}, {"a": "<uuid#2>"}, {"a": "<uuid#1>"},
    ]  # fmt: skip


def test_what_is_volatile_is_renamed_with_its_type_and_nothing_else_is() -> None:
    body = {
        "ts": 1_795_835_282, "createdMs": 1_795_835_282_000, "at": "2026-11-28T03:14:31.5Z", "day": "2026-11-28",
        "port": 8080, "pid": 77, "sessionId": "abc", "key": "[REDACTED:bearer:1a2b3c4d]", "hash": "0f" * 20,
        "said": "done at 2026-11-28T03:14:31Z", "count": 3, "name": "Ada", "page": 1_795_835_282,
    }  # fmt: skip

    assert renamed({"result": body})[0]["result"] == {
        "ts": "<timestamp#1 int-s>", "createdMs": "<timestamp#2 int-ms>", "at": "<timestamp#3>", "day": "2026-11-28",
        "port": "<port#1>", "pid": "<pid#1>", "sessionId": "<session#1>", "key": "<secret#1 bearer>",
        "hash": "<hex#1 40>", "said": "done at <timestamp#4>", "count": 3, "name": "Ada", "page": 1_795_835_282,
    }  # fmt: skip


def test_ids_of_the_connection_are_all_alike_and_those_of_a_tool_stay() -> None:
    body = {
        "id": 7,
        "method": "notifications/cancelled",
        "params": {"requestId": 6, "progressToken": 5, "arguments": {"id": 4, "requestId": 3}},
    }

    assert renamed(body) == [
        {
            "id": "<id>",
            "method": "notifications/cancelled",
            "params": {
                "requestId": "<id>",
                "progressToken": "<id>",
                "arguments": {"id": 4, "requestId": "<session#1 int>"},
            },
        }
    ]


def test_two_readings_of_a_coarse_clock_are_never_taken_for_one() -> None:
    coarse = {"result": {"a": "2026-11-28T03:14:31Z", "b": "2026-11-28T03:14:31Z"}}
    fine = {"result": {"a": "2026-11-28T03:14:31.123456Z", "b": "2026-11-28T03:14:31.123456Z"}}

    assert renamed(coarse)[0]["result"] == {"a": "<timestamp#1>", "b": "<timestamp#2>"}
    assert renamed(fine)[0]["result"] == {"a": "<timestamp#1>", "b": "<timestamp#1>"}


@pytest.mark.parametrize(
    "text", ["<uuid#1>", "<<uuid#1>", "<id>", "<<id>", "<b>", "a <hex#2 32> b", "<x#1", "<timestamp#1>"]
)
def test_text_that_looks_like_a_placeholder_comes_back_as_it_was(text: str) -> None:
    data = json.dumps({"result": {"x": text, text: 1}}).encode()

    made = write(Namer(BUILT_IN).renamed(read(data)))

    assert json.loads(write(Restorer("").restored(read(made), 7))) == json.loads(data)


@pytest.mark.parametrize(
    "spelling", ["1.0", "1e5", "-0.0", "123456789012345678901234567890", "1.10", "0.1E-7"]
)
def test_numbers_keep_their_spelling(spelling: str) -> None:
    data = f'{{"result":{spelling}}}'.encode()

    made = write(Namer(BUILT_IN).renamed(read(data)))

    assert made == data
    assert write(Restorer("").restored(read(made), None)) == data


VOLATILE = st.sampled_from(
    [
        UUID, UUID.replace("9", "7"), "0f" * 16, "f0" * 32, "2026-11-28T03:14:31Z", "2026-11-28T03:14:31.123456+02:00",
        "[REDACTED:bearer:1a2b3c4d]", "[REDACTED]", 1_795_835_282, 1_795_835_282_123, "1795835282", 8080, 77, "abc",
        f"see {UUID}, 2026-11-28 03:14:31", "<uuid#1>", "<id>", 1.5, True, None,
    ]
)  # fmt: skip
NAMES = st.sampled_from(
    ["ts", "createdAt", "pid", "port", "sessionId", "text", "date", "id", "cursor", "_meta", "x"]
)
TREES = st.recursive(
    VOLATILE | st.text(max_size=12) | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(TREES)
def test_what_is_read_back_gives_the_same_text_again(tree: object) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "params": {"name": "t", "arguments": tree}}
    first = write(Namer(BUILT_IN).renamed(read(json.dumps(message).encode())))

    again = write(Restorer("lane").restored(read(first), 9))

    assert write(Namer(BUILT_IN).renamed(read(again))) == first


@given(TREES)
def test_a_request_from_a_text_form_is_matched_by_what_matched_its_original(tree: object) -> None:
    params = {"name": "t", "arguments": tree}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    namer, restorer = Namer(BUILT_IN), Restorer("lane")

    again = write(restorer.restored(read(write(namer.renamed(read(message)))), 9))

    def key(body: bytes) -> bytes:
        return form_of(BUILT_IN, "tools/call", "t", json.dumps(json.loads(body)["params"]).encode()).key

    if "see " not in message.decode():
        assert key(again) == key(message)


# Order


def test_the_text_is_the_same_in_whatever_order_lanes_ran() -> None:
    one = [
        call(0, "x", lane="l1"),
        call(1, "y", lane="l2", peer="b"),
        answer(2, 0, "X"),
        answer(3, 1, "Y", "b"),
    ]
    other = [
        call(0, "y", lane="l2", peer="b"),
        answer(1, 0, "Y", "b"),
        call(2, "x", lane="l1"),
        answer(3, 2, "X"),
    ]

    assert text_of(one) == text_of(other)


def test_calls_without_lanes_that_were_in_flight_together_stand_by_what_they_ask() -> None:
    one = [
        call(0, "x"),
        call(1, "y"),
        answer(2, 1, "Y"),
        answer(3, 0, "X"),
        call(4, "z", after=3),
        answer(5, 4, "Z"),
    ]
    other = [
        call(0, "y"),
        call(1, "x"),
        answer(2, 1, "X"),
        answer(3, 0, "Y"),
        call(4, "z", after=3),
        answer(5, 4, "Z"),
    ]

    assert text_of(one) == text_of(other)
    arguments = [json.loads(bytes(frame.body)) for frame in back(text_of(one)) if frame.kind == "request"]
    assert [each["params"]["arguments"]["x"] for each in arguments] == ["x", "y", "z"]


def test_calls_that_overlapped_do_so_again_when_they_are_read_back() -> None:
    frames = back(text_of([call(0, "x"), call(1, "y"), answer(2, 1, "Y"), answer(3, 0, "X")]))

    assert [frame.kind for frame in frames] == ["request", "request", "response", "response"]
    assert [frame.after for frame in frames] == [None, None, 1, 1]


def test_a_call_that_waited_for_another_one_still_does() -> None:
    frames = back(text_of([call(0, "b"), answer(1, 0), call(2, "a", after=1), answer(3, 2)]))

    assert [frame.re for frame in frames] == [None, 0, None, 2]
    assert [frame.after for frame in frames] == [None, 0, 1, 2]


def test_ids_read_back_are_the_next_of_each_sender() -> None:
    frames = back(
        text_of([call(70, "x", lane="l"), answer(80, 70), call(90, "y", lane="l", after=80), answer(95, 90)])
    )

    assert [frame.id for frame in frames] == [1, 1, 2, 2]
    assert [json.loads(bytes(frame.body))["id"] for frame in frames] == [1, 1, 2, 2]


def test_numbers_in_names_are_counted() -> None:
    assert sorted(["tool10", "tool2", "tool", "a/2", "a/10"], key=natural) == [
        "a/2",
        "a/10",
        "tool",
        "tool2",
        "tool10",
    ]


def test_no_clock_process_or_duration_is_in_the_text() -> None:
    spawn = Frame(seq=0, at=5, wall=7, kind="spawn", peer="a", way="inside", x={"pid": 4242, "wait_ms": 99})

    text = b"".join(text_of([spawn, call(1, "x"), answer(2, 1)]).values())

    assert b"4242" not in text
    assert b"99" not in text
    assert b'"at"' not in text
    assert b'"wall"' not in text


def test_lines_of_stderr_stand_by_themselves_and_come_back_after_their_process_began() -> None:
    spawn = Frame(seq=0, kind="spawn", peer="a", way="inside")
    line = Frame(seq=2, kind="raw", peer="a", way="peer>", body=Raw(b"ready"), x={"stream": "stderr"})

    files = text_of([spawn, call(1, "x"), line, answer(3, 1)])

    assert json.loads(files["session.json"])["stderr"] == {"a": ["ready"]}
    assert [frame.kind for frame in back(files)] == ["spawn", "raw", "request", "response"]


@pytest.mark.parametrize("seed", range(4))
def test_any_recording_has_a_text_that_leads_back_to_itself(seed: int) -> None:
    """Frames as they come: strays, answers to nothing, requests that nobody answers, bodies of every size."""
    frames = session(120, seed=seed, large=seed % 2 == 1)

    files = text_of(frames)

    again = back(files)
    assert len(again) == len(frames)
    assert [frame.seq for frame in again] == list(range(len(frames)))
    assert text_of(again) == files


# Files


def test_a_large_body_has_a_file_of_its_own_under_the_hash_of_its_text() -> None:
    text = f"{UUID} " + "x" * 40_000
    files = text_of([call(0, "x", lane="l"), answer(1, 0, text)])
    other = text_of([call(0, "x", lane="l"), answer(1, 0, text.replace("9", "7"))])

    bodies = [path for path in files if path.startswith("bodies/")]
    assert len(bodies) == 1
    assert json.loads(files[bodies[0]])["result"]["text"] == "<uuid#1> " + "x" * 40_000
    assert files == other
    assert len(bytes(back(files)[1].body)) > 40_000


@pytest.mark.parametrize(("lane", "folder"), [("l", "lanes/l.d/"), (None, "outside/before/")])
def test_a_long_lane_is_a_directory_with_a_file_an_operation(lane: str | None, folder: str) -> None:
    frames: list[Frame] = []
    for number in range(LONG_LANE + 1):
        frames += [
            call(2 * number, str(number), lane=lane, after=2 * number - 1),
            answer(2 * number + 1, 2 * number),
        ]

    files = text_of(frames)

    assert sum(path.startswith(folder) for path in files) == LONG_LANE + 1
    assert len(back(files)) == len(frames)


@pytest.mark.parametrize(
    "lane", ["..", "a/../b", "", ".", "a//b", "a\\b", "con.json", "x.d", "ü/%2E", "a\0b"]
)
def test_no_name_of_a_lane_leads_out_of_the_directory(tmp_path: Path, lane: str) -> None:
    files = text_of([call(0, "x", lane=lane or None), answer(1, 0)])

    write_text_form(tmp_path / "out", files.items())

    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    _, frames = read_session(TextFiles(tmp_path / "out"))
    assert next(frames).lane == (lane or None)


def test_an_export_replaces_the_one_before_it_and_leaves_other_files(tmp_path: Path) -> None:
    write_text_form(tmp_path, text_of([call(0, "x", lane="old"), answer(1, 0, "y" * 40_000)]).items())
    (tmp_path / "README.md").write_text("about")

    write_text_form(tmp_path, text_of([call(0, "x", lane="new"), answer(1, 0)]).items())

    assert {path.name for path in tmp_path.rglob("*")} == {"README.md", "lanes", "new.json", "session.json"}


def test_a_directory_of_something_else_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "session.json").write_text("{}")

    with pytest.raises(RecordingError, match="holds no text form"):
        write_text_form(tmp_path, text_of([call(0, "x")]).items())


def test_an_export_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    write_text_form(tmp_path, text_of([call(0, "x", lane="l")]).items())

    def broken() -> Iterable[tuple[str, bytes]]:
        yield "lanes/l.json", b"{}"
        raise RecordingError("the disk is on fire")

    with pytest.raises(RecordingError, match="fire"):
        write_text_form(tmp_path, broken())

    assert len(list(read_session(TextFiles(tmp_path))[1])) == 1
    assert not list(tmp_path.glob(".new-*"))


EMPTY: list[dict[str, list[object]]] = [{"frames": []}]


def damaged(**changes: object) -> dict[str, bytes]:
    files = text_of([call(0, "x", lane="l"), answer(1, 0)])
    return {**files, "session.json": json.dumps({**json.loads(files["session.json"]), **changes}).encode()}


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"session.json": b'{\n "tieline_text": 1,\n "lanes": 3}'}, "session.json: Expected `object`"),
        ({"session.json": b'{\n "tieline_text": 1,\n oops}'}, "session.json, line 3: JSON is malformed"),
        (damaged(tieline_text=2), "of text format 2"),
        (damaged(lanes={"l": ["lanes/missing.json"]}), "lanes/missing.json: it is missing"),
        (damaged(lanes={"l": ["../secret.json"]}), "which is not in `lanes`"),
        (damaged(lanes={"l": ["lanes/../../secret.json"]}), "which is not in `lanes`"),
        (damaged(lanes={"m": ["lanes/l.json"]}), "it is of the lane 'l', not 'm'"),
        (damaged(before=EMPTY), "operation 0 has no frames"),
        (damaged(before=[{"frames": [{"kind": "response", "re": 5}]}]), "refers to 5, which does not come before"),
        (damaged(before=[{"frames": [{"kind": "response", "re": "there"}]}]), "'there' names no frame"),
        (damaged(before=[{"frames": [{"kind": "mark", "flags": ["odd"]}]}]), "Invalid enum value 'odd'"),
        (damaged(before=[{"frames": [{"kind": "raw", "base64": "?"}]}]), "no base64"),
        (damaged(before=[{"frames": [{"kind": "mark", "body_file": "/etc/passwd"}]}]), "which is not in `bodies`"),
    ],
)  # fmt: skip
def test_a_text_form_that_was_spoilt_is_told_with_its_file(files: dict[str, bytes], what: str) -> None:
    with pytest.raises(BadTextError) as caught:
        back(files)

    assert what in caught.value.message
    assert "export again" in caught.value.message


def test_a_public_text_form_does_not_tell_secrets_apart_nor_who_ran_what() -> None:
    header = Header(peers={"a": PeerFacts(command=["/opt/secret-tool"])})
    frames = [call(0, "[REDACTED:bearer:1a2b3c4d] [REDACTED:bearer:5e6f7a8b]", lane="l"), answer(1, 0)]

    text = b"".join(text_of(frames, header, public=True).values())

    assert b"[REDACTED] [REDACTED]" in text
    assert b"secret-tool" not in text
    assert b"secret-tool" in b"".join(text_of(frames, header).values())
