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
from tests.gateway.replay.sessions import CALM, STORMS, Acting, Plan, Step, plans
from transports.base import TransportError


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


def of_modern_core(*steps: Step) -> Plan:
    """A session in which what a legacy peer asks is put to the core a moment later, with what else it asks then."""
    peer = ("legacy", False, False)
    return Plan("modern", http=False, peers=(peer,), pages=1, lanes=0, greets=True, steps=steps)


def test_a_call_whose_time_is_up_ends_when_it_did_though_a_timer_was_looked_at_shortly_before() -> None:
    """What is looked at four times a second was looked at a little after that."""
    twenty_s: tuple[Step, ...] = (("long", 0, 3), ("long", 0, 3), ("long", 0, 2))
    steps = (("call", 0, 0), *twenty_s, ("call", 0, 0), ("ask", 1, 0), ("long", 0, 0), ("long", 0, 1))
    scene = Acting(of_modern_core(*steps)).play()
    put, late = (
        next(frame for frame in scene.frames if frame.kind == kind and (of in bytes(frame.body)))
        for kind, of in (("response", b"input_required"), ("timeout", b""))
    )
    assert 0 < late.at - put.at < 250_000_000

    pairing, _ = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)


def test_what_is_recorded_before_the_junk_that_it_is_about_lets_no_timer_ring() -> None:
    steps = (
        ("call", 0, 0),
        ("ask", 0, 0),
        *(("initialized", 0, 0),) * 28,
        ("peer junk", 0, 0),
        ("long", 0, 0),
    )
    scene = Acting(of_modern_core(*steps)).play()
    junk = next(frame for frame in scene.frames if frame.kind == "raw")
    put = next(frame for frame in scene.frames if b"input_required" in bytes(frame.body))
    assert 0 < put.at - junk.at < 5_000_000

    pairing, _ = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)


@pytest.mark.parametrize("steps", [(("call", 0, 0),), (("call", 0, 0), ("ask", 0, 0), ("long", 0, 0))])
def test_a_gateway_that_ended_under_its_agent_ends_there_again_though_its_peers_end_later(
    steps: tuple[Step, ...],
) -> None:
    acting = Acting(of_modern_core(*steps, ("list", 0, 0)))
    end = acting._end  # pyright: ignore[reportPrivateUsage]

    def ends_first() -> None:
        acting.scene.exchange.close()
        acting.scene.settle()
        end()

    acting._end = ends_first  # pyright: ignore[reportPrivateUsage]
    scene = acting.play()
    assert scene.frames[-1].kind == "exit"
    pairing, _ = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)


def test_a_peer_that_is_seen_to_have_gone_after_its_session_has_ended_has_gone_again() -> None:
    acting = Acting(of_modern_core(("call", 0, 0)))
    [service] = acting.scene.services.values()
    end = acting._end  # pyright: ignore[reportPrivateUsage]

    def ends_first() -> None:
        [wire] = service.wires
        wire.peer.note("exit", {"signal": "SIGKILL"})
        end()
        wire.peer.closed(TransportError("exited", "the server was ended by SIGKILL"))

    acting._end = ends_first  # pyright: ignore[reportPrivateUsage]
    scene = acting.play()
    assert (scene.frames[-1].kind, scene.frames[-1].x) == ("close", {"asked": True})
    pairing, _ = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)


def test_what_a_peer_says_that_came_back_after_the_session_is_heard_where_it_was() -> None:
    """As gateways did that had begun to start it before the session's end."""
    acting = Acting(of_modern_core(("call", 0, 0), ("dies", 0, 0)))
    [service] = acting.scene.services.values()
    end = acting._end  # pyright: ignore[reportPrivateUsage]

    def speaks_last() -> None:
        [wire] = service.wires
        end()
        wire.says({"method": "notifications/message", "params": {"level": "info", "data": "late"}})

    acting._end = speaks_last  # pyright: ignore[reportPrivateUsage]
    scene = acting.play()
    assert (scene.frames[-1].way, scene.frames[-1].kind) == ("peer>", "notification")
    pairing, _ = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)


@pytest.mark.parametrize("http", [False, True])
def test_a_connection_that_was_let_go_since_nobody_needed_it_any_more_is_not_there_again(http: bool) -> None:
    """Nothing is recorded where it went, or the end of a process alone; the next calls open another one."""
    two = (("call", 0, 0), ("call", 0, 0))
    steps = (*two, ("longer", 0, 0), *two)
    peer = ("legacy", http, False)
    plan = Plan("modern", http=True, peers=(peer,), pages=1, lanes=0, greets=True, steps=steps)
    scene = Acting(plan).play()
    assert [frame.life for frame in scene.frames if frame.kind == "open"] == [1, 2, 3]

    pairing, _ = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)


@pytest.mark.parametrize(("joins", "asked"), [(True, 2), (False, 4)])
def test_a_session_in_which_each_peer_was_asked_for_its_list_twice_is_driven_as_it_was(
    joins: bool, asked: int
) -> None:
    """A core lists twice at once, while both peers hold their tongues."""
    steps: tuple[Step, ...] = (
        ("read", 0, 0),
        ("answer", 0, 0),
        ("silent", 0, 0),
        ("silent", 1, 0),
        ("list", 0, 0),
        ("list", 0, 0),
        *(("answer", 0, 0),) * 6,
    )
    plan = Plan(
        "legacy",
        http=False,
        peers=(("legacy", False, False), ("legacy", False, False)),
        pages=1,
        lanes=0,
        greets=True,
        steps=steps,
        joins=joins,
    )
    scene = Acting(plan).play()
    lists = [frame for frame in scene.frames if frame.way == ">peer" and frame.method == "tools/list"]
    assert len(lists) == asked

    pairing, _ = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)
