"""What installing Tieline makes of the C files: a wheel with them, or one without that says why; no trace elsewhere."""

from __future__ import annotations

import fnmatch
import importlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

import hatch_build

ROOT = Path(__file__).parents[2]
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
WITH_C = [package for package in hatch_build.PACKAGES if hatch_build.sources_of(ROOT, package)]
COMPILER = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
HEADERS = (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file()
pytestmark = pytest.mark.skipif(
    not hatch_build.is_tried_here(),
    reason="the speedups were tried on Linux alone, with the interpreter's lock",
)
needs_compiler = pytest.mark.skipif(
    not shutil.which(COMPILER[0]) or not HEADERS,
    reason=f"there is no `{COMPILER[0]}`, or no header of Python's",
)


def wheel_of(out: Path, **environment: str) -> tuple[list[str], str]:
    """Build a wheel of the sources as they lie here; what is in it, its own name first, and what was said."""
    kept = {name: value for name, value in os.environ.items() if name != "TIELINE_BUILD_SPEEDUPS"}
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=ROOT, env={**kept, **environment}, capture_output=True, text=True, timeout=55, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out / "unpacked")
        return [wheel.name, *archive.namelist()], done.stdout + done.stderr


def beside_the_sources() -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in ROOT.glob("[grt]*/**/_speedups*")}


@needs_compiler
def test_a_wheel_has_the_speedups_of_this_interpreter_and_says_so_and_leaves_the_sources_alone(
    tmp_path: Path,
) -> None:
    before = beside_the_sources()
    (name, *inside), _ = wheel_of(tmp_path)

    assert f"-cp{sys.version_info[0]}{sys.version_info[1]}-" in name
    assert {each for each in inside if each.endswith((".so", ".pyd", ".c", ".h"))} == {
        "gateway/bench/floor.c",
        *(f"{package.replace('.', '/')}/_speedups{SUFFIX}" for package in WITH_C),
    }
    assert beside_the_sources() == before
    found = subprocess.run(
        [sys.executable, "-P", "-c", "import recordings._speedups as it; print(it.__file__)"],
        cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "unpacked")}, capture_output=True, text=True, timeout=55,
        check=True,
    )  # fmt: skip
    assert Path(found.stdout.strip()).is_relative_to(tmp_path)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"TIELINE_BUILD_SPEEDUPS": "no"}, ""),
        ({"CC": "false"}, "tieline: no speedups, the same is done in Python"),
        ({"CC": "/nowhere/cc"}, "tieline: no speedups, the same is done in Python"),
    ],
)
def test_without_a_compiler_that_works_and_where_it_is_not_wanted_a_wheel_is_of_any_machine(
    environment: dict[str, str], said: str, tmp_path: Path
) -> None:
    (name, *inside), told = wheel_of(tmp_path, **environment)

    assert name.endswith("-py3-none-any.whl")
    assert not [each for each in inside if each.endswith((".so", ".pyd"))]
    assert said in told


def test_where_they_are_asked_for_it_is_an_error_that_they_cannot_be_compiled(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="false"):
        wheel_of(tmp_path, TIELINE_BUILD_SPEEDUPS="yes", CC="false")


def test_nothing_is_compiled_for_a_system_or_an_interpreter_on_which_it_was_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for has_no_lock in (None, 0):
        monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": has_no_lock}.get)
        assert hatch_build.is_tried_here()
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": 1}.get)
    assert not hatch_build.is_tried_here()
    monkeypatch.setattr(sysconfig, "get_config_var", dict[str, int]().get)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not hatch_build.is_tried_here()


def test_another_wish_than_yes_and_no_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="TIELINE_BUILD_SPEEDUPS is `maybe`, and may be `yes` or `no`"):
        wheel_of(tmp_path, TIELINE_BUILD_SPEEDUPS="maybe")


@needs_compiler
@pytest.mark.parametrize("compiler", ["", "clang"])
def test_the_c_has_nothing_that_a_compiler_warns_of(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiler and not shutil.which(compiler):
        pytest.skip(f"there is no `{compiler}` here")
    if compiler:
        monkeypatch.setenv("CC", compiler)
    built = hatch_build.compile_into(tmp_path, ROOT, flags=[*hatch_build.FLAGS, "-Werror"])

    assert sorted(built) == sorted(f"{package.replace('.', '/')}/_speedups{SUFFIX}" for package in WITH_C)


@needs_compiler
def test_what_is_loaded_was_compiled_from_the_sources_that_lie_here() -> None:
    """Else the tests would say nothing of them. `make` compiles."""
    if os.environ.get("TIELINE_PURE_PYTHON"):
        pytest.skip("TIELINE_PURE_PYTHON is set")
    for package in WITH_C:
        made_of = importlib.import_module(f"{package}._speedups").SOURCES
        assert made_of == hatch_build.digest_of(hatch_build.sources_of(ROOT, package)), package


@pytest.mark.parametrize("package", WITH_C)
def test_another_text_of_a_source_is_another_build(package: str) -> None:
    """For uv, for make, and for who asks a module what it was made of."""
    folder = package.replace(".", "/")
    keys = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["cache-keys"]
    (prerequisites,) = (
        line.partition(":=")[2]
        for line in (ROOT / "Makefile").read_text().splitlines()
        if line[:8] == "SPEEDUPS"
    )
    wildcards = prerequisites.replace("$(wildcard", "").replace(")", "").split()
    for path in hatch_build.sources_of(ROOT, package):
        name = f"{folder}/{path.name}"
        assert any(fnmatch.fnmatch(name, key.get("file", "")) for key in keys), name
        assert any(fnmatch.fnmatch(name, each) for each in wildcards), name
