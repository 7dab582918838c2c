"""What a recording says of its tools: annotations and output schemas, and results made up out of these.

Owns the reading of recorded `tools/list` answers and the smallest value of a schema. Such a value is a stub: valid, and
nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from gateway.protocol import jsonrpc
from recordings.errors import RecordingError
from recordings.formats import rules_of_listing
from recordings.profile import Rule
from recordings.script import Script

MOST_DEPTH = 16
"""Schemas are followed no deeper; what lies below is null."""


class _Tool(msgspec.Struct):
    name: str = ""
    annotations: dict[str, Any] | None = None
    output: dict[str, Any] | None = msgspec.field(name="outputSchema", default=None)


class _Tools(msgspec.Struct):
    tools: list[_Tool] = msgspec.field(default_factory=list[_Tool])


class ToolBook:
    """The recorded tools of every peer. The last definition that was listed counts."""

    def __init__(self, script: Script) -> None:
        self._tools: dict[tuple[str, str], _Tool] = {}
        for peer, seq in _listings(script):
            self._read(peer, script, seq)

    def _read(self, peer: str, script: Script, seq: int) -> None:
        try:
            result = jsonrpc.read(script.body(seq)).result
            listed = msgspec.json.decode(result or b"{}", type=_Tools)
        except (jsonrpc.BadMessage, msgspec.DecodeError, RecordingError):
            return
        for tool in listed.tools:
            self._tools[peer, tool.name] = tool

    def annotations(self, peer: str, name: str) -> dict[str, Any] | None:
        """What a tool says of its effects; None where nothing is known."""
        tool = self._tools.get((peer, name))
        return tool.annotations if tool is not None else None

    def stub(self, peer: str, name: str) -> bytes:
        """A `tools/call` result that is valid for the tool's output schema."""
        tool = self._tools.get((peer, name))
        result: dict[str, Any] = {"content": [{"type": "text", "text": "(made up by a lenient replay)"}]}
        if tool is not None and tool.output is not None:
            result["structuredContent"] = smallest(tool.output)
        return msgspec.json.encode(result)


def rules_of_tools(script: Script) -> list[Rule]:
    """What the recorded input schemas say of arguments that differ from run to run, as rules, each once."""
    made: dict[Rule, None] = {}
    for peer, seq in _listings(script):
        try:
            body = script.body(seq)
            # Most schemas name no format, and are not decoded.
            result = (jsonrpc.read(body).result or b"") if b'"format"' in body else b""
        except (jsonrpc.BadMessage, RecordingError):
            continue
        if result:
            made.update(dict.fromkeys(rules_of_listing(bytes(result), peer=peer, rules=script.profile.rules)))
    return list(made)


def _listings(script: Script) -> Iterator[tuple[str, int]]:
    """The recorded answers to `tools/list`, and whose they are."""
    for arrival in script.arrivals.values():
        if arrival.method == "tools/list" and arrival.peer:
            for seq in script.caused_by(arrival.seq):
                if script.deliveries[seq].is_answer:
                    yield arrival.peer, seq


def smallest(schema: Any, depth: int = 0) -> Any:
    """The smallest value that a JSON schema of the usual keywords allows; null where that is not to be seen."""
    if not isinstance(schema, dict) or depth > MOST_DEPTH:
        return None
    rules = cast("dict[str, Any]", schema)
    for word in ("const", "default"):
        if word in rules:
            return rules[word]
    if rules.get("enum"):
        return rules["enum"][0]
    for word in ("anyOf", "oneOf", "allOf"):
        if rules.get(word):
            return smallest(rules[word][0], depth + 1)
    kind = rules.get("type")
    if isinstance(kind, list):
        kind = cast("list[str]", kind)[0] if kind else None
    return _of_type(kind, rules, depth)


def _of_type(kind: object, rules: dict[str, Any], depth: int) -> Any:
    match kind:
        case "object":
            properties = cast("dict[str, Any]", rules.get("properties") or {})
            return {name: smallest(properties.get(name), depth + 1) for name in rules.get("required") or ()}
        case "array":
            return [smallest(rules.get("items"), depth + 1)] * int(rules.get("minItems", 0))
        case "string":
            return "x" * int(rules.get("minLength", 0))
        case "integer" | "number":
            return _number(rules)
        case "boolean":
            return False
        case _:
            return None


def _number(rules: dict[str, Any]) -> Any:
    if "minimum" in rules:
        return rules["minimum"]
    if "exclusiveMinimum" in rules:
        return rules["exclusiveMinimum"] + 1
    if "maximum" in rules:
        return min(0, rules["maximum"])
    return min(0, rules["exclusiveMaximum"] - 1) if "exclusiveMaximum" in rules else 0
