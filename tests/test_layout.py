"""The top level is what a newcomer is told, and its names are ours."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOP_LEVEL = {
    ".ci", ".gitignore", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "adapters", "compose.yaml", "docs",
    "gateway", "loadtest", "pyproject.toml", "recordings", "tests", "transports", "uv.lock",
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


def test_the_gateway_package_itself_imports_nothing_so_that_an_adapter_may_load_the_protocol_alone() -> None:
    assert "import" not in (ROOT / "gateway" / "__init__.py").read_text().partition('"""\n')[2].replace(
        "__", ""
    )


def test_the_one_definition_of_green_runs_the_readmes_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text()

    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    assert "\nmake test\n" in script
    assert "\nmake test " in (ROOT / "README.md").read_text()
