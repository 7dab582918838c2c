"""The example in a shell against any message there can be: what it takes over is what was there."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import jsonschema_rs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.protocol.pi_schema import schema
from tests.processes.extension_kit import EXAMPLES

_schema = jsonschema_rs.Draft202012Validator(schema())
# Every string that JSON can hold but for half a surrogate pair, which has no UTF-8.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
ids = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
blocks = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}), max_size=3)


def answers(messages: list[dict[str, Any]], *, compact: bool, ascii_only: bool) -> list[dict[str, Any]]:
    """What the shell answers to messages, each of which fits the schema."""
    separators = (",", ":") if compact else (" , ", " : ")
    lines = [json.dumps(one, separators=separators, ensure_ascii=ascii_only) + "\n" for one in messages]
    done = subprocess.run(
        ["sh", str(EXAMPLES / "stamp" / "stamp.sh")],
        input="".join(lines).encode(),
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    told = [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]
    for one in told:
        _schema.validate(one)
    assert told[0]["type"] == "register"
    return told[1:]


def message(type_: str, id_: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"id": id_, "version": "1.0", "type": type_, "payload": payload}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(ids, texts, values, blocks, st.integers(0, 5)), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_the_shell_reads_any_message_and_passes_on_what_it_was_given(
    rows: list[tuple[str, str, Any, list[Any], int]], compact: bool, ascii_only: bool
) -> None:
    messages: list[dict[str, Any]] = []
    for id_, text, value, content, many in rows:
        call = {
            "context": {"x": value},
            "call_id": id_,
            "name": "count",
            "input": {"other": value, "path": text},
        }
        messages.append(message("tool_call", id_, call))
        entries = [{"name": text, "more": value} for _ in range(many)]
        result = {"call_id": id_, "output": {"truncated": False, "entries": entries}, "is_error": False}
        messages.append(message("host_result", id_, result))
        error = {"code": "io", "message": text}
        messages.append(
            message("host_result", id_, {"call_id": id_, "output": {}, "is_error": True, "error": error})
        )
        data = {"toolName": text, "input": value, "content": content, "isError": False}
        messages.append(message("event_hook", id_, {"event": "tool_result", "data": data}))
        messages.append(message("event_hook", id_, {"event": "session_start", "data": {"reply": False}}))

    told = answers(messages, compact=compact, ascii_only=ascii_only)

    assert len(told) == 4 * len(rows)
    for (id_, text, _, content, many), [asked, counted, failed, patched] in zip(
        rows, (told[at : at + 4] for at in range(0, len(told), 4)), strict=True
    ):
        assert asked["payload"]["params"] == {"op": "list", "path": text}
        assert counted["payload"]["output"]["content"][0]["text"] == str(many)
        assert (failed["payload"]["is_error"], failed["payload"]["output"]["content"][0]["text"]) == (
            True,
            text,
        )
        assert {one["id"] for one in (asked, counted, failed, patched)} == {id_}
        *before, last = patched["payload"]["data"]["result"]["content"]
        assert before == content
        first = content[0]["text"] if content else ""
        assert last["text"].startswith(f"({first.count(chr(10)) + 1 if first else 0} line")
