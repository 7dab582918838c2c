"""The life of one connection of the Pi dialect: each rule, and what breaking it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls.pi.effects import (
    Abandoned,
    Asked,
    CloseInput,
    Dropped,
    Effect,
    Ended,
    EndProcess,
    Failed,
    Logged,
    Refused,
    Registered,
    Send,
    Updated,
)
from gateway.calls.pi.extension import Extension
from gateway.protocol.errors import Fault
from tests.gateway.calls.pi.kit import (
    HOOKED,
    REGISTER,
    S,
    host_call,
    key_of,
    message,
    new,
    obj,
    one,
    running,
    sent,
)


def log(event: str, call: str | None = None, **data: Any) -> dict[str, Any]:
    correlation = {"extension_id": "helper", "scenario_id": "s"} | ({"tool_call_id": call} if call else {})
    head = {"schema": "pi.ext.log.v1", "ts": "t", "level": "info", "event": event, "message": "m"}
    return head | {"correlation": correlation, "data": data}


def call(extension: Extension, deadline: int = 30 * S) -> str:
    return key_of(extension.call_tool("search", obj(q="x"), deadline))


def result(key: str, **more: Any) -> bytes:
    return message("tool_result", {"call_id": key, "output": {"a": 1}, "is_error": False, **more}, key)


def refusal(effects: list[Effect]) -> tuple[str, str]:
    fault = one(effects, Refused).fault
    return fault.code, fault.reason


class TestHandshake:
    def test_an_extension_registers_and_is_told_that_the_session_starts(self) -> None:
        extension = new()
        registered = one(extension.received(message("register", REGISTER), 1), Registered)
        assert (extension.state, registered.again) == ("loading", False)
        assert registered.offer.tools.keys() == {"search", "slow"}
        assert extension.next_deadline is None

        [start] = sent(extension.start(obj(reason="startup")))

        assert start["payload"] == {"event": "session_start", "data": {"reason": "startup", "reply": False}}
        assert extension.state == "running"

    def test_one_that_does_not_register_in_time_fails(self) -> None:
        extension = new(now=5)
        assert extension.next_deadline == 10 * S + 5
        assert extension.expired(10 * S) == []

        fault = one(extension.expired(10 * S + 5), Failed).fault

        assert (fault.code, fault.reason, extension.state) == ("timeout", "not_registered", "closed")
        assert extension.next_deadline is None

    def test_one_whose_registrations_are_refused_fails_with_the_reason_of_the_last_one(self) -> None:
        extension = new()
        extension.received(message("register", {**REGISTER, "capability_manifest": {"schema": "no"}}), 1)

        fault = one(extension.expired(10 * S), Failed).fault

        assert fault.reason == "not_registered"
        assert "capability_manifest" in fault.message

    @pytest.mark.parametrize(
        ("data", "spoken_in"),
        [
            (message("register", REGISTER).replace(b'"version": "1.0"', b'"version": "2.0"', 1), "version"),
            (message("register", {**REGISTER, "api_version": "2.1"}), "api_version"),
        ],
    )
    def test_another_version_is_answered_with_what_is_spoken_and_the_end(
        self, data: bytes, spoken_in: str
    ) -> None:
        effects = new().received(data, 1)

        [error] = sent(effects)
        assert (error["id"], error["type"], error["payload"]["code"]) == ("e1", "error", "invalid_request")
        assert error["payload"]["details"]["spoken"] == ["1.0"]
        assert "1.0" in error["payload"]["message"]
        assert one(effects, Failed).fault.reason == spoken_in

    @pytest.mark.parametrize(
        ("broken", "reason"),
        [
            ({"name": ""}, "bad_name"),
            ({"tools": [{"name": "a"}, {"name": "a"}]}, "declared_twice"),
            ({"tools": [{"description": "nameless"}]}, "bad_declaration"),
            ({"tools": [{"name": "a", "parameters": [1]}]}, "bad_declaration"),
            ({"slash_commands": [{"name": 7}]}, "bad_declaration"),
            ({"tools": [{"name": str(number)} for number in range(1025)]}, "too_many"),
            ({"event_hooks": ["e"] * 1025}, "too_many"),
        ],
    )
    def test_an_offer_that_cannot_be_taken_is_refused_whole_and_another_may_follow(
        self, broken: dict[str, Any], reason: str
    ) -> None:
        extension = new()

        effects = extension.received(message("register", {**REGISTER, **broken}), 1)

        assert refusal(effects) == ("invalid_request", reason)
        assert sent(effects)[0]["payload"]["details"]["reason"] == reason
        assert (extension.state, extension.offer) == ("registering", None)
        one(extension.received(message("register", REGISTER), 2), Registered)

    @pytest.mark.parametrize("registered", [False, True])
    def test_before_the_session_starts_it_may_only_register(self, registered: bool) -> None:
        extension = new()
        if registered:
            extension.received(message("register", REGISTER), 1)

        effects = extension.received(message("host_call", host_call(), "e9"), 2)
        [answer] = sent(effects)
        assert (answer["id"], answer["type"], answer["payload"]["call_id"]) == ("e9", "host_result", "h1")
        assert answer["payload"]["error"]["code"] == "invalid_request"
        assert "not while loading" in answer["payload"]["error"]["message"]
        assert refusal(effects) == ("invalid_request", "loading")
        for type_, payload in (
            ("log", log("x")),
            ("event_hook", {"event": "cancel", "data": {"call_id": "c"}}),
        ):
            assert refusal(extension.received(message(type_, payload), 3)) == ("invalid_request", "loading")

    def test_nothing_is_asked_of_it_before_the_session_starts(self) -> None:
        extension = new()
        assert isinstance(extension.start(), Fault)
        extension.received(message("register", HOOKED), 1)

        for refused in (
            extension.call_tool("search", obj(), 9),
            extension.run_command("deploy", [], 9),
            extension.ask_hook("tool_call", obj(), 9),
            extension.tell("turn_end"),
        ):
            assert isinstance(refused, Fault)
            assert refused.reason == "not_running"
            assert refused.outcome == "not_sent"
        assert not isinstance(extension.start(), Fault)
        assert isinstance(extension.start(), Fault), "once is enough"

    def test_a_late_registration_replaces_everything_that_was_declared(self) -> None:
        extension = running()
        key = call(extension)

        later = {"name": "helper", "version": "0.2", "api_version": "1.0", "tools": [{"name": "new"}]}
        registered = one(extension.received(message("register", later), 2), Registered)

        assert registered.again
        assert extension.offer is not None
        assert (list(extension.offer.tools), extension.offer.commands) == (["new"], {})
        assert not extension.hears("turn_end")
        assert isinstance(extension.call_tool("search", obj(), 9), Fault)
        assert one(extension.received(result(key), 3), Ended).fault is None

    @pytest.mark.parametrize("wrong", [{"name": "other"}, {"api_version": "9"}, {"tools": [{"name": ""}]}])
    def test_a_late_registration_that_is_wrong_leaves_what_was(self, wrong: dict[str, Any]) -> None:
        extension = running()
        before = extension.offer

        effects = extension.received(message("register", {**REGISTER, **wrong}), 2)

        assert refusal(effects)[0] == "invalid_request"
        assert sent(effects)[0]["type"] == "error"
        assert (extension.offer, extension.state) == (before, "running")


class TestQuestions:
    def test_a_tool_call_has_its_result_under_its_id(self) -> None:
        extension = running()
        effects = extension.call_tool("search", obj(q=1), 30 * S, obj(lane="turn1"))
        [asked] = sent(effects)
        assert asked["payload"] == {
            "call_id": asked["id"], "name": "search", "input": {"q": 1}, "context": {"lane": "turn1"}
        }  # fmt: skip
        assert one(effects, Send).asks

        ended = one(extension.received(result(asked["id"], is_error=True), 2), Ended)

        assert (ended.key, ended.is_error, ended.fault) == (asked["id"], True, None)
        assert bytes(ended.output) == b'{"a": 1}'
        assert extension.next_deadline is None

    def test_a_command_has_its_result(self) -> None:
        extension = running()
        [asked] = sent(extension.run_command("deploy", ["to", "x y"], 30 * S))
        assert asked["payload"] == {"name": "deploy", "args": ["to", "x y"]}

        effects = extension.received(
            message("slash_result", {"output": {}, "is_error": False}, asked["id"]), 2
        )

        assert one(effects, Ended).key == asked["id"]

    @pytest.mark.parametrize(
        ("data", "decision"),
        [({"result": {"block": True}}, b'{"block": true}'), ({}, b""), (None, b""), ({"result": None}, b"")],
    )
    def test_a_hook_answers_with_the_same_event_and_its_decision_or_no_opinion(
        self, data: dict[str, Any] | None, decision: bytes
    ) -> None:
        extension = running()
        [asked] = sent(extension.ask_hook("tool_call", obj(toolName="bash"), 5 * S))
        payload = {"event": "tool_call"} | ({} if data is None else {"data": data})

        ended = one(extension.received(message("event_hook", payload, asked["id"]), 2), Ended)

        assert (bytes(ended.output), ended.fault) == (decision, None)

    def test_what_it_does_not_offer_is_not_asked(self) -> None:
        extension = running()

        for refused, reason in (
            (extension.call_tool("nothing", obj(), 9), "unknown_tool"),
            (extension.run_command("nothing", [], 9), "unknown_command"),
            (extension.ask_hook("context", obj(), 9), "not_hooked"),
            (extension.tell("context"), "not_hooked"),
        ):
            assert isinstance(refused, Fault)
            assert (refused.code, refused.reason) == ("invalid_request", reason)

    def test_an_event_without_answer_says_so_and_an_answer_to_it_is_an_orphan(self) -> None:
        extension = running()
        [told] = sent(extension.tell("turn_end", obj(turnIndex=1)))
        assert told["payload"]["data"] == {"turnIndex": 1, "reply": False}

        effects = extension.received(message("event_hook", {"event": "turn_end"}, told["id"]), 2)

        assert effects == [Dropped(flag="orphan", reason="no_open_call", id=told["id"], type="event_hook")]

    def test_exactly_one_result_counts(self) -> None:
        extension = running()
        key = call(extension)
        one(extension.received(result(key), 2), Ended)

        assert extension.received(result(key), 3) == [
            Dropped(flag="duplicate", reason="no_open_call", id=key, type="tool_result")
        ]

    @pytest.mark.parametrize("id_", ["g99", "g0", "g01", "x", "", "g٣", "g" + "9" * 30])
    def test_a_result_for_an_id_that_nobody_used_is_an_orphan(self, id_: str) -> None:
        extension = running()
        call(extension)

        assert one(extension.received(result(id_), 2), Dropped).flag == "orphan"

    def test_a_result_after_the_deadline_is_late_and_a_second_one_a_duplicate(self) -> None:
        extension = running()
        key = call(extension, 7 * S)
        assert extension.next_deadline == 7 * S

        effects = extension.expired(7 * S)
        fault = one(effects, Ended).fault
        assert fault is not None
        assert (fault.code, fault.reason, fault.outcome) == ("timeout", "deadline", "unknown")
        assert sent(effects)[0]["payload"] == {"event": "cancel", "data": {"call_id": key, "reply": False}}

        assert one(extension.received(result(key), 8 * S), Dropped).flag == "late"
        assert one(extension.received(result(key), 8 * S), Dropped).flag == "duplicate"

    @pytest.mark.parametrize("forged", ["call_id", "type", "event"])
    def test_a_forged_result_ends_nothing_and_the_right_one_still_counts(self, forged: str) -> None:
        extension = running()
        first, second = call(extension), call(extension)
        hook = key_of(extension.ask_hook("tool_call", obj(), 9 * S))
        data = {
            "call_id": message("tool_result", {"call_id": second, "output": {}, "is_error": False}, first),
            "type": message("slash_result", {"output": {}, "is_error": False}, first),
            "event": message("event_hook", {"event": "turn_end", "data": {"result": {}}}, hook),
        }[forged]

        dropped = one(extension.received(data, 2), Dropped)

        assert (dropped.flag, dropped.reason) == ("orphan", "forged")
        for key in (first, second):
            assert one(extension.received(result(key), 3), Ended).key == key

    @pytest.mark.parametrize(("said", "code"), [("denied", "denied"), ("E_WEIRD", "internal")])
    def test_an_error_ends_the_call_with_its_code(self, said: str, code: str) -> None:
        extension = running()
        key = call(extension)
        details = {"errno": "ENOENT", "retryable": True}

        effects = extension.received(
            message("error", {"code": said, "message": "no", "details": details}, key), 2
        )

        fault = one(effects, Ended).fault
        assert fault is not None
        assert (fault.code, fault.message, fault.details["errno"], fault.retryable) == (
            code,
            "no",
            "ENOENT",
            True,
        )
        assert one(extension.received(result(key), 3), Dropped).flag == "duplicate"

    def test_an_error_about_nothing_is_dropped_and_never_answered(self) -> None:
        effects = running().received(message("error", {"code": "io", "message": "x"}, "e4"), 2)

        assert effects == [Dropped(flag="orphan", reason="error", id="e4", type="error")]

    def test_updates_of_an_open_tool_call_are_passed_on_and_others_dropped(self) -> None:
        extension = running()
        key = call(extension)
        update = message("log", log("tool_call.update", key, text="half"))

        assert one(extension.received(update, 2), Updated).key == key
        extension.received(result(key), 3)
        assert one(extension.received(update, 4), Dropped).flag == "late"
        assert one(extension.received(message("log", log("tool_call.update")), 4), Dropped).flag == "orphan"
        one(extension.received(message("log", log("anything.else", key)), 5), Logged)

    def test_too_many_open_calls_are_not_sent(self) -> None:
        extension = running(questions=2)
        call(extension)
        call(extension)

        refused = extension.call_tool("search", obj(), 9)

        assert isinstance(refused, Fault)
        assert (refused.code, refused.reason, refused.retryable) == ("io", "overloaded", True)

    def test_a_call_that_is_too_long_is_not_sent(self) -> None:
        extension = running(most_bytes=2000)

        refused = extension.call_tool("search", obj(q="x" * 2000), 9)

        assert isinstance(refused, Fault)
        assert refused.reason == "message_too_large"
        assert extension.next_deadline is None


class TestCancellation:
    def test_we_cancel_once_and_the_call_still_ends_with_its_one_result(self) -> None:
        extension = running()
        key = call(extension)

        [cancel] = sent(extension.cancel(key, 2 * S))
        assert cancel["payload"] == {"event": "cancel", "data": {"call_id": key, "reply": False}}
        assert extension.cancel(key, 3 * S) == []
        ended = one(extension.received(result(key), 4 * S), Ended)

        assert (ended.was_cancelled, ended.fault) == (True, None)
        assert extension.cancel(key, 5 * S) == []

    def test_a_cancelled_call_that_never_ends_is_ended_in_time_and_not_cancelled_again(self) -> None:
        extension = running()
        key = call(extension, 60 * S)
        extension.cancel(key, 10 * S)
        assert extension.next_deadline == 15 * S

        effects = extension.expired(15 * S)

        fault = one(effects, Ended).fault
        assert fault is not None
        assert (fault.code, fault.reason) == ("timeout", "cancelled")
        assert sent(effects) == []

    @pytest.mark.parametrize("by", [{"call_id": "h1"}, {"cancel_token": "t"}])
    def test_the_extension_cancels_by_call_or_token_once_and_it_still_gets_one_result(
        self, by: dict[str, str]
    ) -> None:
        extension = running()
        extension.received(message("host_call", host_call(cancel_token="t"), "e7"), 1 * S)
        cancel = message("event_hook", {"event": "cancel", "data": by}, "e8")

        [abandoned] = extension.received(cancel, 2 * S)
        assert abandoned == Abandoned(call_id="h1", why="cancelled", deadline_ns=7 * S)
        assert one(extension.received(cancel, 3 * S), Dropped).reason == "no_open_call"
        fault = Fault(code="io", message="stopped", reason="cancelled")

        [answer] = sent(extension.answer("h1", fault=fault))
        assert (answer["id"], answer["payload"]["error"]["code"]) == ("e7", "io")

    def test_one_token_cancels_all_that_have_it(self) -> None:
        extension = running()
        for number in (1, 2, 3):
            token = "a" if number < 3 else "b"
            extension.received(message("host_call", host_call(f"h{number}", cancel_token=token)), 1)

        effects = extension.received(
            message("event_hook", {"event": "cancel", "data": {"cancel_token": "a"}}), 2
        )

        assert [effect.call_id for effect in effects if isinstance(effect, Abandoned)] == ["h1", "h2"]

    @pytest.mark.parametrize("data", [{}, None, {"call_id": 7}, {"cancel_token": ["x"]}])
    def test_a_cancellation_of_nothing_readable_is_told_and_not_answered(self, data: Any) -> None:
        payload = {"event": "cancel"} | ({} if data is None else {"data": data})

        effects = running().received(message("event_hook", payload), 2)

        assert refusal(effects) == ("invalid_request", "malformed")
        assert sent(effects) == []

    def test_a_cancellation_of_an_unknown_call_has_no_effect(self) -> None:
        effects = running().received(message("event_hook", {"event": "cancel", "data": {"call_id": "h9"}}), 2)

        assert effects == [Dropped(flag="orphan", reason="no_open_call", id="e1", type="event_hook")]


class TestDamage:
    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (message("tool_result", {"call_id": "g1", "output": [], "is_error": False}, "g1"), "shape"),
            (b'{"id":"g1","type":"tool_result","version":"1.0","payload":{"call', "not_json"),
            (result("g1").replace(b'"a": 1', b'"a": 1, "a": 2'), "duplicate_key"),
            (result("g1").replace(b"1.0", b"1.1"), "version"),
        ],
    )
    def test_a_damaged_answer_ends_its_call_where_its_id_is_readable(self, data: bytes, reason: str) -> None:
        extension = running()
        assert call(extension) == "g1"

        effects = extension.received(data, 2)

        fault = one(effects, Ended).fault
        assert fault is not None
        assert (fault.code, fault.reason, fault.outcome) == ("io", reason, "unknown")
        assert sent(effects) == []
        assert one(extension.received(result("g1"), 3), Dropped).flag == "duplicate"

    def test_a_damaged_question_is_answered_where_its_id_is_readable(self) -> None:
        extension = running()

        effects = extension.received(message("host_call", {"call_id": "h"}, "e3"), 2)

        assert [(one["id"], one["payload"]["code"]) for one in sent(effects)] == [("e3", "invalid_request")]
        assert refusal(effects) == ("invalid_request", "shape")
        one(extension.received(message("host_call", host_call()), 3), Asked)

    @pytest.mark.parametrize(
        "data", [b"", b"Hello, world", b"[]", b"\xff\xfe", b'{"id":null}', b"[" * 100_000]
    )
    def test_garbage_is_told_and_changes_nothing(self, data: bytes) -> None:
        extension = running()
        key = call(extension)

        effects = extension.received(data, 2)

        assert refusal(effects)[0] == "invalid_request"
        assert sent(effects) == []
        one(extension.received(result(key), 3), Ended)

    @pytest.mark.parametrize("type_", ["tool_call", "slash_command", "host_result"])
    def test_what_only_a_host_says_is_refused(self, type_: str) -> None:
        payload: dict[str, Any] = {
            "call_id": "h1",
            "name": "search",
            "input": {},
            "output": {},
            "is_error": False,
        }

        effects = running().received(message(type_, payload, "e2"), 2)

        assert refusal(effects) == ("invalid_request", "wrong_direction")
        assert [one["id"] for one in sent(effects)] == ([] if type_ == "host_result" else ["e2"])

    def test_a_message_that_is_too_long_ends_the_call_that_it_answers(self) -> None:
        extension = running()
        key = call(extension)
        head = b'{"id":"%b","type":"tool_result","version":"1.0","payload":{"out' % key.encode()

        effects = extension.too_long(head, 100 << 20)

        fault = one(effects, Ended).fault
        assert fault is not None
        assert (fault.code, fault.reason) == ("io", "message_too_large")
        assert str(100 << 20) in fault.message

    def test_a_message_that_is_too_long_is_answered_where_its_id_is_readable(self) -> None:
        extension = running(most_bytes=1000)
        data = message("host_call", host_call(more="x" * 2000), "e3")

        [error] = sent(extension.received(data, 2))

        assert (error["id"], error["payload"]["details"]["reason"]) == ("e3", "message_too_large")

    def test_a_message_that_is_too_deep_is_refused(self) -> None:
        extension = running(most_depth=10)
        data = message("log", log("x")).replace(b'"m"', b'"m", "deep": ' + b"[" * 30 + b"]" * 30)

        assert refusal(extension.received(data, 2)) == ("invalid_request", "too_deep")


class TestEnd:
    def test_shutdown_is_told_then_the_input_closed_then_the_process_ended(self) -> None:
        extension = running()
        key = call(extension)

        effects = extension.shut_down(2 * S, obj(reason="quit"))
        assert [type(effect) for effect in effects] == [Send, CloseInput]
        assert sent(effects)[0]["payload"] == {
            "event": "session_shutdown", "data": {"reason": "quit", "reply": False}
        }  # fmt: skip
        assert extension.shut_down(2 * S) == []
        assert isinstance(extension.call_tool("search", obj(), 9 * S), Fault)
        assert refusal(extension.received(message("host_call", host_call()), 3)) == ("io", "shutting_down")
        assert refusal(extension.received(message("register", REGISTER), 3))[1] == "shutting_down"
        one(extension.received(result(key), 4 * S), Ended)

        assert extension.next_deadline == 7 * S
        assert extension.expired(7 * S) == [EndProcess()]
        assert extension.next_deadline is None

    def test_one_that_was_not_started_is_closed_without_a_word(self) -> None:
        extension = new()

        assert extension.shut_down(1) == [CloseInput()]

    @pytest.mark.parametrize("phase", ["registering", "loading", "running", "closing"])
    def test_one_that_dies_ends_everything_that_is_open_in_each_phase(self, phase: str) -> None:
        extension = new()
        expected: list[type] = []
        if phase != "registering":
            extension.received(message("register", REGISTER), 1)
        if phase in ("running", "closing"):
            extension.start()
            call(extension)
            extension.received(message("host_call", host_call()), 1)
            expected = [Ended, Abandoned]
        if phase == "closing":
            extension.shut_down(2)
        assert extension.state == phase

        effects = extension.closed(Fault(code="io", message="exit 3", reason="peer_exited", peer="helper"))

        assert [type(effect) for effect in effects] == expected
        for effect in effects:
            if isinstance(effect, Ended):
                assert effect.fault is not None
                assert (effect.fault.reason, effect.fault.outcome) == ("peer_exited", "unknown")
        assert (extension.state, extension.next_deadline, extension.closed()) == ("closed", None, [])
        assert one(extension.received(result("g1"), 3), Dropped).reason == "closed"
        assert [type(effect) for effect in extension.answer("h1", obj())] == [Dropped]


STEPS: dict[str, Callable[[Extension, int, int], list[Effect] | Fault | None]] = {
    "call": lambda extension, n, now: extension.call_tool("search", obj(), now + n * S),
    "hook": lambda extension, n, now: extension.ask_hook("tool_call", obj(), now + n * S),
    "start": lambda extension, _, now: extension.start(),
    "shut": lambda extension, n, now: extension.shut_down(now) if n == 4 else None,
    "expire": lambda extension, _, now: extension.expired(now),
    "chunk": lambda extension, n, _: extension.chunk(f"h{n}", obj()),
    "answer": lambda extension, n, _: extension.answer(f"h{n}", obj()),
    "cancel": lambda extension, n, now: extension.cancel(f"g{n}", now),
    "result": lambda extension, n, now: extension.received(result(f"g{n}"), now),
    "decide": lambda extension, n, now: extension.received(
        message("event_hook", {"event": "tool_call"}, f"g{n}"), now
    ),
    "ask": lambda extension, n, now: extension.received(
        message("host_call", host_call(f"h{n}", timeout_ms=2000), f"h{n}"), now
    ),
    "uncall": lambda extension, n, now: extension.received(
        message("event_hook", {"event": "cancel", "data": {"call_id": f"h{n}"}}), now
    ),
    "error": lambda extension, n, now: extension.received(
        message("error", {"code": "io", "message": "m"}, f"g{n}"), now
    ),
    "damage": lambda extension, n, now: extension.received(result(f"g{n}")[:-3], now),
}


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(1, 4)), max_size=40), st.booleans())
def test_whatever_happens_each_question_ends_once_and_each_host_call_is_answered_once(
    steps: list[tuple[str, int]], started: bool
) -> None:
    extension = running() if started else new()
    extension.received(message("register", REGISTER), 0)
    effects: list[Effect] = []
    for second, (step, n) in enumerate(steps):
        done = STEPS[step](extension, n, second * S)
        effects += done if isinstance(done, list) else []
    effects += extension.expired(1000 * S)
    effects += extension.closed()

    asked = [effect.id for effect in effects if isinstance(effect, Send) and effect.asks]
    ended = [effect.key for effect in effects if isinstance(effect, Ended)]
    assert sorted(ended) == sorted(asked)
    assert len(set(asked)) == len(asked)
    served = [effect.call.call_id for effect in effects if isinstance(effect, Asked)]
    refused = [effect.id for effect in effects if isinstance(effect, Refused) and effect.type == "host_call"]
    ends = [
        answer["id"]
        for answer in sent(effects)
        if answer["type"] == "error" or answer["payload"].get("chunk", {"is_last": True})["is_last"]
        if answer["type"] in ("error", "host_result")
    ]
    assert len(set(served)) == len(served)
    assert sorted(ends) == sorted([*served, *(id_ for id_ in refused if id_ is not None)])
    assert extension.next_deadline is None
