"""What the echo server of the bench answers."""

import json

import pytest

from gateway.bench import echo

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%b"}}}'


@pytest.mark.parametrize("size", [0, 1, 300, 65536])
def test_answers_of_a_tool_with_a_schema_keep_it_and_are_as_long_as_others(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = CALL % (b"x" * size)
    plain = echo.answer(call)
    monkeypatch.setattr(echo, "HAS_SCHEMA", True)
    validated = echo.answer(call)
    result = json.loads(validated)["result"]
    schema = json.loads(echo.TOOL_WITH_SCHEMA)["outputSchema"]

    assert json.loads(plain)["result"]["content"][0]["text"] == "x" * size
    assert result["content"][0]["text"] + result["structuredContent"]["text"] == "x" * size
    assert schema["required"] == list(result["structuredContent"])
    assert 0 < len(validated) - len(plain) < 40
