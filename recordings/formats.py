"""What the input schema of a tool says about its arguments: which of them are times and uuids.

Owns the walk through a JSON Schema, with its references. Makes rules of it; `form` applies them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

import msgspec

from recordings.globs import DEEPEST, pointer_token
from recordings.operations import Source, body_of, part_of
from recordings.profile import FORMATS, Profile, Rule, literal_glob

_MOST_PLACES = 1000
"""So many places of one schema are looked at, so that one which refers to itself has an end."""
_ARGUMENTS = "/params/arguments"


def places_of_formats(schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The places of arguments that a tool's input schema gives a format, as (pointer glob, format).

    Follows `properties`, `items`, `additionalProperties`, `anyOf` and the like, and references within the schema; of
    one that refers to itself, as far as a thousand places.
    """
    found: dict[tuple[str, str], None] = {}
    queue: list[tuple[object, str, int]] = [(schema, _ARGUMENTS, 0)]
    for node, pointer, references in queue:
        if not _is_object(node) or len(queue) > _MOST_PLACES or pointer.count("/") >= DEEPEST:
            continue
        named = node.get("format")
        if isinstance(named, str):
            found[pointer, named] = None
        target = node.get("$ref")
        if isinstance(target, str) and references < DEEPEST:
            queue.append((_referred(schema, target), pointer, references + 1))
        queue.extend((below, pointer + step, references) for below, step in _below(node))
    return list(found)


def rules_of_schema(
    schema: Mapping[str, Any], *, tool: str, peer: str | None = None, rules: Iterable[Rule] = ()
) -> list[Rule]:
    """The rules that follow from a tool's input schema.

    `rules` are a project's: one with `format` says what becomes of places of that format; otherwise times are
    timestamps and uuids are uuids. Whoever adds these rules to a profile puts them behind the project's.
    """
    by_format = [rule for rule in rules if rule.format is not None and rule.fits(peer, "tools/call", tool)]
    made: list[Rule] = []
    for pointer, named in places_of_formats(schema):
        rule = next((rule for rule in by_format if rule.format == named), None)
        kind = FORMATS.get(named) if rule is None else rule.kind
        tolerance = None if rule is None else rule.tolerance
        if kind is not None or tolerance is not None:
            made.append(
                Rule(
                    at=pointer,
                    method="tools/call",
                    peer=None if peer is None else literal_glob(peer),
                    tool=literal_glob(tool),
                    kind=kind,
                    tolerance=tolerance,
                    note=f"the input schema says `{named}`",
                )
            )
    return made


def rules_of_listing(result: bytes, *, peer: str | None = None, rules: Iterable[Rule] = ()) -> list[Rule]:
    """The rules that follow from the `result` of `tools/list`, see `rules_of_schema`; none where it is no listing."""
    rules = list(rules)
    return [
        rule
        for tool, schema in schemas_of(result)
        for rule in rules_of_schema(schema, tool=tool, peer=peer, rules=rules)
    ]


def with_schemas(profile: Profile, source: Source) -> Profile:
    """The profile with the rules that follow from the listings of tools in a recording, behind its own."""
    asked: dict[int, str | None] = {}
    made: dict[Rule, None] = {}
    for frame in source:
        if frame.kind == "request" and frame.method == "tools/list":
            asked[frame.seq] = frame.peer
        elif frame.kind == "response" and frame.re in asked:
            _, result = part_of(body_of(source, frame))
            made.update(dict.fromkeys(rules_of_listing(result, peer=asked[frame.re], rules=profile.rules)))
    return profile.with_rules(made)


def schemas_of(result: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The tools in the `result` of `tools/list`, and their input schemas."""
    try:
        listing = msgspec.json.decode(result)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    tools = listing.get("tools") if _is_object(listing) else None
    return [
        (tool["name"], tool["inputSchema"])
        for tool in (tools if _is_list(tools) else ())
        if _is_object(tool) and isinstance(tool.get("name"), str) and _is_object(tool.get("inputSchema"))
    ]


def _below(node: Mapping[str, Any]) -> Iterable[tuple[object, str]]:
    properties = node.get("properties")
    if _is_object(properties):
        for name, schema in properties.items():
            yield schema, "/" + pointer_token(name)
    for key in ("items", "additionalProperties"):
        yield node.get(key), "/*"
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        listed = node.get(key)
        if _is_list(listed):
            for at, schema in enumerate(listed):
                yield schema, f"/{at}" if key == "prefixItems" else ""


def _referred(schema: object, target: str) -> object:
    """What a reference within a schema means: `#/$defs/Moment`."""
    if not target.startswith("#"):
        return None
    for part in target[1:].split("/")[1:]:
        if not _is_object(schema):
            return None
        schema = schema.get(part.replace("~1", "/").replace("~0", "~"))
    return schema


def _is_object(node: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(node, dict)


def _is_list(node: object) -> TypeGuard[list[Any]]:
    return isinstance(node, list)
