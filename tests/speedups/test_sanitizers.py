"""The C built for the address and undefined behaviour sanitizers, and hostile input in thousands thrown at it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import hatch_build
from tests.speedups.modules import ROOT

COMPILER = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
SANITIZERS = ["-fsanitize=address,undefined"]
# What is asserted is looked at, too.
FLAGS = [*SANITIZERS, "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", "-O1", "-UNDEBUG"]
COUNT = int(os.environ.get("TIELINE_THROWN", "6000"))
"""So many changed examples of each function; more by hand."""


def library(name: str) -> str:
    """Where the compiler has a library of its sanitizers; empty where it has none."""
    try:
        told = subprocess.run(
            [*COMPILER, f"-print-file-name={name}"], capture_output=True, text=True, timeout=30, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return told if Path(told).is_absolute() else ""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all extension modules, built for the sanitizers."""
    if sys.platform != "linux":
        pytest.skip("the speedups are compiled on Linux alone")
    if not library("libasan.so") or not library("libubsan.so"):
        pytest.skip(f"`{COMPILER[0]}` is not here, or has no address sanitizer: `apt-get install gcc`")
    out = tmp_path_factory.mktemp("sanitized")
    hatch_build.compile_into(out, ROOT, flags=[*hatch_build.FLAGS, *FLAGS], link_flags=SANITIZERS)
    return out / "lib"


def under_sanitizers(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TIELINE_")},
        "LD_PRELOAD": library("libasan.so"),
        # The interpreter keeps what it has until the end, and `tests.speedups.leaks` looks for the rest.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        # So that each object is memory of its own, with the end that it has.
        "PYTHONMALLOC": "malloc",
    }
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", *command], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.timeout(660)
def test_no_sanitizer_finds_a_fault_whatever_is_thrown(built: Path) -> None:
    done = under_sanitizers("-m", "tests.speedups.thrower", str(built), str(COUNT))

    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    assert int(done.stdout.splitlines()[-1].split()[0]) > 0


def test_the_sanitizers_see_a_byte_that_is_read_past_the_end(built: Path, tmp_path: Path) -> None:
    """Else the other test would find nothing, whatever there was."""
    fault = tmp_path / "recordings" / "_speedups.c"
    fault.parent.mkdir()
    fault.write_text(
        """
        #define PY_SSIZE_T_CLEAN
        #include <Python.h>
        static PyObject *past(PyObject *m, PyObject *b) {
            (void)m; return PyLong_FromLong(PyBytes_AS_STRING(b)[PyBytes_GET_SIZE(b) + 1]);
        }
        static PyMethodDef methods[] = {{"past", past, METH_O, NULL}, {NULL, NULL, 0, NULL}};
        static struct PyModuleDef it = {PyModuleDef_HEAD_INIT, .m_name = "_speedups", .m_methods = methods};
        PyMODINIT_FUNC PyInit__speedups(void) { return PyModule_Create(&it); }
        """
    )
    out = tmp_path / "built"
    hatch_build.compile_into(out, tmp_path, flags=[*hatch_build.FLAGS, *FLAGS], link_flags=SANITIZERS)
    done = under_sanitizers(
        "-c",
        "import sys; from tests.speedups.modules import Instead; from pathlib import Path;"
        "Instead(Path(sys.argv[1])).install(); import recordings._speedups as it; it.past(bytes(bytearray(b'abc')))",
        str(out / "lib"),
    )

    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
