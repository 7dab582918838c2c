"""Recorded messages under the ids of a replay."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.pi.words import HOST_CALL, META_CALL
from gateway.protocol import mcp
from gateway.replay.rewire import about, is_stray, under_damaged_id, under_id


def message(**members: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **members})


@given(st.integers() | st.text(max_size=5), st.integers(-99, 99) | st.text(max_size=5))
def test_an_answer_under_another_id_says_the_same(old: int | str, new: int | str) -> None:
    answer = message(id=old, result={"id": old, "text": "x"})
    changed = msgspec.json.decode(under_id(answer, new))
    assert changed == {"jsonrpc": "2.0", "id": new, "result": {"id": old, "text": "x"}}


@pytest.mark.parametrize(
    "spelt", [b'{"id": 7 ,"result":{},"jsonrpc":"2.0"}', b'{"result":1e0,"id":7,"jsonrpc":"2.0"}']
)
def test_under_its_own_id_a_message_stays_as_it_was_spelt(spelt: bytes) -> None:
    assert under_id(spelt, 7) == spelt
    assert under_id(spelt, None) == spelt


def test_a_number_and_a_text_are_two_ids() -> None:
    assert msgspec.json.decode(under_id(message(id="7", result={}), 7))["id"] == 7


def test_progress_is_told_under_the_token_of_the_live_request() -> None:
    told = message(method="notifications/progress", params={"progressToken": 3, "progress": 1})
    assert msgspec.json.decode(about(told, "notifications/progress", 9))["params"]["progressToken"] == 9
    assert about(told, "notifications/progress", 3) == told


def test_a_cancel_names_the_live_request() -> None:
    told = message(method="notifications/cancelled", params={"requestId": 3, "reason": "x"})
    assert msgspec.json.decode(about(told, "notifications/cancelled", 9))["params"] == {
        "requestId": 9,
        "reason": "x",
    }


def test_a_change_comes_under_the_live_subscription_and_another_word_as_it_is() -> None:
    changed = message(
        method="notifications/tools/list_changed", params={"_meta": {mcp.META_SUBSCRIPTION: 3, "x": 1}}
    )
    live = msgspec.json.decode(about(changed, "notifications/tools/list_changed", 9))
    assert live["params"]["_meta"] == {mcp.META_SUBSCRIPTION: 9, "x": 1}
    log = message(method="notifications/message", params={"data": "x"})
    assert about(log, "notifications/message", 9) == log


def test_a_host_call_is_made_in_the_course_of_the_live_request() -> None:
    params: dict[str, Any] = {"call_id": "h", "_meta": {META_CALL: 3, "x": 1}}
    live = msgspec.json.decode(about(message(id="h", method=HOST_CALL, params=params), HOST_CALL, 9))
    assert (live["id"], live["params"]["_meta"]) == ("h", {META_CALL: 9, "x": 1})
    free = message(id="h", method=HOST_CALL, params={"call_id": "h"})
    assert about(free, HOST_CALL, 9) == free


def test_a_damaged_answer_is_found_by_the_live_id_as_far_as_its_own_can_be_read() -> None:
    damaged = b'{"jsonrpc":"2.0","id":4,"result":{"content":['
    assert under_damaged_id(damaged, 17) == b'{"jsonrpc":"2.0","id":17,"result":{"content":['
    assert under_damaged_id(b"no id at all", 17) == b"no id at all"


def test_only_a_websocket_says_of_a_text_that_it_is_none() -> None:
    assert is_stray("not-utf8", "websocket")
    assert not is_stray("not-utf8", "stdio")
    assert is_stray("too-large", "stdio")
    assert not is_stray("not-json", "stdio")
