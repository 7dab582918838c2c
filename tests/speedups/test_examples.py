"""Whatever is in C has examples that it answers, is told to type checkers, and survives what is odd."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import hatch_build
from tests.speedups.examples import FUNCTIONS, KINDS
from tests.speedups.modules import PACKAGES, ROOT, functions_of, loaded, stub_of, types_of
from tests.speedups.throwing import throw, thrown


@pytest.mark.parametrize("package", PACKAGES)
def test_whatever_is_in_c_has_examples_and_nothing_else_has(package: str) -> None:
    stub = stub_of(package)

    assert {name for name in FUNCTIONS if of(name) == package} == {
        f"{package}.{name}" for name, is_type in stub.items() if not is_type
    }
    assert {name for name in KINDS if of(name) == package} == {
        f"{package}.{name}" for name, is_type in stub.items() if is_type
    }


def of(name: str) -> str:
    return name.rpartition(".")[0]


def test_there_are_examples_for_no_package_that_has_no_c() -> None:
    assert {of(name) for name in (*FUNCTIONS, *KINDS)} <= set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_module_holds_what_is_told_of_it(package: str) -> None:
    module, stub = in_use(package), stub_of(package)

    assert functions_of(module) == sorted(name for name, is_type in stub.items() if not is_type)
    # A type may ask for a processor that can do more.
    assert set(types_of(module)) <= {name for name, is_type in stub.items() if is_type}
    for name in types_of(module):
        assert methods_of(getattr(module, name)) == set(KINDS[f"{package}.{name}"].methods)


def methods_of(kind: type) -> set[str]:
    held: dict[str, Any] = dict(vars(kind))
    return {name for name, value in held.items() if callable(value) and not name.startswith("__")}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples_are_answered_and_whatever_else_is_thrown_is_survived(name: str) -> None:
    module = in_use(of(name))
    function = getattr(module, name.rpartition(".")[2])
    for example in FUNCTIONS[name]:
        answer = throw(function, example)
        assert answer is not None, f"not answered: {example!r:.300}"
        assert not isinstance(answer, type), f"{answer!r}: {example!r:.300}"
    for arguments in thrown(FUNCTIONS[name], 300):
        throw(function, arguments)


@pytest.mark.parametrize("name", KINDS)
def test_types_can_be_made_by_their_examples(name: str) -> None:
    module = in_use(of(name))
    if not hasattr(module, name.rpartition(".")[2]):
        pytest.skip(f"{name} asks for a processor that can do more")
    kind = KINDS[name]
    for example in kind.construct(module):
        getattr(module, name.rpartition(".")[2])(*example)
    for method, examples in kind.methods.items():
        for example in examples:
            assert not isinstance(throw(getattr(kind.make(module), method), example), type), (method, example)


def in_use(package: str) -> ModuleType:
    """The module as it is loaded here.

    Skips:
        Where it is not compiled, or not asked for.
    """
    try:
        return loaded(package)
    except ImportError as error:
        pytest.skip(f"{package}._speedups: {error}")


def test_the_packages_of_the_build_are_those_that_may_have_c() -> None:
    assert {path.parent for path in ROOT.glob("[a-z]*/**/_speedups*.c") if ".venv" not in path.parts} == {
        hatch_build.folder_of(ROOT, package) for package in PACKAGES
    }
