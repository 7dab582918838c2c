"""Whether the results of tools are what their output schemas promise; looked at only where the configuration asks.

Owns the schemas that peers have listed and the comparison. What becomes of a result that differs is the session's
business. A complaint names places and rules, never values. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from gateway.calls.promised import Readers, readers_of
from gateway.protocol.jsonrpc import ToolResult

if TYPE_CHECKING:
    import jsonschema_rs

MOST_SCHEMAS = 10_000
"""Schemas of one session that are kept; results of further tools are not looked at."""


class _Tool(msgspec.Struct):
    name: str
    schema: Raw = msgspec.field(name="outputSchema", default=Raw(b""))


class _Result(msgspec.Struct):
    structured: Any = msgspec.field(name="structuredContent", default=msgspec.UNSET)
    content: Raw = Raw(b"")
    is_error: Any = msgspec.field(name="isError", default=None)


_read_tool: msgspec.json.Decoder[_Tool] = msgspec.json.Decoder(_Tool)
_read_result: msgspec.json.Decoder[_Result] = msgspec.json.Decoder(_Result)


class Results:
    """The output schemas of one session's tools, by peer and by the name that the peer gives them."""

    def __init__(self) -> None:
        self._schemas: dict[tuple[str, str], bytes | jsonschema_rs.Validator | None] = {}
        self._reads: dict[tuple[str, str], Readers] = {}
        """What reads the results of tools that have been called, of those whose schema is a type."""

    def learn(self, peer: str, definition: bytes) -> None:
        """Take in a tool's definition as the peer lists it."""
        try:
            tool = _read_tool.decode(definition)
        except msgspec.DecodeError:
            return
        key = peer, tool.name
        self._reads.pop(key, None)
        if not tool.schema:
            self._schemas.pop(key, None)
        elif key in self._schemas or len(self._schemas) < MOST_SCHEMAS:
            self._schemas[key] = bytes(tool.schema)

    def complaint(self, peer: str, tool: str, result: bytes, members: ToolResult | None = None) -> str:
        """Return how a result of `tools/call` differs from the tool's schema; empty where it does not. `members` are
        all that there is in it, where that is known.

        What the tool itself calls an error, and the beginning of a task, promise nothing.
        """
        key = peer, tool
        reads = self._reads.get(key) or self._reader(key)
        if reads is None:
            return self._difference(key, result)
        try:
            # Most are right, and to read one as what it should be takes a third of holding it against its schema.
            if members is not None and members.structured:
                reads.structured(members.structured)
            else:
                reads.result(result)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._difference(key, result)
        return ""

    def _reader(self, key: tuple[str, str]) -> Readers | None:
        """What reads results of a tool that is called for the first time, where its schema is a type."""
        schema = self._schemas.get(key)
        if not isinstance(schema, bytes):
            return None
        try:
            reads = readers_of(msgspec.json.decode(schema))
        except (ValueError, RecursionError):
            return None
        if reads is not None:
            self._reads[key] = reads
        return reads

    def _difference(self, key: tuple[str, str], result: bytes) -> str:
        try:
            validator = self._validator(key)
        except (ImportError, OSError):
            # Where there are no descriptors left, say, to load it with.
            return "the result cannot be held against its schema"
        if validator is None:
            return ""
        try:
            found = _read_result.decode(result)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return "the result is malformed"
        if found.is_error is True or not found.content:
            return ""
        if found.structured is msgspec.UNSET:
            return "there is no `structuredContent`"
        try:
            # Most are right, and to be asked for yes or no costs a fifth.
            if validator.is_valid(found.structured):
                return ""
            error = next(iter(validator.iter_errors(found.structured)), None)
        except ValueError:
            # The library reads no values that nest deeper than 255, which `limits.max_json_depth` may allow.
            return "the result nests too deep to be held against its schema"
        if error is None:
            return ""
        where = "".join(f"/{part}" for part in ("structuredContent", *error.instance_path))
        return f"`{where}` breaks `{'/'.join(map(str, error.schema_path))}` of the schema"

    def _validator(self, key: tuple[str, str]) -> jsonschema_rs.Validator | None:
        known = self._schemas.get(key)
        if isinstance(known, bytes):
            # It takes 6 MiB, which most gateways never need: most schemas are types, and most results are of theirs.
            import jsonschema_rs

            try:
                # Nothing is fetched for a schema's sake, and its patterns take linear time.
                known = jsonschema_rs.validator_for(
                    msgspec.json.decode(known), offline=True, pattern_options=jsonschema_rs.RegexOptions()
                )
            except (ValueError, TypeError):
                known = None
            self._schemas[key] = known
        return known
