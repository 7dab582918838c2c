"""Compiles the speedups while the project is built: `_speedups*.c` of a package make its extension module `_speedups`.

Owns how that is done, and that nothing fails by it: without a compiler or Python's headers the build says so and goes
on, and the same work is done in Python. `TIELINE_BUILD_SPEEDUPS=no` leaves them out, and `=yes` makes it an error that
they cannot be built.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

PACKAGES = ("recordings", "transports", "gateway.protocol")
FLAGS = ["-std=c11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"]


class SpeedupsHook(BuildHookInterface[Any]):
    """Compiles into the source folders, so that an editable installation finds them there, too."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say that the wheel is of this interpreter and machine where that was done."""
        del version
        wanted = os.environ.get("TIELINE_BUILD_SPEEDUPS", "")
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        for package in PACKAGES:
            # What was made of other sources does not fit the Python beside it.
            name = f"_speedups{sysconfig.get_config_var('EXT_SUFFIX')}"
            (folder_of(root, package) / name).unlink(missing_ok=True)
        if wanted == "no":
            return
        try:
            built = compile_all(root)
        except Exception as error:
            if wanted == "yes":
                raise
            self.app.display_warning(f"tieline: no speedups, the same is done in Python ({error})")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"] += [f"/{path.relative_to(root).as_posix()}" for path in built]


def folder_of(root: Path, package: str) -> Path:
    """Where a package lies."""
    return root / package.replace(".", "/")


def extensions(root: Path) -> list[Extension]:
    """The extension modules, each made of the C files of its package."""
    found: list[Extension] = []
    for package in PACKAGES:
        folder = folder_of(root, package)
        sources = [path.relative_to(root).as_posix() for path in sorted(folder.glob("_speedups*.c"))]
        headers = [path.relative_to(root).as_posix() for path in sorted(folder.glob("_speedups*.h"))]
        if sources:
            found.append(
                Extension(f"{package}._speedups", sources, depends=headers, extra_compile_args=FLAGS)
            )
    return found


def compile_all(root: Path) -> list[Path]:
    """Compile into the folders of the packages; return the files.

    Raises:
        Exception: Whatever setuptools raises where it cannot.
    """
    before = Path.cwd()
    os.chdir(root)
    try:
        distribution = Distribution({"name": "tieline", "ext_modules": extensions(root)})
        command = build_ext(distribution)
        command.inplace = True
        with TemporaryDirectory(prefix="tieline-speedups-") as scratch:
            command.build_temp = command.build_lib = scratch
            command.ensure_finalized()
            command.run()
        return [root / command.get_ext_fullpath(each.name) for each in distribution.ext_modules]
    finally:
        os.chdir(before)
