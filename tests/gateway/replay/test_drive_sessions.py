"""Whatever core and peers have said to each other: driven again, the exchange says the same, frame by frame."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from gateway.config.recorded import config_of
from gateway.replay.drive import Drive
from gateway.replay.pairing import Pairing
from recordings.frame import Frame
from recordings.header import Header
from recordings.views import inline_body
from tests.gateway.replay.sessions import CALM, STORMS, Acting, Plan, plans


def driven(header: Header, frames: list[Frame]) -> tuple[Pairing, list[Frame]]:
    """Drive frames; return how they compare, and the frames that the exchange has made."""
    config, transparent = config_of(header.settings, list(header.peers))
    made: list[Frame] = []
    drive = Drive(config, header, body=inline_body, transparent=transparent, on_frame=made.append)
    pairing = drive.run(frames)
    return pairing, made


def assert_same(pairing: Pairing, frames: list[Frame]) -> None:
    told = [
        f"{each.cls} live {each.live} recorded {each.recorded}: {each.detail} {each.changes}"
        for each in pairing.divergences
    ]
    assert (told, pairing.faults) == ([], [])
    assert pairing.paired == pairing.count == len(frames)


@pytest.mark.timeout(240)
@settings(max_examples=1000, deadline=None)
@given(plans((*CALM, *STORMS), most=25))
def test_a_driven_session_comes_out_as_it_was_recorded_and_so_does_what_came_out(plan: Plan) -> None:
    scene = Acting(plan).play()
    header = scene.header

    pairing, again = driven(header, scene.frames)
    assert_same(pairing, scene.frames)
    pairing, third = driven(header, again)
    assert_same(pairing, again)
    assert [frame.seq for frame in third] == [frame.seq for frame in again]
