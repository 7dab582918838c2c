"""Output schemas as types: whether a result keeps its tool's promise, told by reading it once, for schemas as most are.

Owns which schemas have such a type. Only a yes counts: a result that is not of the type may still be right, and is held
against the schema itself by `results`. A test holds that no result is of the type that the schema refuses. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

import msgspec

Reads: TypeAlias = Callable[[bytes], object]
"""Reads JSON; raises `DecodeError` where it is not of the type."""


class Readers(msgspec.Struct, frozen=True, gc=False):
    """What reads results that keep a promise, and only such."""

    result: Reads
    structured: Reads
    """Reads the member `structuredContent` of a result that is known to say of no error."""


MOST_MEMBERS: Final = 100
"""Members of all objects of a schema that is made a type: each is kept, and costs some microseconds once."""

_SAYS_NOTHING: Final = frozenset(("title", "description", "default", "examples", "deprecated"))
_DRAFTS: Final = frozenset(
    ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#")
)
_SCALARS: Final[dict[str, Any]] = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "null": None,
}
_COUNTS: Final = {"minLength": "min_length", "maxLength": "max_length"}
_ITEM_COUNTS: Final = {"minItems": "min_length", "maxItems": "max_length"}
_EXACT: Final = 1 << 53


class _OtherError(Exception):
    """A schema that is no type."""


def readers_of(schema: object) -> Readers | None:
    """Return what reads results that keep the promise of a schema, and only such; None where it has no type."""
    if not isinstance(schema, dict):
        return None
    told = cast("dict[str, Any]", schema)
    draft = told.get("$schema")
    if draft is not None and draft not in _DRAFTS:
        return None
    try:
        made = _Types().type_of({key: value for key, value in told.items() if key != "$schema"})
        result = msgspec.defstruct(
            "Kept",
            [
                ("structured", made, msgspec.field(name="structuredContent")),
                # As the other reading has it: what is no JSON in there is none here.
                ("is_error", Any, msgspec.field(name="isError", default=None)),
            ],
            gc=False,
        )
        return Readers(msgspec.json.Decoder(result).decode, msgspec.json.Decoder(made).decode)
    except (_OtherError, TypeError, ValueError, RecursionError):
        return None


class _Types:
    """The types of one schema. Nothing is skipped in what they read: what cannot be read must show."""

    def __init__(self) -> None:
        self._members = 0

    def type_of(self, schema: object) -> Any:
        """Return the type whose values are such as the schema takes."""
        if not isinstance(schema, dict):
            raise _OtherError
        rules = {
            key: rule for key, rule in cast("dict[str, Any]", schema).items() if key not in _SAYS_NOTHING
        }
        if not rules:
            return Any
        if rules.keys() == {"anyOf"}:
            return self._any_of(rules["anyOf"])
        if rules.keys() <= {"enum", "type"} and "enum" in rules:
            return _one_of(rules["enum"], rules.get("type", "string"))
        kind = rules.pop("type", None)
        if isinstance(kind, list):
            kinds = cast("list[Any]", kind)
            return self._any_of(None if rules else [{"type": each} for each in kinds])
        if kind == "object":
            return self._object(**rules)
        if kind == "array":
            return _counted(list[self.type_of(rules.pop("items", {}))], rules, _ITEM_COUNTS)
        if kind == "string":
            return _counted(str, rules, _COUNTS)
        if rules or kind not in _SCALARS:
            raise _OtherError
        return _SCALARS[kind]

    def _any_of(self, schemas: object) -> Any:
        if not isinstance(schemas, list) or not schemas:
            raise _OtherError
        return reduce(lambda one, other: one | other, map(self.type_of, cast("list[object]", schemas)))

    def _object(self, **rules: Any) -> Any:
        properties, required = rules.pop("properties", {}), rules.pop("required", [])
        more = rules.pop("additionalProperties", True)
        if rules or not isinstance(properties, dict) or not isinstance(required, list):
            raise _OtherError
        members = cast("dict[str, object]", properties)
        if not members and not required:
            return dict[str, Any if more is True else self.type_of(more)]
        if not isinstance(more, bool):
            raise _OtherError
        names = list(dict.fromkeys([*members, *cast("list[str]", required)]))
        if not more and len(names) > len(members):
            # What is needed and allowed by no property: no result keeps that promise.
            raise _OtherError
        self._members += len(names)
        if self._members > MOST_MEMBERS:
            raise _OtherError
        fields = [
            (
                f"member_{number}",
                self.type_of(members.get(name, {})),
                _member(name, is_needed=name in required),
            )
            for number, name in enumerate(names)
        ]
        # A member of no property is right, but is to be read, too.
        return msgspec.defstruct("Kept", fields, gc=False, forbid_unknown_fields=True, kw_only=True)


def _member(name: str, *, is_needed: bool) -> Any:
    return msgspec.field(name=name) if is_needed else msgspec.field(name=name, default=None)


def _one_of(values: object, kind: object) -> Any:
    words = cast("list[Any]", values) if isinstance(values, list) else []
    if kind != "string" or not words or not all(isinstance(word, str) for word in words):
        raise _OtherError
    return Literal[tuple(words)]


def _counted(kind: Any, rules: dict[str, Any], counts: dict[str, str]) -> Any:
    """A type with bounds of its length."""
    if not rules:
        return kind
    if not rules.keys() <= counts.keys() or not all(
        isinstance(bound, int) and not isinstance(bound, bool) and 0 <= bound < _EXACT
        for bound in rules.values()
    ):
        raise _OtherError
    return Annotated[kind, msgspec.Meta(**{counts[name]: bound for name, bound in rules.items()})]
