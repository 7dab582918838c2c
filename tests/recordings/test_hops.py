"""Frames of hops: a script of their own, and no part of the session to anybody else."""

from __future__ import annotations

from typing import Any

from recordings.compare import compare
from recordings.faultrules import targets_of
from recordings.fixtures import fixture_of
from recordings.frame import is_hop
from recordings.header import Header, PeerFacts
from recordings.held import Held
from recordings.hops import HopSource, hops_of
from recordings.profile import BUILT_IN
from recordings.script import Script
from recordings.textform import text_files
from recordings.views import inline_body, is_forwarded, pairs
from tests.recordings.tape_kit import Tape
from tests.recordings.test_compare import Memory

HOP = "fs/lsp:ty"


def crossed(tape: Tape, kind: str, way: str, body: dict[str, Any], **fields: Any) -> int:
    method = body.get("method")
    return tape.add(kind, way, body, peer=HOP, method=method, id=body.get("id"), **fields)


def with_hop(tape: Tape) -> tuple[int, int, int, int]:
    """A call in whose course an adapter asks its server, which asks back."""
    call = tape.asks()
    said = crossed(tape, "notification", ">peer", {"method": "initialized"}, parent=call)
    asked = crossed(tape, "request", ">peer", {"id": 1, "method": "hover"}, parent=call)
    crossed(tape, "notification", ">peer", {"method": "$/cancelRequest"}, parent=call, after=said)
    answer = crossed(tape, "response", "peer>", {"id": 1, "result": {}}, re=asked, after=asked)
    tape.answers(call)
    return call, said, asked, answer


def test_a_hop_is_a_script_whose_core_is_the_adapter() -> None:
    tape = Tape()
    _, said, asked, answer = with_hop(tape)
    script = Script(HopSource(Held(tape.frames), "fs", "lsp:ty"), BUILT_IN)

    assert {seq: (one.kind, one.method) for seq, one in script.arrivals.items()} == {
        said: ("request", "initialized"),
        asked: ("request", "hover"),
    }
    assert list(script.caused_by(asked)) == [answer]
    assert {one.lane for one in script.arrivals.values()} == {"lsp:ty"}


def test_the_script_of_the_session_is_the_one_without_hops() -> None:
    tape = Tape()
    with_hop(tape)
    script = Script(Held(tape.frames), BUILT_IN)
    bare = Script(Held([one for one in tape.frames if not is_hop(one.peer)]), BUILT_IN)

    assert list(script.arrivals) == list(bare.arrivals)
    assert list(script.deliveries) == list(bare.deliveries)


def test_what_a_live_peer_has_said_holds_nothing_back() -> None:
    tape = Tape()
    call, *_ = with_hop(tape)
    script = Script(Held(tape.frames), BUILT_IN, live=frozenset(("fs",)))

    assert list(script.deliveries) == []
    assert script.arrivals[call].answered
    assert list(script.given_live) == [call]


def test_hops_are_found_by_peer_in_order() -> None:
    tape = Tape()
    with_hop(tape)
    crossed(tape, "notification", ">peer", {"method": "x"})
    assert hops_of(tape.frames) == {"fs": ["lsp:ty"]}
    assert hops_of(Tape().frames) == {}


def test_no_fault_strikes_what_an_agent_does_not_see() -> None:
    tape = Tape()
    with_hop(tape)
    assert {target.peer for target in targets_of(tape.frames)} == {"fs"}


def test_the_text_form_is_the_one_without_hops() -> None:
    tape, bare = Tape(), Tape()
    with_hop(tape)
    bare.answers(bare.asks())
    header = Header(peers={"fs": PeerFacts(dialect="mcp")})
    assert list(text_files(header, tape.frames, inline_body)) == list(
        text_files(header, bare.frames, inline_body)
    )


def asked_back(tape: Tape) -> None:
    """As `with_hop`, and the server asks its adapter, which asks by itself too."""
    with_hop(tape)
    asked = crossed(tape, "request", "peer>", {"id": 0, "method": "workspace/configuration"})
    crossed(tape, "response", ">peer", {"id": 0, "result": []}, re=asked)
    crossed(tape, "request", ">peer", {"id": 2, "method": "diagnostic"})


def test_no_call_of_a_hop_counts_as_one_of_the_session() -> None:
    tape, bare = Tape(), Tape()
    asked_back(tape)
    bare.answers(bare.asks())
    assert compare(Memory(bare.frames), Memory(tape.frames), BUILT_IN).is_same
    assert [pair.request.seq for pair in pairs(tape.frames) if not is_forwarded(pair.request)] == [0]

    made = [
        fixture_of(Held(each.frames), BUILT_IN, "s", transport="stdio", transparent=False, peers=["fs"])
        for each in (bare, tape)
    ]
    assert made[0].messages == made[1].messages == []
