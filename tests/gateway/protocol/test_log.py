"""Entries of the extension log: their form against the protocol's own schema, their redaction, their fixtures."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.log import (
    REDACTED,
    Correlation,
    Entry,
    Source,
    clean,
    line,
    normalised,
    redacted,
    timestamp,
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["schema", "ts", "level", "event", "message", "correlation"],
    "properties": {
        "schema": {"type": "string", "enum": ["pi.ext.log.v1"]},
        "ts": {"type": "string", "format": "date-time"},
        "level": {"type": "string", "enum": ["debug", "info", "warn", "error"]},
        "event": {"type": "string"},
        "message": {"type": "string"},
        "correlation": {
            "type": "object",
            "required": ["extension_id", "scenario_id"],
            "properties": {
                name: {"type": "string"}
                for name in (
                    "extension_id", "scenario_id", "session_id", "run_id", "artifact_id", "tool_call_id",
                    "slash_command_id", "event_id", "host_call_id", "rpc_id", "trace_id", "span_id",
                )
            },
            "additionalProperties": False,
        },
        "source": {
            "type": "object",
            "required": ["component"],
            "properties": {
                "component": {"type": "string", "enum": ["capture", "harness", "runtime", "extension"]},
                "host": {"type": "string"},
                "pid": {"type": "integer", "minimum": 0},
            },
            "additionalProperties": False,
        },
        "data": {"type": "object"},
    },
    "additionalProperties": False,
}  # fmt: skip
"""The protocol's `log` definition; stricter, in that it allows no other members."""

VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA, validate_formats=True)
NAMES = (
    "api_key", "API_KEY", "apiKey", "token", "access_token", "Authorization", "cookie", "Set-Cookie", "password",
    "client_secret", "private_key", "privateKey", "credential", "credentials", "bearer",
)  # fmt: skip


def entry(**more: Any) -> Entry:
    fields: dict[str, Any] = {
        "ts": timestamp(1_770_087_662_123_999_999),
        "level": "info",
        "event": "tool_call.start",
        "message": "tool call dispatched",
        "correlation": Correlation(extension_id="db", scenario_id="scn-001", session_id="s", run_id="r"),
    }
    return Entry(**(fields | more))


def read(written: Entry) -> dict[str, Any]:
    text = line(written)
    assert text.endswith(b"\n")
    assert text.count(b"\n") == 1
    return json.loads(text)


def test_an_entry_is_what_the_schema_says() -> None:
    full = entry(
        correlation=Correlation(
            extension_id="db", scenario_id="scn", session_id="s", run_id="r", artifact_id="a", tool_call_id="t",
            slash_command_id="c", event_id="e", host_call_id="h", rpc_id="9", trace_id="0" * 32, span_id="1" * 16,
        ),
        source=Source(component="runtime", host="h", pid=1),
        data={"duration_ms": 12},
    )  # fmt: skip

    VALIDATOR.validate(read(full))
    VALIDATOR.validate(read(entry()))
    assert next(iter(read(entry()))) == "schema"


@pytest.mark.parametrize("gone", ["schema", "ts", "level", "event", "message", "correlation"])
def test_the_schema_of_this_test_would_find_a_member_that_is_missing(gone: str) -> None:
    assert not VALIDATOR.is_valid({key: value for key, value in read(entry()).items() if key != gone})


def test_a_timestamp_is_utc_to_the_millisecond_and_never_in_the_future() -> None:
    assert timestamp(1_770_087_662_123_999_999) == "2026-02-03T03:01:02.123Z"
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"


@given(st.integers(min_value=0, max_value=4_000_000_000 * 10**9))
def test_every_timestamp_is_rfc_3339(wall: int) -> None:
    VALIDATOR.validate(read(entry(ts=timestamp(wall))))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", ["hunter22", 1234567, ["hunter22"], {"a": "hunter22"}])
def test_what_stands_under_a_telling_name_is_redacted_whole(name: str, value: object) -> None:
    written = read(entry(data={"deep": [{name: value}], name: value}))

    assert written["data"] == {"deep": [{name: REDACTED}], name: REDACTED}


@pytest.mark.parametrize("name", ["maxTokens", "total_tokens", "progressToken", "input_tokens"])
def test_counts_are_no_secrets(name: str) -> None:
    assert read(entry(data={name: 5}))["data"] == {name: 5}


def test_the_marks_of_the_recording_lose_what_tells_equal_secrets_apart() -> None:
    written = read(entry(message="calling [REDACTED:jwt:0a1b2c3d]", data={"[REDACTED:known:0a1b2c3d]": "x"}))

    assert written["message"] == "calling [REDACTED]"
    assert written["data"] == {"[REDACTED]": "x"}


def test_text_is_cut() -> None:
    assert len(clean("x" * 10_000)) == 256


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text())
KEYS = st.one_of(st.text(max_size=9), st.sampled_from(NAMES))


@given(
    st.recursive(
        SCALARS,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
        max_leaves=12,
    )
)
def test_redacting_twice_is_redacting_once_and_keeps_the_kinds_of_flags(value: Any) -> None:
    once = redacted(value)

    assert redacted(once) == once
    assert redacted(True) is True
    assert redacted({"token": None}) == {"token": None}


def test_a_fixture_holds_placeholders_for_all_that_differs_between_runs() -> None:
    correlation = Correlation(
        extension_id="db", scenario_id="scn", session_id="s1", run_id="r1", trace_id="a" * 32, span_id="b" * 16,
        tool_call_id="tool-3",
    )  # fmt: skip
    written = read(
        entry(
            correlation=correlation,
            source=Source(component="runtime", host="box", pid=7),
            data={"duration_ms": 1.5, "seq": 3, "file": "/home/me/project/src/a.py", "other": "/tmp/x/b.txt"},
        )
    )
    fixture = normalised(written, cwd="/home/me/project")

    assert fixture["ts"] == "<ts>"
    assert fixture["source"] == {"component": "runtime", "host": "<host>", "pid": "<pid>"}
    assert fixture["correlation"] == {
        "extension_id": "db", "scenario_id": "scn", "session_id": "<session_id>", "run_id": "<run_id>",
        "trace_id": "<trace_id>", "span_id": "<span_id>", "tool_call_id": "tool-3",
    }  # fmt: skip
    assert fixture["data"] == {"duration_ms": 0, "seq": 3, "file": "<cwd>/src/a.py", "other": "<cwd>/b.txt"}
    assert written["ts"] != "<ts>"


def test_a_decision_in_a_fixture_holds_nothing_of_the_machine_or_of_its_run() -> None:
    facts = {
        "extension": "a",
        "session": "f00",
        "executable": "sha256:1",
        "project": "sha256:2",
        "manifest": "sha256:3",
    }
    data = {
        "decision": "allow",
        "grants": "sha256:4",
        "answer": {"allowed": True, "took_ns": 9},
        "facts": facts,
    }
    fixture = normalised(read(entry(data=data)))

    assert fixture["data"] == {
        "decision": "allow", "grants": "<grants>", "answer": {"allowed": True, "took_ns": 0},
        "facts": {
            "extension": "a", "session": "<session>", "executable": "<executable>", "project": "<project>",
            "manifest": "sha256:3",
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("reads /w/p/a.txt, then 'C:\\x\\b.txt'", "reads <cwd>/a.txt, then '<cwd>/b.txt'"),
        ("/w/p", "<cwd>"),
        ("/w/place/x", "<cwd>/x"),
        ("tools/call of a/b", "tools/call of a/b"),
        ("https://example.com/a/b", "https://example.com/a/b"),
    ],
)
def test_absolute_paths_are_told_from_what_only_has_a_slash(text: str, told: str) -> None:
    assert normalised({"message": text}, cwd="/w/p")["message"] == told
