"""What an extension asks of its host: one result each, in time, and in as many chunks as it takes."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.calls.pi.effects import Abandoned, Asked, Credited, Dropped, Effect, Ended
from gateway.calls.pi.extension import Extension
from gateway.protocol.errors import Fault
from tests.gateway.calls.pi.kit import S, host_call, message, obj, one, running, sent
from tests.gateway.calls.pi.test_extension import call, refusal, result


class TestHostCalls:
    def ask(self, extension: Extension, **more: Any) -> list[Effect]:
        return extension.received(message("host_call", host_call(**more), "e5"), 1 * S)

    def test_a_host_call_is_served_and_answered_under_its_ids(self) -> None:
        extension = running()
        asked = one(self.ask(extension, timeout_ms=500), Asked)
        assert (asked.id, asked.call.call_id, asked.deadline_ns) == ("e5", "h1", S + S // 2)

        [answer] = sent(extension.answer("h1", obj(text="x")))

        payload = {"call_id": "h1", "output": {"text": "x"}, "is_error": False}
        assert (answer["id"], answer["type"], answer["payload"]) == ("e5", "host_result", payload)

    def test_a_call_takes_no_longer_than_the_host_allows(self) -> None:
        assert one(self.ask(running(), timeout_ms=10**22), Asked).deadline_ns == 121 * S
        assert one(self.ask(running()), Asked).deadline_ns == 121 * S

    def test_the_second_end_of_a_host_call_is_never_sent(self) -> None:
        extension = running()
        self.ask(extension)
        sent(extension.answer("h1", obj(n=1)))

        assert one(extension.answer("h1", obj(n=2)), Dropped).flag == "duplicate"
        assert one(extension.answer("h2", obj()), Dropped).flag == "orphan"

    def test_a_host_call_that_takes_too_long_is_answered_and_what_it_gives_is_late(self) -> None:
        extension = running()
        self.ask(extension, timeout_ms=100)
        assert extension.next_deadline == S + S // 10

        effects = extension.expired(2 * S)

        assert one(effects, Abandoned) == Abandoned(call_id="h1", why="deadline")
        assert sent(effects)[0]["payload"]["error"]["code"] == "timeout"
        assert one(extension.answer("h1", obj()), Dropped).flag == "late"
        assert one(extension.answer("h1", obj()), Dropped).flag == "duplicate"

    @pytest.mark.parametrize("has_ended", [False, True])
    def test_a_call_id_is_not_used_twice(self, has_ended: bool) -> None:
        extension = running()
        self.ask(extension)
        if has_ended:
            extension.answer("h1", obj())

        effects = extension.received(message("host_call", host_call(), "e6"), 2)

        assert refusal(effects) == ("invalid_request", "call_id_in_use")
        assert [(one["id"], one["type"]) for one in sent(effects)] == [("e6", "error")]

    def test_ids_of_both_directions_do_not_meet(self) -> None:
        extension = running()
        key = call(extension)

        asked = one(extension.received(message("host_call", host_call(key), key), 2), Asked)

        assert asked.id == key
        assert one(extension.received(result(key), 3), Ended).key == key
        assert sent(extension.answer(key, obj()))[0]["id"] == key

    def test_too_many_open_host_calls_are_refused_and_may_be_tried_again(self) -> None:
        extension = running(host_calls=1)
        self.ask(extension)

        [answer] = sent(extension.received(message("host_call", host_call("h2")), 2))

        assert answer["payload"]["error"]["code"] == "io"
        assert answer["payload"]["error"]["retryable"] is True
        extension.answer("h1", obj())
        one(extension.received(message("host_call", host_call("h2")), 3), Asked)

    def test_a_result_that_is_too_long_becomes_an_error(self) -> None:
        extension = running(most_bytes=3000)
        self.ask(extension)

        [answer] = sent(extension.answer("h1", obj(text="x" * 3000)))

        assert answer["payload"]["error"]["details"]["reason"] == "message_too_large"


class TestStreams:
    def begin(self, **more: Any) -> Extension:
        extension = running()
        one(extension.received(message("host_call", host_call(**more), "e5"), 1), Asked)
        return extension

    def test_chunks_are_numbered_from_0_and_the_end_is_the_last_one(self) -> None:
        extension = self.begin()
        chunks = [sent(extension.chunk("h1", obj(n=n)))[0] for n in range(3)]
        chunks += sent(extension.answer("h1", obj(code=0)))

        assert [one["payload"]["chunk"] for one in chunks] == [
            {"index": 0, "is_last": False}, {"index": 1, "is_last": False}, {"index": 2, "is_last": False},
            {"index": 3, "is_last": True},
        ]  # fmt: skip
        assert one(extension.chunk("h1", obj()), Dropped).flag == "duplicate"

    def test_an_error_ends_a_stream_as_its_last_chunk(self) -> None:
        extension = self.begin()
        extension.chunk("h1", obj())

        [last] = sent(extension.answer("h1", fault=Fault(code="io", message="broke", reason="x")))

        assert (last["payload"]["is_error"], last["payload"]["chunk"]) == (
            True,
            {"index": 1, "is_last": True},
        )

    def test_no_more_chunks_are_sent_than_there_are_credits(self) -> None:
        extension = self.begin(backpressure={"credits": 2})
        first = sent(extension.chunk("h1", obj()))[0]
        assert first["payload"]["chunk"]["backpressure"] == {"credits": 1}
        sent(extension.chunk("h1", obj()))

        assert extension.chunk("h1", obj()) is None
        credit = message("event_hook", {"event": "credit", "data": {"call_id": "h1", "credits": 1}})
        assert one(extension.received(credit, 2), Credited).credits == 1
        assert sent(extension.chunk("h1", obj()))[0]["payload"]["chunk"]["index"] == 2
        assert extension.chunk("h1", obj()) is None
        assert sent(extension.answer("h1", obj()))[0]["payload"]["chunk"]["is_last"], "an end needs no credit"
        assert one(extension.received(credit, 3), Dropped).flag == "late"

    @pytest.mark.parametrize(
        "data", [{}, {"call_id": "h1"}, {"call_id": "h1", "credits": -1}, {"call_id": "h1", "credits": "2"}]
    )
    def test_credit_that_cannot_be_read_gives_none(self, data: dict[str, Any]) -> None:
        extension = self.begin(backpressure={"credits": 0})

        assert (
            refusal(extension.received(message("event_hook", {"event": "credit", "data": data}), 2))[1]
            == "malformed"
        )
        assert extension.chunk("h1", obj()) is None

    def test_back_pressure_that_cannot_be_read_is_refused(self) -> None:
        effects = running().received(message("host_call", host_call(backpressure={"credits": -3})), 1)

        assert refusal(effects) == ("invalid_request", "shape")

    def test_a_chunk_that_is_too_long_ends_the_call(self) -> None:
        extension = running(most_bytes=3000)
        extension.received(message("host_call", host_call(), "e5"), 1)
        extension.chunk("h1", obj())

        effects = extension.chunk("h1", obj(text="x" * 3000))

        assert one(effects, Abandoned).why == "closed"
        [last] = sent(effects)
        assert last["payload"]["chunk"] == {"index": 1, "is_last": True}
        assert last["payload"]["error"]["code"] == "io"

    def test_a_stream_ends_at_its_deadline(self) -> None:
        extension = self.begin(timeout_ms=10)
        extension.chunk("h1", obj())

        [last] = sent(extension.expired(S))

        assert last["payload"]["chunk"] == {"index": 1, "is_last": True}
        assert one(extension.chunk("h1", obj()), Dropped).flag == "late"
