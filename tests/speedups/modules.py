"""The extension modules: which there are, what each holds, and how those of another build come in their place."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

import hatch_build

ROOT = Path(__file__).parents[2]
PACKAGES = [package for package in hatch_build.PACKAGES if hatch_build.sources_of(ROOT, package)]


def stub_of(package: str) -> dict[str, bool]:
    """What the module is said to hold, each with whether it is a type. Nothing where no stub is there yet."""
    path = hatch_build.folder_of(ROOT, package) / "_speedups.pyi"
    if not path.exists():
        return {}
    found: dict[str, bool] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = isinstance(node, ast.ClassDef)
    return found


def loaded(package: str) -> ModuleType:
    """The extension module of a package."""
    return importlib.import_module(f"{package}._speedups")


def functions_of(module: ModuleType) -> list[str]:
    """The functions that a module holds."""
    return sorted(
        name for name, value in vars(module).items() if callable(value) and not isinstance(value, type)
    )


def types_of(module: ModuleType) -> list[str]:
    """The types that a module holds."""
    return sorted(
        name for name, value in vars(module).items() if isinstance(value, type) and not name.startswith("__")
    )


class Instead:
    """Finds the extension modules in a folder of their own, as whoever imports them next will have them."""

    def __init__(self, folder: Path) -> None:
        self.built = {
            ".".join(path.relative_to(folder).parts[:-1]): path for path in folder.rglob("_speedups.*.so")
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As finders are asked."""
        del path, target
        package, _, last = name.rpartition(".")
        if last != "_speedups" or package not in self.built:
            return None
        return spec_from_file_location(name, self.built[package])

    def install(self) -> None:
        """Be asked first.

        Raises:
            RuntimeError: If one was loaded before.
        """
        before = [name for name in sys.modules if name.endswith("._speedups")]
        if before or not self.built:
            raise RuntimeError(f"too late, or nothing there: {before}")
        sys.meta_path.insert(0, self)
