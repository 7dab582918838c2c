"""The settings: each default could stand in a file, and each setting does something or says that it does not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from gateway.config.mistakes import Report, dotted
from gateway.config.model import Config
from gateway.config.peer import PeerConfig
from gateway.config.reading import Field, as_is, fields_of, read
from gateway.config.values import PLANNED

GATEWAY = Path(__file__).parents[3] / "gateway"


def settings(
    struct: type[msgspec.Struct] = Config, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, Any, Field]]:
    """Every setting: its place, its struct, its field."""
    for name, field in fields_of(struct).items():
        yield dotted((*path, name)), struct, field
        inner = field.section or field.sections
        if inner is not None:
            yield from settings(inner, (*path, name))


SETTINGS = list(settings())


def names_read() -> set[str]:
    """Every attribute that any code of the gateway looks at, but for the code that reads files."""
    modules = [path for path in GATEWAY.rglob("*.py") if path.name not in {"reading.py", "references.py"}]
    trees = [ast.parse(path.read_text()) for path in modules]
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize(("name", "struct", "field"), SETTINGS, ids=[name for name, _, _ in SETTINGS])
def test_a_setting_is_described_and_its_default_could_be_written(
    name: str, struct: Any, field: Field
) -> None:
    (declared,) = [f for f in msgspec.structs.fields(struct) if f.name == name.rpartition(".")[2]]
    assert field.meta is not None
    assert field.meta.description
    if not declared.required and field.section is None and field.sections is None:
        default = declared.default
        if declared.default_factory is not msgspec.NODEFAULT:
            default = declared.default_factory()
        assert default is None or msgspec.convert(default, field.hint) == default


def test_a_setting_is_planned_exactly_if_nothing_goes_by_it() -> None:
    read = names_read()
    planned = [name for name, _, field in SETTINGS if field.marked("planned")]
    unread = [name for name, _, _ in SETTINGS if name.rpartition(".")[2] not in read]

    assert [name for name in planned if name not in unread] == []
    assert [name for name in unread if not any(f"{name}.".startswith(f"{plan}.") for plan in planned)] == []


class Sooner(msgspec.Struct):
    """A section of a version to come."""

    later: Annotated[int, Meta(description="x", extra=PLANNED)] = 1
    now: Annotated[int, Meta(description="x")] = 1


def test_a_planned_setting_is_told_to_have_no_effect() -> None:
    report = Report(file="t.toml", lines=lambda: {("later",): 2})

    read(Sooner, {"now": 2, "later": 3}, (), report, lambda _field, value, _path: value)

    assert report.notes == ["t.toml:2: `later` has no effect in this version"]


@pytest.mark.parametrize("section", sorted({struct for _, struct, _ in settings()}, key=str))
def test_types_of_settings_that_are_evaluated_one_by_one_are_what_all_at_once_would_give(
    section: type[msgspec.Struct],
) -> None:
    assert all(isinstance(hint, str) for hint in section.__annotations__.values()), "a start makes them all"
    hints = get_type_hints(section, include_extras=True)

    assert {name: field.hint for name, field in fields_of(section).items()} == {
        name: hint for name, hint in hints.items() if name in fields_of(section)
    }
    required = {field.name for field in msgspec.structs.fields(section) if field.required}
    report = Report(file="t.toml")
    read(section, {}, (), report, as_is)
    assert {mistake.key for mistake in report.mistakes if mistake.message == "is missing"} == required


_VARIABLE = st.text("AB*?[]!-_x", max_size=4)


@given(st.lists(_VARIABLE, max_size=5), st.lists(_VARIABLE, max_size=5))
def test_a_process_inherits_the_variables_that_its_globs_match(globs: list[str], names: list[str]) -> None:
    environ = dict.fromkeys(names, "value")

    found = PeerConfig(command=["x"], inherit_env=globs).environment(environ)

    assert found == {name: "value" for name in names if any(fnmatchcase(name, glob) for glob in globs)}
