"""Two hundred secrets in every place that a frame has, and a search for each of them in everything that is written."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
import zstandard

from recordings.export import Format, exported
from recordings.frame import Frame
from recordings.header import Header
from recordings.linear import compiled, escaped
from recordings.redaction import Redactor
from recordings.store import Recorder, open_recording
from tests.recordings.recording_kit import SECRET_KEY, frame

COUNT = 200


def secret_of(number: int, dice: random.Random) -> tuple[str, bool]:
    """A secret, and whether the gateway knows it: else its shape or its name must tell."""
    letters = "".join(dice.choices("abcdefghkmnpqrstABCDEFGHKMNPQRST23456789", k=36))
    match number % 6:
        case 0:
            return f"known-{letters}", True
        case 1:
            return f'kn"w\\n/{letters[:12]}é€', True
        case 2:
            return f"ghp_{letters}", False
        case 3:
            return f"sk-proj-9{letters}", False
        case 4:
            return f"AKIA{letters[:16].upper()}", False
        case _:
            return f"word-{letters}", False


def places(secret: str, *, known: bool, shaped: bool) -> Iterator[tuple[bytes, dict[str, object]]]:
    """Bodies and fields that hold the secret, in every position that its kind can be told in."""

    def body(value: object) -> bytes:
        return json.dumps(value).encode()

    yield body({"params": {"arguments": {"password": secret, "n": 1}}}), {}
    yield body({"result": {"content": [{"type": "text", "text": json.dumps({"api_key": secret})}]}}), {}
    yield body({"args": ["serve", "--token", secret]}), {}
    yield body({"env": [{"name": "CLIENT_SECRET", "value": secret}]}), {}
    yield body({"credentials": {"list": [secret, {"deep": secret}]}}), {}
    yield body({"password": secret, "filler": "x" * 33_000}), {}
    yield b"{}", {"x": {"token": secret, "why": "asked"}}
    if not known and not shaped:
        return
    for value in (
        secret,
        [secret],
        {secret: 1},
        {"text": f"the value {secret} was used"},
        {"message": f"line one\n{secret}\nline three", "data": None},
        {"text": json.dumps({"text": json.dumps([secret])})},
        {"deep": [[[[{"a": {"b": secret}}]]]]},
        {"text": secret, "filler": "x" * 33_000},
    ):
        yield body(value), {}
    yield json.dumps({"u": secret}, ensure_ascii=False, indent=1).encode(), {}
    yield f"stderr: {secret}".encode(), {"kind": "raw"}
    yield f"stderr: {secret} ".encode() + b"\xff" * 33_000, {"kind": "raw"}
    yield f'{{"cut": "{secret}'.encode(), {"kind": "response"}
    yield b"{}", {"x": {"error": f"refused: {secret}", "list": [secret]}}
    yield b"{}", {"id": secret, "name": secret, "method": f"m/{secret}", "lane": secret, "peer": secret}
    if known:
        yield body({"url": f"https://h/{quote(secret, safe='')}?q=1"}), {}
        yield body({"basic": base64.b64encode(f"user:{secret}".encode()).decode()}), {}


def planted() -> tuple[list[str], list[str], list[Frame]]:
    """All secrets, those that are known, and frames full of them."""
    dice = random.Random(42)
    secrets: list[str] = []
    known: list[str] = []
    frames: list[Frame] = []
    for number in range(COUNT):
        secret, is_known = secret_of(number, dice)
        secrets.append(secret)
        known += [secret] if is_known else []
        spots = list(places(secret, known=is_known, shaped=number % 6 in (2, 3, 4)))
        # Each secret in a third of its places, each place by many secrets.
        for body, fields in spots[number % 3 :: 3]:
            kind = fields.pop("kind", "request")
            frames.append(frame(len(frames) + 1, body, str(kind), **fields))
    return secrets, known, frames


@pytest.fixture(scope="module")
def sinks(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, bytes]]:
    """The secrets, and every byte that came to be written, by where."""
    secrets, known, frames = planted()
    path = tmp_path_factory.mktemp("canaries") / "r"
    found: dict[str, bytes] = {}
    with Recorder(path, header=Header(session="s"), redactor=Redactor(SECRET_KEY, known=known)) as recorder:
        for each in frames:
            recorder.append(each)
        recorder.barrier()
        found.update({f"live {each.name}": each.read_bytes() for each in path.rglob("*") if each.is_file()})
        recorder.seal()
    for each in path.rglob("*"):
        if each.is_file():
            data = each.read_bytes()
            if each.suffix == ".zst":
                reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
                data = reader.read()
            found[f"sealed {each.name}"] = data
    recording = open_recording(path)
    found["bodies"] = b"\n".join(recording.body(each) for each in recording)
    forms: tuple[Format, ...] = ("har", "trace", "json")
    for form in forms:
        found[form] = b"".join(exported(recording, form))
    found["frames"] = b"\n".join(repr(each).encode() for each in recording)
    return secrets, found


def test_the_canaries_were_planted() -> None:
    secrets, known, frames = planted()
    assert len(set(secrets)) == COUNT
    assert len(known) > COUNT // 4
    assert len(frames) > 3 * COUNT
    text = b"\n".join(
        msgspec.json.encode(each) if each.kind != "raw" else bytes(each.body) for each in frames
    )
    assert all(text.count(secret[-12:].encode()) >= 1 for secret in secrets if secret.isascii())


def test_no_secret_is_in_anything_that_was_written(sinks: tuple[list[str], dict[str, bytes]]) -> None:
    secrets, found = sinks
    assert len(found) > 10
    needles: set[bytes] = set()
    for secret in secrets:
        # A long part of it: a form that is escaped or cut would not be the whole.
        part = secret[5:-3] if secret.isascii() else secret[8:19]
        needles |= {secret.encode(), part.encode(), base64.b64encode(secret.encode())[:-6]}
    anywhere = compiled(b"|".join(escaped(needle) for needle in needles))
    leaks = [f"{match.group()} in {sink}" for sink, data in found.items() if (match := anywhere.search(data))]
    assert leaks == []


def test_no_secret_is_in_what_lies_in_base64(
    sinks: tuple[list[str], dict[str, bytes]], tmp_path: Path
) -> None:
    secrets, found = sinks
    raw = [json.loads(line) for line in found["live frames.jsonl"].splitlines() if b'"kind":"raw"' in line]
    texts = b"\n".join(base64.b64decode(each["body"]) for each in raw if "body" in each)
    assert len(raw) > 40
    assert b"[REDACTED:" in texts
    assert not [secret for secret in secrets if secret[5:-3].encode() in texts]
