"""Two hundred secrets in a session: none is written anywhere, and other ones take their places in a replay."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from gateway.calls.core_state import Core
from gateway.calls.exchange import Exchange
from gateway.config.model import Config
from gateway.config.peer import PeerConfig
from gateway.config.recorded import config_of
from gateway.replay.account import account
from gateway.replay.driven import driven
from gateway.replay.player import Player
from gateway.replay.recollection import Recollection
from recordings.divergence import Report
from recordings.lookup import open_lookup
from recordings.profile import BUILT_IN
from recordings.reader import Recording, open_recording
from recordings.redaction import Redactor
from recordings.report import as_json, junit, text
from recordings.script import Script
from recordings.store import Recorder
from tests.gateway.replay.reenact import PlayedStage
from tests.gateway.replay.scene import ASKABLE, LEGACY, End, Message, Scene, Service, WoundClock
from tests.recordings.recording_kit import SECRET_KEY
from transports.base import Hello

CALLS = 50
EACH = 4
"""Secrets of one call: in its arguments, beside them, in its progress, in its answer."""


class Secrets:
    """Secrets of one run; the gateway knows every fifth, the others are told by their shape or their name."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        self.all = [self._one(number, dice) for number in range(CALLS * EACH)]
        self.known = self.all[::5]

    def _one(self, number: int, dice: random.Random) -> str:
        letters = "".join(dice.choices("abcdefghkmnpqrstABCDEFGHKMNPQRST23456789", k=36))
        shapes = ("known-", "ghp_", "sk-proj-9", "ghp_", "AKIA")
        shape = shapes[number % len(shapes)]
        return shape + (letters[:16].upper() if shape == "AKIA" else letters)

    def of(self, call: int) -> list[str]:
        return self.all[call * EACH : (call + 1) * EACH]


def request(call: int, secrets: list[str], **more: Any) -> bytes:
    """One request of the core, with two secrets."""
    first, second = secrets[:2]
    places: list[Message] = [
        {"password": first},
        {"url": f"https://u:{first}@host.example/p?access_token={first}"},
        {"env": [{"name": "API_KEY", "value": first}]},
        {"argv": ["serve", "--token", first]},
        {"note": f"use {first} for that", "filler": "x" * (33_000 if call % 10 == 4 else 0)},
    ]
    meta = {"com.example/authorization": f"Bearer {second}", "progressToken": f"k{call}"}
    params = {"name": f"t{call % 3}", "arguments": {"n": call, **places[call % 5], **more}, "_meta": meta}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": call, "method": "tools/call", "params": params})


def answer(call: int, secret: str) -> Message:
    """What the peer says in the end, with another one."""
    if call % 4 == 3:
        return {"error": {"code": -32000, "message": f"refused: {secret}", "data": {"token": secret}}}
    content = [{"type": "text", "text": json.dumps({"api_key": secret})}]
    return {"result": {"content": content, "structuredContent": {"credentials": {"list": [secret]}}}}


def greeting() -> Iterator[bytes]:
    facts = {
        "protocolVersion": LEGACY,
        "capabilities": ASKABLE,
        "clientInfo": {"name": "core", "version": "1"},
    }
    yield msgspec.json.encode({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": facts})
    yield msgspec.json.encode({"jsonrpc": "2.0", "method": "notifications/initialized"})


def recorded(path: Path, secrets: Secrets, *, seal: bool) -> Path:
    """A session full of secrets, as the recorder writes it."""
    service = Service("p0", "legacy", stamped=False, pages=1)
    scene = Scene(Config(peers={"p0": PeerConfig(command=["p0"])}), [service], era="legacy", http=False)
    core = scene.connect()
    for message in greeting():
        scene.core_says(core, message)
    for call in range(CALLS):
        scene.passes(0.01)
        of_call = secrets.of(call)
        scene.core_says(core, request(call, of_call))
        asked = service.asked.pop()
        token = asked.message["params"]["_meta"]["progressToken"]
        told = {"progressToken": token, "progress": 1, "message": f"with {of_call[2]}"}
        asked.wire.says({"method": "notifications/progress", "params": told})
        asked.wire.says({"id": asked.message["id"], **answer(call, of_call[3])})
    scene.hang_up(core)
    redactor = Redactor(SECRET_KEY, known=secrets.known)
    with Recorder(path, header=scene.header, redactor=redactor, durability="os", reserve_bytes=0) as recorder:
        for each in scene.frames:
            recorder.append(each)
        if seal:
            recorder.seal()
    return path


class LiveRun:
    """A live core towards the recording."""

    def __init__(self, recording: Recording, secrets: Secrets) -> None:
        redactor = Redactor(bytes(reversed(SECRET_KEY)), known=secrets.known)
        script = Script(open_lookup(recording), BUILT_IN)
        self.player = Player(Recollection(script), strength="lockstep", path="session", redact=redactor.body)
        self.clock = WoundClock()
        config, _ = config_of(recording.header.settings, list(recording.header.peers))
        self.stage = PlayedStage(self.clock, self.player, config)
        self.exchange = Exchange(config, self.stage, version="1")
        self.given: list[bytes] = []
        self.core: Core = self.exchange.accept(
            End(self.given.append), Hello(transport="stdio", remote="live")
        )
        for message in greeting():
            self.says(message)

    def says(self, message: bytes) -> None:
        """The core says something, and everything comes of it that does at once."""
        self.core.message(message)
        until = self.clock.now + 100_000_000
        while self.stage.loop.soon or self.clock.wind(until):
            while self.stage.loop.soon:
                self.stage.loop.soon.popleft()()

    def leaves(self) -> Report:
        self.core.closed(None)
        return account(self.player)


def written(path: Path) -> dict[str, bytes]:
    """Every byte of a recording, by file."""
    found: dict[str, bytes] = {}
    for each in path.rglob("*"):
        if each.is_file():
            data = each.read_bytes()
            if each.suffix == ".zst":
                data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
            found[each.name] = data
    return found


def leaks(secrets: Secrets, sinks: dict[str, bytes]) -> list[tuple[str, str]]:
    return [
        (name, secret) for name, data in sinks.items() for secret in secrets.all if secret.encode() in data
    ]


@pytest.fixture(scope="module", params=[False, True], ids=["live", "sealed"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Secrets]:
    secrets = Secrets(1)
    return recorded(tmp_path_factory.mktemp("secrets") / "session", secrets, seal=request.param), secrets


def test_no_secret_is_in_anything_that_is_written(session: tuple[Path, Secrets]) -> None:
    path, secrets = session
    recording = open_recording(path)
    sinks = written(path) | {"bodies": b"\n".join(recording.body(each) for each in recording)}
    assert len(set(secrets.all)) == CALLS * EACH
    assert any(path.glob("blobs/*/*"))
    assert leaks(secrets, sinks) == []
    assert sinks["bodies"].count(b"[REDACTED:") >= CALLS * EACH


def test_other_secrets_match_them_all_and_the_answers_hold_none(session: tuple[Path, Secrets]) -> None:
    path, recorded_ones = session
    live_ones = Secrets(2)
    live = LiveRun(open_recording(path), live_ones)
    for call in range(CALLS):
        before = len(live.given)
        live.says(request(call, live_ones.of(call)))
        progress, last = (msgspec.json.decode(each) for each in live.given[before:])
        assert progress["params"]["progressToken"] == f"k{call}"
        assert last["id"] == call
        assert ("error" in last) == (call % 4 == 3)
    report = live.leaves()
    assert (report.verdict, report.divergences, report.relaxed, report.served) == ("same", (), 0, report.of)
    assert leaks(recorded_ones, {"given": b"\n".join(live.given)}) == []


def test_a_replay_that_differs_names_no_secret_in_reports_and_errors(session: tuple[Path, Secrets]) -> None:
    path, recorded_ones = session
    live_ones = Secrets(3)
    live = LiveRun(open_recording(path), live_ones)
    for call in range(CALLS):
        live.says(request(call, live_ones.of(call), more=call))
    errors = [each for each in map(msgspec.json.decode, live.given) if "error" in each]
    assert len(errors) == CALLS
    assert all(each["error"]["data"]["reason"] == "not_recorded" for each in errors)
    report = live.leaves()
    assert sum(each.cls == "changed-params" for each in report.divergences) == CALLS
    sinks = {
        "errors": b"\n".join(live.given),
        "text": text(report).encode(),
        "json": msgspec.json.encode(as_json(report)),
        "junit": junit(report).encode(),
        "repr": repr(report).encode(),
    }
    assert leaks(recorded_ones, sinks) == []
    assert leaks(live_ones, sinks) == []


def test_a_redacted_session_is_driven_like_any_other(session: tuple[Path, Secrets]) -> None:
    report = driven(open_recording(session[0]))
    assert (report.verdict, report.divergences) == ("same", ())
