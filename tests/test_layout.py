"""The top level is what a newcomer is told, and its names are ours."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOP_LEVEL = {
    ".ci", ".gitignore", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "adapters", "compose.yaml", "docs",
    "gateway", "hatch_build.py", "loadtest", "pyproject.toml", "recordings", "tests", "transports", "uv.lock",
}  # fmt: skip


def test_nothing_else_is_kept_at_the_top_level() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    if listed.returncode != 0:
        pytest.skip("this is no checkout")

    assert {Path(name).parts[0] for name in listed.stdout.split("\0") if name} == TOP_LEVEL


@pytest.mark.parametrize("name", ["gateway", "adapters", "transports", "recordings"])
def test_each_top_level_name_is_ours(name: str) -> None:
    """Two of them are also on PyPI: a dependency that ships one would take the place of ours in silence."""
    spec = find_spec(name)

    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).parent == ROOT / name


@pytest.mark.parametrize("name", ["gateway", "adapters", "transports", "recordings"])
def test_each_package_is_marked_as_typed(name: str) -> None:
    assert (ROOT / name / "py.typed").is_file()


@pytest.mark.parametrize("name", ["gateway", "adapters", "transports", "recordings"])
def test_what_a_package_imports_is_installed_with_it_and_not_only_for_its_tests(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installed = closure(
        [
            *project["dependencies"],
            *(line for extra in project["optional-dependencies"].values() for line in extra),
        ]
    )
    # The plugin of pytest is loaded by pytest alone; `shop` is the project that language servers are shown.
    known = {*sys.stdlib_module_names, "gateway", "adapters", "transports", "recordings", "pytest", "shop"}
    of_modules = packages_distributions()
    undeclared = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in (ROOT / name).rglob("*.py")
        for module in imported(path)
        if module not in known and not installed & {plain(found) for found in of_modules.get(module, ())}
    }

    assert not undeclared


def closure(lines: Iterable[str]) -> set[str]:
    """The names of the distributions that these requirements bring, with those that they require without an extra."""
    found: set[str] = set()
    waiting = list(lines)
    while waiting:
        name = plain(waiting.pop())
        if name in found:
            continue
        found.add(name)
        try:
            further = requires(name) or []
        except PackageNotFoundError:  # of another platform
            continue
        waiting += [line for line in further if "extra ==" not in line]
    return found


def plain(requirement: str) -> str:
    """The name in a requirement, as PyPI writes it."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-").replace(".", "-")


def imported(path: Path) -> Iterator[str]:
    """The top-level modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_the_gateway_package_itself_imports_nothing_so_that_an_adapter_may_load_the_protocol_alone() -> None:
    assert "import" not in (ROOT / "gateway" / "__init__.py").read_text().partition('"""\n')[2].replace(
        "__", ""
    )


def test_the_one_definition_of_green_runs_the_readmes_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text()

    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    assert "\nmake test\n" in script
    assert "\nmake test " in (ROOT / "README.md").read_text()
