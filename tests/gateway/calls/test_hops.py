"""What an adapter tells of its own traffic: frames of a hop, and nothing for anybody else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.calls.hops import MOST_HOPS, Said
from gateway.config.peer import PeerConfig
from gateway.protocol import hops
from gateway.protocol.hops import ENVIRON, NOTIFICATION
from tests.gateway.calls.kit import Client, Desk, Message, Service, text
from tests.gateway.calls.kit_world import Frame

HOPS = PeerConfig(command=["x"], hops=True)


def started() -> tuple[Desk, Client, Service, Message]:
    """A table with an adapter that tells of its hops, in the middle of a call."""
    service = Service(tools=["add"])
    desk = Desk({"code": service}, peers={"code": HOPS})
    core = desk.core()
    core.calls()
    return desk, core, service, service.gets("tools/call")


def crosses(service: Service, way: str, message: Message, **more: Any) -> None:
    whole: Message = {"jsonrpc": "2.0", **message}
    service.tells(NOTIFICATION, {"hop": "lsp:ty", "way": way, "message": whole, **more})


def of_hop(desk: Desk) -> list[Frame]:
    return [frame for frame in desk.frames() if frame.peer == "code/lsp:ty"]


def test_a_request_and_its_answer_are_frames_of_the_hop_that_name_call_and_cause() -> None:
    desk, core, service, call = started()
    crosses(service, "out", {"id": 7, "method": "textDocument/hover", "params": {"x": 1}}, call=call["id"])
    crosses(service, "in", {"method": "$/progress", "params": {}})
    crosses(service, "in", {"id": 7, "result": None})
    asked, progress, answer = of_hop(desk)

    [tool] = desk.frames("request", way="core>", method="tools/call")
    assert (asked.kind, asked.way, asked.method, asked.parent) == (
        "request", ">peer", "textDocument/hover", tool.seq,
    )  # fmt: skip
    assert (progress.kind, progress.way, progress.after) == ("notification", "peer>", asked.seq)
    assert (answer.kind, answer.way, answer.re, answer.method) == (
        "response", "peer>", asked.seq, "textDocument/hover",
    )  # fmt: skip
    assert core.hears_nothing
    service.answers(call, text("3"))
    assert "result" in core.gets()


def test_the_same_id_of_both_sides_is_two_requests() -> None:
    desk, _, service, _ = started()
    crosses(service, "out", {"id": 1, "method": "initialize"})
    crosses(service, "in", {"id": 1, "method": "workspace/configuration"})
    crosses(service, "out", {"id": 1, "result": []})
    crosses(service, "in", {"id": 1, "error": {"code": 1, "message": "no"}})
    ours, theirs, answer, refusal = of_hop(desk)

    assert (answer.re, answer.way) == (theirs.seq, ">peer")
    assert (refusal.re, refusal.kind) == (ours.seq, "error")


def in_pieces(service: Service, message: Message, **more: Any) -> None:
    """The service has said a long message."""
    raw = msgspec.Raw(msgspec.json.encode(message))
    for data in hops.write(hops.Crossing(hop="lsp:ty", way="in", message=raw)):
        service.tells(NOTIFICATION, msgspec.json.decode(data)["params"] | more)


def test_what_comes_in_pieces_is_one_frame_that_holds_all_of_it() -> None:
    desk, core, service, call = started()
    crosses(service, "out", {"id": 7, "method": "textDocument/hover"}, call=call["id"])
    long: Message = {"jsonrpc": "2.0", "id": 7, "result": "\u00e9" * 200_000}
    in_pieces(service, long)
    asked, answer = of_hop(desk)

    assert (answer.kind, answer.way, answer.re) == ("response", "peer>", asked.seq)
    assert msgspec.json.decode(answer.body or b"") == long
    assert core.hears_nothing
    assert desk.frames("fault") == []


def test_a_message_that_is_too_long_for_its_bound_is_kept_as_far_as_it_goes_and_the_next_one_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hops.Pieces.__init__, "__defaults__", (1000,))
    desk, _, service, _ = started()
    in_pieces(service, {"jsonrpc": "2.0", "id": 7, "result": "x" * 300_000})
    crosses(service, "in", {"method": "next"})
    cut, whole = of_hop(desk)

    assert (cut.kind, cut.way, cut.x) == ("raw", "peer>", {"why": "too-large", "bytes": 300_036})
    assert len(cut.body or b"") == 1000
    assert whole.method == "next"


def test_pieces_that_do_not_follow_each_other_are_a_fault_and_no_message() -> None:
    desk, _, service, _ = started()
    service.tells(NOTIFICATION, {"hop": "lsp:ty", "way": "in", "piece": "{", "more": True})
    crosses(service, "in", {"method": "other"})
    crosses(service, "in", {"method": "next"})

    assert [frame.method for frame in of_hop(desk)] == ["next"]
    assert [(frame.x or {})["reason"] for frame in desk.frames("fault")] == ["malformed"]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"hop": "lsp:ty", "way": "in", "message": {}, "more": True},
        {"hop": "lsp:ty", "way": "in", "message": {}, "piece": "{}"},
        {"hop": "ty", "way": "out", "message": {}},
        {"hop": "lsp:a/b", "way": "out", "message": {}},
        {"hop": "lsp:ty", "way": "up", "message": {}},
        {"hop": "lsp:ty", "way": "in"},
        {"hop": "lsp:ty", "way": "in", "message": {}, "ended": {}},
        {"hop": "lsp:ty", "way": "out", "ended": {}},
    ],
)
def test_what_names_no_hop_is_a_fault_of_the_peer_and_of_nobody_else(params: Message) -> None:
    desk, core, service, call = started()
    service.tells(NOTIFICATION, params)
    [fault] = [frame for frame in desk.frames("fault") if (frame.x or {}).get("reason") == "malformed"]

    assert (fault.peer, (fault.x or {})["method"]) == ("code", NOTIFICATION)
    assert core.hears_nothing
    service.answers(call, text("3"))
    assert "result" in core.gets()


def test_what_crosses_and_is_no_message_is_kept_as_it_came() -> None:
    desk, _, service, _ = started()
    service.tells(NOTIFICATION, {"hop": "lsp:ty", "way": "in", "message": [1, 2]})

    assert [(frame.kind, frame.way) for frame in of_hop(desk)] == [("raw", "peer>")]


def test_the_end_of_a_service_is_a_frame_and_what_it_was_asked_is_answered_by_no_other_life_of_it() -> None:
    desk, core, service, _ = started()
    crosses(service, "out", {"id": 1, "method": "hover"})
    service.tells(NOTIFICATION, {"hop": "lsp:ty", "way": "in", "ended": {"how": "exited with code 1"}})
    crosses(service, "in", {"id": 1, "result": {}})
    asked, end, answer = of_hop(desk)

    assert (end.kind, end.way, end.body, end.after) == (
        "exit", "inside", b'{"how":"exited with code 1"}', asked.seq,
    )  # fmt: skip
    assert answer.re is None
    assert core.hears_nothing


def test_a_peer_has_no_end_of_hops() -> None:
    desk, _, service, _ = started()
    message: Message = {"jsonrpc": "2.0", "method": "x"}
    for number in range(MOST_HOPS + 1):
        service.tells(NOTIFICATION, {"hop": f"lsp:n{number}", "way": "out", "message": message})

    assert len({frame.peer for frame in desk.frames() if "/" in (frame.peer or "")}) == MOST_HOPS


def test_an_inner_service_hears_what_is_said_and_answers() -> None:
    desk, _, service, _ = started()
    at_peer = service.wire.peer.hops
    assert at_peer is not None
    heard: list[tuple[str, Said]] = []

    class Ear:
        def heard(self, hop: str, said: Said) -> None:
            heard.append((hop, said))

    at_peer.inner = Ear()
    crosses(service, "out", {"id": 7, "method": "textDocument/hover"})
    [(hop, said)] = heard
    assert (hop, said.kind, said.envelope.method) == ("lsp:ty", "request", "textDocument/hover")

    at_peer.say("lsp:ty", b'{"jsonrpc":"2.0","id":7,"result":{}}')
    told = service.gets(NOTIFICATION)
    assert told["params"] == {
        "hop": "lsp:ty", "way": "in", "message": {"jsonrpc": "2.0", "id": 7, "result": {}},
    }  # fmt: skip
    assert of_hop(desk)[-1].re == said.seq


def test_only_a_peer_of_which_hops_are_recorded_is_told_to_tell() -> None:
    assert HOPS.environment({})[ENVIRON] == "record"
    assert ENVIRON not in PeerConfig(command=["x"]).environment({ENVIRON: "play"})
