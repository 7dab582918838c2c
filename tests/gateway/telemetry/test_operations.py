"""Requests joined with what became of them, on every way that an answer can take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from gateway.telemetry.kept import REMEMBERED, Kept
from gateway.telemetry.operations import Operation
from tests.gateway.telemetry.kit import MS, PARENT, Session


def test_a_call_that_is_passed_on_is_one_operation_on_either_side() -> None:
    session = Session()
    call = session.calls(meta={"traceparent": PARENT})
    session.answers("peer>", call, peer="db")

    client, server = session.ends
    assert session.told == [("client", "db", "tools/call", ""), ("server", "core", "tools/call", "")]
    assert (server.took_ns, client.took_ns) == (MS, MS)
    assert (server.trace_id, server.parent_id, server.is_remote_parent) == (PARENT[3:35], PARENT[36:52], True)
    assert (client.trace_id, client.parent_id, client.is_remote_parent) == (
        PARENT[3:35],
        server.span_id,
        False,
    )
    assert session.starts == [server]
    assert not session.tracker.kept.open


def test_the_clients_part_begins_once_the_peer_could_be_asked() -> None:
    session = Session()
    call = session.calls()
    session.frame("open", "inside", peer="db", x={"life": 1})
    session.frame("ready", "inside", peer="db", x={"version": "2025-11-25"})
    session.answers("peer>", call, peer="db")

    client, server = session.ends
    assert (client.start, client.took_ns, server.took_ns) == (3 * MS, MS, 3 * MS)
    assert client.version == "2025-11-25"


def test_without_a_trace_each_request_of_the_core_begins_one() -> None:
    session = Session()
    first, second = session.calls(id_=1), session.calls(id_=2)
    session.answers("peer>", second, peer="db")
    session.answers("peer>", first, peer="db")

    assert len({op.trace_id for op in session.ends}) == 2
    assert len({op.span_id for op in session.ends}) == 4


def test_the_gateways_own_answer_ends_the_servers_side_alone() -> None:
    session = Session()
    ping = session.asks("core>", "ping")
    session.answers(">core", ping, flags=("synthetic",))

    assert session.told == [("server", "core", "ping", "")]


def test_errors_are_told_by_their_kind() -> None:
    session = Session()
    session.refuses("peer>", session.calls(id_=1), -32602, peer="db")
    session.answers("peer>", session.calls(id_=2), {"isError": True}, peer="db")
    own = {"code": "io", "reason": "peer_exited", "outcome": "unknown"}
    lost = session.calls(id_=3)
    session.frame("lost", "inside", peer="db", re=lost)
    session.refuses(">core", lost, -32000, data=own, flags=("synthetic",))
    late = session.calls(id_=4)
    session.frame("timeout", "inside", peer="db", re=late)
    session.refuses(">core", late, -32001, data=own | {"code": "timeout"}, flags=("synthetic",))

    assert [op.error for op in session.ends] == [
        "-32602", "-32602", "tool_error", "tool_error", "lost", "-32000", "timeout", "-32001",
    ]  # fmt: skip
    assert [(op.fault, op.reason) for op in session.ends[-3:]] == [
        ("io", "peer_exited"), ("", ""), ("timeout", "peer_exited"),
    ]  # fmt: skip


def test_an_error_of_a_peer_cannot_pass_for_one_of_ours() -> None:
    session = Session()
    session.refuses("peer>", session.calls(), data={"code": "denied", "reason": "trust me"}, peer="db")

    assert session.ends[-1].fault == ""


def test_a_deadline_before_the_peer_was_ready_was_no_clients() -> None:
    session = Session()
    call = session.calls()
    session.frame("open", "inside", peer="db", x={"life": 1})
    session.frame("timeout", "inside", peer="db", re=call)
    session.refuses(">core", call, -32001, flags=("synthetic",))

    assert session.told == [("server", "core", "tools/call", "-32001")]


def test_a_cancelled_call_ends_when_it_is_cancelled_and_its_late_answer_changes_nothing() -> None:
    session = Session()
    call = session.calls()
    session.frame("notification", "core>", {"params": {}}, method="notifications/cancelled", re=call)
    session.frame("late", "peer>", {"id": 1, "result": {}}, peer="db", flags=("late",))

    assert session.told == [("server", "core", "tools/call", "cancelled")]


def test_a_call_whose_asker_has_gone_is_not_open_until_the_session_ends() -> None:
    session = Session()
    call = session.calls()
    session.frame("drop", "inside", peer="db", re=call, x={"reason": "the core has disconnected"})

    assert session.told == [("server", "core", "tools/call", "cancelled")]
    assert not session.tracker.kept.open


def test_a_question_of_a_peer_hangs_below_the_call_and_is_answered_with_the_cores_answer() -> None:
    session = Session()
    session.shakes_hands()
    call = session.calls(meta={"traceparent": PARENT})
    ask = session.asks("peer>", "elicitation/create", peer="db", parent=call)
    passed = session.asks(">core", "elicitation/create", peer="db", parent=ask, flags=("synthetic",))
    session.answers("core>", passed)
    session.answers("peer>", call, peer="db")

    client, server, part, root = session.ends
    assert session.told[:2] == [
        ("client", "core", "elicitation/create", ""),
        ("server", "db", "elicitation/create", ""),
    ]
    assert [op.parent_id for op in (client, server, part)] == [server.span_id, root.span_id, root.span_id]
    assert {op.trace_id for op in session.ends} == {PARENT[3:35]}


def test_a_call_that_is_withdrawn_takes_its_open_questions_with_it() -> None:
    session = Session()
    session.shakes_hands()
    call = session.calls()
    ask = session.asks("peer>", "elicitation/create", peer="db", parent=call)
    session.asks(">core", "elicitation/create", peer="db", parent=ask, flags=("synthetic",))
    session.frame("notification", "core>", {"params": {}}, method="notifications/cancelled", re=call)

    assert {error for *_, error in session.told} == {"cancelled"}
    assert not session.tracker.kept.open


def test_a_call_in_several_legs_ends_with_the_last_one() -> None:
    session = Session()
    session.shakes_hands()
    call = session.calls()
    first = session.answers("peer>", call, {"resultType": "input_required"}, peer="db")
    asked = session.asks(">core", "elicitation/create", parent=first, flags=("synthetic",))
    session.answers("core>", asked)
    leg = session.asks(
        ">peer", "tools/call", peer="db", name="query", op=call, parent=first, flags=("synthetic",)
    )
    assert len(session.tracker.kept.open) == 2
    session.answers("peer>", leg, {"resultType": "complete"}, peer="db")

    assert session.told == [
        ("client", "db", "tools/call", ""),
        ("client", "core", "elicitation/create", ""),
        ("client", "db", "tools/call", ""),
        ("server", "core", "tools/call", ""),
    ]
    root = session.ends[-1]
    assert {op.parent_id for op in session.ends[:-1]} == {root.span_id}
    assert root.end == session.seq * MS


def test_a_core_that_refuses_to_say_what_a_leg_needs_ends_the_call() -> None:
    session = Session()
    session.shakes_hands()
    call = session.calls()
    first = session.answers("peer>", call, {"resultType": "input_required"}, peer="db")
    asked = session.asks(">core", "elicitation/create", parent=first, flags=("synthetic",))
    session.refuses("core>", asked, -1)

    assert session.told[-1] == ("server", "core", "tools/call", "-1")


def test_a_core_of_the_new_era_is_answered_when_it_is_asked_for_more() -> None:
    session = Session()
    call = session.calls()
    session.answers("peer>", call, {"resultType": "input_required"}, peer="db")

    assert session.told[-1] == ("server", "core", "tools/call", "")


def test_what_is_open_when_the_session_ends_has_no_answer() -> None:
    session = Session()
    session.calls()
    session.frame("close", "core>", x={"reason": "closed", "in_flight": 1})
    session.tracker.finish()

    assert session.told == [("server", "core", "tools/call", "session_ended")]


def test_a_sender_that_does_not_sample_is_heeded_by_everything_below() -> None:
    session = Session()
    call = session.calls(meta={"traceparent": PARENT[:-1] + "0"})
    session.answers("peer>", call, peer="db")

    assert [op.sampled for op in session.ends] == [False, False]


def test_what_crosses_the_hop_of_an_adapter_is_no_operation_and_no_line_of_the_log() -> None:
    session, hop = Session(), "code/lsp:ty"
    call = session.calls(peer="code")
    asked = session.asks(">peer", "textDocument/hover", peer=hop, parent=call)
    session.answers("peer>", asked, peer=hop)
    session.answers(">peer", session.asks("peer>", "workspace/configuration", peer=hop), peer=hop)
    session.frame("exit", "inside", {"how": "exited with code 1"}, peer=hop)
    assert (len(session.starts), len(session.entries)) == (1, 1)
    session.answers("peer>", call, peer="code")

    assert [(side, other) for side, other, *_ in session.told] == [("client", "code"), ("server", "core")]


def test_of_what_has_ended_as_many_operations_are_found_as_are_remembered_and_no_more() -> None:
    def never(*_: object) -> Operation:
        raise AssertionError("none of them is kept in short")

    kept = Kept(never, never)
    for seq in range(REMEMBERED + 100):
        kept.end(cast("Operation", SimpleNamespace(seq=seq)))

    assert [kept.gone(seq) is not None for seq in (0, 99, 100, REMEMBERED + 99)] == [False, False, True, True]
