"""A log entry is the same again on the other side of both dialects, whatever is in it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.calls.pi.effects import Dropped, Refused
from gateway.calls.pi.logs import TO_MCP, Entry, Level, dropped, entry_of, refused, told
from gateway.protocol import jsonrpc
from gateway.protocol.errors import Fault
from gateway.protocol.pi_messages import Log, LogCorrelation

LEVELS: tuple[Level, ...] = ("debug", "info", "warn", "error")
json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["event", "data"]), inner),
)


def params_of(message: bytes) -> bytes:
    return bytes(jsonrpc.read(message).params)


@given(
    st.sampled_from(LEVELS),
    st.text(),
    st.text(),
    st.text(),
    st.dictionaries(st.text() | st.just("data"), json),
)
@example("warn", "disk", "nearly full", "helper", {"event": "another", "message": "too", "data": {}})
def test_what_an_extension_logs_reaches_a_pi_core_as_it_was(
    level: Level, event: str, words: str, who: str, data: dict[str, Any]
) -> None:
    log = Log(
        schema="pi.ext.log.v1",
        ts="t",
        level=level,
        event=event,
        message=words,
        correlation=LogCorrelation(extension_id=who, scenario_id="s"),
        data=msgspec.Raw(msgspec.json.encode(data)) if data else msgspec.UNSET,
    )

    assert entry_of(params_of(told(log))) == Entry(level, event, words, data, who)


@pytest.mark.parametrize(
    ("level", "data", "told_level", "words"),
    [
        ("notice", "started", "info", "started"),
        ("emergency", {"left": 0}, "error", '{"left":0}'),
        ("info", None, "info", ""),
    ],
)
def test_what_a_server_logs_is_words_whatever_it_is(
    level: str, data: Any, told_level: str, words: str
) -> None:
    entry = entry_of(msgspec.json.encode({"level": level, "logger": "calc", "data": data}))

    assert entry == Entry(told_level, "mcp.log", words, {}, "calc")  # pyright: ignore[reportArgumentType]
    assert entry_of(b"[]") is None


def test_what_is_refused_or_dropped_is_told_as_a_warning() -> None:
    refusal = refused(Refused(fault=Fault(code="io", message="no", reason="shape"), id="h", type="host_call"))
    drop = dropped(Dropped(flag="late", reason="closed", id=None, type="log"))

    for message, event in ((refusal, "pi.refused"), (drop, "pi.dropped")):
        params = msgspec.json.decode(params_of(message))
        assert (params["level"], params["data"]["event"]) == (TO_MCP["warn"], event)
