"""A plain document (tables, lists, text, numbers) into the structs of `model`; all that does not fit is told.

Knows types, bounds and names, and nothing of what a setting is for. Pure.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

import msgspec

from gateway.config.mistakes import KeyPath, Report, did_you_mean

S = TypeVar("S", bound=msgspec.Struct)

Prepare = Callable[["Field", object, KeyPath], object]
"""Makes of what the file says what the model wants (references resolved), before its type is checked."""


class Field(msgspec.Struct, frozen=True):
    """What a key accepts: its type, taken apart."""

    hint: Any
    """The whole annotation, as msgspec checks it."""
    base: Any
    """The type without `Annotated` and `None`."""
    meta: msgspec.Meta | None
    section: type[msgspec.Struct] | None
    """The struct that a table under this key is read into."""
    sections: type[msgspec.Struct] | None
    """The struct that each table in a table of tables under this key is read into."""

    def marked(self, mark: str) -> bool:
        """Whether the model says `mark` of this field."""
        return bool(self.meta and self.meta.extra and self.meta.extra.get(mark))


class Fields(Mapping[str, Field]):
    """The keys of a section, in the order of the model; without those that only the loader sets.

    The type of a key is evaluated when it is first asked for: that takes longer than to check a value by it, and most
    keys of the model are in no file.
    """

    def __init__(self, struct: type[msgspec.Struct]) -> None:
        self._struct = struct
        self._found: dict[str, Field] = {}

    def __getitem__(self, name: str) -> Field:
        """Return what a key accepts. Raises `KeyError` where there is no such key."""
        field = self._found.get(name)
        if field is None:
            field = self._found[name] = _field(_hint(self._struct, name))
        if field.marked("internal"):
            raise KeyError(name)
        return field

    def __iter__(self) -> Iterator[str]:
        """Go through the names of the keys."""
        return (name for name in self._struct.__struct_fields__ if name in self)

    def __len__(self) -> int:
        """Return how many keys there are."""
        return sum(1 for _ in self)


fields_of = cache(Fields)
"""The keys of a section; the same ones each time."""


def _hint(struct: type[msgspec.Struct], name: str) -> Any:
    for owner in struct.__mro__:
        hint = inspect.get_annotations(owner).get(name)
        if isinstance(hint, str):
            alone = types.SimpleNamespace(__annotations__={name: hint})
            return typing.get_type_hints(alone, vars(sys.modules[owner.__module__]), include_extras=True)[
                name
            ]
        if hint is not None:
            return hint
    raise KeyError(name)


def _field(hint: Any) -> Field:
    base, metas = hint, list[msgspec.Meta]()
    while True:
        if get_origin(base) is typing.Annotated:
            base, *extras = get_args(base)
            metas += [extra for extra in extras if isinstance(extra, msgspec.Meta)]
        elif get_origin(base) in {typing.Union, types.UnionType}:
            (base,) = [arm for arm in get_args(base) if arm is not types.NoneType]
        else:
            break
    described = [meta for meta in metas if meta.description]
    section = base if _is_struct(base) else None
    inner = get_args(base)[1] if get_origin(base) is dict else None
    return Field(hint, base, (described or metas or [None])[0], section, inner if _is_struct(inner) else None)


def as_is(field: Field, value: object, path: KeyPath) -> object:
    """Return a value of a file in which nothing stands for something else. A `Prepare`."""
    del field, path
    return value


def _is_struct(base: Any) -> bool:
    return isinstance(base, type) and issubclass(base, msgspec.Struct)


def read(struct: type[S], document: object, path: KeyPath, report: Report, prepare: Prepare) -> S | None:
    """Return the struct that `document` describes, or None after telling `report` what is wrong with it."""
    if not isinstance(document, dict):
        report.mistake(path, f"must be a table, found {found(document)}")
        return None
    fields = fields_of(struct)
    values: dict[str, object] = {}
    before = len(report.mistakes)
    failed = set[str]()
    for key, value in cast(dict[str, object], document).items():
        if key not in fields:
            report.mistake((*path, key), f"is not a known key{did_you_mean(key, fields)}")
        else:
            so_far = len(report.mistakes)
            values[key] = read_field(fields[key], value, (*path, key), report, prepare)
            if len(report.mistakes) > so_far:
                failed.add(key)
            if fields[key].marked("planned"):
                report.note((*path, key), "has no effect in this version")
    missing = _required(struct) - values.keys()
    for name in missing:
        report.mistake((*path, name), "is missing")
    if len(report.mistakes) > before:
        if not missing and not failed & _required(struct):
            good = {key: value for key, value in values.items() if key not in failed}
            report.halves[path] = struct(**good), frozenset(failed)
        return None
    section = struct(**values)
    report.parts[path] = section
    return section


def _required(struct: type[msgspec.Struct]) -> set[str]:
    # Defaults are those of the last fields; `msgspec.structs.fields` would look for the types of all of them first.
    names, defaults = struct.__struct_fields__, struct.__struct_defaults__
    at = len(names) - len(defaults)
    given = (
        name for name, default in zip(names[at:], defaults, strict=True) if default is not msgspec.NODEFAULT
    )
    return set(names) - set(given)


def read_field(field: Field, value: object, path: KeyPath, report: Report, prepare: Prepare) -> object:
    """Return the value of one key, or None after telling what is wrong with it."""
    if field.section is not None:
        return read(field.section, value, path, report, prepare)
    if field.sections is not None:
        if not isinstance(value, dict):
            report.mistake(path, f"must be a table, found {found(value)}")
            return None
        entries = cast(dict[str, object], value).items()
        return {name: read(field.sections, entry, (*path, name), report, prepare) for name, entry in entries}
    try:
        return msgspec.convert(prepare(field, value, path), field.hint, strict=True)
    except msgspec.ValidationError as error:
        report.mistake(path, _unfit(field, value, str(error)))
        return None


def _unfit(field: Field, value: object, error: str) -> str:
    if get_origin(field.base) is Literal:
        choices = [str(choice) for choice in get_args(field.base)]
        near = did_you_mean(value, choices) if isinstance(value, str) else ""
        return f"must be one of {', '.join(f'`{c}`' for c in choices)}, found {found(value, show=True)}{near}"
    where = error.rpartition(" - at ")[2] if " - at " in error else ""
    inside = f" (at `{where.strip('`')[1:]}`)" if where and where != "`$`" else ""
    return f"must be {describe(field.hint)}, found {found(value, show=field.base in {int, float})}{inside}"


def describe(hint: Any) -> str:
    """Return what a type accepts, in words."""
    if get_origin(hint) is typing.Annotated:
        base, *metas = get_args(hint)
        return describe(base) + "".join(_bounds(m) for m in metas if isinstance(m, msgspec.Meta))
    if get_origin(hint) in {typing.Union, types.UnionType}:
        return " or ".join(describe(arm) for arm in get_args(hint) if arm is not types.NoneType)
    if get_origin(hint) is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(hint))
    words: dict[Any, str] = {
        str: "text", int: "a whole number", float: "a number", bool: "`true` or `false`",
        list[str]: "a list of text", dict[str, str]: "a table of text", list[dict[str, Any]]: "a list of tables",
    }  # fmt: skip
    return words.get(hint, "a table")


def _bounds(meta: msgspec.Meta) -> str:
    words = {
        "ge": "of {} or more", "gt": "above {}", "le": "up to {}", "lt": "below {}",
        "min_length": "of {} or more characters", "max_length": "of {} or fewer characters",
        "pattern": "that matches `{}`",
    }  # fmt: skip
    set_bounds = [(text, getattr(meta, name)) for name, text in words.items()]
    return "".join(" " + text.format(bound) for text, bound in set_bounds if bound is not None)


def found(value: object, *, show: bool = False) -> str:
    """Return what a value is, in words; the value itself only with `show`, since it may be a secret."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if show and isinstance(value, str | int | float):
        return f'"{value}"' if isinstance(value, str) else f"{value}"
    for kind, word in ((str, "text"), (int | float, "a number"), (dict, "a table"), (list, "a list")):
        if isinstance(value, kind):
            return word
    return "nothing" if value is None else "a date"
