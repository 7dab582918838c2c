"""An adapter that runs, with a recording behind it: what it says is awaited, what it is given comes in causal order."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from gateway.config.peer import PeerConfig
from gateway.protocol.hops import NOTIFICATION, START
from gateway.replay.inner import PlayedInner
from gateway.replay.player import Player
from gateway.replay.recollection import Recollection
from recordings import frame as frames
from recordings.held import Held
from recordings.hops import HopSource, hops_of
from recordings.profile import BUILT_IN
from recordings.script import Script
from tests.gateway.calls.kit import Client, Desk, Message, Service

HOPS = PeerConfig(command=["x"], hops=True)
PATIENCE_S = 2.0
HOVER, OPEN, MOVED = "textDocument/hover", "textDocument/didOpen", "textDocument/publishDiagnostics"


class Run:
    """One adapter in the middle of a call, and the service behind it."""

    def __init__(self, before: Run | None = None) -> None:
        self.service = Service(tools=["add"])
        self.desk = Desk({"code": self.service}, peers={"code": HOPS})
        self.core: Client = self.desk.core()
        self.core.calls()
        self.call = self.service.gets("tools/call")
        self.inner: PlayedInner | None = None
        self.faults: list[Exception] = []
        hops = self.service.wire.peer.hops
        if before is not None and hops is not None:
            source = Held(before.frames)

            def player(hop: str) -> Player:
                script = Script(HopSource(source, "code", hop), BUILT_IN)
                return Player(Recollection(script), strength="causal")

            later = self.desk.host.later
            self.inner = hops.inner = PlayedInner(
                hops, player, later=later, patience_s=PATIENCE_S, failed=self.faults.append
            )

    def out(self, message: Message) -> list[Message]:
        """The adapter says something; what it is given for it."""
        return self._crosses("out", message)

    def came(self, message: Message) -> None:
        """The service has said something, in a run that has one."""
        self._crosses("in", message)

    def ends(self, how: str) -> None:
        """The service has ended by itself, in a run that has one."""
        self.service.tells(NOTIFICATION, {"hop": "lsp:ty", "way": "in", "ended": {"how": how}})

    def _crosses(self, way: str, message: Message) -> list[Message]:
        whole: Message = {"jsonrpc": "2.0", **message}
        self.service.tells(
            NOTIFICATION, {"hop": "lsp:ty", "way": way, "message": whole, "call": self.call["id"]}
        )
        return self.given

    @property
    def given(self) -> list[Message]:
        """What the adapter was given since it was looked at last."""
        return [
            {name: value for name, value in each["params"]["message"].items() if name != "jsonrpc"}
            if "message" in each["params"]
            else each["params"]["ended"]
            for each in self.service.wire.got
        ]

    @property
    def frames(self) -> list[frames.Frame]:
        """What was recorded."""
        return [
            frames.Frame(
                seq=one.seq, kind=one.kind, way=one.way, body=msgspec.Raw(one.body or b""), peer=one.peer or None,  # pyright: ignore[reportArgumentType]
                id=one.id, re=one.re, parent=one.parent, after=one.after, method=one.method or None, x=one.x,
            )
            for one in self.desk.frames()
        ]  # fmt: skip

    @property
    def crossed(self) -> list[tuple[Any, ...]]:
        """The frames of the hop, but for their numbers."""
        return [
            (one.kind, one.way, one.method, bytes(one.body)) for one in self.frames if frames.is_hop(one.peer)
        ]

    @property
    def told(self) -> list[str]:
        """What has differed."""
        assert self.inner is not None
        return [each.cls for each in self.inner.divergences()]


def ask(id_: int | str, method: str, **params: Any) -> Message:
    return {"id": id_, "method": method, "params": params}


def say(method: str, **params: Any) -> Message:
    return {"method": method, "params": params}


def recorded() -> Run:
    """A document is opened, diagnostics of it come, it is asked about."""
    run = Run()
    run.out(say(OPEN, uri="a"))
    run.came(say(MOVED, uri="a"))
    run.out(ask(1, HOVER, line=1))
    run.came({"id": 1, "result": {"text": "int"}})
    return run


def test_an_adapter_that_says_the_same_is_given_the_same_and_leaves_the_same_frames() -> None:
    before = recorded()
    run = Run(before)
    assert run.out(say(OPEN, uri="a")) == [say(MOVED, uri="a")]
    assert run.out(ask(1, HOVER, line=1)) == [{"id": 1, "result": {"text": "int"}}]
    assert run.crossed == before.crossed
    assert run.told == []
    assert hops_of(run.frames) == {"code": ["lsp:ty"]}


def test_an_answer_comes_under_the_id_of_this_run() -> None:
    run = Run(recorded())
    run.out(say(OPEN, uri="a"))
    assert run.out(ask(7, HOVER, line=1)) == [{"id": 7, "result": {"text": "int"}}]


def test_an_answer_waits_for_what_was_said_before_it() -> None:
    run = Run(recorded())
    assert run.out(ask(1, HOVER, line=1)) == []
    assert run.out(say(OPEN, uri="a")) == [say(MOVED, uri="a"), {"id": 1, "result": {"text": "int"}}]


def test_two_questions_get_their_own_answers_in_whatever_order_they_come() -> None:
    before = Run()
    for number in (1, 2):
        before.out(ask(number, HOVER, line=number))
    for number in (2, 1):
        before.came({"id": number, "result": number})
    run = Run(before)
    given = [*run.out(ask(1, HOVER, line=2)), *run.out(ask(2, HOVER, line=1))]
    assert sorted(given, key=lambda each: each["id"]) == [{"id": 1, "result": 2}, {"id": 2, "result": 1}]


def test_a_question_of_the_service_comes_again_and_what_follows_waits_for_its_answer() -> None:
    before = Run()
    before.out(ask(1, "initialize"))
    before.came(ask(0, "workspace/configuration"))
    before.out({"id": 0, "result": [None]})
    before.came({"id": 1, "result": {}})
    run = Run(before)
    assert run.out(ask(1, "initialize")) == [ask(0, "workspace/configuration")]
    assert run.out({"id": 0, "result": [None]}) == [{"id": 1, "result": {}}]
    assert (run.told, run.crossed) == ([], before.crossed)


def test_a_service_ends_again_where_it_did_and_what_was_open_then_is_not_answered() -> None:
    before = Run()
    before.out(ask(1, "initialize"))
    before.came({"id": 1, "result": {"name": "first"}})
    before.out(ask(2, HOVER, line=1))
    before.out(say(OPEN, uri="a"))
    before.ends("crashed")
    before.out(ask(1, "initialize"))
    before.came({"id": 1, "result": {"name": "second"}})
    before.out(ask(2, HOVER, line=1))
    before.came({"id": 2, "result": "int"})
    run = Run(before)
    assert run.out(ask(1, "initialize")) == [{"id": 1, "result": {"name": "first"}}]
    assert run.out(ask(2, HOVER, line=1)) == []
    assert run.out(say(OPEN, uri="a")) == [{"how": "crashed"}]
    assert run.out(ask(1, "initialize")) == [{"id": 1, "result": {"name": "second"}}]
    assert run.out(ask(2, HOVER, line=1)) == [{"id": 2, "result": "int"}]
    assert (run.told, run.crossed) == ([], before.crossed)


def test_another_answer_to_a_question_of_the_service_is_told() -> None:
    before = Run()
    before.out(say(OPEN, uri="a"))
    before.came(ask(0, "workspace/configuration"))
    before.out({"id": 0, "result": [None]})
    run = Run(before)
    run.out(say(OPEN, uri="a"))
    run.out({"id": 0, "result": [{"strict": True}]})
    assert run.told == ["answer-differs"]


def test_a_question_that_was_not_recorded_is_refused_and_told() -> None:
    run = Run(recorded())
    run.out(say(OPEN, uri="a"))
    [refusal] = run.out(ask(1, HOVER, line=2))
    assert refusal["id"] == 1
    assert "the recording has no answer left" in refusal["error"]["message"]
    assert run.told == ["changed-params"]


def test_a_service_could_be_opened_in_a_recording_that_does_not_say_so() -> None:
    run = Run(recorded())
    assert run.out(ask("start-1", START)) == [{"id": "start-1", "result": {}}]
    run.out(say(OPEN, uri="a"))
    assert run.out(ask(1, HOVER, line=1)) == [{"id": 1, "result": {"text": "int"}}]
    assert run.told == []


def test_a_service_that_could_not_be_opened_at_first_cannot_be_so_at_first_again() -> None:
    before = Run()
    error: Message = {"code": -32000, "message": "no such file", "data": {"code": "io", "details": {}}}
    before.out(ask("start-1", START))
    before.came({"id": "start-1", "error": error})
    before.out(ask("start-2", START))
    before.came({"id": "start-2", "result": {}})
    run = Run(before)
    assert run.out(ask("start-1", START)) == [{"id": "start-1", "error": error}]
    assert run.out(ask("start-2", START)) == [{"id": "start-2", "result": {}}]
    assert (run.told, run.crossed) == ([], before.crossed)


def test_a_hop_that_was_not_recorded_answers_with_why() -> None:
    run = Run(Run())
    [refusal] = run.out(ask(1, HOVER, line=2))
    assert (refusal["id"], "the recording has no answer left" in refusal["error"]["message"]) == (1, True)


def test_what_does_not_come_is_not_waited_for_for_ever() -> None:
    run = Run(recorded())
    assert run.out(ask(1, HOVER, line=1)) == []
    run.desk.passes(PATIENCE_S + 0.1)
    assert {"id": 1, "result": {"text": "int"}} in run.given
    assert run.told == ["timeout"]


@pytest.mark.parametrize("first", [True, False])
def test_a_cancel_is_timing_and_is_not_waited_for(first: bool) -> None:
    before = Run()
    cancel = say("$/cancelRequest", id=1)
    before.out(ask(1, HOVER, line=1))
    if first:
        before.out(cancel)
    before.came({"id": 1, "error": {"code": -32800, "message": "cancelled"}})
    run = Run(before)
    assert run.out(ask(1, HOVER, line=1)) == [{"id": 1, "error": {"code": -32800, "message": "cancelled"}}]
    assert run.out(cancel) == []
    assert run.told == []


def test_a_fault_of_the_replay_is_told_and_is_no_fault_of_the_adapter() -> None:
    run = Run(Run())
    assert run.inner is not None

    def breaks(hop: str) -> Player:
        raise RuntimeError(hop)

    cast("Any", run.inner)._players = breaks
    assert run.out(ask(1, HOVER)) == []
    assert [str(fault) for fault in run.faults] == ["lsp:ty"]
    run.service.answers(run.call, {"content": []})
    assert run.core.gets()["result"] == {"content": []}


def test_nothing_is_answered_once_the_session_is_over() -> None:
    run = Run(recorded())
    run.out(say(OPEN, uri="a"))
    assert run.inner is not None
    run.inner.end()
    assert run.out(ask(1, HOVER, line=1)) == []
