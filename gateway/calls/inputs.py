"""Whether an input that a hook has changed is still one that its tool takes.

Owns the compiled schemas of one session. A complaint names places and rules, never values. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import jsonschema_rs

MOST_SCHEMAS = 1000
"""Compiled schemas that are kept."""


class Inputs:
    """Input schemas, compiled once for as long as they are the same."""

    def __init__(self) -> None:
        self._known: dict[bytes, jsonschema_rs.Validator | None] = {}

    def complaint(self, schema: bytes, given: bytes) -> str:
        """Return how an input breaks a schema; empty where it does not, or where the schema cannot be used."""
        try:
            validator = self._validator(schema)
        except (ImportError, OSError):
            # Where there are no descriptors left, say, to load it with.
            return "`input` cannot be held against the tool's schema"
        if validator is None:
            return ""
        value = msgspec.json.decode(given)
        try:
            if validator.is_valid(value):
                return ""
            error = next(iter(validator.iter_errors(value)), None)
        except ValueError:
            # The library reads no values that nest deeper than 255, which `limits.max_json_depth` may allow.
            return "`input` nests too deep to be held against the tool's schema"
        if error is None:
            return ""
        where = "".join(f"/{part}" for part in ("input", *error.instance_path))
        return f"`{where}` breaks `{'/'.join(map(str, error.schema_path))}` of the tool's schema"

    def is_taken(self, schema: bytes, given: bytes) -> bool:
        """Whether an input is known to keep a schema that was seen before; False says nothing."""
        validator = self._known.get(schema)
        try:
            return validator is not None and validator.is_valid(msgspec.json.decode(given))
        except ValueError:
            return False

    def _validator(self, schema: bytes) -> jsonschema_rs.Validator | None:
        if schema not in self._known:
            if len(self._known) >= MOST_SCHEMAS:
                self._known.clear()
            # For those whose hooks change inputs: it takes 6 MiB.
            import jsonschema_rs

            try:
                # Nothing is fetched for a schema's sake, and its patterns take linear time.
                self._known[schema] = jsonschema_rs.validator_for(
                    msgspec.json.decode(schema), offline=True, pattern_options=jsonschema_rs.RegexOptions()
                )
            except (ValueError, TypeError):
                self._known[schema] = None
        return self._known[schema]
