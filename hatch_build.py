"""Compiles the speedups while the project is built: `_speedups*.c` of a package make its extension module `_speedups`.

Owns how that is done, and that nothing fails by it: without a compiler or Python's headers the build says so and goes
on, and the same work is done in Python. `TIELINE_BUILD_SPEEDUPS=no` leaves them out, and `=yes` makes it an error that
they cannot be built. The sources' own folders are written to for an editable installation alone.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

PACKAGES = ("recordings", "transports", "gateway.protocol", "gateway.telemetry")
FLAGS = ["-std=c11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"]


class SpeedupsHook(BuildHookInterface[Any]):
    """Puts what is compiled into the wheel, or into the source folders, where an editable installation finds it."""

    PLUGIN_NAME = "custom"
    _scratch: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say that the wheel is of this interpreter and machine where that was done."""
        wanted = os.environ.get("TIELINE_BUILD_SPEEDUPS", "")
        if wanted not in ("", "yes", "no"):
            raise ValueError(f"TIELINE_BUILD_SPEEDUPS is `{wanted}`, and may be `yes` or `no`")
        if self.target_name != "wheel":
            return
        root, is_editable = Path(self.root), version == "editable"
        try:
            if is_editable:
                # What was made of other sources does not fit the Python beside it.
                forget(root)
            if wanted == "no" or (not wanted and not is_tried_here()):
                return
            if is_editable:
                compile_all(root)
            else:
                self._scratch = TemporaryDirectory(prefix="tieline-speedups-")
                built = compile_into(Path(self._scratch.name), root)
                build_data["force_include"].update({str(path): target for target, path in built.items()})
        except Exception as error:
            if wanted == "yes":
                raise
            self.app.display_warning(f"tieline: no speedups, the same is done in Python ({error})")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Let go what is in the wheel now."""
        del version, build_data, artifact_path
        if self._scratch is not None:
            self._scratch.cleanup()


def is_tried_here() -> bool:
    """Whether they were tried on such a system and interpreter; elsewhere nothing is compiled unless it is asked for.

    Where an interpreter has no lock, whoever loads them would give it one.
    """
    return sys.platform == "linux" and not sysconfig.get_config_var("Py_GIL_DISABLED")


def folder_of(root: Path, package: str) -> Path:
    """Where a package lies."""
    return root / package.replace(".", "/")


def forget(root: Path) -> None:
    """Remove what this interpreter would load from the source folders."""
    for package in PACKAGES:
        (folder_of(root, package) / f"_speedups{sysconfig.get_config_var('EXT_SUFFIX')}").unlink(
            missing_ok=True
        )


def sources_of(root: Path, package: str) -> list[Path]:
    """The C files and headers of which the extension module of a package is made."""
    return sorted(folder_of(root, package).glob("_speedups*.[ch]"))


def digest_of(sources: list[Path]) -> str:
    """What an extension module knows its sources by."""
    found = sha256()
    for path in sources:
        found.update(b"%b %d\n" % (path.name.encode(), path.stat().st_size))
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def extensions(root: Path, flags: list[str]) -> list[Extension]:
    """The extension modules, each made of the C files of its package."""
    # What the environment asks for comes behind ours, too, so that it is the last word.
    flags = [*flags, *shlex.split(os.environ.get("CFLAGS", ""))]
    found: list[Extension] = []
    for package in PACKAGES:
        files = sources_of(root, package)
        if files:
            found.append(
                Extension(
                    f"{package}._speedups",
                    [path.relative_to(root).as_posix() for path in files if path.suffix == ".c"],
                    define_macros=[("TIELINE_SOURCES", f'"{digest_of(files)}"')],
                    extra_compile_args=flags if os.name == "posix" else [],
                )
            )
    return found


def compile_all(root: Path) -> None:
    """Compile into the source folders, each file put there at once: a process may be loading it.

    Raises:
        Exception: As `compile_into`.
    """
    with TemporaryDirectory(prefix="tieline-speedups-") as scratch:
        for target, path in compile_into(Path(scratch), root).items():
            beside = root / f"{target}.new"
            shutil.copy(path, beside)
            beside.replace(root / target)


def compile_into(
    out: Path, root: Path, *, flags: list[str] = FLAGS, link_flags: list[str] | None = None
) -> dict[str, Path]:
    """Compile into a folder; return the files, each by where in the source folders it belongs.

    Raises:
        Exception: Whatever setuptools raises where it cannot.
    """
    before = Path.cwd()
    os.chdir(root)
    try:
        modules = extensions(root, flags)
        for each in modules:
            each.extra_link_args = link_flags or []
        command = build_ext(Distribution({"name": "tieline", "ext_modules": modules}))
        command.build_lib = str(out / "lib")
        command.build_temp = str(out / "temp")
        command.ensure_finalized()
        command.run()
        built = [path for path in (out / "lib").rglob("_speedups*") if path.is_file()]
        return {path.relative_to(out / "lib").as_posix(): path for path in built}
    finally:
        os.chdir(before)
