"""What a driven replay says of frames that were edited, and of answers that are others than recorded."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gateway.config.recorded import config_of
from gateway.replay.drive import Drive
from gateway.replay.pairing import Pairing
from recordings.edits import edit_of, edited
from recordings.frame import Frame
from recordings.reader import Recording, open_recording

GOLDEN = Path(__file__).parents[2] / "recordings" / "golden" / "format-1" / "unsealed"


def driven(recording: Recording, frames: list[Frame]) -> Pairing:
    config, transparent = config_of(recording.header.settings, list(recording.header.peers))
    return Drive(config, recording.header, body=recording.body, transparent=transparent).run(frames)


def answers(frames: list[Frame], way: str) -> list[Frame]:
    return [frame for frame in frames if frame.way == way and frame.kind == "response" and bytes(frame.body)]


def test_a_fork_with_another_answer_of_a_peer_drives_as_if_it_had_been_recorded_so() -> None:
    recording = open_recording(GOLDEN)
    frames = list(recording)
    methods = {frame.seq: frame.method for frame in frames if frame.way == "core>"}
    answer = next(frame for frame in answers(frames, "peer>") if methods.get(frame.re or 0) == "tools/call")
    fork, _ = edited(answer, [edit_of(f'{answer.seq}:/result/content/0/text="no"')])
    assert "synthetic" in fork.flags
    pairing = driven(recording, [fork if frame.seq == answer.seq else frame for frame in frames])
    assert pairing.divergences == []


def test_an_answer_to_the_core_that_differs_is_told_by_the_request_that_it_answers() -> None:
    recording = open_recording(GOLDEN)
    frames = list(recording)
    methods = {frame.seq: frame.method for frame in frames if frame.way == "core>"}
    answer = next(frame for frame in answers(frames, ">core") if methods.get(frame.re or -1))
    other = msgspec.structs.replace(
        answer, body=msgspec.Raw(b'{"jsonrpc":"2.0","id":0,"result":{"other":1}}')
    )
    pairing = driven(recording, [other if frame.seq == answer.seq else frame for frame in frames])
    [told] = [each for each in pairing.divergences if each.recorded == answer.seq]
    assert (told.cls, told.method) == ("answer-differs", methods[answer.re or 0])
