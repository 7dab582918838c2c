"""Arguments that travel as headers."""

from __future__ import annotations

import json
from typing import Any

from gateway.calls.param_headers import Mirrored

CALL = b'{"arguments":{"a":1,"on":true,"in":{"b":"\xc3\xa9"}}}'


def tool(**properties: Any) -> bytes:
    return json.dumps({"name": "add", "inputSchema": {"properties": properties}}).encode()


def test_each_annotated_argument_that_is_there_is_mirrored_and_the_latest_definition_counts() -> None:
    mirrored = Mirrored()
    mirrored.learn(
        "calc", tool(a={"x-mcp-header": "A"}, on={"x-mcp-header": "On"}, no={"x-mcp-header": "No"})
    )
    assert mirrored.headers("calc", "add", CALL) == (("Mcp-Param-On", "true"), ("Mcp-Param-A", "1"))

    mirrored.learn("calc", tool(a={"x-mcp-header": "B"}))
    assert mirrored.headers("calc", "add", CALL) == (("Mcp-Param-B", "1"),)
    mirrored.learn("calc", tool(a={}))
    assert mirrored.headers("calc", "add", CALL) == ()


def test_tools_of_one_name_are_told_apart_by_their_peers() -> None:
    mirrored = Mirrored()
    mirrored.learn("calc", tool(a={"x-mcp-header": "A"}))

    assert mirrored.headers("other", "add", CALL) == ()
    assert mirrored.headers("calc", "sub", CALL) == ()


def test_a_definition_that_cannot_be_read_leaves_what_is_known() -> None:
    mirrored = Mirrored()
    mirrored.learn("calc", tool(a={"x-mcp-header": "A"}))
    mirrored.learn("calc", b'{"name":7}')

    assert mirrored.headers("calc", "add", CALL) == (("Mcp-Param-A", "1"),)
