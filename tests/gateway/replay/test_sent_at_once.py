"""What a core has sent at once, before anybody had answered it, survives every form of a recording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.model import Config
from gateway.config.peer import PeerConfig
from gateway.config.recorded import config_of, settings_of
from gateway.replay.drive import Drive
from recordings.export import exported
from recordings.frame import Frame
from recordings.header import Header
from recordings.importers.base import Source
from recordings.importers.detect import imported
from recordings.incoming import write_recording
from recordings.reader import Recording
from recordings.textback import read_session
from recordings.textform import text_files
from recordings.views import inline_body
from tests.gateway.replay.scene import LEGACY, Scene, Service

Written = tuple[Header, list[Frame]]


def said(method: str, id_: int | None = None, **params: Any) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return msgspec.json.encode(message if id_ is None else {"id": id_} | message)


def greeting(id_: int) -> bytes:
    return said(
        "initialize", id_, protocolVersion=LEGACY, capabilities={}, clientInfo={"name": "me", "version": "1"}
    )


def recorded(*, transparent: bool, start: str, first: int) -> tuple[Scene, Written]:
    """A session of which everything is sent before its server has said a word. `first` is the core's first id."""
    peer = msgspec.convert({"command": ["x"], "start": start}, PeerConfig)
    config = Config(peers={"a": peer})
    service = Service("a", "legacy", stamped=False, pages=1)
    scene = Scene(config, [service], era="legacy", http=False)
    scene.exchange.is_transparent = transparent
    service.is_silent = True
    core = scene.connect()
    scene.core_says(core, greeting(first))
    scene.core_says(core, said("notifications/initialized"))
    name = "t0" if transparent else "a__t0"
    scene.core_says(core, said("tools/list", first + 1))
    scene.core_says(core, said("tools/call", first + 2, name=name))
    scene.core_says(core, said("tools/call", first + 3, name=name, arguments={"a": 1}))
    service.is_silent = False
    while service.asked:
        # The last one first: answers need not come in the order of the questions.
        wire, message = service.asked.pop()
        if message["method"] == "tools/call":
            wire.says({"id": message["id"], "result": service.answer_of(message)})
        else:
            # It answers this by itself.
            service.inbox.append((wire, message))
        scene.settle()
    scene.hang_up(core)
    header = scene.header
    header.settings = settings_of(config, transparent=transparent)
    return scene, (header, scene.frames)


def as_text(header: Header, frames: list[Frame], _place: Path) -> Written:
    files = dict(text_files(header, frames, inline_body))
    back, found = read_session(files.__getitem__)
    # As `tieline import` adds them.
    back.by, back.seed = header.by, header.seed
    return back, list(found)


def as_har(header: Header, frames: list[Frame], place: Path) -> Written:
    recording: Recording = write_recording(place / "in", header, iter(frames))
    back = imported(Source("x.har", b"".join(exported(recording, "har"))))[1]
    back.header.settings = {"peers": {"a": {}}, "transparent": True}
    back.header.by, back.header.seed = header.by, header.seed
    return back.header, list(back.frames)


def assert_drives(written: Written) -> None:
    header, frames = written
    config, transparent = config_of(header.settings, list(header.peers))
    pairing = Drive(config, header, body=inline_body, transparent=transparent).run(frames)
    told = [f"{each.cls} {each.recorded}: {each.detail} {each.changes}" for each in pairing.divergences]
    assert (told, pairing.faults) == ([], [])
    assert pairing.paired == len(frames)


@pytest.mark.parametrize("first", [0, 1, 7])
@pytest.mark.parametrize(
    ("form", "transparent", "start"),
    [(as_text, True, "eager"), (as_text, False, "eager"), (as_text, False, "lazy"), (as_har, True, "eager")],
)
def test_a_session_that_was_sent_at_once_can_be_driven_in_every_form(
    tmp_path: Path,
    form: Callable[[Header, list[Frame], Path], Written],
    transparent: bool,
    start: str,
    first: int,
) -> None:
    scene, (header, frames) = recorded(transparent=transparent, start=start, first=first)
    assert_drives((header, frames))
    assert [frame.kind for frame in frames if frame.re is not None].count("response") >= 4
    assert len([word for word in scene.words if not word.is_sent]) == 4

    written = form(header, frames, tmp_path)

    assert_drives(written)
    calls = [frame.name for frame in frames if frame.way == "core>" and frame.kind == "request"]
    assert sorted(filter(None, calls)) == sorted(
        filter(None, (frame.name for frame in written[1] if frame.way == "core>" and frame.kind == "request"))
    )
